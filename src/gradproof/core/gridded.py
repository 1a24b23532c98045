"""Outputs on a grid of numbers inside, which something smooth moves between its lines: x * (1 + erf(x)) at x = -5.

What cancellation leaves of the 1 lies on the grid of the numbers near it, far wider than those of the output. Steps that
are shorter than the way to the next line read the slope of the smooth part, and agree on it to the last digit; longer
ones go through many lines, and read the slope of the function. Nothing in either tells which is meant, but what lies
between them does: a grid is smooth but for lone jumps, all of one width, and a ripple is smooth throughout.
"""

from __future__ import annotations

import numpy as np

from gradproof.core.jumps import lone_jumps
from gradproof.core.precision import CLEAR
from gradproof.core.stencil import Stencil
from gradproof.core.types import Vector

# The rungs of steps that show the slope behind a grid, and how far from what is claimed that is at most, as a part of
# what differs: the long ones bend, and short ones see few lines.
_BEHIND, _LIKE = (2, 4, 7, 10, 13), 0.3
# The rungs that the way to the next line is looked for on, from the finest on, and walks that are tried.
_FINEST, _COARSEST, _TRIED = 30, 2, 3
# A step crosses a line if it is off by this part of what it would be by the slope behind the grid.
_CROSSES = 0.25
# Lines on a walk, as far as they are known to be apart, and its cells; jumps seen on it at least, and how alike they are.
_LINES, _CELLS, _FEWEST, _ALIKE = 4.5, 128, 3, 0.5


def grid_width(stencil: Stencil, row: int, column: int, *, measured: float, claimed: float) -> float | None:
    """How far the lines are apart that an output crosses as a coordinate moves; None: it is on no grid.

    `measured` is the slope between two lines, `claimed` that behind the grid; where it is another, there is none.
    """
    entry, apart = _Entry(stencil, row, column, measured), claimed - measured
    if not any(abs(entry.slope(rung) - apart) <= _LIKE * abs(apart) for rung in _BEHIND):
        return None
    tried = 0
    for rung in range(_FINEST, _COARSEST, -1):
        step = 2.0**-rung * entry.scale
        off = abs(entry.beyond([step])[0])
        if off >= _CROSSES * abs(apart) * step and tried < _TRIED:
            tried += 1
            width = _width(entry.beyond(off / abs(apart) * np.linspace(-_LINES / 2.0, _LINES / 2.0, _CELLS + 1)))
            if width is not None:
                return width
    return None


def _width(values: Vector) -> float | None:
    """How wide the jumps are, if there are some and all are alike.

    >>> x = np.linspace(0.0, 4.0, 129)
    >>> _width(np.floor(x + 0.3)), _width(np.where(x > 2.0, 1.0, 0.0)), _width(np.sin(x))
    (1.0, None, None)
    """
    (sizes,) = lone_jumps(values[:, None]).T
    several = np.sort(sizes)[-_FEWEST:]
    return float(several[-1]) if several[0] > _ALIKE * several[-1] else None


class _Entry:
    """One output as one coordinate moves, but for a slope that is known."""

    def __init__(self, stencil: Stencil, row: int, column: int, known: float) -> None:
        self._stencil, self._row, self._column, self._known = stencil, np.array([row]), column, known
        self.scale = float(stencil.scale[column])

    def beyond(self, steps: Vector | list[float]) -> Vector:
        """What it changes by over some steps, but for that slope; NaN where the function refuses them."""
        problem, columns = self._stencil.problem, np.full(len(steps), self._column)
        values, reached = self._stencil.moved(columns, np.asarray(steps), self._row)
        return values[:, 0] - problem.value[self._row] - self._known * (reached - problem.point[self._column])

    def slope(self, rung: int) -> float:
        """Its slope by one long step to either side, but for that one."""
        step = 2.0**-rung * self.scale
        above, below = self.beyond([step, -step])
        return float(above - below) / (2.0 * step)
