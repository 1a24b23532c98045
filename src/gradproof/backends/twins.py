"""Whether a call in double precision, a twin, computes the same function as the low-precision call: numbers alone.

What twins are for, and how a framework makes one, is said in its backend. The PyTorch backend compares tensors where
they are, by the same numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradproof.core.norm import parts
from gradproof.core.space import Block
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
    >>> nowhere = np.array([-np.inf, 2.0])  # what is no number tells nothing; the others still do
    >>> same_function(nowhere, nowhere.copy(), 2.0**-23), same_function(nowhere, nowhere + 0.001, 2.0**-23)
    (True, False)
    """
    if fine is coarse:
        return True
    beside = OF_THE_LARGEST * _largest(fine)
    return all(_near(fine[p], coarse[p], _round_off(fine[p], beside, SAME_VALUE * eps)) for p in parts(len(fine)))


def same_change(fine: Change, coarse: Change, eps: float) -> bool:
    """Whether two changes are one, where the values of the second have round-off of the lower precision."""
    beside = OF_THE_LARGEST * _largest(coarse.here)
    for part in parts(len(coarse.here)):
        one, other = fine.of(part), coarse.of(part)
        allowed = _round_off(coarse.here[part], beside, SAME_CHANGE * eps)
        allowed += SAME_CHANGE_SHARE * np.abs(one)
        if not _near(one, other, allowed):
            return False
    return True


class Change(NamedTuple):
    """The values of a function at two points."""

    here: Vector
    there: Vector

    def of(self, part: slice) -> Vector:
        return self.there[part] - self.here[part]

    def within(self, block: Block) -> Change:
        """That of some outputs."""
        return Change(self.here[block.slice], self.there[block.slice])


def _round_off(values: Vector, beside: float, relative: float) -> Vector:
    sizes = np.abs(values)
    sizes += beside
    sizes *= relative
    return sizes


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
    """The largest number: what is none has no round-off that others could share."""
    largest = [max(float(values[part].max()), -float(values[part].min())) for part in parts(len(values))]
    found = float(np.max(largest, initial=0.0))
    return found if np.isfinite(found) else float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _near(left: Vector, right: Vector, allowed: Vector) -> bool:
    """Whether they differ by no more than that, where one of them is a finite number."""
    with np.errstate(invalid="ignore"):
        apart = left - right
    near = np.abs(apart, out=apart) <= allowed
    return bool(near.all()) or bool((near | (~np.isfinite(left) & ~np.isfinite(right))).all())
