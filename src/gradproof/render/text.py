"""A report as lines of text. What the terminal shows in colour and `str(report)` without are the same lines."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from gradproof.core.status import Status
from gradproof.render.folding import Line, Span, all_folded, bands, folded, width
from gradproof.results.finding import Entry, Finding
from gradproof.results.pairs import Pair
from gradproof.results.report import Report

# Rows of the table of pairs; the worst come first, and the rest are counted.
_ROWS = 12
# Where the text of a field begins: after its name.
_FIELD = 12
ONLY_ENTRIES = "each entry by itself is right; what is wrong is no entry, and stands below"
_NO_CAUSE = "no usual cause fits; see the entries below for what they have in common"


def plain(report: Report, columns: int | None = None) -> str:
    """The lines without colour, folded to a number of columns if there is one."""
    return "\n".join("".join(span.text for span in line).rstrip() for line in lines(report, columns))


def terminal_width() -> int | None:
    """The columns of the terminal that standard output is; None if it is none."""
    if sys.stdout is None or not sys.stdout.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        return None
    return shutil.get_terminal_size().columns


def lines(report: Report, columns: int | None = None) -> Iterator[Line]:
    """The verdict, the worst thing found and its likely cause; then everything else."""
    verdict = Span(report.verdict.name, report.verdict.name), Span(f": {report.verdict.value}")
    yield from folded(verdict, columns, indent=2)
    if not report:
        yield from all_folded(_foremost(report.findings[0]), columns, indent=_FIELD)
    yield from _table_of_pairs(report.pairs, columns)
    if report.only_entries_are_right:
        yield from folded((Span(f"  {ONLY_ENTRIES}", "quiet"),), columns, indent=2)
    for finding in report.findings:
        yield from _finding(finding, columns)
    yield from all_folded(_footer(report), columns)


def printable(text: str) -> str:
    """Control characters spelled out: names and messages of user code must not move the cursor.

    >>> printable("a\\x1b[2J\\tb")
    'a\\\\x1b[2J\\\\tb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def number(value: float | None, digits: int = 3) -> str:
    """A number in few digits; nothing for none, and for what is no number."""
    return "" if value is None or value != value else f"{value + 0.0:.{digits}g}"  # + 0.0: no minus before a zero


def noticed(smallest: float | None) -> str:
    """The smallest error that would have been noticed; where none would, so it says."""
    return "nothing" if smallest is not None and math.isinf(smallest) else number(smallest, 2)


def number_or_nan(value: float) -> str:
    """A value of a derivative."""
    return f"{value + 0.0:.9g}"


def numeric_of(entry: Entry) -> str:
    """The numerical side of an entry: a value with its error bar, or the two sides of a kink."""
    if entry.sides is not None:
        left, right = entry.sides
        return f"{left:.9g} from the left, {right:.9g} from the right"
    return f"{entry.numeric:.9g}{bar(entry.error, 1)}"


def bar(error: float, digits: int = 2) -> str:
    """An error bar behind a value; nothing where there is none."""
    return f" ± {error:.{digits}g}" if error and not math.isnan(error) else ""


def ratio_of(entry: Entry) -> str:
    """analytic / numeric in few digits; nothing where there is no ratio."""
    return "" if math.isnan(entry.ratio) else number(entry.ratio, 4)


def off_by(entry: Entry) -> tuple[str, str, str]:
    """The difference, what is allowed, and the one in units of the other; none of them at a kink."""
    if entry.excess is None:
        return "", "", ""
    return number(entry.difference), number(entry.allowed), number(entry.excess, 2)


def compared(entry: Entry) -> str:
    """The difference and what is allowed; of what is no number, that it is none; at a kink, that it may be."""
    if entry.excess is None:
        return "a valid subgradient"
    off = incomparable(entry) if math.isnan(entry.difference) else f"difference {number(entry.difference)}"
    return off if math.isnan(entry.allowed) else f"{off}, allowed {number(entry.allowed)}"


def incomparable(entry: Entry) -> str:
    """Why there is no difference."""
    return "no number" if math.isnan(entry.analytic) else "nothing to compare it with"


def name_of_hint(finding: Finding) -> str:
    """What a hint is: the cause, where it follows from wrong numbers of the Jacobian; else what to do, or where."""
    explains = finding.status is Status.WRONG and (bool(finding.entries) or finding.located)
    return "cause" if explains or not finding.hint else "hint"


