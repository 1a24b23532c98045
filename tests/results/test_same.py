"""Results are equal where what their documents say is."""

from __future__ import annotations

import math
from dataclasses import replace

import report_samples as samples

from gradproof.core.status import Status
from gradproof.results.finding import Finding
from gradproof.results.same import RecordedError


def finding(**changes: object) -> Finding:
    return replace(Finding(property="jacobian", status=Status.WRONG, headline="h"), **changes)  # type: ignore[arg-type]


def test_nan_is_nan_and_no_number_and_no_word() -> None:
    first, second = finding(numeric=float("nan")), finding(numeric=-math.nan)
    assert first == second
    assert hash(first) == hash(second)
    assert first != finding(numeric=0.0)
    assert first != finding(numeric=None)
    assert finding(hint="nan") != finding(hint="")


def test_an_exception_is_its_type_and_its_text() -> None:
    assert finding(cause=ValueError("no")) == finding(cause=RecordedError("ValueError", "no"))
    assert finding(cause=ValueError("no")) != finding(cause=ValueError("yes"))
    assert finding(cause=ValueError("no")) != finding(cause=TypeError("no"))


def test_nothing_else_is_equal() -> None:
    assert finding() != "finding"
    assert finding() == finding()
    assert finding() != finding(wrong=1)
    assert samples.report(finding()) == samples.report(finding())
    assert samples.report(finding()) != samples.report(finding(wrong=1))
