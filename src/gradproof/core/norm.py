"""The length of a vector, whatever the size of its numbers."""

from __future__ import annotations

import math

import numpy as np

from gradproof.core.types import Vector

# Sums of squares below this may have lost digits.
_TINY = 1e-280


def norm(values: Vector) -> float:
    """The Euclidean norm; squares that leave the range of numbers do no harm.

    >>> norm(np.array([3e-200, 4e-200]))
    5e-200
    """
    total = float(values.dot(values))
    if _TINY < total < math.inf:
        return math.sqrt(total)
    largest = float(np.abs(values).max(initial=0.0))
    if not 0.0 < largest < math.inf:  # zero, infinite or NaN
        return largest
    scaled = values / largest
    return largest * math.sqrt(float(np.vdot(scaled, scaled)))
