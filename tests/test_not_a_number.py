"""A gradient that is NaN where the function is finite: what reports say of it, in every rendering."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from functions import custom

import gradproof
from gradproof.render.html import render, write_html
from gradproof.render.json import dump_report, load_report
from gradproof.render.text import plain
from gradproof.results.report import Report, Verdict

Spoil = Callable[[torch.Tensor], torch.Tensor]


def sine(spoil: Spoil, dtype: torch.dtype = torch.float64, **named: object) -> Report:
    x = torch.tensor([0.3, -0.7, 1.1], dtype=dtype, requires_grad=True)
    spoiled = custom(torch.sin, lambda saved, g: spoil(g * saved[0].cos()))
    return gradproof.check(spoiled, x, **named)  # pyright: ignore[reportArgumentType]


def one(value: float) -> Spoil:
    return lambda g: torch.where(torch.tensor([False, True, False]), value, g)


SPOILS: dict[str, Spoil] = {"all NaN": lambda g: g * math.nan, "one NaN": one(math.nan), "one infinite": one(math.inf)}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", SPOILS)
def test_the_headline_says_what_is_no_number_and_where_the_function_is_finite(name: str, dtype: torch.dtype) -> None:
    report = sine(SPOILS[name], dtype)
    word = "infinite" if name == "one infinite" else "NaN"
    assert report.verdict is Verdict.FAIL
    headline = report.findings[0].headline
    assert f": {word} where the function is finite" in headline
    assert f"{9 if name == 'all NaN' else 3} of 9 entries are {word}" in headline
    right = sine(lambda g: g, dtype)
    assert right.verdict is Verdict.PASS
    assert "NaN" not in str(right)


def test_where_some_are_nan_and_some_infinite_both_are_named() -> None:
    headline = sine(lambda g: g * torch.tensor([math.nan, 1.0, math.inf])).findings[0].headline
    assert ": NaN or infinite where the function is finite" in headline
    assert "6 of 9 entries are NaN or infinite" in headline


def test_beside_entries_that_differ_those_that_are_no_numbers_are_counted() -> None:
    report = sine(lambda g: one(math.nan)(2.0 * g))
    assert "5 of 9 entries differ, 3 of them NaN" in report.findings[0].headline
    assert "finite" not in sine(lambda g: 2.0 * g).findings[0].headline


ODD = ["(allowed )", "allowed ,", "allowed nan", "± nan", "difference nan", "allowed </", "worst inf"]
"""A number that is missing or none, in the words around it."""


def logarithm() -> Report:
    """Of a negative number, too."""
    return gradproof.check(torch.log, torch.tensor([-1.0, 2.0], dtype=torch.float64, requires_grad=True))


REPORTS: dict[str, Callable[[], Report]] = {
    **{name: functools.partial(sine, spoil) for name, spoil in SPOILS.items()},
    "no value": logarithm,
}


@pytest.mark.parametrize("name", REPORTS)
def test_no_rendering_has_an_empty_number(name: str, tmp_path: Path) -> None:
    report = REPORTS[name]()
    write_html(tmp_path / "page.html", [("sine", report)])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (plain(report), *(finding.message for finding in report.findings), page.split("<script")[0]):
        assert [odd for odd in ODD if odd in text] == []
    assert load_report(dump_report(report)) == report


def infinite_factor(g: torch.Tensor) -> torch.Tensor:
    """Infinite, and NaN for cotangents that are zero there."""
    return torch.where(torch.tensor([False, True, False]), g * math.inf, g)


def test_the_cause_says_what_the_headline_says() -> None:
    finding = sine(infinite_factor).findings[0]
    assert ": NaN or infinite where the function is finite" in finding.headline
    assert finding.hint.startswith("analytic is NaN or infinite for 1 of 3 elements")


@pytest.mark.parametrize("name", SPOILS)
def test_a_page_has_no_scale_no_line_and_no_column_of_what_is_no_number(name: str) -> None:
    report = sine(SPOILS[name])
    page = render([("sine", report)])
    for table in re.findall(r"<table class=.(?:pairs|entries).*?</table>", page, re.DOTALL):
        cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("<tr")[2:]]
        assert all(any(column) for column in zip(*cells, strict=True)), "a column without any cell"
    figures = [json.loads(data) for data in re.findall(r"<script type=.application/json.>(.*?)</script>", page)]
    assert [figure["ends"] for figure in figures if figure["kind"] == "heat"] == [None]
    for figure in figures:
        assert all(any(y is not None for y in line["y"]) for line in figure.get("series", ()))
    assert ("worst: no number" in page) is (name != "one infinite")
    finite = render([("sine", sine(lambda g: 2.0 * g))])
    assert "× allowed</small>" in finite
    assert "worst difference" in finite


def test_left_out_cotangents_alone_pass_nothing_that_is_no_number() -> None:
    report = sine(SPOILS["all NaN"], properties="undefined")
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "is NaN for both" in report.findings[0].headline
    assert sine(lambda g: g, properties="undefined").verdict is Verdict.PASS
    assert "`linearity` or `jacobian`" in report.findings[0].hint
    both = sine(SPOILS["all NaN"], properties=["undefined", "linearity"])
    assert [finding.property for finding in both.findings] == ["linearity"]
    hints = {
        each.property: each.hint for each in sine(SPOILS["all NaN"], properties=["undefined", "jacobian"]).findings
    }
    assert not hints["undefined"], "what was asked is not recommended"
