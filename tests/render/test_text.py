"""The text of a report: short first, the same with colour and without, and never the user's control characters."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
import report_samples as samples
import torch
from functions import custom, square_with
from hypothesis import given
from hypothesis import strategies as st
from report_samples import entry, report, wrong_jacobian
from rich.console import Console

from gradproof import CheckFailedError, Finding, Report, Status, check
from gradproof.render.folding import width
from gradproof.render.html import render
from gradproof.render.terminal import coloured, show
from gradproof.render.text import ONLY_ENTRIES, plain


def test_a_failure_reads_verdict_place_values_and_cause_first() -> None:
    assert str(report(wrong_jacobian())).splitlines()[:5] == [
        "FAIL: a derivative is wrong, or cannot be computed",
        "  wrong     output 0, element [1], with respect to input 0 `x`, element [1, 1]",
        "  numeric   2 ± 1e-09",
        "  analytic  -1  (-0.5 × numeric; difference 3, allowed 0.01)",
        "  cause     the sign is wrong",
    ]


def test_then_a_row_for_each_pair_the_findings_and_the_cost() -> None:
    told = str(report(wrong_jacobian(), not_covered=("argument `mask` has no gradient",))).splitlines()
    assert told[5:] == [
        "",
        "  output    input             status  wrong    worst difference  allowed  × allowed  would notice",
        "  output 0  input 0 `x`       WRONG   2 of 24  3                 0.01     3e+02      3e-08",
        "  output 0  input 1 `weight`  RIGHT   0 of 8                                         4e-08",
        "",
        "WRONG jacobian: Jacobian mismatch for output 0 with respect to input 0 `x`,",
        "  2 of 24 entries differ; the worst:",
        "  output       input           numeric    analytic  ratio  difference  allowed  × allowed",
        "  element [1]  element [1, 1]  2 ± 1e-09  -1        -0.5   3           0.01     3e+02",
        "  element [2]  element [1, 2]  2 ± 1e-09  0.5       0.25   1.5         0.01     1.5e+02",
        "  hint: the sign is wrong",
        "",
        "covered: input 0 `x`, input 1 `weight`; 40 Jacobian entries, reverse and forward mode",
        "not covered: argument `mask` has no gradient",
        "certificate: a lone entry off by more than 3e-08 (input 0 `x`), 4e-08 (input 1 `weight`) "
        "is missed with probability at most 1e-12",
        "cost: 8 evaluations, 3 vjps, 2 jvps, 0.250 s; seed 5",
    ]


def test_a_pass_is_short() -> None:
    told = str(report()).splitlines()
    assert told[0] == "PASS: every derivative that was checked is right"
    assert [line.split()[5] for line in told[3:5]] == ["RIGHT", "RIGHT"]
    assert len(told) == 9, told


def test_without_a_hint_it_says_that_no_usual_cause_fits() -> None:
    assert "no usual cause fits" in str(report(wrong_jacobian(hint=""))).splitlines()[4]


def test_a_finding_without_entries_speaks_for_itself() -> None:
    finding = Finding(property="determinism", status=Status.WRONG, headline="not reentrant\nat all", hint="nondet_tol")
    told = str(report(finding)).splitlines()
    assert told[1:4] == ["  not reentrant", "  at all", "  hint      nondet_tol"]
    assert "WRONG determinism: not reentrant" in told


ADVICE = Finding(property="undefined", status=Status.INCONCLUSIVE, headline="not told", hint="ask for `linearity`")


def test_what_to_do_is_no_cause() -> None:
    cause, unclear = wrong_jacobian(), wrong_jacobian(status=Status.INCONCLUSIVE, hint='say precision="float64"')
    for finding, name in [(cause, "cause"), (unclear, "hint"), (ADVICE, "hint")]:
        made = report(finding)
        assert f"  {name:<8}  {finding.hint}" in str(made).splitlines()
        title = "Likely cause" if name == "cause" else "Hint"
        assert f"<strong>{title}:</strong>" in render([("model", made)])
    assert "cause:" not in report(unclear)._repr_html_()
    assert "cause: " in report(cause)._repr_html_()


def test_a_kink_names_both_sides() -> None:
    finding = wrong_jacobian(entry(sides=(-1.0, 1.0)))
    assert "-1 from the left, 1 from the right" in str(report(finding)).splitlines()[2]


def test_an_inconclusive_entry_is_not_called_wrong() -> None:
    finding = wrong_jacobian(entry(status=Status.INCONCLUSIVE), status=Status.INCONCLUSIVE)
    told = str(report(finding)).splitlines()
    assert told[0].startswith("INCONCLUSIVE")
    assert told[1].startswith("  unclear   output 0, element [1]")


def test_many_pairs_are_counted_not_listed() -> None:
    many = tuple(replace(samples.X, index=k, name=f"p{k}") for k in range(40))
    told = str(report(inputs=many))
    assert "and 28 more RIGHT" in told
    assert told.count("RIGHT") == 13


@given(samples.reports)
def test_colour_changes_nothing_but_the_colour(made: Report) -> None:
    assert coloured(made).plain == str(made)


@pytest.mark.parametrize("name", samples.HOSTILE)
def test_names_cannot_move_the_cursor(name: str) -> None:
    block = replace(samples.X, name=name)
    told = str(report(inputs=(block,), covered=(block.label,), not_covered=(name,)))
    assert all(c.isprintable() or c == "\n" for c in told)


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_lines_fold_to_the_width_and_lose_nothing(columns: int) -> None:
    long = "analytic ≈ 0.25 × numeric on 8 of 8 wrong entries: a factor 1/4, a size of a dimension: a mean"
    made = report(wrong_jacobian(hint=long), not_covered=("argument `mask` has no gradient, " * 6,))
    wide, narrow = plain(made), plain(made, columns)
    assert max(map(width, narrow.splitlines())) <= columns
    assert max(map(width, wide.splitlines())) > columns
    assert sorted(narrow.split()) == sorted(wide.split())


def test_what_continues_is_indented_below_what_it_continues() -> None:
    made = report(wrong_jacobian(hint="a factor that is explained in a sentence of some length"))
    told = plain(made, 50).splitlines()
    at = next(k for k, line in enumerate(told) if line.startswith("  cause"))
    assert told[at : at + 2] == ["  cause     a factor that is explained in a", "            sentence of some length"]


def test_columns_of_a_table_that_do_not_fit_stand_below_the_others() -> None:
    told = plain(report(wrong_jacobian()), 70).splitlines()
    at = next(k for k, line in enumerate(told) if line.startswith("  output    input"))
    assert [line.split() for line in told[at : at + 4]] == [
        ["output", "input", "status", "wrong", "worst", "difference"],
        ["allowed", "×", "allowed", "would", "notice"],
        ["output", "0", "input", "0", "`x`", "WRONG", "2", "of", "24", "3"],
        ["0.01", "3e+02", "3e-08"],
    ]


@given(samples.reports, st.integers(30, 120))
def test_any_report_folds_to_any_width(made: Report, columns: int) -> None:
    """But for a single cell of a table that is wider, which is not cut."""
    assert coloured(made, columns).plain == plain(made, columns)


def test_no_difference_is_told_of_what_is_no_number() -> None:
    told = str(report(wrong_jacobian(entry(analytic=math.nan))))
    assert "  analytic  nan  (no number, allowed 0.01)" in told
    assert "difference ," not in told


def scaled(rule: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    return custom(lambda x: 3 * x, lambda s, g: 3 * rule(g))


def test_a_failure_whose_entries_are_right_says_so_below_them() -> None:
    x = torch.tensor([0.5, 1.5, -0.7], dtype=torch.float64, requires_grad=True)
    bent, wrong = check(scaled(torch.abs), x), check(scaled(lambda g: 2 * g), x)
    assert not bent
    assert not wrong
    assert ONLY_ENTRIES in str(bent)
    assert ONLY_ENTRIES in bent._repr_html_()
    assert ONLY_ENTRIES not in str(wrong)
    assert ONLY_ENTRIES not in str(check(scaled(lambda g: g), x))


def test_no_ratio_is_told_where_there_is_none() -> None:
    told = str(report(wrong_jacobian(entry(numeric=0.0, analytic=1.0))))
    assert "nan" not in told


def test_pairs_are_sorted_by_what_the_header_names() -> None:
    """By status, then by `× allowed`."""
    near, far = entry(0, 0, analytic=2.02), entry(0, 7, analytic=30.0)
    made = report(wrong_jacobian(near), wrong_jacobian(far))
    assert [pair.input.name for pair in made.pairs] == ["weight", "x"]
    assert [f"{pair.excess:.2g}" for pair in made.pairs] == ["2.8e+03", "2"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_it_is_coloured_elsewhere_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    shown, piped = Terminal(), io.StringIO()
    made = report(wrong_jacobian())
    show(made, shown)
    show(made, piped)
    assert piped.getvalue() == f"{made}\n"
    assert "\x1b[1;31mFAIL\x1b[0m" in shown.getvalue()


def test_without_rich_a_terminal_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradproof.render.terminal.find_spec", lambda name: None)
    monkeypatch.setenv("COLUMNS", "300")
    shown = Terminal()
    show(report(), shown)
    assert shown.getvalue() == f"{report()}\n"


def test_print_folds_on_a_terminal_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    made = report(wrong_jacobian())
    assert max(map(width, str(made).splitlines())) > 60
    monkeypatch.setattr("sys.stdout", Terminal())
    assert max(map(width, str(made).splitlines())) <= 60


def test_the_text_needs_no_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    assert str(report(wrong_jacobian())).startswith("FAIL")


def test_rich_prints_a_report_in_colour() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=200, color_system="truecolor", highlight=False)
    console.print(report(wrong_jacobian()))
    assert "\x1b[1;31mFAIL\x1b[0m" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_exception_of_a_failed_check_is_this_text() -> None:
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    made = check(square_with(lambda s, g: s[0] * g), x)
    with pytest.raises(CheckFailedError) as caught:
        made.raise_for_failure()
    assert str(caught.value) == str(made)
    assert "a factor 2 is missing" in str(caught.value).splitlines()[4]
