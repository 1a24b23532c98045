"""The conformance suite: one adapter, and every law and scenario that fits it becomes a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.core.status import Status
from gradproof.engine import check_problem
from gradproof.results.report import Report
from gradproof.testing.contract import violations
from gradproof.testing.scenarios import SCENARIOS, Scenario

Made = Any
"""A Problem, or a context manager that gives one: a backend's session, say."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """How a backend runs a scenario.

    `problem(scenario)` makes its Problem; `check(scenario)` its report, where a backend has a way of its own from a
    user's function to a report: else the Problem is checked as it is. `features` are "reverse", "forward" or both,
    and what scenarios may need besides: "complex", "state".
    """

    name: str
    problem: Callable[[Scenario], Made]
    features: frozenset[str]
    check: Callable[[Scenario], Report] | None = None

    def fits(self, scenario: Scenario) -> bool:
        """Whether a scenario has a rule for a mode of this backend, and needs no more than it has."""
        rules = {"reverse": scenario.vjp, "forward": scenario.jvp}
        return scenario.needs <= self.features and any(
            rules[mode] is not None for mode in rules if mode in self.features
        )

    def opened(self, scenario: Scenario) -> AbstractContextManager[Any]:
        made = self.problem(scenario)
        return made if hasattr(made, "__enter__") else nullcontext(made)

    def report(self, scenario: Scenario) -> Report:
        """What a check says of a scenario."""
        if self.check is not None:
            return self.check(scenario)
        with self.opened(scenario) as problem:
            return check_problem(problem, scenario.name)


@dataclass(frozen=True, slots=True)
class Case:
    """One test of the suite. Called, it raises `AssertionError` unless the backend conforms."""

    name: str
    run: Callable[[], None]

    @property
    def __name__(self) -> str:
        """The id that pytest gives to a test with this case."""
        return self.name

    def __call__(self) -> None:
        __tracebackhide__ = True
        self.run()


def conformance(adapter: Adapter, scenarios: Sequence[Scenario] = SCENARIOS) -> list[Case]:
    """The suite for a backend: the contract on every right scenario, and what is said of every scenario.

    @pytest.mark.parametrize("case", conformance(ADAPTER), ids=str)
    def test_conformance(case):
        case()
    """
    fitting = [scenario for scenario in scenarios if adapter.fits(scenario)]
    if not fitting:
        raise ValueError(f"no scenario fits {adapter.name}: its features are {sorted(adapter.features)}")
    return [*_contracts(adapter, fitting), *_verdicts(adapter, fitting)]


def _contracts(adapter: Adapter, scenarios: Sequence[Scenario]) -> Iterator[Case]:
    for scenario in scenarios:
        if scenario.expected.verdict:
            yield Case(f"{adapter.name}: contract: {scenario.name}", lambda s=scenario: _keeps_contract(adapter, s))


def _verdicts(adapter: Adapter, scenarios: Sequence[Scenario]) -> Iterator[Case]:
    for scenario in scenarios:
        yield Case(f"{adapter.name}: {scenario.name}", lambda s=scenario: _says(adapter, s))


def _keeps_contract(adapter: Adapter, scenario: Scenario) -> None:
    before = [array.copy() for array in scenario.inputs]
    with adapter.opened(scenario) as problem, np.errstate(all="ignore"):
        broken = violations(problem)
    assert not broken, "\n".join(broken)
    changed = [
        k for k, (old, new) in enumerate(zip(before, scenario.inputs, strict=True)) if not np.array_equal(old, new)
    ]
    assert not changed, f"the user's inputs {changed} were changed"


def _says(adapter: Adapter, scenario: Scenario) -> None:
    report, expected = adapter.report(scenario), scenario.expected
    assert report.verdict is expected.verdict, f"{report.verdict.name} instead of {expected.verdict.name}:\n{report}"
    worst = [finding for finding in report.findings if finding.status in (Status.WRONG, Status.RAISED)]
    if expected.verdict:
        return
    asked = [finding for finding in worst if finding.property in expected.properties] if expected.properties else worst
    assert asked, f"no finding of {expected.properties}:\n{report}"
    finding = asked[0]
    for name in ("input", "input_element"):
        wanted = getattr(expected, name)
        assert wanted is None or getattr(finding, name) == wanted, f"{name} is {getattr(finding, name)}:\n{report}"
    assert expected.cause in finding.hint, f"the hint is {finding.hint!r}"
