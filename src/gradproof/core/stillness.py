"""How still small outputs are beside large ones: measured, where it matters.

What an output of 1 owes to the round-off of another of 1e20 in the same array is not known: in a sum of both it is all
of it, in a function of each element nothing. As long as outputs are of about one size, the larger of the two guesses
does no harm. Where many are far smaller than others, their noise is measured.

Difference quotients of the shortest steps differ by noise divided by the step, and by next to nothing else. That all of
them agree by luck is rare enough, with a margin. Nothing is learnt of an output that does not move at all over one of
these steps: it may be still, or on a grid that is wider, as 1 - erf(x) is where the digits of 1 are lost. And where a
smooth factor moves it between two lines of such a grid, longer steps, extrapolated, have another slope.
"""

from __future__ import annotations

import math

import numpy as np

from gradproof.core.cost import BudgetExhausted
from gradproof.core.directions import exact
from gradproof.core.investigation import Investigation
from gradproof.core.norm import norm, parts
from gradproof.core.precision import DOUBLE, EVALUATION_ROUND_OFF
from gradproof.core.problem import OutputChangedError, Problem
from gradproof.core.space import Block
from gradproof.core.types import Flags, Matrix, Vector

# An output is small below this part of the rms of its array: from there on the larger guess excuses more than 2e-4 of
# what it moves by. One in so many must be, or any where there are few: to measure takes twelve evaluations.
_SMALL, _SHARE = 2.0**-16, 64
# The steps, each an eighth of the one before, and how much less than noise they may show by luck.
_RUNGS, _RATIO, _LUCK = (11, 14, 17, 20, 23, 26), 8.0, 32.0


def stillness(investigation: Investigation) -> Vector | None:
    """What the noise of each output is at most, as measured; None: as large as that of outputs beside it.

    Asked through `Investigation.once`.
    """
    problem = investigation.problem
    if not investigation.once(is_in_question):
        return None
    try:
        quotients = _quotients(investigation)
    except OutputChangedError:
        raise
    except (Exception, BudgetExhausted):  # outside of the domain, or no more to spend: nothing is known
        return None
    with np.errstate(invalid="ignore"):
        drift = _drift(quotients)
    own = EVALUATION_ROUND_OFF * problem.round_off * DOUBLE * np.abs(problem.value)
    moves = (quotients != 0).all(axis=0) & ~np.isnan(drift)
    return np.where(moves, np.fmax(np.fmax(_LUCK * drift, own), _shared(problem, drift, moves)), np.inf)


def is_in_question(investigation: Investigation) -> bool:
    """Whether it matters: small outputs beside large ones, in double precision. Asked through `Investigation.once`."""
    problem = investigation.problem
    precise = (problem.evaluates_in or problem.coarsest_eps) <= DOUBLE
    if not precise or problem.noise is not None:
        return False
    pairs = zip(problem.outputs.blocks, investigation.once(lengths), strict=True)
    return any(_is_uneven(problem, block, length) for block, length in pairs)


def lengths(investigation: Investigation) -> list[float]:
    """The Euclidean norm of each output. Asked through `Investigation.once`."""
    return investigation.problem.outputs.lengths(investigation.problem.value)


def _shared(problem: Problem, drift: Vector, moves: Flags) -> Vector:
    """What most small outputs of an array drift by, relative to their size: of many, some are still by luck."""
    shared = np.zeros_like(drift)
    for block in problem.outputs.blocks:
        size = np.abs(problem.value[block.slice])
        small = moves[block.slice] & (size < _least(size)) & (size > 0)
        if small.any():
            shared[block.slice][small] = size[small] * float(np.median(drift[block.slice][small] / size[small]))
    return shared


def _least(values: Vector) -> float:
    """Below which outputs of an array are small."""
    return _SMALL * norm(values) / math.sqrt(len(values))


def _drift(quotients: Matrix) -> Vector:
    """By how much the quotients of the shortest steps differ, and those of longer ones from them, times their steps."""
    fine = quotients[3:] - quotients[2:-1]
    extrapolated = quotients[1:3] + (quotients[1:3] - quotients[:2]) / (_RATIO**2 - 1.0)
    apart = np.concatenate([np.diff(extrapolated, axis=0), fine])
    return (np.abs(apart) * np.exp2(-np.array(_RUNGS[2:], dtype=np.float64))[:, None]).max(axis=0)


def _is_uneven(problem: Problem, block: Block, length: float) -> bool:
    """Whether outputs of an array are far smaller than others; zeros have no size of their own."""
    values = problem.value[block.slice]
    least = _SMALL * length / math.sqrt(block.size) if block.size > 1 else 0.0
    if not 0.0 < least < math.inf:
        return False
    small = 0
    for part in parts(len(values)):
        sizes = np.abs(values[part])
        below = int(np.count_nonzero(sizes < least))
        small += below - int(np.count_nonzero(sizes == 0)) if below else 0
    return small * _SHARE >= block.size


def _quotients(investigation: Investigation) -> Matrix:
    """Central differences of all outputs along a direction, one row for each step."""
    problem = investigation.problem
    direction = exact(investigation.draw(problem.inputs.size) * investigation.scale, problem.point)
    quotients = np.empty((len(_RUNGS), problem.outputs.size))
    for row, rung in zip(quotients, _RUNGS, strict=True):
        above, below = (investigation.evaluate(problem.point + side * 2.0**-rung * direction) for side in (1.0, -1.0))
        row[:] = (above - below) * 2.0 ** (rung - 1)
    return quotients
