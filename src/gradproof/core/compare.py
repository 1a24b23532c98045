"""When two answers to one question count as the same."""

from __future__ import annotations

import math

import numpy as np

from gradproof.core.norm import norm
from gradproof.core.options import Options
from gradproof.core.problem import Problem
from gradproof.core.types import Vector

Slack = float | Vector
"""What two answers may differ by in any case: one number, or one for each coordinate."""

# Round-off of a gradient, in eps of what it is made of, and how much of that it may be at most.
_DUST, _MOST_DUST = 1e3, 1e-2


def dust(problem: Problem) -> Vector:
    """How large a gradient for the shared cotangent may be by round-off alone, where the true one is zero.

    It is made of numbers as large as the outputs, per change of an input as large as it is.
    """
    return min(_DUST * _eps(problem), _MOST_DUST) * weight(problem) / problem.scale


def forgiven(problem: Problem, options: Options, gradient: Vector) -> Vector:
    """What a gradient for a cotangent as large as the shared one may be off by, if it should be this.

    That is noise, dust, and the tolerances, where they were given: relative to the largest gradient of each input.
    """
    allowed = options.nondet_tol + dust(problem) + (options.atol or 0.0)
    if options.rtol:
        for block in problem.inputs.blocks:
            allowed[block.slice] += options.rtol * largest_of(gradient[block.slice])
    return allowed


def weight(problem: Problem) -> float:
    """The size of the outputs, each as much as the shared cotangent weighs it."""
    value = np.where(np.isfinite(problem.value), problem.value, 0.0)
    with np.errstate(over="ignore"):
        return norm(problem.cotangent * value)


def _eps(problem: Problem) -> float:
    return max(problem.inputs.coarsest_eps, problem.outputs.coarsest_eps)


def same(first: Vector, second: Vector, eps: float, slack: float = 0.0) -> bool:
    """Equal but for round-off of the largest value (and `slack`); NaN equals NaN."""
    return _within(first, second, 1e3 * eps, slack)


def close(first: Vector, second: Vector, problem: Problem, slack: Slack = 0.0) -> bool:
    """Equal but for what other orders of summation, in other memory layouts, may change of derivatives."""
    return _within(first, second, looseness(problem), slack)


def is_sum(total: Vector, expected: Vector, largest: float, problem: Problem, slack: Slack = 0.0) -> bool:
    """Whether a gradient is the sum it should be; parts as large as `largest` may lose digits where they cancel."""
    return close(total, expected, problem, slack + looseness(problem) * largest)


def largest_of(values: Vector) -> float:
    """The size of the largest finite value."""
    if not len(values):
        return 0.0
    largest = max(float(values.max()), -float(values.min()))
    if math.isfinite(largest):
        return largest
    return float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))


def looseness(problem: Problem) -> float:
    """The relative difference that another order of summation may make."""
    return _eps(problem) ** 0.6


def _within(first: Vector, second: Vector, relative: float, slack: Slack) -> bool:
    if (first == second).all():
        return True
    return within(first, second, relative * largest_of(first) + slack)


def within(first: Vector, second: Vector, allowed: Slack) -> bool:
    """Equal but for so much; NaN equals NaN."""
    with np.errstate(invalid="ignore"):
        near = np.abs(first - second) <= allowed
        if near.all():
            return True
        return bool((near | (first == second) | (np.isnan(first) & np.isnan(second))).all())


def worst_difference(first: Vector, second: Vector) -> int:
    """Where two answers differ most."""
    with np.errstate(invalid="ignore"):
        return int(np.argmax(np.nan_to_num(np.abs(first - second), nan=np.inf)))
