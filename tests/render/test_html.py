"""The HTML report: complete, escaped, self-contained."""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
from hypothesis import HealthCheck, given, settings
from report_samples import report, wrong_jacobian

from gradproof import Certificate, Finding, Report, Status, Verdict
from gradproof.core.space import Space
from gradproof.render import html
from gradproof.render.figures import heat_map, ladder_plot, slice_plot
from gradproof.render.groups import groups_of
from gradproof.render.maps import Cell, HeatMap, maps_of
from gradproof.render.terms import TERMS
from gradproof.results.certificate import About
from gradproof.results.run import Checked, Crash, Run
from gradproof.results.spots import Grid, Spots


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


def test_a_pass_has_no_figures_and_no_script_for_them() -> None:
    text = html.render([("f", report())])
    assert "class Plot" not in text
    assert not Page(text).data
    assert len(text) < 40_000


def test_each_wrong_entry_has_a_slice_and_a_ladder_each_pair_its_maps() -> None:
    made = page(report(wrong_jacobian()))
    kinds = [attributes["data-kind"] for tag, attributes in made.tags if tag == "figure"]
    assert kinds == ["heat", "heat", "slice", "ladder", "slice", "ladder"]
    assert len(made.data) == 6


def test_several_reports_have_a_table_of_checks() -> None:
    made = page(report(), report(wrong_jacobian(), subject="other"))
    assert made.text.startswith("FAIL · 2 checks · gradproof")
    assert "2 checks: 1 FAIL, 1 PASS" in made.text
    links = [attributes.get("href") for tag, attributes in made.tags if tag == "a"]
    assert links == ["#checks", "#report-1", "#words", "#report-1", "#report-2"]
    assert made.text.index("other") < made.text.index("model"), "the one that fails comes first"


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
    name_of_svg = "http://www.w3.org/2000/svg"  # a name that browsers know, asked of nobody
    assert not re.search(r"https?://|url\((?!#)|@import", text.replace(name_of_svg, ""))
    assert "default-src 'none'" in text


def test_it_is_written_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report(wrong_jacobian(), subject="重み").to_html(path)
    assert "重み" in path.read_text(encoding="utf-8")


def test_what_is_missing_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    html.environment.cache_clear()
    with pytest.raises(ImportError, match=r"gradproof\[html\]"):
        report(wrong_jacobian()).to_html(tmp_path / "report.html")


@pytest.mark.parametrize("make", [slice_plot, ladder_plot])
def test_figures_of_what_is_not_finite_are_strict_json(make: Any) -> None:
    shown = report(wrong_jacobian()).exhibits[0]
    blank = replace(shown, values=(math.nan,) * 9, value=math.inf, ladder=())
    json.dumps(make(blank).data, allow_nan=False)


def numbers_of(runs: list[int]) -> list[int]:
    return [start + k for start, length in zip(runs[::2], runs[1::2], strict=True) for k in range(length)]


@pytest.mark.parametrize("drawn", maps_of(report(wrong_jacobian())))
def test_a_heat_map_marks_the_wrong_cells(drawn: HeatMap) -> None:
    data = heat_map(drawn).data
    assert (data["shape"][0], data["shape"][1]) == drawn.grid.shape
    assert numbers_of(data["runs"]) == [cell.row * drawn.grid.across + cell.column for cell in drawn.cells]
    assert data["power"] == [round(math.log10(cell.excess), 2) for cell in drawn.cells]
    assert len(data["rows"]) == drawn.grid.down
    assert len(data["columns"]) == drawn.grid.across


@pytest.mark.parametrize(
    ("excesses", "ends"),
    [
        ((1e6, 1.01e6), (5.0, 6.0)),
        ((1e2, 1e6), (2.0, 6.0)),
        ((1e2, math.inf), (1.0, 2.0)),
    ],
)
def test_nearly_equal_cells_look_so(excesses: tuple[float, float], ends: tuple[float, float]) -> None:
    cells = tuple(Cell(0, k, excess, 1) for k, excess in enumerate(excesses))
    data = heat_map(HeatMap(samples.Y, samples.X, "input", Grid((2, 3)), cells)).data
    assert data["ends"] == pytest.approx(ends, abs=0.01)


def test_hovering_names_the_elements_of_a_cell_and_the_values_that_are_known() -> None:
    finding = wrong_jacobian()
    over_jacobian, over_input = (heat_map(drawn, finding.entries).data for drawn in maps_of(report(finding)))
    assert over_jacobian["rows"][1] == "output 0, element [1]"
    assert over_jacobian["columns"][4] == "input 0 `x`, element [1, 1]"
    assert over_jacobian["known"]["10"] == "numeric 2 ± 1e-09\nanalytic -1"  # row 1 of 4, column 4 of 6
    assert over_input["rows"] == ["axis 0: 0", "axis 0: 1"]
    assert over_input["columns"][2] == "axis 1: 2"
    assert over_input["known"]["4"].startswith("output 0, element [1], with respect to input 0 `x`, element [1, 1]:")


