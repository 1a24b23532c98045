"""Many segments instead of one: round-off as it is, not as it might be.

A single segment's bar holds whatever round-off does, and in half precision hides a fifth of a small derivative. Along
other directions round-off is another, and a wrong factor is the same. So the part by which the derivative adds up to too
much is measured along several of them. What these differ by among each other is the round-off there is, and Student's
t says how far their mean may be off. What quadrature may be off by is not random, and shows by cutting a segment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gradproof.core.integral import Balance, Course, balance, lay
from gradproof.core.investigation import Investigation
from gradproof.core.precision import HALF_OR_LESS, UNSEEN_SHARE
from gradproof.core.types import Flags

_SEGMENTS, _STUDENT = 8, 12.0
"""How many, and by how many standard errors a mean of so many is off with a probability of 1e-5: of right ones."""
_HALF, _SINGLE = (0.5, 0.25, 1.0), (2.0**-4, 2.0**-6)
"""Half the segments, in units of each coordinate's scale: in half precision and in single precision."""
# Segments that are cut once more, to see what that changes; and how far quadrature may be off in units of it.
_CUT, _BEYOND = 2, 2.0
_FIRST_SEED = 101


@dataclass(frozen=True, slots=True)
class Repeated:
    """By which part the derivative adds up to too much along segments, with its bar; and the first of them."""

    mean: float
    bar: float
    first: Balance

    @property
    def tells(self) -> bool:
        """Whether a tenth would be noticed."""
        return self.bar <= UNSEEN_SHARE


def repeat(investigation: Investigation, moved: slice | Flags) -> Repeated | None:
    """The mean along segments of one length, of the first length that tells; None: none can be laid."""
    sharpest: Repeated | None = None
    for length in _HALF if investigation.problem.coarsest_eps > HALF_OR_LESS else _SINGLE:
        found = _along_many(investigation, moved, length)
        if found is not None and (sharpest is None or found.bar < sharpest.bar):
            sharpest = found
        if sharpest is not None and sharpest.tells:
            break
    return sharpest


def _along_many(investigation: Investigation, moved: slice | Flags, length: float) -> Repeated | None:
    parts: list[float] = []
    first: Balance | None = None
    unsettled = 0.0
    for number in range(_SEGMENTS):
        course = Course(moved, _FIRST_SEED + 2 * number, is_aimed=True)
        segment = lay(investigation, course.direction(investigation, tight=False), length)
        if segment is None or not np.isfinite(segment.change).all():
            return None
        cotangent = course.cotangent(investigation, segment)
        made = balance(investigation, segment, cotangent, is_aimed=True, panels=2)
        if made is None or not made.size:
            return None
        if number < _CUT:
            whole = balance(investigation, segment, cotangent, is_aimed=True)
            if whole is None:
                return None
            unsettled = max(unsettled, abs(whole.claimed - made.claimed) / made.size)
        parts.append((made.claimed - made.changed) / max(abs(made.changed), 0.5 * made.size))
        first = first or made
    assert first is not None, "there are segments"
    error = float(np.std(parts, ddof=1)) / math.sqrt(_SEGMENTS)
    return Repeated(float(np.mean(parts)), _STUDENT * error + _BEYOND * unsettled, first)
