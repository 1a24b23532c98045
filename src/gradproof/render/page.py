"""What a page shows, in its order: reports, groups of findings with one cause, their figures and anchors.

Tables and figures have a share of the page that they may take: the worst findings get theirs first, and where the share
ends, the page says so. So a page stays small, however many findings and large maps a run has.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from gradproof.core.problem import Mode
from gradproof.render.figures import Figure, heat_map, ladder_plot, slice_plot
from gradproof.render.groups import excess_of, groups_of
from gradproof.render.maps import finding_maps
from gradproof.render.text import incomparable, name_of_hint
from gradproof.results.exhibits import Exhibit
from gradproof.results.finding import Finding
from gradproof.results.pairs import Pair
from gradproof.results.report import Report
from gradproof.results.run import Checked, Run

# What a page is to stay below, in characters; and what is there in any case: the page itself, each check, each pair of
# an output and an input, the title of each finding.
_MOST, _PAGE, _CHECK, _PAIR, _TITLE = 590_000, 60_000, 1_900, 650, 600
# The table of a finding's entries: itself, and each row.
_TABLE, _ROW = 1_500, 450
# From so many checks on, those that pass have no table of their pairs.
_MANY = 50
# Up to so many reports that do not pass are open from the start.
_FEW = 3


@dataclass(frozen=True, slots=True)
class ShownExhibit:
    """One entry with its slice and its ladder."""

    exhibit: Exhibit
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """A finding with its figures; `left_out` counts those that there was no room for.

    One that is not `whole` is there by its title only: there was no room for its entries.
    """

    finding: Finding
    anchor: str
    title: str
    brief: str
    maps: tuple[Figure, ...]
    exhibits: tuple[ShownExhibit, ...]
    left_out: int
    whole: bool


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """Findings with one cause; a group of one has no heading of its own."""

    cause: str
    anchor: str
    findings: tuple[ShownFinding, ...]

    @property
    def together(self) -> bool:
        return len(self.findings) > 1

    @property
    def word(self) -> str:
        """What they have in common: their cause, or a hint."""
        return name_of_hint(self.findings[0].finding)


@dataclass(frozen=True, slots=True)
class ShownReport:
    """A report of the page, below the anchor of its name."""

    checked: Checked
    anchor: str
    groups: tuple[ShownGroup, ...]
    pairs: tuple[Pair, ...]
    open: bool

    @property
    def report(self) -> Report:
        return self.checked.report

    @property
    def shortened(self) -> int:
        """How many of the findings are there by their titles only."""
        return sum(not finding.whole for group in self.groups for finding in group.findings)

    @property
    def cause(self) -> str:
        """The likely cause of what is worst, or what it says."""
        if self.report.ok or not self.groups:
            return ""
        worst = self.groups[0].findings[0].finding
        return self.groups[0].cause or " ".join(worst.headline.split())


class _Room:
    """What is left of the share of tables and figures."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def draw(self, figure: Figure) -> bool:
        return self.take(len(json.dumps(figure.data)) + 2 * len(figure.description) + 700)

    def take(self, characters: int) -> bool:
        if characters > self._left:
            return False
        self._left -= characters
        return True


def shown(run: Run) -> list[ShownReport]:
    """The reports of a run as a page shows them: those that fail first."""
    ordered = sorted(run.checks, key=lambda each: each.rank) if len(run.checks) > 1 else list(run.checks)
    few = sum(each.word == "FAIL" for each in ordered) <= _FEW
    pairs = [() if len(ordered) > _MANY and each.report else each.report.pairs for each in ordered]
    findings = sum(len(each.report.findings) for each in ordered)
    room = _Room(_MOST - _PAGE - _CHECK * len(ordered) - _PAIR * sum(map(len, pairs)) - _TITLE * findings)
    plans = [_planned(each.report, room) for each in ordered]  # all tables before the first figure
    return [
        ShownReport(
            each,
            f"report-{number}",
            _groups(each.report, plan, f"report-{number}-" if len(ordered) > 1 else "", room),
            listed,
            few and each.word == "FAIL",
        )
        for number, (each, plan, listed) in enumerate(zip(ordered, plans, pairs, strict=True), 1)
    ]


Plan = list[tuple[str, list[tuple[Finding, bool]]]]


def _planned(report: Report, room: _Room) -> Plan:
    """The groups of a report by their causes, and of each finding whether it is there as a whole."""

    def fits(finding: Finding) -> bool:
        return not finding.entries or room.take(_TABLE + _ROW * len(finding.entries))

    return [(group.cause, [(each, fits(each)) for each in group.findings]) for group in groups_of(report.findings)]


def _groups(report: Report, plan: Plan, prefix: str, room: _Room) -> tuple[ShownGroup, ...]:
    made: list[ShownGroup] = []
    left = list(report.exhibits)
    count = 0
    for number, (cause, findings) in enumerate(plan, 1):
        drawn: list[ShownFinding] = []
        for finding, whole in findings:
            count += 1
            drawn.append(_finding(finding, f"{prefix}finding-{count}", left, room, whole=whole))
        made.append(ShownGroup(cause, f"{prefix}cause-{number}", tuple(drawn)))
    return tuple(made)


def _finding(finding: Finding, anchor: str, left: list[Exhibit], room: _Room, *, whole: bool) -> ShownFinding:
    mine = [exhibit for exhibit in left if exhibit.entry in finding.entries]
    for exhibit in mine:
        left.remove(exhibit)
    titles = _title(finding), _brief(finding)
    if not whole:
        return ShownFinding(finding, anchor, *titles, (), (), 0, whole)
    maps = [heat_map(drawn, finding.entries) for drawn in finding_maps(finding)]
    kept = [figure for figure in maps if room.draw(figure)]
    exhibits = [ShownExhibit(each, (slice_plot(each), ladder_plot(each))) for each in mine]
    drawn = [each for each in exhibits if all(map(room.draw, each.figures))]
    missing = len(maps) - len(kept) + 2 * (len(exhibits) - len(drawn))
    return ShownFinding(finding, anchor, *titles, tuple(kept), tuple(drawn), missing, whole)


def _title(finding: Finding) -> str:
    """A finding in a line: its property, and between what and what."""
    if not finding.entries:
        return f"{finding.property}: {next(iter(finding.headline.splitlines()), '')}"
    worst = finding.entries[0]
    kinds = [str(finding.mode or ""), "second order" if finding.order == 2 else ""]
    mode = f" ({told})" if (told := ", ".join(filter(None, kinds))) else ""
    return f"{finding.property}{mode}: {worst.output.block.label} with respect to {worst.input.block.label}"


def _brief(finding: Finding) -> str:
    """The same in the few words of a table of contents."""
    if not finding.entries:
        return finding.property
    worst = finding.entries[0]
    mode = f", {finding.mode}" if finding.mode is Mode.FORWARD else ""
    mode += ", second order" if finding.order == 2 else ""
    property_ = "" if finding.property == "jacobian" else f"{finding.property}: "
    return f"{property_}{worst.output.block.label} / {worst.input.block.label}{mode}"


def excess_text(finding: Finding) -> str:
    """How far its worst entry is off, in units of what is allowed; of what is no number, that it is none."""
    excess = excess_of(finding)
    if finding.entries and math.isnan(finding.entries[0].excess or 0.0):
        return f"worst: {incomparable(finding.entries[0])}"
    return f"worst {excess:.2g} × allowed" if 0.0 < excess < math.inf else ""


def hint_title(finding: Finding) -> str:
    """What a page calls its hint."""
    return "Likely cause" if name_of_hint(finding) == "cause" else "Hint"
