"""Outputs on a grid of numbers inside, which something smooth moves between its lines: x * (1 + erf(x)) at x = -5.

What cancellation leaves of the 1 lies on the grid of the numbers near it, far wider than those of the output. Steps
that are shorter than the way to the next line read the slope of the smooth part, and agree on it to the last digit;
longer ones go through many lines, and read the slope of the function. Nothing in either tells which is meant, but what
lies between them does: a grid is smooth but for lone jumps, all of one width, and a ripple is smooth throughout.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradproof.core.jumps import lone_jumps
from gradproof.core.precision import CLEAR
from gradproof.core.stencil import Stencil
from gradproof.core.types import Vector
from gradproof.core.visited import Visited

# The rungs of steps that show the slope behind a grid: the long ones bend, and short ones see few lines. How far from
# what is claimed it is at most, as a part of what differs; and from what was measured, by the first, if there is none.
_BEHIND, _LIKE, _SAME = (4, 7, 10, 13, 2), 0.3, 0.1
# The rungs that the way to the next line is looked for on. A step crosses it if it is off by this part of what it would
# be by the slope behind the grid.
_FINEST, _COARSEST, _CROSSES = 30, 3, 0.25
# Lines on a walk, by how far they seem to be apart, and its cells; jumps that are seen at least, and how alike.
_LINES, _CELLS, _FEWEST, _ALIKE = 4.5, 128, 3, 0.5
# The part of the way between two slopes, from one line to the next, that a jump makes up for at least.
_MAKES_UP = 0.5


def grid_width(stencil: Stencil, row: int, column: int, *, measured: float, claimed: float) -> float | None:
    """How far the lines are apart that an output crosses as a coordinate moves; None: it is on no grid.

    `measured` is its slope between two lines, and `claimed` must be that behind the grid, more or less.
    """
    entry, apart = _Entry(stencil, row, column, measured), claimed - measured
    first = entry.slope(_BEHIND[0])
    # as nearly always, or there is the bend of a smooth function in it
    straight = first if abs(first) <= _SAME * abs(apart) else (4.0 * entry.slope(_BEHIND[0] + 1) - first) / 3.0
    if abs(straight) <= _SAME * abs(apart):
        stencil.investigation.once(Visited).same_from_afar.add((row, column))
        return None
    if not any(abs(entry.slope(rung) - apart) <= _LIKE * abs(apart) for rung in _BEHIND):
        return None
    before = 0.0
    for rung in range(_FINEST, _COARSEST - 1, -1):
        between = entry.distance(rung, apart)
        if between >= _CROSSES * entry.step(rung):
            if before > CLEAR * between:  # it bends
                return None
            walk = between * np.linspace(-_LINES / 2.0, _LINES / 2.0, _CELLS + 1)
            width = _width(entry.beyond(walk))
            # jumps that are less than what the two slopes differ by from line to line are round-off of the walk
            return None if width is None or width < _MAKES_UP * between * abs(apart) else width
        before = between
    return None


def _width(values: Vector) -> float | None:
    """How wide the jumps of a function are, if there are some and these are alike.

    >>> x = np.linspace(0.0, 4.0, 129)
    >>> _width(np.floor(x + 0.3)), _width(np.where(x > 2.0, 1.0, 0.0)), _width(np.sin(x))
    (1.0, None, None)
    """
    sizes = np.sort(lone_jumps(values[:, None])[:, 0])[-_FEWEST:]
    return float(sizes[-1]) if sizes[0] > _ALIKE * sizes[-1] else None


class _Entry:
    """One output as one coordinate moves, but for a slope that is known."""

    def __init__(self, stencil: Stencil, row: int, column: int, known: float) -> None:
        self._stencil, self._row, self._column, self._known = stencil, np.array([row]), column, known

    def step(self, rung: int) -> float:
        return 2.0**-rung * float(self._stencil.scale[self._column])

    def beyond(self, steps: Sequence[float] | Vector) -> Vector:
        """What it changes by over some steps, but for that slope; NaN where the function refuses them."""
        problem, columns = self._stencil.problem, np.full(len(steps), self._column)
        values, reached = self._stencil.moved(columns, np.asarray(steps), self._row)
        with np.errstate(all="ignore"):
            return values[:, 0] - problem.value[self._row] - self._known * (reached - problem.point[self._column])

    def slope(self, rung: int) -> float:
        """Its slope by one step to either side, but for that one."""
        step = self.step(rung)
        with np.errstate(all="ignore"):
            return float(np.subtract(*self.beyond([step, -step]))) / (2.0 * step)

    def distance(self, rung: int, slope: float) -> float:
        """How far it takes, by a slope, to change by what one step does."""
        return abs(float(self.beyond([self.step(rung)])[0]) / slope)
