"""One element from both sides, by two steps each: enough to call a claim wrong that lies beyond both.

The slopes to the left and to the right, by a step and by one about four times as long, are known to within what the two
steps differ by. Where they are alike there is no kink, and elsewhere every number between them is a valid derivative: a
claim is wrong if it is clearly beyond. A jump has no such slopes, since they grow as the steps shrink, nor has a wave
that is shorter than the steps: of these nothing is said.
"""

from __future__ import annotations

import numpy as np

from gradproof.core.precision import APART, BEND, CLEAR
from gradproof.core.problem import Mode
from gradproof.core.resolution import outruns
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.suspects import Judged, Suspects
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Flags, Matrix, Vector

COARSE = 9
"""The coarsest rung that slopes to one side say enough on."""
FINEST = 31
"""The finest one that is taken: so short that hardly a wave is straddled, and round-off is a millionth of a slope."""
# The second step, in units of the first: no whole number, for which waves of a whole number of the first would look
# straight; and how much longer than it a coordinate must be, for zero not to lie between.
_LONGER, _ROOM = 3.618, 2.0
# By how many times more a function changes over the second step: as many where it is straight, their square at an
# extremum.
_LEAST, _MOST = 3.0, 16.0


def from_both_sides(
    stencil: Stencil, tolerances: Tolerances, mode: Mode, suspects: Suspects, rung: int
) -> Judged | None:
    """Those of the suspects of one coordinate that steps on a rung settle, as WRONG or KINK; None: they settle none."""
    column = int(suspects.columns[0])
    own, step = abs(float(stencil.problem.point[column])), 2.0**-rung * float(stencil.scale[column])
    if 0.0 < own <= _ROOM * _LONGER * step:
        return None
    (left, right), bar = _slopes(stencil, suspects, step)
    with np.errstate(all="ignore"):
        size = np.fmax(np.abs(left), np.abs(right))
        allowed = tolerances.of(size, suspects.rows, suspects.columns, bar)
        beyond = np.fmax(np.fmin(left, right) - suspects.analytic, suspects.analytic - np.fmax(left, right))
        wrong = (beyond > allowed + bar) & (bar <= CLEAR * beyond)
        wrong |= ~np.isfinite(suspects.analytic) & np.isfinite(bar)
        wrong &= ~outruns(stencil, suspects, size + bar, wrong)
        apart = np.abs(right - left)
        kinked = (apart > APART * bar + allowed) & (bar <= CLEAR * apart)
        which = np.flatnonzero(wrong | (kinked & (beyond <= 0.0)))
        if not len(which):
            return None
        found = suspects.take(which)
        found.numeric[:], found.tolerance[:] = ((left + right) / 2.0)[which], allowed[which]
        off = np.abs(found.analytic - found.numeric)
        found.excess[:] = np.nan_to_num(off / (allowed + bar)[which], nan=np.inf)
    sides = {new: (float(left[old]), float(right[old])) for new, old in enumerate(which.tolist()) if kinked[old]}
    status = np.where(wrong[which], Status.WRONG.rank, Status.KINK.rank)
    return Judged(mode, found, bar[which], status, sides)


def _slopes(stencil: Stencil, suspects: Suspects, step: float) -> tuple[Matrix, Matrix]:
    """The slopes to the left and to the right of the suspects' outputs, and the error bar of either."""
    column = int(suspects.columns[0])
    steps = np.array([-step, step, -_LONGER * step, _LONGER * step])
    values, reached = stencil.moved(np.full(4, column, dtype=np.intp), steps, suspects.rows)
    with np.errstate(all="ignore"):
        away = (reached - stencil.problem.point[column])[:, None]
        slopes = (values - stencil.problem.value[suspects.rows]) / away
        apart = np.abs(slopes[:2] - slopes[2:]).max(axis=0)
        apart[(slopes == 0).all(axis=0)] = np.inf  # what does not move by so little may be a staircase
        noise = stencil.noise[suspects.rows]
        apart[~_is_resolved(values - stencil.problem.value[suspects.rows], noise)] = np.inf
        return slopes[:2], apart + noise / step


def _is_resolved(changes: Matrix, noise: Vector) -> Flags:
    """Where a function changes over the two steps as one does that is straight or curved there, to either side.

    Over steps that are longer than waves of it, it changes by any amounts.
    """
    near, far = changes[:2], changes[2:]
    ratio = far / near
    resolved: Flags = ((ratio >= _LEAST) & (ratio <= _MOST)) | (np.abs(far) <= _LONGER * BEND * noise)
    return resolved[0] & resolved[1]
