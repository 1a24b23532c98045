"""Whether a call in double precision, a twin, computes the same function as the low-precision call: numbers alone.

What twins are for, and how a framework makes one, is said in its backend. The PyTorch backend compares tensors where
they are, by the same numbers.
"""

from __future__ import annotations

import numpy as np

from gradproof.core.norm import parts
from gradproof.core.types import Vector

SAME_VALUE = 64.0
"""Twin and original compute the same function if their values differ by at most this many eps of the lower precision: a
long sum or product may lose that many. A cast inside the function loses more in one of the two only."""
REACH, REACH_IN_EPS = 2.0**-6, 16.0
"""Moved by this part of the point, or by this many eps where that is more, they must change alike, …"""
SAME_CHANGE, SAME_CHANGE_SHARE = 8.0, 0.25
"""… to within this many eps of the value and this part of the change: a twin that does not follow misses all of it."""
APART = 1e-3 / 3.0
"""A point that no lower precision can hold is this far from one that it can."""
OF_THE_LARGEST = 0.1
"""Where an element is small, round-off is that of this part of the largest."""


def same_function(fine: Vector, coarse: Vector, eps: float) -> bool:
    """Equal to within a generous round-off of the lower precision.

    >>> same_function(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 2.0**-22]), 2.0**-23)
    True
    >>> same_function(np.array([1.0, 2.0]), np.array([1.0, 2.001]), 2.0**-23)
    False
    """
    if fine is coarse or np.array_equal(fine, coarse):
        return True
    beside = OF_THE_LARGEST * _largest(fine)
    return all(_near(fine[p], coarse[p], SAME_VALUE * eps * (np.abs(fine[p]) + beside)) for p in parts(len(fine)))


def same_change(fine: Vector, coarse: Vector, value: Vector, eps: float) -> bool:
    """Whether two changes of a value are one, where the value has round-off of the lower precision."""
    beside = OF_THE_LARGEST * _largest(value)

    def allowed(part: slice) -> Vector:
        return SAME_CHANGE * eps * (np.abs(value[part]) + beside) + SAME_CHANGE_SHARE * np.abs(fine[part])

    return all(_near(fine[part], coarse[part], allowed(part)) for part in parts(len(fine)))


def is_coarse(there: Vector, here: Vector) -> bool:
    """Whether all that changed are numbers of single precision, at a point that is none: something rounds inside.

    Integers are left out: a function may be made of them.
    """
    some = False
    for part in parts(len(there)):
        changed = there[part][(there[part] != here[part]) & (there[part] != np.round(there[part]))]
        some |= bool(len(changed))
        if not (changed.astype(np.float32) == changed).all():
            return False
    return some


def _largest(values: Vector) -> float:
    return max(float(values.max()), -float(values.min())) if len(values) else 0.0


def _near(left: Vector, right: Vector, allowed: Vector) -> bool:
    """Whether they differ by no more than that, where one of them is a finite number."""
    near = np.abs(left - right) <= allowed
    return bool(near.all()) or bool((near | (~np.isfinite(left) & ~np.isfinite(right))).all())