def test_complex_and_large_blocks_are_named_too() -> None:
    z = replace(samples.WEIGHT, start=0)
    names = heat_map(HeatMap(samples.Y, z, "jacobian", Grid((4, 4)), ())).data["columns"]
    assert names[3] == "input 1 `weight`, element [1], imaginary part"
    large = replace(samples.X, shape=(2, 100))
    names = heat_map(HeatMap(samples.Y, large, "jacobian", Grid((4, 200)), ())).data["columns"]
    assert names[0] == "input 0 `x`, element [0, 0] to element [0, 3]"
    deep = replace(samples.X, shape=(2, 3, 4))
    data = heat_map(HeatMap(samples.Y, deep, "input", Grid((6, 4)), ())).data
    assert data["rows"][5] == "axes 0 to 1: [1, 2]"


def test_counts_are_there_where_they_are_known() -> None:
    def counted(*counts: int | None) -> Any:
        cells = tuple(Cell(0, k, 7.0, count) for k, count in enumerate(counts))
        return heat_map(HeatMap(samples.Y, samples.X, "input", Grid((2, 3)), cells)).data["count"]

    assert (counted(3, 3), counted(3, 4), counted(None, None)) == (3, [3, 4], None)


def test_the_tangents_go_through_the_point_with_their_slopes() -> None:
    shown = report(wrong_jacobian()).exhibits[0]
    lines = {line["name"]: line for line in slice_plot(shown).data["series"]}
    for name, slope in [("numerical tangent", 2.0), ("analytic tangent", -1.0)]:
        (x0, x1), (y0, y1) = lines[name]["x"], lines[name]["y"]
        assert (y1 - y0) / (x1 - x0) == pytest.approx(slope)
        assert y0 + slope * (shown.position - x0) == pytest.approx(shown.value)


def test_axes_say_what_they_measure() -> None:
    shown = report(wrong_jacobian()).exhibits[0]
    assert slice_plot(shown).data["x"] == "input 0 `x`, element [1, 1]"
    assert slice_plot(shown).data["y"] == "output 0, element [1]"
    assert ladder_plot(shown).data["x"] == "step, in units of the input"
    assert ladder_plot(shown).data["y"] == "derivative, output per input"


def test_every_figure_is_described_in_words() -> None:
    made = page(report(wrong_jacobian()))
    said = [attributes["aria-label"] or "" for _, attributes in made.tags if attributes.get("class") == "canvas"]
    assert len(said) == 6
    assert said[0].startswith("A map of 4 by 6 cells. 2 have wrong entries, in rows 1 to 2 and columns 4 to 5.")
    assert "its slope is 2 ± 1e-09 by the numerical derivative and -1 by the analytic one" in said[2]
    assert "step 0.0001: 2 ± 1e-06" in said[3]


def levels(made: Page) -> list[int]:
    return [int(tag[1]) for tag, _ in made.tags if re.fullmatch(r"h[1-6]", tag)]


@pytest.mark.parametrize("count", [1, 3])
def test_headings_are_in_order(count: int) -> None:
    same = [wrong_jacobian(samples.entry(row)) for row in range(3)]
    made = page(*[report(*same, wrong_jacobian(hint=""))] * count)
    found = levels(made)
    assert found[0] == 1
    assert found.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(found)), found


def test_what_has_one_cause_is_grouped_and_the_worst_comes_first() -> None:
    half = [
        wrong_jacobian(samples.entry(row, analytic=1.0 + row), hint=f"a factor on {row} of 9 wrong entries: ½")
        for row in (1, 2, 3)
    ]
    other = wrong_jacobian(samples.entry(0, analytic=900.0), hint="a sign")
    groups = groups_of([*half, other])
    assert [(group.cause, len(group.findings)) for group in groups] == [("a sign", 1), ("a factor: ½", 3)]
    excesses = [finding.entries[0].difference for finding in groups[1].findings]
    assert excesses == sorted(excesses, reverse=True)
    made = page(report(*half, other))
    assert "3 findings with one cause" in made.text


def test_findings_without_a_cause_stay_alone() -> None:
    assert len(groups_of([wrong_jacobian(hint=""), wrong_jacobian(hint="")])) == 2


def test_the_title_says_the_function() -> None:
    assert page(report(wrong_jacobian())).text.startswith("FAIL · model · gradproof")


def test_the_contents_lead_to_everything() -> None:
    made = page(report(wrong_jacobian(), wrong_jacobian(hint="")))
    anchors = {attributes["id"] for _, attributes in made.tags if "id" in attributes}
    links = [str(attributes["href"])[1:] for tag, attributes in made.tags if tag == "a"]
    assert links == ["worst", "pairs", "findings", "finding-1", "finding-2", "seen", "words"]
    assert set(links) <= anchors
    assert len(anchors) == len([1 for _, attributes in made.tags if "id" in attributes]), "anchors are unique"


