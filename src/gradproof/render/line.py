"""A report in one line: for `repr`, and for lists in which each report has one."""

from __future__ import annotations

from gradproof.render.groups import groups_of
from gradproof.render.text import printable
from gradproof.results.finding import Finding
from gradproof.results.report import Report

# Longer texts are cut: a line is to be read at a glance.
_LONGEST = 160


def one_line(report: Report) -> str:
    """The verdict, the function, and of what does not pass the place and the cause.

    A cause is named only once, without the number of entries that bear it out.
    """
    subject = report.subject or "a function"
    if report.ok or not report.findings:
        seen = f"{report.entries} Jacobian entries"
        return printable(f"{report.verdict.name}: {subject}, {seen}, {report.cost.seconds:.3g} s")
    return shortened(printable(f"{report.verdict.name}: {subject}, {told(report.findings[0])}"))


def told(finding: Finding) -> str:
    """Where a finding is, and its cause: what a list of failures has room for."""
    (group,) = groups_of([finding])
    why = group.cause or "no usual cause fits"
    if not finding.entries:
        return f"{finding.property}: {' '.join(finding.headline.split())}" + (f": {group.cause}" if group.cause else "")
    worst = finding.entries[0]
    mode = f", {finding.mode}" if finding.mode is not None else ""
    return f"{worst.output} / {worst.input}{mode}: {why}"


def shortened(text: str, longest: int = _LONGEST) -> str:
    """
    >>> shortened("a sentence that is long", 12)
    'a sentence …'
    """
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()} …"
