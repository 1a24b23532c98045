"""Claims about outputs that stand still: before one is called wrong, longer steps ask whether it is on a grid."""

from __future__ import annotations

from collections.abc import Sequence

from gradproof.core.cost import BudgetExhausted
from gradproof.core.investigation import Investigation
from gradproof.core.ladder import rungs
from gradproof.core.status import Status
from gradproof.core.swallowed import on_its_grid
from gradproof.results.finding import Entry, Finding

# Entries that are looked at, each of another pair.
_TRIED = 4
# What a claim comes to over the longest step is less than this power of eps, if a number inside can swallow that: one
# that is a hundred million in double precision can.
_SWALLOWED = 0.5


def is_swallowed(investigation: Investigation, findings: Sequence[Finding]) -> bool:
    """Whether outputs that stand still, though not by what is claimed, are on a grid; that is their noise then."""
    if investigation.problem.noise is not None:
        return False
    still = [next(filter(_Still(investigation), each.entries), None) for each in findings]
    places = [(entry.output.coordinate, entry.input.coordinate) for entry in still if entry is not None]
    if not places:
        return False
    try:
        found = on_its_grid(investigation, places[:_TRIED])
    except BudgetExhausted:
        return False  # what was found stands
    if found is None:
        return False
    investigation.take_as(found.problem)
    investigation.scale = found.scale
    return True


class _Still:
    """Whether an entry stands still, of which a slope is claimed that a number inside may swallow."""

    def __init__(self, investigation: Investigation) -> None:
        self._problem, self._scale = investigation.problem, investigation.scale

    def __call__(self, entry: Entry) -> bool:
        if entry.status is not Status.WRONG or entry.sides is not None or entry.numeric != 0:
            return False
        column = entry.input.coordinate
        eps = self._problem.inputs.block_at(column).eps
        longest = 2.0 ** -rungs(eps)[0] * float(self._scale[column])
        return 0.0 < abs(entry.analytic) * longest < eps**_SWALLOWED
