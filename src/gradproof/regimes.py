"""The door `gradproof.torch.regimes`: one function, every way it is run, against the derivative that was checked."""

from __future__ import annotations

import dataclasses
import functools
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gradproof.api import check
from gradproof.backends import as_arguments
from gradproof.backends.torch.regimes.comparing import Compared
from gradproof.backends.torch.regimes.regime import NotApplicableError, Regime
from gradproof.backends.torch.regimes.session import regime_of
from gradproof.backends.torch.regimes.ways import WAYS, Way
from gradproof.core.status import Status
from gradproof.engine import unobserved
from gradproof.results.called import name_of
from gradproof.results.regimes import RegimeRow, RegimesReport, Standing
from gradproof.results.report import Report, Verdict

EAGER, DOUBLE = "eager", "double_backward"
NAMES = (EAGER, DOUBLE, *(way.name for way in WAYS))
"""All ways, in the order in which they are tried."""
_WHAT = {EAGER: "as it is called, checked by gradproof.check", DOUBLE: "backward of the backward, checked at order=2"}
_OTHER_DRAWS = (
    "the function draws random numbers, and its outputs are others in this way: it may draw other numbers. Pass a "
    "function that draws none, or in evaluation mode, to have it judged"
)
_REASON = 400
"""Characters of an exception's text in a table."""


def regimes(
    func: Callable[..., Any],
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    ways: str | Iterable[str] | None = None,
    allow: str | Iterable[str] = (),
    budget: float | None = None,
    seed: int = 0,
) -> RegimesReport:
    """One function, every way it is run: which departs from eager's checked derivative, by how much and where.

    `gradproof.check` checks eager mode; every other way must give the same values and gradients: double backward,
    frozen inputs, checkpointing, autocast, `torch.func`, `torch.compile`, `torch.library.opcheck`. `ways` chooses some
    of them by name (`gradproof.regimes.NAMES`; eager always comes first), `allow` names those that need not run, and
    `budget` bounds each check. A way that cannot run says why, and leaves the verdict INCONCLUSIVE if not allowed.

    >>> import torch
    >>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    >>> regimes(torch.sin, x, ways=["checkpoint", "vmap"]).ok
    True
    """
    if not callable(func):
        raise TypeError(f"regimes expects a function or a module first, got {func!r}")
    wanted, allowed = NAMES if ways is None else _known(ways, "ways"), _known(allow, "allow")
    if EAGER in allowed:
        raise ValueError(f"{EAGER!r} cannot be allowed to fail: it is what every other way is compared with")
    begun = time.perf_counter()
    arguments, keywords = as_arguments(inputs), dict(kwargs or {})
    once = functools.partial(check, func, inputs, kwargs, modes="reverse", seed=seed, budget=budget)
    with unobserved(), regime_of(func, arguments, keywords, seed) as make:
        eager = once()
        rows = [_checked(EAGER, eager)]
        if DOUBLE in wanted:
            rows.append(_twice(eager, functools.partial(once, order=2)))
        rows += _compared([way for way in WAYS if way.name in wanted], None if _raised(eager) else make)
    return RegimesReport(
        subject=name_of(func),
        eager=eager,
        rows=tuple(rows),
        allow=allowed,
        seconds=time.perf_counter() - begun,
        seed=seed,
    )


def _compared(ways: Sequence[Way], make: Callable[[], Regime] | None) -> list[RegimeRow]:
    """The rows of ways; without a regime none is asked."""
    if make is None:
        return [_unasked(way) for way in ways]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about what it is asked to do here
        regime = make()
        return [_row(way, regime) for way in ways]


def _known(names: str | Iterable[str], option: str) -> tuple[str, ...]:
    given = {names} if isinstance(names, str) else set(names)
    unknown = sorted(given - set(NAMES))
    if unknown:
        raise ValueError(f"unknown way {unknown[0]!r} in {option}: choose from {list(NAMES)}")
    return tuple(name for name in NAMES if name in given)


