"""A report as lines of text. What the terminal shows in colour and `str(report)` without are the same lines."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from gradproof.core.status import Status
from gradproof.results.finding import Entry, Finding
from gradproof.results.pairs import Pair
from gradproof.results.report import Report, Verdict

# Rows of the table of pairs; the worst come first, and the rest are counted.
_ROWS = 12
_NO_CAUSE = "no usual cause fits; see the entries below for what they have in common"


class Span(NamedTuple):
    """A piece of a line, and what it is: a key of `gradproof.render.terminal.STYLES`, or nothing special."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


def plain(report: Report) -> str:
    """The lines without colour."""
    return "\n".join("".join(span.text for span in line).rstrip() for line in lines(report))


def lines(report: Report) -> Iterator[Line]:
    """The verdict, the worst thing found and its likely cause; then everything else."""
    yield (Span(report.verdict.name, report.verdict.name), Span(f": {report.verdict.value}"))
    if not report:
        yield from _foremost(report.findings[0])
    yield from _table_of_pairs(report.pairs)
    for finding in report.findings:
        yield from _finding(finding)
    yield from _footer(report)


def printable(text: str) -> str:
    """Control characters spelled out: names and messages of user code must not move the cursor.

    >>> printable("a\\x1b[2J\\tb")
    'a\\\\x1b[2J\\\\tb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def number(value: float | None, digits: int = 3) -> str:
    """A number in few digits; nothing for none, and for what is no number."""
    return "" if value is None or value != value else f"{value + 0.0:.{digits}g}"  # + 0.0: no minus before a zero


def number_or_nan(value: float) -> str:
    """A value of a derivative."""
    return f"{value + 0.0:.9g}"


def numeric_of(entry: Entry) -> str:
    """The numerical side of an entry: a value with its error bar, or the two sides of a kink."""
    if entry.sides is not None:
        left, right = entry.sides
        return f"{left:.9g} from the left, {right:.9g} from the right"
    return f"{entry.numeric:.9g} ± {entry.error:.1g}" if entry.error else f"{entry.numeric:.9g}"


def _foremost(finding: Finding) -> Iterator[Line]:
    """The finding to read first: where, the two values, and the likely cause."""
    if not finding.entries:
        for text in finding.headline.splitlines():
            yield (Span(f"  {printable(text)}"),)
        if finding.hint:
            yield _field("cause", finding.hint, "cause")
        return
    entry = finding.entries[0]
    yield _field(_LABELS[finding.status], f"{entry.output}, with respect to {entry.input}", "place")
    yield _field("numeric", numeric_of(entry), "numeric")
    ratio = number(entry.ratio, 4)
    comparison = f"difference {number(entry.difference)}, allowed {number(entry.allowed)}"
    analytic = number_or_nan(entry.analytic)
    detail = f"  ({f'{ratio} × numeric; ' if ratio else ''}{comparison})"
    yield (*_field("analytic", analytic, "analytic"), Span(detail))
    yield _field("cause", finding.hint or _NO_CAUSE, "cause" if finding.hint else "quiet")


_LABELS = {
    Status.RIGHT: "right",
    Status.KINK: "kink",
    Status.INCONCLUSIVE: "unclear",
    Status.WRONG: "wrong",
    Status.RAISED: "raised",
}


def _field(name: str, text: str, style: str) -> Line:
    return Span(f"  {name:<8}  ", "label"), Span(printable(text), style)


def _table_of_pairs(pairs: Sequence[Pair]) -> Iterator[Line]:
    if not pairs:
        return
    shown = pairs[:_ROWS]
    yield ()
    header = ("output", "input", "status", "wrong", "worst difference", "allowed", "would notice")
    yield from aligned(header, map(_pair_row, shown), lambda row, column: row[2] if column == 2 else "")
    rest = pairs[_ROWS:]
    if rest:
        counted = {word: sum(pair.word == word for pair in rest) for word in dict.fromkeys(pair.word for pair in rest)}
        yield (Span(f"  and {', '.join(f'{count} more {word}' for word, count in counted.items())}", "quiet"),)


def _pair_row(pair: Pair) -> tuple[str, ...]:
    return (
        printable(pair.output.label),
        printable(pair.input.label),
        pair.word,
        pair.count,
        number(pair.difference),
        number(pair.allowed),
        number(pair.smallest, 2),
    )


def _finding(finding: Finding) -> Iterator[Line]:
    yield ()
    first, *rest = map(printable, finding.headline.splitlines() or [""])
    yield Span(finding.status.name, finding.status.name), Span(f" {printable(finding.property)}: {first}")
    for text in rest:
        yield (Span(text),)
    if finding.entries:
        header = ("output", "input", "numeric", "analytic", "ratio", "difference", "allowed")
        yield from aligned(header, map(_entry_row, finding.entries), _styles_of_entries)
    if finding.hint:
        yield Span("  hint: ", "label"), Span(printable(finding.hint), "cause")


def _entry_row(entry: Entry) -> tuple[str, ...]:
    return (
        entry.output.within or "the number",
        entry.input.within or "the number",
        numeric_of(entry),
        number_or_nan(entry.analytic),
        number(entry.ratio, 4),
        number(entry.difference),
        number(entry.allowed),
    )


def _styles_of_entries(row: Sequence[str], column: int) -> str:
    return {2: "numeric", 3: "analytic"}.get(column, "")


def _footer(report: Report) -> Iterator[Line]:
    yield ()
    modes = " and ".join(mode.value for mode in report.modes)
    covered = ", ".join(report.covered) or "nothing"
    yield _note("covered", f"{covered}; {report.entries} Jacobian entries, {modes} mode")
    if report.not_covered:
        yield _note("not covered", "; ".join(report.not_covered))
    for note in report.notes:
        yield _note("note", note)
    if report.certificate is not None:
        yield _note("certificate", str(report.certificate))
    cost = f"{report.cost.evaluations} evaluations, {report.cost.vjps} vjps, {report.cost.jvps} jvps"
    yield _note("cost", f"{cost}, {report.cost.seconds:.3f} s; seed {report.seed}")


def _note(name: str, text: str) -> Line:
    return Span(f"{name}: ", "label"), Span(printable(text))


def aligned(
    header: Sequence[str], rows: Iterable[Sequence[str]], style: Callable[[Sequence[str], int], str]
) -> Iterator[Line]:
    """A table, its columns as wide as their widest cell; columns without any cell are left out."""
    body = list(rows)
    used = [k for k in range(len(header)) if any(row[k] for row in body)]
    widths = {k: max(width(row[k]) for row in [header, *body]) for k in used}
    for row in [header, *body]:
        styles = {k: "label" if row is header else style(row, k) for k in used}
        yield tuple(
            span
            for k in used
            for span in (Span("  "), Span(row[k], styles[k]), Span(" " * (widths[k] - width(row[k]))))
            if span.text
        )


def width(text: str) -> int:
    """The columns that a text takes on a terminal.

    >>> width("a重b")
    4
    """
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def summary(reports: Sequence[Report]) -> str:
    """One line for several reports."""
    counts = {each: sum(report.verdict is each for report in reports) for each in Verdict}
    told = ", ".join(f"{count} {each.name}" for each, count in counts.items() if count) or "none"
    return f"{len(reports)} {'check' if len(reports) == 1 else 'checks'}: {told}"
