"""Points beside a kink: the derivative is that of the side on which they lie, however near the kink is.

What a function does over a step h to both sides together, F(x + h) + F(x - h) - 2 F(x), is J (h - d) beyond a kink at
distance d whose slopes differ by J, and nothing before it. Two steps that reach over the kink say where it is, and
steps around it say whether it is there: up to it the function goes on as it does on the other side of the point, and
from it on with another slope. Stairs, waves and noise do not.

Then the point is an ordinary one. The side without the kink has steps of any length, so its slope is sharp; that it is
the slope of the point, too, is known to what round-off leaves of a step that ends before the kink.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradproof.core.ladder import Estimate, settle, stepped
from gradproof.core.precision import BEND, CLEAR, DOUBLE, EVALUATION_ROUND_OFF
from gradproof.core.stencil import Stencil
from gradproof.core.types import Flags, Indices, Matrix, Vector

# Rungs on top of those of a short look, in its ratios: to come upon kinks that lie nearly as far as its longest step.
_LONGER = (2.0**-15 * 0.8125, 2.0**-18 * 1.0625, 2.0**-21 * 0.9375)
# Where the function is looked at, in units of the distance of the kink; the second is the longest step before it.
_AROUND = np.array([0.5, 0.8125, 1.1875, 1.5, 2.0, 3.0])
_BEFORE = 1
# How many times its round-off the bend of a step must be, and that of a step twice as long as the kink is far.
_VISIBLE, _PLAIN = 8.0, 64.0
# By what part the third step may differ from what two say, and those around the kink: curvature, and how far it is.
_ALIKE, _CLOSE = 0.1, 1e-2
# Distances that are tried of one coordinate: most outputs that bend do so at the same place.
_PLACES = 4


@dataclass(frozen=True, slots=True)
class Beside:
    """Some outputs along one coordinate: which of them have a kink beside the point, and their slopes at the point."""

    by: Vector
    """What slopes change by at the kink; zero where there is none."""
    estimate: Estimate

    @property
    def found(self) -> Flags:
        return self.by > 0


@dataclass(frozen=True, slots=True)
class _Bends:
    """What steps to both sides say: by how much slopes differ at a kink, how far it is, and which outputs have one."""

    by: Vector
    distance: Vector
    likely: Flags


def slopes_to_both_sides(
    stencil: Stencil, column: int, outputs: Indices, sizes: tuple[float, ...]
) -> tuple[Matrix, Matrix]:
    """The slopes of the two sides, left and right, one row for each step; and the round-off of their mean."""
    index, steps = np.full(2 * len(sizes), column, dtype=np.intp), np.array(sizes) * stencil.scale[column]
    asked = np.concatenate([-steps, steps])
    values, reached = stencil.moved(index, asked, outputs)
    with np.errstate(all="ignore"):
        width = stepped(reached - stencil.problem.point[column], asked)
        slopes = ((values - stencil.problem.value[outputs]) / width[:, None]).reshape(2, len(sizes), -1)
        noise = stencil.noise[outputs] + of_argument(stencil, column, np.abs(slopes).max(axis=0))
        return slopes, noise / steps[:, None]


def of_argument(stencil: Stencil, column: int, slope: Matrix) -> Matrix:
    """What a function of this slope makes of the round-off of its argument."""
    return EVALUATION_ROUND_OFF * DOUBLE * abs(float(stencil.problem.point[column])) * slope


def look_beside(stencil: Stencil, column: int, outputs: Indices, sizes: tuple[float, ...]) -> Beside:
    """The slopes of outputs with a kink to one side of the point, by steps of these sizes and longer ones."""
    sizes = _LONGER + sizes
    slopes, floors = slopes_to_both_sides(stencil, column, outputs, sizes)
    bends = _bends(slopes, floors, np.array(sizes) * stencil.scale[column])
    found, value, error = bends.likely & False, np.full(len(outputs), np.nan), np.full(len(outputs), np.inf)
    sides = [settle(side[:, None, :], 2.0 * floors[:, None, :], sizes, order=1) for side in slopes]
    for _ in range(_PLACES):
        left = np.flatnonzero(bends.likely & ~found)
        if not len(left):
            break
        place = float(bends.distance[left[0]])
        here = left[np.abs(bends.distance[left] - place) <= _CLOSE * place]
        bends.likely[left[0]] = False
        for away, (slope, bar) in zip((0, 1), sides, strict=True):
            apart = _apart(stencil, column, outputs[here], bends.by[here], place, slope[0, here], away)
            seen = np.isfinite(apart + bar[0, here]) & ~found[here]
            which = here[seen]
            found[which], value[which], error[which] = True, slope[0, which], (bar[0, here] + apart)[seen]
    return Beside(np.where(found, np.abs(bends.by), 0.0), Estimate(value, error, 0))


def _bends(slopes: Matrix, floors: Matrix, steps: Vector) -> _Bends:
    """By the two finest steps that bend visibly, and a third that agrees with what they say."""
    noise, (left, right) = floors * steps[:, None], slopes
    with np.errstate(all="ignore"):
        bend = (right - left) * steps[:, None]
        visible = np.abs(bend) > 2.0 * _VISIBLE * noise
        last = len(steps) - 1 - np.argmax(visible[::-1], axis=0)
        three = np.stack([np.maximum(last - k, 0) for k in (2, 1, 0)])
        (far, middle, near), step = np.take_along_axis(bend, three, axis=0), steps[three]
        by = (middle - near) / (step[1] - step[2])
        distance = step[1] - middle / by
        likely = (last >= 2) & np.take_along_axis(visible, three, axis=0).all(axis=0)
        likely &= np.abs(by * (step[0] - distance) - far) <= _ALIKE * np.abs(far)
        # so near to the point that round-off says no more than that, it may be at it
        round_off = np.take_along_axis(noise, three, axis=0)[2]
        likely &= (distance > 0) & (np.abs(by) * distance > _PLAIN * round_off)
    return _Bends(by, distance, likely)


def _apart(
    stencil: Stencil, column: int, outputs: Indices, by: Vector, distance: float, slope: Vector, away: int
) -> Vector:
    """How far the slope of the side without the kink may be from that up to the kink; infinite if it is not there."""
    sign = (-1.0, 1.0)[away]
    index, steps = np.full(2 * len(_AROUND), column, dtype=np.intp), sign * distance * _AROUND
    values, reached = stencil.moved(index, np.concatenate([steps, -steps]), outputs)
    with np.errstate(all="ignore"):
        width = (reached - stencil.problem.point[column])[:, None]
        change = values - stencil.problem.value[outputs]
        noise = BEND * (stencil.noise[outputs] + of_argument(stencil, column, np.abs(change / width).max(axis=0)))
        beyond = np.maximum(np.abs(width) - distance, 0.0)
        beyond[: len(_AROUND)] = 0.0
        off = np.abs(change - slope * width - by * beyond)
        is_there = (off <= noise + _CLOSE * np.abs(by) * distance).all(axis=0)
        up_to = len(_AROUND) + _BEFORE
        apart = (off[up_to] + noise / 2.0) / np.abs(width[up_to])
        return np.where(is_there & (apart <= CLEAR * np.abs(by)), apart, np.inf)
