"""Structure that is finer than the steps of a ladder: waves, bumps and poles, told from kinks and from noise.

The ladder ends where round-off of an ordinary function begins to blur its quotients. A function that varies over less
than that, sin(1e7 x) at x = 1, looks to it like a kink, like noise, or like the mean of what it does. Before anything
of the kind is said, the function is looked at with the steps that are left, down to a few dozen spacings of the numbers
themselves: round-off is wide there, but so is what is in question. That of the output is not all: 1e7 x is rounded
before its sine is taken, which is as much as to say that x is.

Of a kink there is evidence if the slopes of the two sides differ, and by the same at ever shorter steps; of a jump, if
what the function leaps by stays the same. Where a bend shrinks with the step, the point is an ordinary one.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

import numpy as np

from gradproof.core.beside import Beside, look_beside, of_argument, slopes_to_both_sides
from gradproof.core.jacobians import Screened
from gradproof.core.ladder import Estimate, settle
from gradproof.core.precision import APART, BEND, DOUBLE
from gradproof.core.stencil import Stencil
from gradproof.core.suspects import Suspects
from gradproof.core.types import ALL, Flags, Indices, Matrix, Vector

# Rungs of the look, coarse to fine; the finest steps are 128 spacings of the largest coordinate long.
_RUNGS = (24, 27, 30, 33, 36, 39, 42, 45)
# In ratios that are no powers of two, as in the ladder; of few bits, so that they can be taken exactly.
_UNEVEN = (1.0, 1.1875, 0.875, 1.125, 0.9375, 1.25, 0.8125, 1.0625)
_SIZES = tuple(2.0**-rung * uneven for rung, uneven in zip(_RUNGS, _UNEVEN, strict=True))
# Between neighbouring rungs, what stays the same does so within this factor; what shrinks does so by this one at least.
_SAME, _SHRINKS = 1.5, 0.5
# A bend that grows by more than this from one rung to the next is noise, or a leap.
_GROWS = 3.0
# How many times its round-off a bend must be, on the finest rung that it is looked for on.
_VISIBLE = 8.0
# A claim of a slope that is steeper than all that steps see by this factor may be of waves that are shorter than these.
_STEEPER = 2.0**8
# A slope is the one that is claimed, or the one that was measured, if it is this part of their difference away at most.
_ALIKE = 0.25
# Which of the investigation's random draws moves several coordinates at once.
_ALL_AT_ONCE = 3
# Rungs on which a kink or a jump has to show.
_RUN = 3
# Rungs that are short enough for all but what may as well be noise: waves of a few thousand spacings of the numbers.
_PLAIN = 5


class Shape(enum.IntEnum):
    """What a function does around a point, as short steps see it."""

    UNCLEAR = 0
    SMOOTH = 1
    KINK = 2
    JUMP = 3


@dataclass(frozen=True, slots=True)
class FineLook:
    """Some outputs along one coordinate, by short steps: the derivative, its error bar, and the sides of a kink."""

    shape: Indices
    """The `Shape` of each output."""
    estimate: Estimate
    left: Estimate
    right: Estimate
    plain: Flags
    """Where the longer half of the steps suffice. What only the shortest ones see may as well be noise."""
    nearby: Vector
    """What slopes change by at a kink beside the point; zero where none was found."""

    @staticmethod
    def unneeded(count: int) -> FineLook:
        """That which was not taken."""
        nothing = Estimate(np.full(count, np.nan), np.full(count, np.inf), 0)
        unclear, nowhere = np.full(count, Shape.UNCLEAR, dtype=np.intp), np.zeros(count, bool)
        return FineLook(unclear, nothing, nothing, nothing, nowhere, np.zeros(count))


def can_look(stencil: Stencil) -> bool:
    """Whether there are shorter steps than the ladder's: not in low precision, and not in noise that was measured."""
    problem = stencil.problem
    return not stencil.fixed and problem.noise is None and float(stencil.eps.max(initial=DOUBLE)) <= DOUBLE


def can_reach(stencil: Stencil, columns: Indices) -> Flags:
    """Along which coordinates enough of the short steps are no longer than the coordinate itself, zeros apart.

    Shorter coordinates have steps of their own size.
    """
    own = np.abs(stencil.problem.point[columns])
    return (own == 0) | (own >= _SIZES[-_RUN - 1] * stencil.scale[columns])


