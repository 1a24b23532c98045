"""The outcome of a check."""

from __future__ import annotations

from typing import Any

import pytest

from gradproof import Certificate, CheckFailedError, Finding, Report, Status, Verdict
from gradproof.core.problem import Mode
from gradproof.core.space import Block
from gradproof.results.certificate import About
from gradproof.results.report import Spent

X = Block("input", 0, "x", (3,), 1, 0, 2.0**-52)


def finding(status: Status, **options: Any) -> Finding:
    return Finding(property="jacobian", status=status, headline=f"it is {status.name}", **options)


def report_of(*findings: Finding) -> Report:
    return Report(
        findings=findings,
        modes=(Mode.REVERSE, Mode.FORWARD),
        covered=("input 0 `x`", "input 2"),
        entries=12,
        certificate=Certificate(((About(X), 1e-8),), 1e-12),
        cost=Spent(evaluations=8, vjps=3, jvps=2, seconds=0.25),
        seed=5,
        versions=(("gradproof", "0"),),
    )


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ([], Verdict.PASS),
        ([Status.RIGHT], Verdict.PASS),
        ([Status.INCONCLUSIVE], Verdict.INCONCLUSIVE),
        ([Status.WRONG], Verdict.FAIL),
        ([Status.RAISED], Verdict.FAIL),
        ([Status.WRONG, Status.INCONCLUSIVE], Verdict.FAIL),
        ([Status.INCONCLUSIVE, Status.RAISED], Verdict.FAIL),
    ],
)
def test_the_verdict_is_that_of_the_worst_finding(statuses: list[Status], verdict: Verdict) -> None:
    report = report_of(*map(finding, statuses))
    assert report.verdict is verdict
    assert report.ok is bool(report) is bool(verdict) is (verdict is Verdict.PASS)


def test_a_pass_raises_nothing() -> None:
    report_of().raise_for_failure()


@pytest.mark.parametrize("status", [Status.INCONCLUSIVE, Status.WRONG, Status.RAISED])
def test_anything_else_raises_with_the_report(status: Status) -> None:
    report = report_of(finding(status))
    with pytest.raises(CheckFailedError, match=f"it is {status.name}") as caught:
        report.raise_for_failure()
    assert caught.value.report is report
    assert isinstance(caught.value, AssertionError)


def test_the_cause_of_a_failure_is_chained() -> None:
    cause = ValueError("mine")
    with pytest.raises(CheckFailedError) as caught:
        report_of(finding(Status.WRONG), finding(Status.RAISED, cause=cause)).raise_for_failure()
    assert caught.value.__cause__ is cause


def test_a_report_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        report_of().seed = 3  # type: ignore[misc]
