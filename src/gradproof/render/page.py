"""What a page shows, in its order: reports, groups of findings with one cause, their figures and anchors.

Figures have a share of the page that they may take: the worst findings get theirs first, and where the share ends, the
page says so. So a page stays small, however many large maps a run has.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from gradproof.core.problem import Mode
from gradproof.render.figures import Figure, heat_map, ladder_plot, slice_plot
from gradproof.render.groups import excess_of, groups_of
from gradproof.render.maps import finding_maps
from gradproof.results.exhibits import Exhibit
from gradproof.results.finding import Finding
from gradproof.results.report import Report
from gradproof.results.run import Checked, Run

# Characters that the figures of a page may take: their page stays below 600 kB.
_SHARE = 350_000
# Up to so many reports that do not pass are open from the start.
_FEW = 3


@dataclass(frozen=True, slots=True)
class ShownExhibit:
    """One entry with its slice and its ladder."""

    exhibit: Exhibit
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """A finding with its figures; `left_out` counts those that there was no room for."""

    finding: Finding
    anchor: str
    title: str
    brief: str
    maps: tuple[Figure, ...]
    exhibits: tuple[ShownExhibit, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """Findings with one cause; a group of one has no heading of its own."""

    cause: str
    anchor: str
    findings: tuple[ShownFinding, ...]

    @property
    def together(self) -> bool:
        return len(self.findings) > 1


@dataclass(frozen=True, slots=True)
class ShownReport:
    """A report of the page, below the anchor of its name."""

    checked: Checked
    anchor: str
    groups: tuple[ShownGroup, ...]
    open: bool

    @property
    def report(self) -> Report:
        return self.checked.report

    @property
    def cause(self) -> str:
        """The likely cause of what is worst, or what it says."""
        if self.report.ok or not self.groups:
            return ""
        worst = self.groups[0].findings[0].finding
        return self.groups[0].cause or " ".join(worst.headline.split())


class _Room:
    """What is left of the share of figures."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def take(self, figure: Figure) -> bool:
        needed = len(json.dumps(figure.data)) + len(figure.description)
        if needed > self._left:
            return False
        self._left -= needed
        return True


def shown(run: Run) -> list[ShownReport]:
    """The reports of a run as a page shows them: those that fail first."""
    ordered = sorted(run.checks, key=lambda each: each.rank) if len(run.checks) > 1 else list(run.checks)
    few = sum(each.word == "FAIL" for each in ordered) <= _FEW
    room = _Room(_SHARE)
    return [
        ShownReport(
            each,
            f"report-{number}",
            _groups(each.report, f"report-{number}-" if len(ordered) > 1 else "", room),
            few and each.word == "FAIL",
        )
        for number, each in enumerate(ordered, 1)
    ]


def _groups(report: Report, prefix: str, room: _Room) -> tuple[ShownGroup, ...]:
    made: list[ShownGroup] = []
    left = list(report.exhibits)
    count = 0
    for number, group in enumerate(groups_of(report.findings), 1):
        findings: list[ShownFinding] = []
        for finding in group.findings:
            count += 1
            findings.append(_finding(finding, f"{prefix}finding-{count}", left, room))
        made.append(ShownGroup(group.cause, f"{prefix}cause-{number}", tuple(findings)))
    return tuple(made)


def _finding(finding: Finding, anchor: str, left: list[Exhibit], room: _Room) -> ShownFinding:
    maps = [heat_map(drawn, finding.entries) for drawn in finding_maps(finding)]
    kept = [figure for figure in maps if room.take(figure)]
    mine = [exhibit for exhibit in left if exhibit.entry in finding.entries]
    for exhibit in mine:
        left.remove(exhibit)
    exhibits = [ShownExhibit(each, (slice_plot(each), ladder_plot(each))) for each in mine]
    drawn = [each for each in exhibits if all(map(room.take, each.figures))]
    missing = len(maps) - len(kept) + 2 * (len(exhibits) - len(drawn))
    return ShownFinding(finding, anchor, _title(finding), _brief(finding), tuple(kept), tuple(drawn), missing)


def _title(finding: Finding) -> str:
    """A finding in a line: its property, and between what and what."""
    if not finding.entries:
        return f"{finding.property}: {next(iter(finding.headline.splitlines()), '')}"
    worst = finding.entries[0]
    mode = f" ({finding.mode})" if finding.mode is not None else ""
    return f"{finding.property}{mode}: {worst.output.block.label} with respect to {worst.input.block.label}"


def _brief(finding: Finding) -> str:
    """The same in the few words of a table of contents."""
    if not finding.entries:
        return finding.property
    worst = finding.entries[0]
    mode = f", {finding.mode}" if finding.mode is Mode.FORWARD else ""
    property_ = "" if finding.property == "jacobian" else f"{finding.property}: "
    return f"{property_}{worst.output.block.label} / {worst.input.block.label}{mode}"


def excess_text(finding: Finding) -> str:
    """How far its worst entry is off, in units of what is allowed."""
    excess = excess_of(finding)
    return f"{excess:.2g} × allowed" if excess else ""
