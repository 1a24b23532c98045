"""A report in one line: for `repr`, and for lists in which each report has one."""

from __future__ import annotations

from gradproof.core.problem import Mode
from gradproof.core.space import Place
from gradproof.render.groups import groups_of
from gradproof.render.text import printable
from gradproof.results.finding import Finding
from gradproof.results.report import Report

# Longer texts are cut: a line is to be read at a glance.
_LONGEST = 160


def one_line(report: Report) -> str:
    """The verdict, the function, and of what does not pass the place and the cause.

    A cause is named only once, without the number of entries that bear it out. Of a function that is made inside
    another, the other one is left out: there is no room for both and a cause.
    """
    subject = report.subject.rpartition("<locals>.")[2] or "a function"
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
    mode = f", {finding.mode}" if finding.mode is Mode.FORWARD else ""
    mode += ", second order" if finding.order == 2 else ""
    return f"{_spot(worst.output)} / {_spot(worst.input)}{mode}: {why}"


def _spot(place: Place) -> str:
    """An element as a reader of code would write it: `weight[1, 1]`, or `output 0[3]` of what has no name."""
    return f"{place.block.name or place.block.label}{list(place.element) if place.element else ''}"


def shortened(text: str, longest: int = _LONGEST) -> str:
    """
    >>> shortened("a sentence that is long", 12)
    'a sentence …'
    """
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()} …"
