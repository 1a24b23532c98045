"""A sweep as text: the verdict, the report of the smallest case that fails, and a line for each other one."""

from __future__ import annotations

from collections.abc import Iterator

from gradproof.render import text
from gradproof.render.text import printable
from gradproof.results.report import Verdict
from gradproof.results.sweep import CaseReport, SweepReport

# Lines of cases that do not pass, after the first; the rest are counted.
_ROWS = 20


def plain(sweep: SweepReport) -> str:
    """The lines without colour."""
    return "\n".join(_lines(sweep))


def _lines(sweep: SweepReport) -> Iterator[str]:
    counts = {each: sum(case.report.verdict is each for case in sweep.cases) for each in Verdict}
    counted = ", ".join(f"{count} {each.name}" for each, count in counts.items() if count)
    yield f"{sweep.verdict.name}: {printable(sweep.subject)}, {len(sweep.cases)} cases: {counted}"
    if sweep:
        return
    first, *others = sweep.failures
    yield f"The smallest case: {printable(first.name)}"
    yield ""
    yield from (f"  {line}".rstrip() for line in text.plain(first.report).splitlines())
    if others:
        yield ""
        yield "Other cases that do not pass:"
        yield from (f"  {_told(case)}" for case in others[:_ROWS])
        if others[_ROWS:]:
            yield f"  and {len(others) - _ROWS} more"


def _told(case: CaseReport) -> str:
    finding = case.report.findings[0]
    headline = " ".join(finding.headline.split())
    return printable(f"{case.name}: {finding.status.name} {finding.property}: {headline}")
