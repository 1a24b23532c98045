"""One function in every way it is run, as text and as a page: the first way that departs, then a row for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from gradproof.render.folding import Line, Span, all_folded, folded
from gradproof.render.html import asset, environment, require_html
from gradproof.render.terminal import STYLES
from gradproof.render.text import aligned, number, number_or_nan, printable
from gradproof.results.regimes import RegimeRow, RegimesReport, Standing
from gradproof.results.report import Verdict

if TYPE_CHECKING:
    from rich.text import Text

_MEANINGS = {
    Verdict.PASS: "every way of running it gives the derivative that was checked",
    Verdict.FAIL: "a way of running it departs from the derivative that was checked",
    Verdict.INCONCLUSIVE: "some ways could not be judged, none is known to depart",
}
_STYLES = {
    Standing.AGREES: "RIGHT",
    Standing.DEPARTS: "WRONG",
    Standing.INCONCLUSIVE: "INCONCLUSIVE",
    Standing.CANNOT_RUN: "INCONCLUSIVE",
    Standing.NOT_APPLICABLE: "quiet",
}
_BY_WORD = {standing.word: style for standing, style in _STYLES.items()}
_FIELD = 19
"""Where the text of a field begins: after its name."""
HEADER = ("way", "standing", "where", "difference", "allowed", "elements", "in")


def plain(report: RegimesReport, columns: int | None = None) -> str:
    """The lines without colour, folded to a number of columns if there is one."""
    return "\n".join("".join(span.text for span in line).rstrip() for line in lines(report, columns))


def coloured(report: RegimesReport) -> Text:
    """The lines as rich shows them."""
    from rich.text import Text

    rows = [Text.assemble(*((span.text, STYLES.get(span.style, "")) for span in line)) for line in lines(report)]
    for row in rows:
        row.rstrip()
    return Text("\n").join(rows)


def one_line(report: RegimesReport) -> str:
    """The verdict, and the first way that departs."""
    first = report.first
    told = "" if first is None else f", {first.way} departs: {first.place}"
    return printable(f"{report.verdict.name}: {report.subject}, {len(report.rows)} ways{told}")


def meaning(report: RegimesReport) -> str:
    """The verdict in words."""
    if report.eager.verdict is Verdict.FAIL:
        return "the derivative itself is wrong or cannot be computed, before any other way is looked at"
    return _MEANINGS[report.verdict]


def lines(report: RegimesReport, columns: int | None = None) -> Iterator[Line]:
    """The verdict, the first way that departs with its element and numbers, and the table of all ways."""
    verdict = Span(report.verdict.name, report.verdict.name)
    yield from folded((verdict, Span(f": {printable(report.subject)}, {meaning(report)}")), columns, indent=2)
    if report.first is not None:
        yield from all_folded(_first(report.first), columns, indent=_FIELD)
    yield ()
    yield from aligned(HEADER, map(cells, report.rows), _style, columns)
    yield from all_folded(_footer(report), columns, indent=2)


def _style(row: Sequence[str], column: int) -> str:
    return _BY_WORD[row[1]] if column == 1 else ""


def _footer(report: RegimesReport) -> Iterator[Line]:
    told = reasons(report)
    if told:
        yield ()
    for reason, rows in told.items():
        yield Span(f"{', '.join(row.way for row in rows)}: ", "label"), Span(reason)
    yield ()
    if report.eager.not_covered:
        yield Span("not covered: ", "label"), Span(printable("; ".join(report.eager.not_covered)))
    if report.allow:
        yield Span("need not run: ", "label"), Span(", ".join(report.allow))
    yield Span("cost: ", "label"), Span(f"{report.seconds:.3f} s; seed {report.seed}")


def _first(row: RegimeRow) -> Iterator[Line]:
    yield Span("  first to depart  ", "label"), Span(row.way, "place"), Span(f"  ({printable(row.what)})")
    if row.variation:
        yield Span("  in               ", "label"), Span(printable(row.variation))
    yield Span("  where            ", "label"), Span(printable(row.place), "place")
    if row.fault:
        yield Span("  what             ", "label"), Span(printable(row.fault), "cause")
    elif row.expected is not None and row.found is not None:
        told = f"checked {number_or_nan(row.expected)}, found {number_or_nan(row.found)}"
        yield (
            Span("  values           ", "label"),
            Span(f"{told}, difference {number(row.difference) or 'nan'}, allowed {number(row.allowed) or 'nan'}"),
        )


def cells(row: RegimeRow) -> tuple[str, ...]:
    """The cells of the table."""
    judged = row.standing in (Standing.AGREES, Standing.DEPARTS) and not row.fault
    elements = f"{row.wrong} of {row.total}" if row.departs and row.total else ""
    return (
        row.way,
        row.standing.word,
        printable(row.place) if row.departs else "",
        number(row.difference) if judged else "",
        number(row.allowed) if judged else "",
        elements,
        printable(row.variation) if row.standing is not Standing.AGREES else "",
    )


def reasons(report: RegimesReport) -> dict[str, list[RegimeRow]]:
    """What there is to say of ways in words, and of which; what holds of several is said once."""
    found: dict[str, list[RegimeRow]] = {}
    for row in report.rows:
        if text := printable(" ".join((row.fault or row.reason).split())):
            found.setdefault(text, []).append(row)
    return found


def write_html(path: str | PathLike[str], report: RegimesReport) -> None:
    """Write the page."""
    require_html()
    Path(path).write_text(page(report), encoding="utf-8")


def page(report: RegimesReport) -> str:
    """One page, with the same table."""
    return environment().get_template("regimes.html.j2").render(
        report=report,
        meaning=meaning(report),
        text=plain(report),
        header=HEADER,
        rows=[(row, cells(row)) for row in report.rows],
        reasons=reasons(report),
        style=asset("style.css"),
    )  # fmt: skip
