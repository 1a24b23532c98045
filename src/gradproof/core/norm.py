"""The length of a vector, whatever the size of its numbers."""

from __future__ import annotations

import math

import numpy as np

from gradproof.core.types import Vector

# Sums of squares below this may have lost digits.
_TINY = 1e-280
# Longer vectors are taken in parts of this length: no threads are woken up for a dot product, no digits lost.
_PART = 8192


def norm(values: Vector) -> float:
    """The Euclidean norm; squares that leave the range of numbers do no harm.

    >>> norm(np.array([3e-200, 4e-200]))
    5e-200
    """
    total = _squares(values)
    if _TINY < total < math.inf:
        return math.sqrt(total)
    largest = float(np.abs(values).max(initial=0.0))
    if not 0.0 < largest < math.inf:  # zero, infinite or NaN
        return largest
    scaled = values / largest
    return largest * math.sqrt(_squares(scaled))


def _squares(values: Vector) -> float:
    """The sum of the squares."""
    if len(values) <= _PART:
        return float(np.vdot(values, values))  # `dot` warns of overflow
    parts = (values[start : start + _PART] for start in range(0, len(values), _PART))
    return math.fsum([float(np.vdot(part, part)) for part in parts])
