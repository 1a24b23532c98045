"""A glance at many numbers: what `glance` does for few, by one rung or two, without an array for each point and value.

The shorter a step, the less it is off by, and the more round-off makes of it. Of a million numbers the threshold is a
thousand times the round-off of one, so that the finest rung of a survey sees too little. The rung is the finest of
which round-off leaves enough to see; if that is a coarse one, nothing is looked at. If the two sides of each output
differ by no more than a smooth function's do, and round-off alone explains how far the sum of all outputs is from what
is claimed, no entry is off by the absolute tolerance, unless the step is off by as much. Where round-off alone does not
explain it, the sum is extrapolated from two rungs.

It only acquits. What it does not settle is looked at in full, by a survey of more rungs; of this, only the question is
used again. `sin` of a million numbers takes three or five evaluations instead of seven, and two thirds of the time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gradproof.core.agreement import smallest_of
from gradproof.core.capabilities import Walk
from gradproof.core.draws import LEAST_OF_LONG
from gradproof.core.glance import CURVED, EXTRAPOLATED, RUNGS, SUMMED, is_plain, unit_noise
from gradproof.core.investigation import Investigation
from gradproof.core.norm import PART, norm, parts, products, sum_of_squares
from gradproof.core.options import Options
from gradproof.core.precision import BEND_ALONG, CONFIDENCE, UNSEEN_FACTOR
from gradproof.core.problem import OutputChangedError, Problem
from gradproof.core.types import Vector

# The coarsest rung: by a longer one, what the step is off by is rarely less than round-off. And how much of what must
# be seen round-off may take: the rest is for the residual.
_COARSEST, _ROOM = 15, 0.8
# How much coarser a second rung is, as those of a glance at few numbers are.
_APART = RUNGS[1] - RUNGS[0]


class _Sum(NamedTuple):
    """The sum of some numbers, and the Euclidean norm of these."""

    total: float
    size: float


class _Limits(NamedTuple):
    """What round-off makes of a sum, and what an error that must be seen makes of it."""

    blurred: float
    wanted: float


def acquits_many(investigation: Investigation, options: Options) -> bool:
    """Whether no entry of a Problem of many numbers can be off by its absolute tolerance."""
    problem = investigation.problem
    if not options.atol or min(problem.inputs.size, problem.outputs.size) <= PART or not is_plain(problem, options):
        return False
    direction = investigation.direction
    if direction is None:
        return False
    cotangent = investigation.draw(problem.outputs.size, 1)
    wanted = LEAST_OF_LONG * options.atol * smallest_of(direction)
    blurred = CONFIDENCE * unit_noise(problem) * norm(cotangent)
    room = min(_ROOM * wanted / blurred, 2.0 ** RUNGS[-1]) if blurred > 0.0 else 0.0
    rung = math.floor(math.log2(room)) if room > 0.0 else 0
    if rung < _COARSEST:
        return False
    fine = _moved(investigation, direction, rung, cotangent)
    if fine is None:
        return False
    answer, limits = investigation.share_cotangent(cotangent), _Limits(blurred * 2.0**rung, wanted)
    if _agree(problem, fine, answer, direction, limits):
        return True
    coarse = _moved(investigation, direction, rung - _APART, cotangent)
    if coarse is None:
        return False
    sharper = _Sum(fine.total + (fine.total - coarse.total) * EXTRAPOLATED, fine.size)
    blurred = limits.blurred * (1.0 + 2.0 * EXTRAPOLATED)
    return _agree(problem, sharper, answer, direction, _Limits(blurred, wanted))


def _agree(problem: Problem, moved: _Sum, answer: Vector, direction: Vector, limits: _Limits) -> bool:
    """Whether round-off alone explains how far what is measured is from what is claimed, and hides nothing."""
    blocks = problem.inputs.blocks
    shares = [_Sum(*products(answer[block.slice], direction[block.slice])) for block in blocks]
    claimed = _Sum(math.fsum(share.total for share in shares), math.hypot(*(share.size for share in shares)))
    allowed = limits.blurred + SUMMED * (moved.size + claimed.size)
    residual = abs(moved.total - claimed.total)
    hidden = allowed + residual
    return (
        residual <= allowed
        and hidden <= limits.wanted
        and all(
            _shows(answer[block.slice], direction[block.slice], share.total, hidden)
            for block, share in zip(blocks, shares, strict=True)
        )
    )


def _moved(investigation: Investigation, direction: Vector, rung: int, cotangent: Vector) -> _Sum | None:
    """<v, J u> by one rung; None where some output bends, or the function raises there."""
    problem, walk = investigation.problem, investigation.problem.capability(Walk)
    if walk is None or walk.evaluate != problem.evaluate:
        return None
    above: list[Vector] = []
    found: list[_Sum | None] = []

    def take(value: Vector) -> None:
        if above:
            found.append(_across(problem, above.pop(), value, rung, cotangent))
        else:
            above.append(value if value.flags.writeable else value.copy())

    steps = investigation.cost.counting((2.0**-rung, -(2.0**-rung)))
    try:
        walk.visit(direction, steps, take)
    except OutputChangedError:
        raise
    except Exception:  # each point is attempted by itself, then
        return None
    return found[0]


def _across(problem: Problem, above: Vector, below: Vector, rung: int, cotangent: Vector) -> _Sum | None:
    """The same from the values on both sides, in parts; where they bend by more than smooth functions do, None.

    Among many numbers some are far longer than others: any output may bend as much as the one that moves most.
    """
    sums, squares = list[float](), list[float]()
    largest = beyond = 0.0
    curved = CURVED * 2.0 ** (RUNGS[-1] - rung)
    room = np.empty((2, PART))
    for part in parts(len(above)):
        one, other = above[part], below[part]
        bend, sizes = room[0, : len(one)], room[1, : len(one)]
        np.multiply(problem.value[part], -2.0, out=bend)
        bend += one
        bend += other
        moved = np.subtract(one, other, out=sizes)
        moved *= 0.5
        weighed = cotangent[part] * moved
        sums.append(float(np.add.reduce(weighed)))
        squares.append(sum_of_squares(weighed))
        np.abs(moved, out=moved)
        largest = max(largest, float(moved.max()))
        np.abs(bend, out=bend)
        moved *= curved
        bend -= moved
        beyond = max(beyond, float(bend.max()))
    if not beyond <= curved * largest + BEND_ALONG * unit_noise(problem):  # NaN may be among them, too
        return None
    return _Sum(math.fsum(sums) * 2.0**rung, math.sqrt(math.fsum(squares)) * 2.0**rung)


def _shows(answer: Vector, direction: Vector, moved: float, hidden: float) -> bool:
    """Whether a common factor of all entries of an input would show, or could not if none of them cancelled."""
    if hidden <= UNSEEN_FACTOR * abs(moved):
        return True
    sizes = (np.abs(answer[part] * direction[part]) for part in parts(len(answer)))
    return hidden > UNSEEN_FACTOR * math.fsum(float(np.add.reduce(each)) for each in sizes)
