"""An audit as lines of text: the verdict, who is to blame and why; then what else was named."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from gradproof.render.audit_words import told_notice, told_origin, told_share, told_shares
from gradproof.render.terminal import STYLES
from gradproof.render.text import Line, Span, aligned, name_of_hint, number, number_or_nan, printable
from gradproof.results.audit import AuditedOperation, AuditReport
from gradproof.results.finding import Finding
from gradproof.results.report import Verdict

if TYPE_CHECKING:
    from rich.text import Text

# Rows of the table of those that something speaks against, and notices; the rest are counted.
_ROWS, _NOTICES = 10, 12
_MEANINGS = {
    Verdict.PASS: "no operation of the model is known to be wrong, and the whole agrees",
    Verdict.FAIL: "the gradient of the model is wrong, or cannot be computed",
    Verdict.INCONCLUSIVE: "some operations could not be judged, none is known to be wrong",
}


def plain(report: AuditReport) -> str:
    """The lines without colour."""
    return "\n".join("".join(span.text for span in line).rstrip() for line in lines(report))


def coloured(report: AuditReport) -> Text:
    """The lines as rich shows them."""
    from rich.text import Text

    rows = [Text.assemble(*((span.text, STYLES.get(span.style, "")) for span in line)) for line in lines(report)]
    for row in rows:
        row.rstrip()
    return Text("\n").join(rows)


def show(report: AuditReport, file: TextIO | None = None) -> None:
    """Print an audit: in colour on a terminal, else as plain text."""
    stream = sys.stdout if file is None else file
    if stream.isatty() and find_spec("rich") is not None:
        from rich.console import Console

        Console(file=stream, highlight=False).print(coloured(report), soft_wrap=True)
    else:
        stream.write(f"{plain(report)}\n")


def meaning(report: AuditReport) -> str:
    """The verdict in words."""
    return _MEANINGS[report.verdict]


def lines(report: AuditReport) -> Iterator[Line]:
    """The verdict, the guilty operation with its element and its cause, the others, and what is named besides."""
    yield (Span(report.verdict.name, report.verdict.name), Span(f": {printable(report.subject)}, {meaning(report)}"))
    yield from _raised(report)
    for origin in report.origins:
        first, *rest = map(printable, told_origin(report, origin))
        yield Span(f"  {origin.phase.name.lower():<8}  ", "label"), Span(first, "place")
        for text in rest:
            yield (Span(f"            {text}", "cause" if text.startswith("remedy") else ""),)
    guilty = report.guilty
    if guilty is not None and not report.origins:
        yield from _guilty(report, guilty)
    yield from _table(report.blamed)
    if report.notices:
        yield ()
        yield (Span("named, without being wrong:", "label"),)
        for notice in report.notices[:_NOTICES]:
            yield (Span(f"  {printable(told_notice(report, notice))}"),)
        if report.notices[_NOTICES:]:
            yield (Span(f"  and {len(report.notices) - _NOTICES} more", "quiet"),)
    yield from _footer(report)


def _raised(report: AuditReport) -> Iterator[Line]:
    if report.raised is not None:
        kind = getattr(report.raised, "kind", type(report.raised).__name__)
        told = f"{kind}: {report.raised}".splitlines()[0]
        yield Span("  raised    ", "label"), Span(printable(f"in the {report.raised_in}: {told}"), "RAISED")
        if report.raised_at:
            yield Span("  at        ", "label"), Span(printable(report.raised_at))


def _guilty(report: AuditReport, operation: AuditedOperation) -> Iterator[Line]:
    yield Span("  guilty    ", "label"), Span(printable(operation.path), "place"), Span(f"  ({operation.kind})")
    if operation.line:
        yield Span("  called    ", "label"), Span(printable(operation.line))
    if operation.definition:
        yield Span("  backward  ", "label"), Span(printable(operation.definition))
    if share := told_shares(report, operation):
        yield Span("  explains  ", "label"), Span(share)
    finding = foremost(report, operation)
    if finding is None:
        text = "no gradient goes back through it, though its result changes" if operation.cuts else "it stands out"
        yield Span("  cause     ", "label"), Span(text, "cause")
        return
    first, *rest = map(printable, finding.headline.splitlines() or [""])
    yield Span("  finding   ", "label"), Span(first)
    for text in rest:
        yield (Span(f"            {text}"),)
    for entry in finding.entries[:1]:
        yield Span("  element   ", "label"), Span(printable(f"{entry.output}, with respect to {entry.input}"), "place")
        values = f"numeric {number_or_nan(entry.numeric)}, analytic {number_or_nan(entry.analytic)}"
        allowed = "" if math.isnan(entry.allowed) else f", allowed difference {number(entry.allowed)}"
        yield Span("  values    ", "label"), Span(f"{values}{allowed}")
    if finding.hint:
        yield Span(f"  {name_of_hint(finding):<8}  ", "label"), Span(printable(finding.hint), "cause")


def foremost(report: AuditReport, operation: AuditedOperation) -> Finding | None:
    """The finding of an operation to read first; of the call that was checked for it, where that is another one."""
    checked = report.operations[operation.first].report
    found = operation.findings or (checked.findings if checked is not None else ())
    return found[0] if found else None


def _table(blamed: Sequence[AuditedOperation]) -> Iterator[Line]:
    if not blamed:
        return
    yield ()
    header = ("operation", "status", "explains", "line", "inputs")
    yield from aligned(header, map(_row, blamed[:_ROWS]), lambda row, column: row[1] if column == 1 else "")
    if blamed[_ROWS:]:
        yield (Span(f"  and {len(blamed) - _ROWS} more", "quiet"),)


def _row(operation: AuditedOperation) -> tuple[str, ...]:
    return (
        printable(operation.path),
        operation.word,
        told_share(operation),
        printable(operation.line),
        ", ".join(operation.inputs),
    )


def _footer(report: AuditReport) -> Iterator[Line]:
    yield ()
    counts = counted(report)
    yield Span("operations: ", "label"), Span(counts)
    if report.whole is not None:
        yield Span("whole: ", "label"), Span(f"{report.whole.verdict.name}, {len(report.whole.covered)} inputs covered")
    if report.deviation is not None:
        told = f"{number(report.deviation)} along one probe, round-off explains {number(report.allowed)}"
        yield Span("deviation: ", "label"), Span(told)
    if report.not_covered:
        yield Span("not covered: ", "label"), Span(printable("; ".join(report.not_covered)))
    for note in report.notes:
        yield Span("note: ", "label"), Span(printable(note))
    yield Span("cost: ", "label"), Span(f"{report.seconds:.3f} s; seed {report.seed}")


def counted(report: AuditReport) -> str:
    """How many operations there are, by status."""
    words = [operation.word for operation in report.operations if operation.word]
    told = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    by_hand = sum(operation.by_hand for operation in report.operations)
    return f"{len(report.operations)}, {by_hand} written by hand" + (f": {told}" if told else "")
