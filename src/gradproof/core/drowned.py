"""Small entries that drown in round-off of numbers of order one inside, looked at where they do not.

The cross-entropy of a confident sample is 3e-15, and so is its gradient: what a softmax leaves of the 1 in it. Neither
the value nor the gradient has more than a few right digits, and nothing at the point tells that from a wrong derivative
of a function that is as small by design. But nearer to zero the same function comes out of its saturation: there both
are large enough to be compared. A derivative that is wrong is mostly wrong there too; one that is so in its tail alone
is not, so that where the function is seen at the point, `properties/drowned.py` asks for more.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gradproof.core.draws import basis
from gradproof.core.integral import vjp_at
from gradproof.core.investigation import Investigation
from gradproof.core.ladder import rungs
from gradproof.core.precision import DOUBLE, EVALUATION_ROUND_OFF
from gradproof.core.problem import OutputChangedError, Problem
from gradproof.core.survey import Survey
from gradproof.core.types import Vector

# What round-off of numbers of order one comes to, at most, in units of their spacing: of a thousand operations.
BURIED = 2.0**10
# The parts of the point that are looked at, on the way to zero.
NEARER = (2.0**-1, 2.0**-3, 2.0**-6)
# The rungs of the two differences, in double and in single precision, and the part of the finer one that they differ by
# where both see the slope. A derivative is right there within the same part.
_RUNGS, _RUNGS_OF_SINGLE, AGREES = (10, 12), (5, 7), 2.0**-6
# One less than the square of the ratio of their steps.
_EXTRAPOLATED = 15.0
# What is left of a difference, as a part of the entry, nearer to zero, where round-off is less of it.
_FADES = 2.0**-3


def is_buried(investigation: Investigation, column: int, difference: float) -> bool:
    """Whether an entry is off by no more than round-off of numbers as large as its coordinate, or of order one, is."""
    least = BURIED * investigation.problem.coarsest_eps * float(order_of(investigation.problem)[column])
    return difference * float(investigation.scale[column]) <= least


class Look(NamedTuple):
    """One entry at a part of the point, by differences of two steps."""

    coarse: float
    fine: float

    @property
    def is_seen(self) -> bool:
        """Whether the two agree on a slope."""
        return self.fine != 0 and self.shows(self.coarse)

    def shows(self, slope: float) -> bool:
        """Whether this is the slope of the finer one, but for a small part of it."""
        return abs(self.fine - slope) <= AGREES * abs(self.fine)

    @property
    def slope(self) -> float:
        """Both of them, extrapolated to no step."""
        return self.fine + (self.fine - self.coarse) / _EXTRAPOLATED

    @property
    def moves(self) -> bool:
        return self.coarse != 0 or self.fine != 0


def look_at(investigation: Investigation, row: int, column: int, size: float = 1.0) -> Look:
    """One entry, at this part of the point."""
    rungs = _RUNGS if investigation.problem.coarsest_eps <= DOUBLE else _RUNGS_OF_SINGLE
    return Look(*(_quotient(investigation, size, row, column, rung) for rung in rungs))


def drowns(investigation: Investigation, row: int, column: int, here: Look) -> bool:
    """Whether an entry that is buried at the point is right nearer to zero; or moves nowhere but by round-off."""
    cotangent, moves = basis(slice(row, row + 1), investigation.problem.outputs.size)[0], here.moves
    for size in NEARER:
        there = look_at(investigation, row, column, size)
        moves |= there.moves
        if there.is_seen:
            claim = float(vjp_at(investigation, size * investigation.problem.point, cotangent)[column])
            difference = abs(claim - there.fine)
            if there.shows(claim):
                return True
            if not is_buried(investigation, column, size * difference):
                return False
    return moves and not here.is_seen


def stays_still(investigation: Investigation, output: slice, input_: slice) -> bool:
    """Whether no element of an output moves as all of an input does, neither at the point nor nearer to zero."""
    direction = np.zeros(investigation.problem.inputs.size)
    direction[input_] = (investigation.draw(len(direction)) * investigation.scale)[input_]
    return all(_stays_along(investigation, output, size, direction) for size in (1.0, *NEARER))


def _stays_along(investigation: Investigation, output: slice, size: float, direction: Vector) -> bool:
    point = size * investigation.problem.point
    steps = [side * 2.0**-rung * size for rung in _RUNGS for side in (1.0, -1.0)]
    values = [_values(investigation, point + step * direction)[output] for step in steps]
    return all(np.array_equal(value, values[0]) for value in values)


def fades(investigation: Investigation, row: int, column: int, part: float) -> bool:
    """Whether an entry that is off by this part of it is so by far less of it where it is larger than round-off."""
    cotangent = basis(slice(row, row + 1), investigation.problem.outputs.size)[0]
    for size in NEARER:
        there = look_at(investigation, row, column, size)
        if there.is_seen and not is_buried(investigation, column, size * abs(there.fine)):
            claim = float(vjp_at(investigation, size * investigation.problem.point, cotangent)[column])
            return abs(claim - there.slope) <= _FADES * part * abs(there.slope)
    return False


def noise_of_order_one(problem: Problem, column: int) -> float:
    """The round-off of numbers as large as a coordinate, or of order one."""
    return EVALUATION_ROUND_OFF * problem.coarsest_eps * float(order_of(problem)[column])


def order_of(problem: Problem) -> Vector:
    """How large numbers inside may be: of order one, or as large as each coordinate."""
    return np.fmax(1.0, np.abs(problem.point))


def hidden_behind_order_one(survey: Survey) -> list[float]:
    """Of each input, what round-off of numbers of order one may hide of outputs that do not move along a survey.

    Zero where all move. Nothing tells an output that is constant from one inside of which a 1 swallows the input.
    """
    stencil, blocks = survey.stencil, survey.stencil.problem.inputs.blocks
    if stencil.fixed or bool(survey.about.all()):
        return [0.0] * len(blocks)
    longest = np.exp2([-rungs(float(stencil.eps[block.start]))[0] if block.size else 0.0 for block in blocks])
    point, scale = stencil.problem.point, stencil.scale
    return [
        EVALUATION_ROUND_OFF
        * float((stencil.eps[block.slice] * np.fmax(1.0, np.abs(point[block.slice])) / scale[block.slice]).max())
        / step
        if block.size
        else 0.0
        for block, step in zip(blocks, longest.tolist(), strict=True)
    ]


def _quotient(investigation: Investigation, size: float, row: int, column: int, rung: int) -> float:
    """An entry at this part of the point, by one central difference."""
    step, values = 2.0**-rung * size * float(investigation.scale[column]), list[float]()
    for side in (step, -step):
        point = size * investigation.problem.point
        point[column] += side
        values.append(_value(investigation, point, row))
    return (values[0] - values[1]) / (2.0 * step)


def _value(investigation: Investigation, point: Vector, row: int) -> float:
    return float(_values(investigation, point)[row])


def _values(investigation: Investigation, point: Vector) -> Vector:
    try:
        return investigation.evaluate(point)
    except OutputChangedError:
        raise
    except Exception:  # outside of its domain
        return np.full(investigation.problem.outputs.size, math.nan)
