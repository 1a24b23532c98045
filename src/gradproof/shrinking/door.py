"""`gradproof.shrink`: the smallest call with the same finding, and a test file that shows it."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from gradproof.api import check
from gradproof.backends import as_arguments, find_backend
from gradproof.backends.shrinkable import Failure, Shrinkable
from gradproof.core.problem import Mode, NothingToCheckError
from gradproof.core.status import Status
from gradproof.engine import unobserved
from gradproof.properties import PROPERTIES
from gradproof.results.called import name_of
from gradproof.results.finding import Finding
from gradproof.results.report import Report
from gradproof.results.shrunk import ShrinkResult
from gradproof.shrinking.search import OutOfBudget, Place, Search
from gradproof.shrinking.sources import source_of

# A smaller call may take so many evaluations, or as many as the first check did: one that needs more is rejected.
_EVALUATIONS = 4000


def shrink(
    func: Callable[..., Any],
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    finding: Finding | None = None,
    budget: float | None = None,
    **options: Any,
) -> ShrinkResult:
    """Make a call that fails `gradproof.check` as small as the same finding allows, and write a test of it.

    Shapes come first: axes of one size are cut together, then in smaller groups. Then values become simple numbers,
    inside of the range that they had; then inputs that the finding does not need are left out, or become constants. A
    smaller call is taken if it has a finding of the same property, status, kind and input. `finding` is the one to
    keep, of a report of this call; the first of a check unless it is given. `budget` bounds the search: an int its
    evaluations, a float its seconds. Other options are those of `check`. `ValueError` if nothing is wrong.

    >>> import torch
    >>> x = torch.rand(40, 30, dtype=torch.float64, requires_grad=True)
    >>> result = shrink(lambda x: x * x.detach(), x)
    >>> result.elements_before, result.elements
    (1200, 1)
    >>> "import gradproof" in result.source
    False
    """
    arguments, keywords = as_arguments(inputs), dict(kwargs or {})
    with unobserved():
        report = check(func, arguments, keywords, **options)
    finding = _sought(report, finding)
    backend = find_backend(func, arguments, keywords)
    smaller = _Smaller(func, finding, report, options, budget)
    call = backend.shrinkable(func, arguments, keywords)
    search = Search(call, _place_of(finding), smaller)
    with warnings.catch_warnings(), unobserved():
        warnings.simplefilter("ignore")  # what a check warns about, it has warned about already
        search.run()
    found = smaller.last
    source = source_of(func, backend.namespaces)
    written = backend.write_test(search.call, _failure(found), source, name_of(func))
    return ShrinkResult(
        inputs=search.call.arguments,
        kwargs=search.call.keywords,
        finding=found,
        elements=search.call.elements(),
        elements_before=call.elements(),
        steps=tuple(search.steps),
        evaluations=smaller.evaluations,
        source=written.text,
        standalone=not written.obstacle,
        reason=written.obstacle,
        complete=search.complete,
    )


def _sought(report: Report, given: Finding | None) -> Finding:
    """The finding to keep, as this check has it; one of the Jacobian first, which a test with a difference shows."""
    for finding in sorted(report.findings, key=lambda each: each.property != "jacobian"):
        if finding.status in (Status.WRONG, Status.RAISED) and (given is None or _same(given, finding)):
            return finding
    if given is not None:
        raise ValueError(f"there is nothing to shrink: this call has no such finding: {given.headline}")
    raise ValueError(f"there is nothing to shrink: the verdict is {report.verdict.name}, {report.verdict.value}")


class _Smaller:
    """Whether a call has the finding that is sought; counts what it costs to ask."""

    def __init__(
        self,
        func: Callable[..., Any],
        sought: Finding,
        report: Report,
        options: Mapping[str, Any],
        budget: float | None,
    ) -> None:
        self._func, self._sought, self.last = func, sought, sought
        self.evaluations = report.cost.evaluations
        self._most = budget if isinstance(budget, int) else None
        self._deadline = None if budget is None or isinstance(budget, int) else time.perf_counter() + budget
        bounded = {"evaluations": max(_EVALUATIONS, report.cost.evaluations)}  # in place of what bounds one check
        self._options: dict[str, Any] = {**options, **bounded}
        if sought.property in PROPERTIES:
            self._options["properties"] = [sought.property]
        if sought.mode is not None:
            self._options["modes"] = [sought.mode.value]

    def __call__(self, call: Shrinkable) -> Place | None:
        if self._is_spent():
            raise OutOfBudget
        try:
            report = check(self._func, call.arguments, call.keywords, **self._options)
        except (NothingToCheckError, ValueError, TypeError, IndexError, RuntimeError):
            return None  # no call that could be checked
        self.evaluations += report.cost.evaluations
        for finding in report.findings:
            if _same(self._sought, finding):
                self.last = finding
                return _place_of(finding)
        return None

    def _is_spent(self) -> bool:
        if self._most is not None and self.evaluations >= self._most:
            return True
        return self._deadline is not None and time.perf_counter() >= self._deadline


def _same(sought: Finding, other: Finding) -> bool:
    """One property, status, kind, order and input; of numbers, finite ones stay finite; of exceptions, the message."""
    return (
        (sought.property, sought.status, sought.kind) == (other.property, other.status, other.kind)
        and sought.input == other.input
        and sought.order == other.order
        and _finiteness(sought) == _finiteness(other)
        and _message(sought) == _message(other)
    )


def _failure(finding: Finding) -> Failure:
    """What a backend is told of a finding."""
    return Failure(
        property=finding.property,
        headline=finding.headline,
        second=finding.order == 2,
        forward=finding.mode is Mode.FORWARD,
        raised=_message(finding)[0],
        input=finding.input,
        input_name=finding.entries[0].input.block.name if finding.entries else "",
        input_element=finding.input_element,
        output=finding.output,
        output_element=finding.output_element,
    )


def _finiteness(finding: Finding) -> tuple[bool, ...]:
    return tuple(value is None or isfinite(value) for value in (finding.numeric, finding.analytic))


def _message(finding: Finding) -> tuple[str, str]:
    """The type and text of an exception, sizes and other numbers apart."""
    if finding.cause is None:
        return "", ""
    return type(finding.cause).__name__, re.sub(r"\d+", "#", str(finding.cause))


def _place_of(finding: Finding) -> Place:
    origin = finding.input if isinstance(finding.input, int) else None
    return origin, finding.input_element or (), finding.output_element or ()