def test_terms_are_explained_on_hover_and_in_a_list() -> None:
    made = page(report(wrong_jacobian()))
    titles = {attributes["title"] for tag, attributes in made.tags if tag == "abbr"}
    assert {TERMS["would notice"], TERMS["allowed"], TERMS["× allowed"]} <= titles
    for term, meaning in TERMS.items():
        assert term in made.text
        assert meaning in made.text


def test_a_run_lists_verdict_cause_time_and_torchs_verdict_failing_ones_first() -> None:
    wrong = report(wrong_jacobian())
    run = Run((
        Checked("a::right", report(), torch="pass", torch_seconds=0.125),
        Checked("b::known", wrong, expected=True, torch="fail"),
        Checked("c::wrong", wrong, torch="fail", torch_seconds=0.5),
    ))  # fmt: skip
    made = Page(html.render(run))
    table = made.text[made.text.index("torch's verdict") : made.text.index("The worst")]
    assert [table.index(name) for name in ("wrong", "known", "right")] == sorted(
        table.index(name) for name in ("wrong", "known", "right")
    )
    assert "FAIL the sign is wrong 0.250 fail 0.500" in table
    assert "EXPECTED the sign is wrong" in table
    assert "PASS 0.250 pass 0.125" in table
    assert "3 checks: 1 FAIL, 1 expected to FAIL, 1 PASS" in made.text


def test_an_expected_failure_is_not_a_fail() -> None:
    wrong = report(wrong_jacobian())
    assert Run((Checked("a", wrong, expected=True),)).verdict is Verdict.PASS
    assert Run((Checked("a", wrong, expected=True), Checked("b", wrong))).verdict is Verdict.FAIL
    assert Run((Checked("a", report()),), (Crash("b", "KeyError", "", ""),)).verdict is Verdict.FAIL
    unsure = report(Finding(property="jacobian", status=Status.INCONCLUSIVE, headline="noise"))
    assert Run((Checked("a", unsure, expected=True),)).verdict is Verdict.INCONCLUSIVE


def full_map(rows: int, columns: int) -> Finding:
    """A finding with as many wrong entries as a map can show."""
    x, y = replace(samples.X, shape=(columns,)), replace(samples.Y, shape=(rows,))
    at = replace(samples.entry(), input=Space((x,)).place(0), output=Space((y,)).place(0))
    places = [(row, column) for row in range(rows) for column in range(columns)]
    excess = tuple(float(10 ** (1 + (row * column) % 97 / 20)) for row, column in places)
    spots = Spots(tuple(r for r, _ in places), tuple(c for _, c in places), excess, (1,) * len(places))
    return wrong_jacobian(at, spots=spots)


def test_a_page_of_many_large_maps_stays_below_600_kb_and_says_what_it_left_out() -> None:
    findings = [full_map(64, 64) for _ in range(40)]
    text = html.render([("f", report(*findings, exhibits=()))])
    assert len(text.encode()) < 600_000
    drawn = text.count('<figure class="plot"')
    assert 8 < drawn < 40
    assert text.count("of this finding left out to keep the page small") == 40 - drawn


def many_findings(count: int) -> Report:
    """A report with a wrong pair for each of many inputs."""
    blocks = [replace(samples.X, index=k, name=f"layers.{k}.weight") for k in range(count)]
    findings: list[Finding] = []
    for block in blocks:
        places = [(samples.entry(row, row), Space((block,)).place(row)) for row in range(4)]
        entries = [replace(at, input=place, analytic=1000.0 + block.index) for at, place in places]
        findings.append(wrong_jacobian(*entries, hint="the sign is wrong"))
    return report(*findings, inputs=tuple(blocks), exhibits=())


def test_of_hundreds_of_findings_the_worst_are_whole_and_the_least_have_a_title() -> None:
    made = many_findings(250)
    text = html.render([("f", made)])
    assert len(text.encode()) < 600_000
    page_ = Page(text)
    assert "findings, the least, there is only the title, to keep the page small" in page_.text
    anchors = [str(attributes["id"]) for _, attributes in page_.tags if "finding-" in str(attributes.get("id"))]
    assert len(anchors) == 250, "each can be linked to"
    titled = [attributes for _, attributes in page_.tags if attributes.get("class") == "card titled"]
    assert 100 < len(titled) < 250
    first = text.index('id="finding-1"')
    assert text.index("layers.249.weight", first) < text.index("layers.0.weight", first), "the worst comes first"


def test_a_run_of_hundreds_of_tests_stays_small() -> None:
    run = Run(tuple(Checked(f"tests/test_a.py::test_b[{k}]", report()) for k in range(250)))
    text = html.render(run)
    assert len(text.encode()) < 600_000
    assert text.count("What this check could see</h") == 250
