"""Claims about outputs that stand still: before one is called wrong, longer steps ask whether it is on a grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradproof.core.drowned import is_buried
from gradproof.core.investigation import Investigation
from gradproof.core.ladder import rungs
from gradproof.core.options import Options
from gradproof.core.status import Status
from gradproof.core.swallowed import SWALLOWED, Grid, Standing, on_its_grid
from gradproof.properties.property import Compare, Found
from gradproof.results.finding import Entry, Finding

# Entries that are looked at, each of another pair.
_TRIED = 4


def in_grid_noise(
    investigation: Investigation, options: Options, compared: Compare, findings: Sequence[Finding]
) -> Iterable[Found] | None:
    """What steps find that leave a grid point, with the width of the grid for noise; None: nothing is on a grid."""
    grid = _grid(investigation, findings)
    if grid is None:
        return None
    investigation.take_as(grid.problem, scale=grid.scale)
    return compared(investigation, options)


def _grid(investigation: Investigation, findings: Sequence[Finding]) -> Grid | None:
    """Where outputs stand still, though not by what is claimed: the grid that they are on."""
    if investigation.problem.noise is not None:
        return None
    still = [next(filter(_Still(investigation), each.entries), None) for each in findings]
    places = [_standing(investigation, entry) for entry in still if entry is not None]
    return on_its_grid(investigation, places[:_TRIED]) if places else None


def _standing(investigation: Investigation, entry: Entry) -> Standing:
    column = entry.input.coordinate
    return Standing(entry.output.coordinate, column, is_buried(investigation, column, entry.difference))


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
        return 0.0 < abs(entry.analytic) * longest < eps**SWALLOWED
