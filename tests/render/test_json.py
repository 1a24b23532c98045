"""JSON documents: exact, strict, the same for the same seed, and nothing but data."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report_samples as samples
import torch
from functions import square_with
from hypothesis import given

from gradproof import CheckFailedError, Finding, Report, Status, check
from gradproof.core.space import Elements
from gradproof.render.html import render
from gradproof.render.json import REPORT, RUN, RecordedError, dump_run, load_run
from gradproof.render.maps import maps_of
from gradproof.results.run import Checked, Crash, Run


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
    assert maps_of(report)
    again = Report.from_json(report.to_json())
    assert again == report
    assert again.pairs == report.pairs
    assert maps_of(again) == maps_of(report)


def test_the_same_seed_gives_the_same_bytes_apart_from_times() -> None:
    first, second = checked().to_json(), checked().to_json()
    without = [re.sub(r'"seconds": [0-9.e-]+', "", text) for text in (first, second)]
    assert without[0] == without[1]
    assert first.count('"seconds"') == 1
    assert checked(seed=4).to_json() != first


def test_an_exception_becomes_its_type_and_its_text() -> None:
    finding = Finding(property="jacobian", status=Status.RAISED, headline="m", cause=ZeroDivisionError("by <zero>"))
    (again,) = Report.from_json(samples.report(finding).to_json()).findings
    assert again.cause == RecordedError("ZeroDivisionError", "by <zero>")
    assert str(again.cause) == "ZeroDivisionError: by <zero>"
    with pytest.raises(CheckFailedError) as caught:
        samples.report(again).raise_for_failure()
    assert caught.value.__cause__ is again.cause


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(samples.report(samples.wrong_jacobian()).to_json()), **changes})


def changed_finding(**changes: Any) -> str:
    (finding,) = json.loads(changed())["findings"]
    return changed(findings=[{**finding, **changes}])


def changed_spots(**changes: Any) -> str:
    (finding,) = json.loads(changed())["findings"]
    return changed_finding(spots={**finding["spots"], **changes})


def changed_block(**changes: Any) -> str:
    blocks = json.loads(changed())["blocks"]
    number = json.loads(changed())["inputs"][0]
    return changed(blocks=[{**blocks[number], **changes}, *blocks])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON"),
        ("[]", "not a document of gradproof"),
        ("{}", "not a document of gradproof"),
        (changed(schema="gradproof.report/1"), "follows gradproof.report/1, and this version of gradproof reads"),
        (changed(schema="gradproof.report/2"), "follows gradproof.report/2, and this version of gradproof reads"),
        (changed(schema="gradproof.run/3"), "follows gradproof.run/3: it holds several reports"),
        (changed(schema="another/2"), "not a document of gradproof"),
        (changed(seed="0"), "report.seed"),
        (changed(seed=True), "report.seed"),
        (changed(inputs=[7]), "no block number 7"),
        (changed(inputs=[-1]), "no block number -1"),
        (changed(findings=3), "report.findings"),
        (changed(modes=["SIDEWAYS"]), "SIDEWAYS"),
        (changed(certificate={"smallest": []}), "report.certificate"),
        (changed(blocks=[{"kind": "input"}]), "blocks"),
        (changed(more=1), "more"),
        (changed_block(elements=[6]), "blocks[0].elements"),
        (changed_block(elements=3), "blocks[0].elements"),
        (changed_finding(kind=None), "report.findings[0].kind"),
        (changed_spots(rows=[1, 4]), "report.findings[0].spots: there are coordinates outside of output 0"),
        (changed_spots(columns=[-1, 2]), "report.findings[0].spots: there are coordinates outside of input 0 `x`"),
        (changed_spots(counts=[1]), "report.findings[0].spots: the lists are not of the same length"),
    ],
)
def test_what_is_no_report_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Report.from_json(text)


def test_a_run_holds_several_reports() -> None:
    one, two = samples.report(), samples.report(samples.wrong_jacobian())
    checks = (Checked("first", one, torch="pass", torch_seconds=0.5), Checked("second", two, expected=True))
    crash = Crash("third", "KeyError", "'x'", "Traceback …")
    run = Run(checks, (crash,), ({"test": "first", "torch": "pass"},))
    assert load_run(dump_run(run)) == run
    strict(dump_run(run))
    assert load_run(two.to_json()) == Run((Checked("model", two),))
    assert load_run(dump_run([("first", one)])).reports == [("first", one)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"crashes": [{"name": "x"}]}, "crashes[0]"),
        ({"comparisons": 3}, "comparisons"),
        ({"reports": [{"name": "x"}]}, "does not follow its schema"),
    ],
)
def test_what_is_no_run_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    document = {**json.loads(dump_run([("f", samples.report())])), **change}
    with pytest.raises(ValueError, match=re.escape(message)):
        load_run(json.dumps(document))


def test_the_documentation_names_every_key() -> None:
    """A change of the schema must be written down, and counted up."""
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    assert REPORT in page
    assert RUN in page

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {key for item in value.values() for key in keys(item)}
        return {key for item in value for key in keys(item)} if isinstance(value, list) else set()

    cause = Finding(property="p", status=Status.RAISED, headline="m", cause=ValueError())
    document = json.loads(samples.report(samples.wrong_jacobian(), cause).to_json())
    assert {key for key in keys(document) if f"`{key}`" not in page} == set()


def test_what_follows_from_the_rest_is_written_for_scripts_and_not_read() -> None:
    report = samples.report(samples.wrong_jacobian())
    document = json.loads(report.to_json())
    assert (document["verdict"], document["findings"][0]["message"]) == ("FAIL", report.findings[0].message)
    document["verdict"] = document["findings"][0]["message"] = "anything"
    assert Report.from_json(json.dumps(document)) == report
    del document["verdict"], document["findings"][0]["message"]
    assert Report.from_json(json.dumps(document)) == report


def test_a_certificate_names_blocks_by_their_numbers() -> None:
    document = json.loads(samples.report().to_json())
    (about, size), _ = document["certificate"]["smallest"]
    assert (about["order"], size) == (1, 3e-8)
    assert document["blocks"][about["input"]]["name"] == "x"


def test_an_earlier_version_is_named_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"gradproof\.report/1.*gradproof\.report/3.*run the check again"):
        Report.from_json(changed(schema="gradproof.report/1"))
    run = json.loads(dump_run([("f", samples.report())]))
    for old in ({**run, "schema": "gradproof.run/1"}, {**run, "reports": [{"name": "f", "report": {"schema": "x"}}]}):
        with pytest.raises(ValueError, match=r"schema is 'x'|gradproof\.run/1"):
            load_run(json.dumps(old))


def test_the_elements_of_a_sparse_tensor_survive() -> None:
    """They do not count for `==`, but say how many entries there are and where."""
    sparse = replace(samples.X, elements=Elements(np.array([1, 5])))
    at = samples.entry(column=1)
    finding = samples.wrong_jacobian(replace(at, input=replace(at.input, block=sparse)))
    report = samples.report(finding, inputs=(sparse,))
    again = Report.from_json(report.to_json())
    assert again == report
    assert str(again) == str(report)
    assert again.inputs[0].size == 2
    assert maps_of(again) == maps_of(report)
    assert render([("f", again)]) == render([("f", report)])
