"""Functions that are made of steps, all of one width, as `round` makes: told from those of a number format.

The numbers of a format lie closer together the smaller they are, and those of such a function do not. Whether there are
steps at all shows at a step of the input that is so short that a smooth function would move by a few hundred times its
round-off: a staircase does not move there, but for a few outputs.
"""

from __future__ import annotations

import math

import numpy as np

from gradproof.core.along import values_along
from gradproof.core.investigation import Investigation
from gradproof.core.norm import norm
from gradproof.core.precision import BY_DESIGN, DOUBLE, EVALUATION_ROUND_OFF, NOISY_SHARE
from gradproof.core.problem import Problem
from gradproof.core.space import Block
from gradproof.core.types import Flags, Vector

# The rungs of steps of which one shows the slope behind stairs, where most outputs move; and how many times its
# round-off a smooth function moves by at first.
_LONG, _MOST, _MOVED = (12, 8, 4), 0.75, 2.0**8
# Outputs are large from this part of the largest on, and small below that one; so many small ones must be there.
_LARGE, _SMALL, _FEWEST = 0.5, 0.25, 3
# Steps are not meant that are no wider than so many spacings of numbers of order one, which may be inside.
_ROUNDING = 2.0**8
# The same in the numbers of the function's own precision, where a width is known by how noisy it is: a few roundings.
_INSIDE = 2.0**4
# How far a width may be from a power of ten or of two that is meant, and a number of steps from a whole one.
_MEANT, _WHOLE = 1e-3, 1e-6
# How far a whole number of steps is from a whole number, by round-off of a decimal place.
_DECIMAL = 1e-6


def step_width(investigation: Investigation, output: Block, input_: Block) -> float | None:
    """How wide the steps are that an output makes as an input moves, if all are of one width; None: they are not."""
    along = _Along(investigation, output, input_)
    first = along.first_changes()
    if first is None:
        return None
    size = np.abs(along.value)
    largest = float(size.max())
    moved = first[(first > 0) & (size >= _LARGE * largest)]
    if not len(moved):
        return None
    small = along.value[(size < _SMALL * largest) & (size > 0)]
    narrowest = float(moved.min())
    if narrowest <= _ROUNDING * DOUBLE * max(1.0, largest):
        return None
    widths = (width for width in _meant(narrowest) if _are_whole(small, width))
    return next(widths, None) if len(small) >= _FEWEST else None


def is_made_of_steps(problem: Problem, output: Block, eps: float) -> bool:
    """Whether the steps of an output are no floating-point format's: wider, or between numbers of so many decimals.

    Nor are they steps of the numbers of order one, spaced by `eps`, that something small may be the difference of.
    """
    value = problem.value[output.slice]
    step = output.eps * norm(value) / math.sqrt(output.size)
    if 0.0 < step <= _INSIDE * eps * max(1.0, float(np.abs(problem.point).max(initial=0.0))):
        return False
    if output.eps > BY_DESIGN or not step:
        return True
    decimals = math.floor(-math.log10(step))
    scaled = np.multiply.outer([10.0**places for places in range(decimals - 1, decimals + 3)], value)
    return bool((np.abs(scaled - np.rint(scaled)) <= _DECIMAL).all(axis=1).any())


def _meant(width: float) -> list[float]:
    """A measured width, and the powers of ten and two that it may be."""
    powers = [base ** round(math.log(width, base)) for base in (10.0, 2.0)]
    return [*(power for power in powers if abs(power - width) <= _MEANT * width), width]


def _are_whole(values: Vector, width: float) -> bool:
    """Whether most values are whole numbers of steps."""
    steps = values / width
    return float((np.abs(steps - np.rint(steps)) <= _WHOLE + 4.0 * DOUBLE * np.abs(steps)).mean()) >= NOISY_SHARE


class _Along:
    """One output as one input moves in a random direction."""

    def __init__(self, investigation: Investigation, output: Block, input_: Block) -> None:
        self._investigation, self._output = investigation, output
        self.value = investigation.problem.value[output.slice]
        size = investigation.problem.inputs.size
        self._direction = np.zeros(size)
        self._direction[input_.slice] = (investigation.draw(size) * investigation.scale)[input_.slice]

    def first_changes(self) -> Vector | None:
        """What each output changes by when it first moves, as steps get longer; None: it is no staircase."""
        if self._investigation.problem.coarsest_eps > DOUBLE and self._investigation.problem.noise is None:
            return None
        changes = ((rung, self._changes(2.0**-rung)) for rung in _LONG)
        long, slope = next(((rung, c) for rung, c in changes if c is not None and (c > 0).mean() >= _MOST), (0, None))
        if slope is None:
            return None
        moving = slope > 0
        noise = (
            EVALUATION_ROUND_OFF
            * DOUBLE
            * self._investigation.problem.outputs.typical(self._investigation.problem.value)[self._output.slice]
        )
        blurred = _MOVED * float(np.median(noise[moving] / slope[moving]))
        if blurred == 0.0:  # of numbers so small that round-off of them is none
            return None
        rung = long - math.ceil(math.log2(blurred))
        first = self._changes(2.0**-rung) if rung > long else None
        if first is None or float((first[moving] == 0).mean()) < NOISY_SHARE:
            return None
        return self._climbed(first, moving, rung)

    def _climbed(self, first: Vector, moving: Flags, rung: int) -> Vector:
        while rung > 0 and float((first[moving] > 0).mean()) < NOISY_SHARE:
            rung -= 1
            change = self._changes(2.0**-rung)
            if change is None:
                break
            first = np.where(first > 0, first, change)
        return first

    def _changes(self, step: float) -> Vector | None:
        """By how much the output changes; None where the function refuses the point, or gives what is no number."""
        (there,) = values_along(self._investigation, self._direction, (step,))
        change = np.abs(there[self._output.slice] - self.value)
        return change if np.isfinite(change).all() else None