def outruns(stencil: Stencil, suspects: Suspects, steepest: Vector, which: Flags) -> Flags:
    """For which of some suspects the function moves far more over the shortest step than a slope explains.

    `steepest` is how large that may be, as longer steps say, which have then seen nothing of what the function does.
    Only claims of far steeper slopes are looked at.
    """
    found = np.zeros(len(suspects), dtype=np.bool_)
    with np.errstate(invalid="ignore"):
        steep = which & (np.abs(suspects.analytic) > _STEEPER * steepest) & np.isfinite(suspects.analytic)
    here = np.flatnonzero(steep)
    if not can_look(stencil) or not len(here):
        return found
    columns = np.unique(suspects.columns[here])
    screened = stencil.investigation.screened
    if len(columns) > 1 and screened is not None and not _moves_more(stencil, screened, suspects.rows[here], columns):
        return found
    for column in columns:
        at = here[suspects.columns[here] == column]
        rows, step = suspects.rows[at], _SIZES[-1] * stencil.scale[column]
        explained = _VISIBLE * (stencil.noise[rows] + steepest[at] * step)
        found[at] = True
        for side in (step, -step):  # the other one, where it moves so far on the first
            if found[at].any():
                values, _ = stencil.moved(np.array([column], dtype=np.intp), np.array([side]), rows)
                found[at] &= np.abs(values[0] - stencil.problem.value[rows]) > explained
    return found


def goes_with(stencil: Stencil, row: int, column: int, *, measured: float, claimed: float) -> float | None:
    """The slope that a function has over a step as short as round-off leaves: the one claimed, or the one measured.

    That step is the shortest on which the two can be told apart. None: it has neither, or no step tells. One
    evaluation, mostly.
    """
    apart, output = abs(claimed - measured), np.array([row], dtype=np.intp)
    noise = float((stencil.noise[output] + of_argument(stencil, column, np.array([abs(claimed) + apart])))[0])
    visible = [size for size in _SIZES if apart * size * stencil.scale[column] >= _VISIBLE * 2.0 * noise]
    if not visible:
        return None
    slopes = list[float]()
    for side in (visible[-1], -visible[-1]):
        step = side * stencil.scale[column]
        values, reached = stencil.moved(np.array([column], dtype=np.intp), np.array([step]), output)
        moved = float(values[0, 0] - stencil.problem.value[row])
        slopes.append(moved / float(reached[0] - stencil.problem.point[column]))
        if abs(slopes[0] - measured) <= _ALIKE * apart:
            return measured
    return claimed if abs(sum(slopes) / 2.0 - claimed) <= _ALIKE * apart else None


def _moves_more(stencil: Stencil, screened: Screened, rows: Indices, columns: Indices) -> bool:
    """Whether some outputs move by more than slopes explain, if all of some coordinates move over the shortest step.

    One evaluation. Signs and sizes are random, so that what several coordinates move does not cancel.
    """
    outputs, point = np.unique(rows), stencil.problem.point.copy()
    step = _SIZES[-1] * stencil.scale[columns] * stencil.investigation.draw(len(point), _ALL_AT_ONCE)[columns]
    point[columns] += step
    (values,) = stencil.attempt(point[None], ALL, outputs)
    with np.errstate(invalid="ignore"):
        explained = stencil.noise[outputs] + np.abs(screened.values[np.ix_(outputs, columns)]) @ np.abs(step)
        return not bool((np.abs(values - stencil.problem.value[outputs]) <= _VISIBLE * explained).all())


def look_finely(stencil: Stencil, column: int, outputs: Indices) -> FineLook:
    """The derivatives of some outputs along a coordinate by all short steps that round-off leaves."""
    slopes, floors = slopes_to_both_sides(stencil, column, outputs, _SIZES)
    left, right = slopes
    central = (left + right) / 2.0
    straddling = _straddling(right - left, 2.0 * floors)
    near = np.where(straddling, np.nan, central)
    value, error = _settled(near, floors, order=2)
    shape = _shapes(right - left, central, 2.0 * floors)
    # a function that does not move may be a staircase, unless what moved it before would be round-off now
    still = (slopes == 0).all(axis=0)
    stops = still[1:] & (np.abs(central[:-1]) > BEND * floors[1:])
    between_steps = stops.any(axis=0) | still[0]
    error[between_steps], shape[between_steps] = np.inf, Shape.UNCLEAR
    sides = [_settled(side, 2.0 * floors, order=1) for side in slopes]
    first, bar = _settled(near[:_PLAIN], floors[:_PLAIN], order=2)
    with np.errstate(invalid="ignore"):
        plain = _shapes((right - left)[:_PLAIN], central[:_PLAIN], 2.0 * floors[:_PLAIN]) == shape
        plain &= np.abs(first - value) <= bar + error
    left_side, right_side = (Estimate(*each, evaluations=0) for each in sides)
    look = FineLook(shape, Estimate(value, error, 0), left_side, right_side, plain, np.zeros(len(outputs)))
    # of a kink beside the point, steps that do not reach it are few, or see nothing move
    few = straddling.any(axis=0) | between_steps
    return _with_kinks_beside(look, look_beside(stencil, column, outputs, _SIZES), few) if few.any() else look


