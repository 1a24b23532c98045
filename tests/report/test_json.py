"""JSON documents: exact, strict, the same for the same seed, and nothing but data."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
import torch
from functions import square_with
from hypothesis import given

from gradproof import CheckFailedError, Finding, Report, Status, check
from gradproof.report.json import REPORT, RecordedError, dump_run, load_run


def strict(text: str) -> Any:
    """Parsed as JSON has it: no NaN, no Infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


@given(samples.reports)
def test_a_report_survives_the_round_trip(report: Report) -> None:
    text = report.to_json()
    strict(text)
    assert text.isascii()
    again = Report.from_json(text)
    assert again == report
    assert again.to_json() == text
    assert str(again) == str(report)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1 + 0.2, 1e308])
def test_every_number_survives(value: float) -> None:
    report = samples.report(samples.wrong_jacobian(samples.entry(numeric=value, analytic=value)))
    (found,) = Report.from_json(report.to_json()).findings
    assert repr(found.entries[0].numeric) == repr(value)
    assert repr(found.analytic) == repr(value)


def wrong_square(x: torch.Tensor) -> torch.Tensor:
    return square_with(lambda s, g: s[0] * g)(x)


def checked(seed: int = 3) -> Report:
    x = torch.linspace(0.5, 2.0, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()
    return check(wrong_square, x, seed=seed)


def test_a_real_report_survives_and_shows_what_it_found() -> None:
    report = checked()
    assert report.exhibits
    assert report.maps
    again = Report.from_json(report.to_json())
    assert again == report
    assert again.pairs == report.pairs


def test_the_same_seed_gives_the_same_bytes_apart_from_times() -> None:
    first, second = checked().to_json(), checked().to_json()
    without = [re.sub(r'"seconds": [0-9.e-]+', "", text) for text in (first, second)]
    assert without[0] == without[1]
    assert first.count('"seconds"') == 1
    assert checked(seed=4).to_json() != first


def test_an_exception_becomes_its_type_and_its_text() -> None:
    finding = Finding(property="jacobian", status=Status.RAISED, message="m", cause=ZeroDivisionError("by <zero>"))
    (again,) = Report.from_json(samples.report(finding).to_json()).findings
    assert again.cause == RecordedError("ZeroDivisionError", "by <zero>")
    assert str(again.cause) == "ZeroDivisionError: by <zero>"
    with pytest.raises(CheckFailedError) as caught:
        samples.report(again).raise_for_failure()
    assert caught.value.__cause__ is again.cause


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(samples.report(samples.wrong_jacobian()).to_json()), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON"),
        ("[]", "not a document of gradproof"),
        ("{}", "not a document of gradproof"),
        (changed(schema="gradproof.report/2"), "gradproof.report/2"),
        (changed(seed="0"), "report.seed"),
        (changed(seed=True), "report.seed"),
        (changed(inputs=[7]), "no block number 7"),
        (changed(inputs=[-1]), "no block number -1"),
        (changed(findings=3), "report.findings"),
        (changed(modes=["SIDEWAYS"]), "SIDEWAYS"),
        (changed(certificate={"smallest": []}), "report.certificate"),
        (changed(blocks=[{"kind": "input"}]), "blocks"),
        (changed(more=1), "more"),
    ],
)
def test_what_is_no_report_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Report.from_json(text)


def test_a_run_holds_several_reports() -> None:
    one, two = samples.report(), samples.report(samples.wrong_jacobian())
    text = dump_run([("first", one), ("second", two)], [{"test": "first", "torch": "pass"}])
    assert load_run(text) == [("first", one), ("second", two)]
    assert strict(text)["comparisons"] == [{"test": "first", "torch": "pass"}]
    assert load_run(two.to_json()) == [("model", two)]


def test_the_documentation_names_every_key() -> None:
    """A change of the schema must be written down, and counted up."""
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    assert REPORT in page

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {key for item in value.values() for key in keys(item)}
        return {key for item in value for key in keys(item)} if isinstance(value, list) else set()

    cause = Finding(property="p", status=Status.RAISED, message="m", cause=ValueError())
    document = json.loads(samples.report(samples.wrong_jacobian(), cause).to_json())
    assert {key for key in keys(document) if f"`{key}`" not in page} == set()


def test_spots_are_not_in_a_document() -> None:
    finding = samples.wrong_jacobian()
    assert "spots" not in samples.report(replace(finding, hint="")).to_json()
