"""When two answers to one question count as the same."""

from __future__ import annotations

import numpy as np

from gradproof.core.problem import Problem
from gradproof.core.types import Vector


def same(first: Vector, second: Vector, eps: float, slack: float = 0.0) -> bool:
    """Equal but for round-off of the largest value (and `slack`); NaN equals NaN."""
    return _within(first, second, 1e3 * eps, slack)


def close(first: Vector, second: Vector, problem: Problem, slack: float = 0.0) -> bool:
    """Equal but for what other orders of summation, in other memory layouts, may change of derivatives."""
    return _within(first, second, _looseness(problem), slack)


def is_sum(total: Vector, parts: tuple[Vector, Vector], problem: Problem, slack: float = 0.0) -> bool:
    """Whether `total` is the sum of the parts; what they lose where they cancel is not held against it."""
    with np.errstate(invalid="ignore"):
        largest = max(float(np.max(np.abs(part), initial=0.0, where=np.isfinite(part))) for part in parts)
        return close(total, parts[0] + parts[1], problem, slack + _looseness(problem) * largest)


def _looseness(problem: Problem) -> float:
    return max(problem.inputs.coarsest_eps, problem.outputs.coarsest_eps) ** 0.6


def _within(first: Vector, second: Vector, relative: float, slack: float) -> bool:
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
