"""When two answers to one question count as the same."""

from __future__ import annotations

import numpy as np

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
    scale = problem.inputs.typical(problem.point)
    scale[scale == 0] = 1.0
    return min(_DUST * _eps(problem), _MOST_DUST) * weight(problem) / scale


def forgiven(problem: Problem, options: Options) -> Vector:
    """What gradients for the shared cotangent may differ by: noise, dust, and the tolerances, where they were given."""
    pullback = problem.pullback
    largest = float(np.max(np.abs(pullback), initial=0.0, where=np.isfinite(pullback)))
    return options.nondet_tol + dust(problem) + (options.atol or 0.0) + (options.rtol or 0.0) * largest


def weight(problem: Problem) -> float:
    """The size of the outputs, each as much as the shared cotangent weighs it."""
    value = np.where(np.isfinite(problem.value), problem.value, 0.0)
    return float(np.linalg.norm(problem.cotangent * value))


def _eps(problem: Problem) -> float:
    return max(problem.inputs.coarsest_eps, problem.outputs.coarsest_eps)


def same(first: Vector, second: Vector, eps: float, slack: float = 0.0) -> bool:
    """Equal but for round-off of the largest value (and `slack`); NaN equals NaN."""
    return _within(first, second, 1e3 * eps, slack)


def close(first: Vector, second: Vector, problem: Problem, slack: Slack = 0.0) -> bool:
    """Equal but for what other orders of summation, in other memory layouts, may change of derivatives."""
    return _within(first, second, _looseness(problem), slack)


def is_sum(total: Vector, parts: tuple[Vector, Vector], problem: Problem, slack: Slack = 0.0) -> bool:
    """Whether `total` is the sum of the parts; what they lose where they cancel is not held against it."""
    with np.errstate(invalid="ignore"):
        largest = max(float(np.max(np.abs(part), initial=0.0, where=np.isfinite(part))) for part in parts)
        return close(total, parts[0] + parts[1], problem, slack + _looseness(problem) * largest)


def _looseness(problem: Problem) -> float:
    return _eps(problem) ** 0.6


def _within(first: Vector, second: Vector, relative: float, slack: Slack) -> bool:
    if (first == second).all():
        return True
    with np.errstate(invalid="ignore"):
        difference = np.abs(first - second)
        size = np.max(np.abs(first), initial=0.0, where=np.isfinite(first))
        equal = (difference <= relative * size + slack) | (first == second) | (np.isnan(first) & np.isnan(second))
    return bool(equal.all())


def worst_difference(first: Vector, second: Vector) -> int:
    """Where two answers differ most."""
    with np.errstate(invalid="ignore"):
        return int(np.argmax(np.nan_to_num(np.abs(first - second), nan=np.inf)))
