"""The HTML report: complete, escaped, self-contained."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
import report_samples as samples
from hypothesis import HealthCheck, given, settings
from report_samples import report, wrong_jacobian

from gradproof import Certificate, Finding, Report, Status, Verdict
from gradproof.render import html
from gradproof.render.figures import heat_map, ladder_plot, slice_plot
from gradproof.render.maps import Cell, HeatMap, maps_of
from gradproof.results.certificate import About
from gradproof.results.spots import Grid


@pytest.fixture(autouse=True)
def small_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five megabytes of JavaScript are for the browser tests."""
    monkeypatch.setattr(html, "_plotly", lambda: "/* plotly.js */")


class Page(HTMLParser):
    """The tags and texts of a page, outside of scripts and styles; and what the scripts of data hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.data: list[Any] = []
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("type") or tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "application/json":
            self.data.append(json.loads(data))
        elif not self._inside:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def page(*reports: Report) -> Page:
    return Page(html.render([(made.subject, made) for made in reports]))


def test_it_says_what_the_text_says() -> None:
    text = page(report(wrong_jacobian(), not_covered=("argument `mask`",))).text
    for part in [
        "FAIL", "model", "output 0, element [1], with respect to input 0 `x`, element [1, 1]", "2 ± 1e-09",
        "the sign is wrong", "input 1 `weight`", "RIGHT", "argument `mask`", "is missed with probability at most 1e-12",
        "8 evaluations, 3 vjps, 2 jvps", "numpy 2", "2 of 24 entries differ",
    ]:  # fmt: skip
        assert part in text, part


def test_a_pass_has_no_figures_and_no_plotly() -> None:
    text = html.render([("f", report())])
    assert "plotly.js" not in text
    assert not Page(text).data
    assert len(text) < 30_000


def test_each_wrong_entry_has_a_slice_and_a_ladder_each_pair_its_maps() -> None:
    made = page(report(wrong_jacobian()))
    kinds = [attributes["data-kind"] for tag, attributes in made.tags if tag == "figure"]
    assert kinds == ["heat", "heat", "slice", "ladder", "slice", "ladder"]
    assert len(made.data) == 6


def test_several_reports_have_a_table_of_checks() -> None:
    made = page(report(), report(wrong_jacobian(), subject="other"))
    assert made.text.startswith("FAIL · gradproof")
    assert "2 checks: 1 PASS, 1 FAIL" in made.text
    links = [attributes.get("href") for tag, attributes in made.tags if tag == "a"]
    assert links == ["#report-1", "#report-2"]


def test_nothing_checked_is_no_pass() -> None:
    assert html.overall([]) is Verdict.INCONCLUSIVE
    assert html.overall([report()]) is Verdict.PASS
    unsure = report(Finding(property="jacobian", status=Status.INCONCLUSIVE, headline="noise"))
    assert html.overall([report(), unsure]) is Verdict.INCONCLUSIVE
    assert html.overall([report(), unsure, report(wrong_jacobian())]) is Verdict.FAIL


def hostile(name: str) -> Report:
    """A report in which the user chose every name."""
    x, y = replace(samples.X, name=name), replace(samples.Y, name=name)
    at = samples.entry()
    shown = replace(at, input=replace(at.input, block=x), output=replace(at.output, block=y))
    finding = wrong_jacobian(shown, headline=name, hint=name, property=name, kind=name, cause=ValueError(name))
    return report(
        finding,
        subject=name,
        covered=(name,),
        not_covered=(name,),
        versions=((name, name),),
        certificate=Certificate(((About(x), 1.0),), 0.0),
        inputs=(x,),
        outputs=(y,),
    )


@pytest.mark.parametrize("name", samples.HOSTILE)
@pytest.mark.parametrize("count", [1, 2])
def test_names_of_the_users_stay_text(name: str, count: int) -> None:
    made, harmless = page(*[hostile(name)] * count), page(*[hostile("name")] * count)
    assert [tag for tag, _ in made.tags] == [tag for tag, _ in harmless.tags]
    assert [set(attributes) for _, attributes in made.tags] == [set(attributes) for _, attributes in harmless.tags]
    visible = name.split()[0].replace("\x1b", "\\x1b")
    assert any(visible in text for text in made.texts)


@given(samples.reports)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_report_can_be_shown_and_written(tmp_path_factory: Any, made: Report) -> None:
    text = html.render([(made.subject, made), ("again", made)])
    assert not {tag for tag, _ in Page(text).tags} & {"img", "b", "iframe", "form", "object"}
    text.encode("utf-8")
    json.dumps(Page(text).data, allow_nan=False)


def test_no_address_is_asked_for() -> None:
    text = html.render([("f", report(wrong_jacobian()))])
    assert not re.search(r"https?://|url\(|@import", text)
    assert "default-src 'none'" in text


def test_it_is_written_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report(wrong_jacobian(), subject="重み").to_html(path)
    assert "重み" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("module", ["jinja2", "plotly.offline"])
def test_what_is_missing_is_named_with_the_extra(module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, module, None)
    html._environment.cache_clear()
    with pytest.raises(ImportError, match=r"gradproof\[html\]"):
        report(wrong_jacobian()).to_html(tmp_path / "report.html")


@pytest.mark.parametrize("make", [slice_plot, ladder_plot])
def test_plotly_accepts_the_figures_of_an_entry(make: Any) -> None:
    shown = report(wrong_jacobian()).exhibits[0]
    go.Figure(_without_colours(make(shown)))
    blank = replace(shown, values=(math.nan,) * 9, value=math.inf, ladder=())
    json.dumps(make(blank), allow_nan=False)


@pytest.mark.parametrize("drawn", maps_of(report(wrong_jacobian())))
def test_plotly_accepts_a_heat_map_and_it_marks_the_wrong_cells(drawn: HeatMap) -> None:
    figure = heat_map(drawn)
    go.Figure(_without_colours(figure))
    z = figure["data"][0]["z"]
    assert (len(z), len(z[0])) == drawn.grid.shape
    wrong = {(row, column) for row, line in enumerate(z) for column, value in enumerate(line) if value is not None}
    assert wrong == {(cell.row, cell.column) for cell in drawn.cells}


@pytest.mark.parametrize(
    ("excesses", "ends"),
    [
        ((1e6, 1.01e6), (5.0, 6.0)),
        ((1e2, 1e6), (2.0, 6.0)),
        ((1e2, math.inf), (2.0, 16.0)),
        ((1e20, math.inf), (19, 20)),
    ],
)
def test_nearly_equal_cells_look_so(excesses: tuple[float, float], ends: tuple[float, float]) -> None:
    cells = tuple(Cell(0, k, excess, 1) for k, excess in enumerate(excesses))
    (trace,) = heat_map(HeatMap(samples.Y, samples.X, "input", Grid((2, 3)), cells))["data"]
    assert (trace["zmin"], trace["zmax"]) == pytest.approx(ends, abs=0.01)


@pytest.mark.parametrize(("count", "words"), [(3, "3 wrong, worst 7 × allowed"), (None, "<br>worst 7 × allowed")])
def test_a_cell_says_how_many_entries_it_has_where_that_is_known(count: int | None, words: str) -> None:
    (trace,) = heat_map(HeatMap(samples.Y, samples.X, "input", Grid((2, 3)), (Cell(1, 2, 7.0, count),)))["data"]
    assert trace["text"][1][2].endswith(words)


def test_the_tangents_go_through_the_point_with_their_slopes() -> None:
    shown = report(wrong_jacobian()).exhibits[0]
    traces = {trace["name"]: trace for trace in slice_plot(shown)["data"]}
    for name, slope in [("numerical tangent", 2.0), ("analytic tangent", -1.0)]:
        (x0, x1), (y0, y1) = traces[name]["x"], traces[name]["y"]
        assert (y1 - y0) / (x1 - x0) == pytest.approx(slope)
        assert y0 + slope * (shown.position - x0) == pytest.approx(shown.value)


def _without_colours(figure: Any) -> Any:
    """The page's own names of colours, which plotly does not know, as a colour that it does."""
    if isinstance(figure, dict):
        return {key: _without_colours(value) for key, value in figure.items()}
    if isinstance(figure, list):
        return [_without_colours(value) for value in figure]
    return "#123456" if isinstance(figure, str) and figure.startswith("$") else figure