def filled(rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns of a table in which any row has a cell; the others are left out."""
    return [k for k in range(max(map(len, rows), default=0)) if any(row[k] for row in rows)]


def _foremost(finding: Finding) -> Iterator[Line]:
    """The finding to read first: where, the two values, and the likely cause."""
    if not finding.entries:
        for text in finding.headline.splitlines():
            yield (Span(f"  {printable(text)}"),)
        if finding.hint:
            yield _field(name_of_hint(finding), finding.hint, "cause")
        return
    entry = finding.entries[0]
    yield _field(_LABELS[finding.status], f"{entry.output}, with respect to {entry.input}", "place")
    yield _field("numeric", numeric_of(entry), "numeric")
    ratio = ratio_of(entry)
    analytic = number_or_nan(entry.analytic)
    detail = f"  ({f'{ratio} × numeric; ' if ratio else ''}{compared(entry)})"
    yield (*_field("analytic", analytic, "analytic"), Span(detail))
    yield _field(name_of_hint(finding), finding.hint or _NO_CAUSE, "cause" if finding.hint else "quiet")


_LABELS = {
    Status.RIGHT: "right",
    Status.KINK: "kink",
    Status.INCONCLUSIVE: "unclear",
    Status.WRONG: "wrong",
    Status.RAISED: "raised",
}


def _field(name: str, text: str, style: str) -> Line:
    return Span(f"  {name:<8}  ", "label"), Span(printable(text), style)


def _table_of_pairs(pairs: Sequence[Pair], columns: int | None) -> Iterator[Line]:
    if not pairs:
        return
    shown = pairs[:_ROWS]
    yield ()
    header = ("output", "input", "status", "wrong", "worst difference", "allowed", "× allowed", "would notice")
    yield from aligned(header, map(_pair_row, shown), lambda row, column: row[2] if column == 2 else "", columns)
    rest = pairs[_ROWS:]
    if rest:
        counted = {word: sum(pair.word == word for pair in rest) for word in dict.fromkeys(pair.word for pair in rest)}
        yield (Span(f"  and {', '.join(f'{count} more {word}' for word, count in counted.items())}", "quiet"),)


def _pair_row(pair: Pair) -> tuple[str, ...]:
    return (
        printable(pair.output_label),
        printable(pair.input.label),
        pair.word,
        pair.count,
        number(pair.difference),
        number(pair.allowed),
        number(pair.excess, 2),
        noticed(pair.smallest),
    )


def _finding(finding: Finding, columns: int | None) -> Iterator[Line]:
    yield ()
    first, *rest = map(printable, finding.headline.splitlines() or [""])
    head = Span(finding.status.name, finding.status.name), Span(f" {printable(finding.property)}: {first}")
    yield from all_folded([head, *((Span(text),) for text in rest)], columns, indent=2)
    if finding.entries:
        header = ("output", "input", "numeric", "analytic", "ratio", "difference", "allowed", "× allowed")
        yield from aligned(header, map(_entry_row, finding.entries), _styles_of_entries, columns)
    if finding.hint:
        yield from folded((Span("  hint: ", "label"), Span(printable(finding.hint), "cause")), columns, indent=8)


def _entry_row(entry: Entry) -> tuple[str, ...]:
    return (
        entry.output.within or "the number",
        entry.input.within or "the number",
        numeric_of(entry),
        number_or_nan(entry.analytic),
        ratio_of(entry),
        *off_by(entry),
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
    if not report and report.repeat:
        yield _note("repeat", report.repeat)


def _note(name: str, text: str) -> Line:
    return Span(f"{name}: ", "label"), Span(printable(text))


def aligned(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    style: Callable[[Sequence[str], int], str],
    columns: int | None = None,
) -> Iterator[Line]:
    """A table, its columns as wide as their widest cell; columns without any cell are left out.

    Where it is wider than `columns`, the columns that do not fit stand below the others, row by row.
    """
    body = list(rows)
    used = filled(body)
    widths = {k: max(width(row[k]) for row in [header, *body]) for k in used}
    parts = bands(widths, columns)
    for row in [header, *body]:
        styles = {k: "label" if row is header else style(row, k) for k in used}
        for number_, part in enumerate(parts):
            indent = () if number_ == 0 else (Span("  "),)
            yield indent + tuple(
                span
                for k in part
                for span in (Span("  "), Span(row[k], styles[k]), Span(" " * (widths[k] - width(row[k]))))
                if span.text
            )
