"""When two answers to one question count as the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gradproof.core.flags import every
from gradproof.core.norm import PART, highest, lowest, parts
from gradproof.core.precision import DERIVATIVE_ROUND_OFF, NARROW, largest_number, reordered
from gradproof.core.problem import Problem
from gradproof.core.types import Flags, Matrix, Vector

Slack = float | Vector
"""What two answers may differ by in any case: one number, or one for each coordinate."""


_NEAR_THE_END = 2.0**-6
# Of the range of half precision: sums and multiples of numbers that are larger may leave it.


def same(first: Vector, second: Vector, eps: float, slack: float = 0.0) -> bool:
    """Equal but for round-off of the largest value (and `slack`); NaN equals NaN."""
    return _within(first, second, DERIVATIVE_ROUND_OFF * eps, slack)


def is_linear(
    apply: Callable[[Vector], Vector], question: Vector, answer: Vector, eps: float, slack: float = 0.0
) -> bool:
    """Whether a derivative answers to two parts of -2 times a question with the parts of -2 times the answer.

    `slack` is the size of an answer that is nothing but round-off of the numbers it is made of.
    """
    part = -2.0 * question
    part[len(part) // 2 :] = 0.0
    return same(apply(part) + apply(-2.0 * question - part), -2.0 * answer, eps, 2.0 * slack)


def close(first: Vector, second: Vector, problem: Problem, slack: Slack = 0.0) -> bool:
    """Equal but for what other orders of summation, in other memory layouts, may change of derivatives.

    And for what leaves the range of half precision, in one of them or in both.
    """
    relative = reordered(problem.coarsest_eps)
    if _within(first, second, relative, slack):
        return True
    inside = ~leaves_range(first, second, problem)
    return not inside.all() and _within(np.where(inside, first, 0.0), np.where(inside, second, 0.0), relative, slack)


def leaves_range(first: Vector, second: Vector, problem: Problem) -> Flags:
    """Where one of two numbers that should be the same is no number because they are too large for half precision."""
    if not any(block.eps == NARROW for block in (*problem.inputs.blocks, *problem.outputs.blocks)):
        return np.zeros(len(first), dtype=np.bool_)
    large = _NEAR_THE_END * largest_number(NARROW)
    left, right = np.isfinite(first), np.isfinite(second)
    with np.errstate(invalid="ignore"):
        return (~left & ~right) | (~left & (np.abs(second) >= large)) | (~right & (np.abs(first) >= large))


def is_sum(total: Vector, expected: Vector, largest: float, problem: Problem, slack: Slack = 0.0) -> bool:
    """Whether a gradient is the sum it should be; parts as large as `largest` may lose digits where they cancel."""
    return close(total, expected, problem, slack + reordered(problem.coarsest_eps) * largest)


def adds_up(total: Vector, first: Vector, second: Vector, factor: float, problem: Problem) -> bool:
    """Whether `total` is `close` to the first and the second divided by a factor, without an array for these."""
    allowed = reordered(problem.coarsest_eps) * largest_of(total)
    room = np.empty(min(len(total), PART))
    for part in parts(len(total)):
        here = second[part]
        expected = np.multiply(here, 1.0 / factor, out=room[: len(here)])
        expected += first[part]
        if not _is_near(total[part], expected, allowed):  # infinities may be the same
            return False
    return True


def largest_of(values: Matrix) -> float:
    """The size of the largest finite value. Makes no copy of a Jacobian whose values are all finite."""
    if not values.size:
        return 0.0
    whole = values.reshape(-1) if values.flags.c_contiguous else values
    if whole.ndim == 1:
        largest = [max(highest(whole[part]), -lowest(whole[part])) for part in parts(len(whole))]
    else:
        largest = [max(float(whole[part].max()), -float(whole[part].min())) for part in parts(len(whole))]
    if math.isfinite(sum(largest)):
        return max(largest)
    return float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))


def smallest_of(values: Vector) -> float:
    """The size of the smallest value; infinite if there is none."""
    return min([lowest(np.abs(values[part])) for part in parts(len(values))], default=math.inf)


def _within(first: Vector, second: Vector, relative: float, slack: Slack) -> bool:
    if first is second or every(first == second):
        return True
    return within(first, second, relative * largest_of(first) + slack)


def within(first: Vector, second: Vector, allowed: Slack) -> bool:
    """Equal but for so much; NaN equals NaN."""
    return all(_is_near(first[part], second[part], _part(allowed, part)) for part in parts(len(first)))


def _is_near(first: Vector, second: Vector, allowed: Slack) -> bool:
    apart = first - second
    near = np.abs(apart, out=apart) <= allowed
    if every(near):
        return True
    return bool((near | (first == second) | (np.isnan(first) & np.isnan(second))).all())


def _part(slack: Slack, part: slice) -> Slack:
    return slack[part] if isinstance(slack, np.ndarray) else slack


def worst_difference(first: Vector, second: Vector) -> int:
    """Where two answers differ most."""
    with np.errstate(invalid="ignore"):
        return int(np.argmax(np.nan_to_num(np.abs(first - second), nan=np.inf)))