def _with_kinks_beside(look: FineLook, beside: Beside, where: Flags) -> FineLook:
    """The same, where the function is smooth up to a kink that was found."""
    better, ours, theirs = beside.found & where, look.estimate, beside.estimate
    value = np.where(better, theirs.value, ours.value)
    error = np.where(better, theirs.error, ours.error)
    return replace(
        look,
        shape=np.where(better, Shape.SMOOTH, look.shape),
        estimate=Estimate(value, error, 0),
        plain=look.plain | better,
        nearby=np.where(better, beside.by, 0.0),
    )


def is_kink(stencil: Stencil, column: int, outputs: Indices, left: Vector, right: Vector) -> Flags:
    """Which outputs have sides with these slopes by the shortest step, too, on which their difference can be seen."""
    apart = np.abs(right - left)
    noise = stencil.noise[outputs] + of_argument(stencil, column, np.fmax(np.abs(left), np.abs(right)))
    with np.errstate(all="ignore"):
        shortest = _VISIBLE * 2.0 * noise / (apart * stencil.scale[column])
        finest = np.array([min([size for size in _SIZES if size >= each], default=_SIZES[0]) for each in shortest])
    found = np.zeros(len(outputs), dtype=np.bool_)
    for size in np.unique(finest):
        (below, above), floors = slopes_to_both_sides(stencil, column, outputs, (float(size),))
        here = finest == size
        with np.errstate(all="ignore"):
            slack = (1.0 - 1.0 / _SAME) * apart + 2.0 * floors[0]
            stays = (np.abs(below[0] - left) <= slack) & (np.abs(above[0] - right) <= slack)
        found |= here & stays
    return found


def _settled(values: Matrix, floors: Matrix, order: int) -> tuple[Vector, Vector]:
    """The best value with its error bar; wider where the finest quotients leave no doubt that it is another."""
    value, error = settle(values[:, None, :], floors[:, None, :], _SIZES[: len(values)], order)
    with np.errstate(invalid="ignore"):
        apart = np.abs(values - value[0])
        beyond = np.where(apart > error[0] + BEND * floors, apart, 0.0)
        finer = beyond[-2:].min(axis=0)  # both of the finest say so
    return value[0], np.fmax(error[0], finer)


def _straddling(bends: Matrix, floors: Matrix) -> Flags:
    """Which rungs reach over a kink or a wave nearby: those down to the last whose bend is not that of a smooth one.

    That of a smooth function falls with the step, and of noise it grows.
    """
    size, sizes = np.abs(bends), np.array(_SIZES[: len(bends)])
    with np.errstate(invalid="ignore"):
        stays = (size[1:] > APART * (sizes[1:] / sizes[:-1])[:, None] * size[:-1]) & (size[1:] <= _GROWS * size[:-1])
        stays &= size[1:] > _VISIBLE * floors[1:]
    down_to = np.logical_or.accumulate(stays[::-1])[::-1]
    return np.concatenate([down_to[:1], down_to])


def _shapes(bends: Matrix, central: Matrix, floors: Matrix) -> Indices:
    """What each output does, by the difference of its sides on each rung."""
    found = [_shape(*(part[:, k] for part in (bends, central, floors))) for k in range(bends.shape[1])]
    return np.array(found, dtype=np.intp)


def _shape(bends: Vector, central: Vector, floors: Vector) -> Shape:
    if not np.isfinite(bends).all():
        return Shape.UNCLEAR
    size = np.abs(bends)
    if (size <= BEND * floors).all():
        return Shape.JUMP if _leaps(central, floors) else Shape.SMOOTH
    # the finest rung on which a bend that stayed the same would be seen
    visible = np.flatnonzero(size[:-1] > _VISIBLE * floors[1:]) + 1
    if not len(visible):
        return Shape.SMOOTH
    last = int(visible[-1])
    if size[last] <= _SHRINKS * size[last - 1]:
        return Shape.SMOOTH
    if last + 1 < _RUN:
        return Shape.UNCLEAR
    runs = [bends[at : at + _RUN] for at in range(last + 2 - _RUN)]
    longer = any(_is_same(bends[at : at + _RUN + 1]) for at in range(last + 1 - _RUN))  # then round-off begins
    if _is_same(runs[-1]) or longer:
        return Shape.KINK
    return Shape.JUMP if _leaps(bends[: last + 1], floors[: last + 1]) else Shape.UNCLEAR


def _leaps(slopes: Vector, floors: Vector) -> bool:
    """Whether slopes are those of a leap, which grow as the steps shrink."""
    last = slice(len(slopes) - _RUN, len(slopes))
    leaps = slopes[last] * np.array(_SIZES[last])
    return bool((np.abs(slopes[last]) > APART * floors[last]).all()) and _is_same(leaps)


def _is_same(run: Vector) -> bool:
    """Whether numbers have one sign, and neighbours are alike."""
    if not (run > 0).all() and not (run < 0).all():
        return False
    ratios = run[1:] / run[:-1]
    return bool(((ratios <= _SAME) & (ratios * _SAME >= 1.0)).all())
