"""When two answers to one question count as the same."""

from __future__ import annotations

import numpy as np

from gradproof.core.types import Vector


def same(first: Vector, second: Vector, eps: float, slack: float = 0.0) -> bool:
    """Equal but for round-off of the largest value (and `slack`); NaN equals NaN."""
    if (first == second).all():
        return True
    with np.errstate(invalid="ignore"):
        difference = np.abs(first - second)
        size = np.max(np.abs(first), initial=0.0, where=np.isfinite(first))
        equal = (difference <= 1e3 * eps * size + slack) | (first == second) | (np.isnan(first) & np.isnan(second))
    return bool(equal.all())