def _checked(way: str, report: Report, seconds: float | None = None) -> RegimeRow:
    """The row of a check."""
    spent = report.cost.seconds if seconds is None else seconds
    row = RegimeRow(way=way, what=_WHAT[way], standing=Standing.AGREES, seconds=spent)
    if report.verdict is Verdict.PASS:
        return row
    raised, finding = _raised(report), report.findings[0]
    if raised is not None:
        return _replaced(row, Standing.CANNOT_RUN, reason=_told(raised))
    standing = Standing.DEPARTS if report.verdict is Verdict.FAIL else Standing.INCONCLUSIVE
    headline = " ".join(finding.headline.split())
    if not finding.entries:
        return _replaced(row, standing, target=finding.property, fault=headline, reason=finding.hint)
    entry = finding.entries[0]
    return RegimeRow(
        way=way,
        what=_WHAT[way],
        standing=standing,
        target=f"{entry.output}, with respect to {entry.input}",
        expected=entry.numeric,
        found=entry.analytic,
        difference=entry.difference,
        allowed=entry.allowed,
        wrong=finding.wrong,
        total=finding.total,
        reason=finding.hint,
        seconds=spent,
    )


def _twice(eager: Report, check_twice: Callable[[], Report]) -> RegimeRow:
    """The row of the double backward."""
    row = RegimeRow(way=DOUBLE, what=_WHAT[DOUBLE], standing=Standing.NOT_APPLICABLE)
    if not eager:
        return _replaced(row, Standing.NOT_APPLICABLE, reason="the first derivative is not known to be right")
    begun = time.perf_counter()
    try:
        report = check_twice()
    except Exception as error:
        return _replaced(row, Standing.CANNOT_RUN, reason=_told(error))
    return _checked(DOUBLE, report, time.perf_counter() - begun)


def _row(way: Way, regime: Regime) -> RegimeRow:
    """What a way comes to: its first variation that departs, or the worst of all that agree."""
    begun, found = time.perf_counter(), list[Compared]()
    row = RegimeRow(way=way.name, what=way.what, standing=Standing.AGREES)
    try:
        for compared in way.comparisons(regime):
            found.append(compared)
            if compared.departs:
                break
    except NotApplicableError as error:
        return _replaced(row, Standing.NOT_APPLICABLE, reason=str(error), seconds=time.perf_counter() - begun)
    except Exception as error:
        agreed = f"after {found[-1].variation}" if found and found[-1].variation else ""
        return _replaced(
            row, Standing.CANNOT_RUN, reason=_told(error), variation=agreed, seconds=time.perf_counter() - begun
        )
    worst = found[-1] if found[-1].departs else max(found, key=lambda compared: compared.excess)
    if regime.draws and worst.other_values:
        return _replaced(row, Standing.INCONCLUSIVE, reason=_OTHER_DRAWS, variation=worst.variation)
    return RegimeRow(
        way=way.name,
        what=way.what,
        standing=Standing.DEPARTS if worst.departs else Standing.AGREES,
        variation=worst.variation,
        target=worst.target,
        element=worst.element,
        expected=worst.expected,
        found=worst.found,
        difference=worst.difference,
        allowed=worst.allowed,
        wrong=worst.wrong,
        total=worst.total,
        fault=worst.fault,
        reason=worst.note,
        seconds=time.perf_counter() - begun,
    )


def _unasked(way: Way) -> RegimeRow:
    reason = "eager mode raises"
    return RegimeRow(way=way.name, what=way.what, standing=Standing.NOT_APPLICABLE, reason=reason)


def _replaced(row: RegimeRow, standing: Standing, **fields: Any) -> RegimeRow:
    return dataclasses.replace(row, standing=standing, **fields)


def _raised(report: Report) -> Exception | None:
    """The exception that a check ended with."""
    return next((f.cause for f in report.findings if f.status is Status.RAISED and f.cause is not None), None)


def _told(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    shown = text if len(text) <= _REASON else f"{text[:_REASON]}..."
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__
