"""Claims at ties of three numbers or more, of which each alone moves nothing.

The median of three equal numbers stays where it is if one of them moves, to either side: both its one-sided derivatives
are zero. But the gradient that a sort or a median returns, 1 for one of them, is that at points as near as one likes,
where the three differ. So before a claim at such ties is called wrong, they are taken apart by a little, with the
element at each rank among them: a claim between the derivatives at these points is a valid subgradient.
"""

from __future__ import annotations

import numpy as np

from gradproof.core.draws import basis
from gradproof.core.precision import DOUBLE
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.suspects import Judged
from gradproof.core.types import Indices, Matrix, Vector

# Of fewer ties the two sides of each tell; of more, not every rank is tried.
_FEWEST, _MOST = 3, 16
# How far ties are taken apart, as a rung, and the part of that by which the element moves between its neighbours.
_APART, _BETWEEN = 20, 0.25
# A claim lies between the derivatives there within this part of what they differ by.
_AGREES = 2.0**-6


def excuse_ties(stencil: Stencil, judged: Judged, which: Indices) -> dict[int, tuple[float, float]]:
    """Call those WRONG suspects KINK whose claim lies between the derivatives beside the point, where ties are none.

    If all ties move together the function is smooth, so that claims about them must add up to its slope then.
    Returns the smallest and the largest derivative that was seen, by the number of the suspect.
    """
    problem, suspects, found = stencil.problem, judged.suspects, dict[int, tuple[float, float]]()
    if stencil.fixed or problem.coarsest_eps > DOUBLE or problem.noise is not None:
        return found
    # of what bends along the coordinate itself, its two sides tell
    for k in [k for k in which[judged.status[which] == Status.WRONG.rank].tolist() if k not in judged.sides]:
        row, column, claim = int(suspects.rows[k]), int(suspects.columns[k]), float(suspects.analytic[k])
        block = problem.inputs.block_at(column)
        tied = np.flatnonzero(problem.point[block.slice] == problem.point[column]) + block.start
        if block.parts > 1 or not _FEWEST <= len(tied) <= _MOST:
            continue
        seen = np.append(_slopes(stencil, column, tied, row), suspects.numeric[k])
        least, most = float(np.nanmin(seen)), float(np.nanmax(seen))
        slack = _AGREES * (most - least)
        if least < most and least - slack <= claim <= most + slack and _add_up(stencil, judged.mode, tied, row, slack):
            judged.status[k], found[k] = Status.KINK.rank, (least, most)
    return found


def _slopes(stencil: Stencil, column: int, tied: Indices, row: int) -> Vector:
    """The derivative of one output along one of some ties, with that at each rank among them."""
    others, gap = tied[tied != column], 2.0**-_APART * float(stencil.scale[column])
    step = _BETWEEN * gap
    points = np.tile(stencil.problem.point, (2 * len(tied), 1))
    for rank in range(len(tied)):
        here = points[2 * rank : 2 * rank + 2]
        here[:, others] += gap * np.delete(np.arange(len(tied)), rank)
        here[:, column] += gap * rank + np.array([step, -step])
    return _quotients(stencil, points, row, step)


def _add_up(stencil: Stencil, mode: Mode, tied: Indices, row: int, slack: float) -> bool:
    """Whether claims about ties add up to the slope of an output as all of them move together."""
    investigation, together = stencil.investigation, np.zeros(stencil.problem.inputs.size)
    together[tied] = 1.0
    step = 2.0**-_APART * float(stencil.scale[tied[0]])
    points = stencil.problem.point + np.multiply.outer([step, -step], together)
    if mode is Mode.REVERSE:
        claimed = float(investigation.vjp(basis(slice(row, row + 1), stencil.problem.outputs.size)[0]) @ together)
    else:
        claimed = float(investigation.jvp(together)[row])
    return abs(claimed - float(_quotients(stencil, points, row, step)[0])) <= slack


def _quotients(stencil: Stencil, points: Matrix, row: int, step: float) -> Vector:
    """Central differences of one output, of points ahead and behind in turn."""
    values = stencil.attempt(points, outputs=np.array([row], dtype=np.intp))[:, 0]
    return (values[0::2] - values[1::2]) / (2.0 * step)
