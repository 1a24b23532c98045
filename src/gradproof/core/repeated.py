"""Many segments instead of one: round-off as it is, not as it might be.

A single segment's bar holds whatever round-off does, and in half precision hides a fifth of a small derivative. Along
other directions round-off is another, and a wrong factor is the same. So the part by which the derivative adds up to
too much is measured along several of them. What these differ by among each other is the round-off there is, and
Student's t says how far their mean may be off. What quadrature may be off by is not random, and shows by cutting a
segment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gradproof.core.integral import Balance, Course, Segment, balance, lay, size_around
from gradproof.core.investigation import Investigation
from gradproof.core.precision import EVALUATION_ROUND_OFF, UNSEEN_SHARE
from gradproof.core.space import Block
from gradproof.core.types import Flags, Vector

_SEGMENTS, _STUDENT = 8, 12.0
"""How many, and by how many standard errors a mean of so many is off with a probability of 1e-5: of right ones."""
_LENGTHS = (0.5, 0.25)
"""Half the segments, in units of each coordinate: none changes its sign, because at zero there may be a pole."""
# Segments that are cut once more, to see what that changes; and how far quadrature may be off in units of it.
_CUT, _BEYOND = 2, 2.0
_FIRST_SEED = 101
# An output changes by many steps if it does so by this many times its round-off; and so must this part of the change.
_STEPS, _MOST = 2.0, 0.75
# Segments that are looked at before many are, and their length; and how many parts an input is looked at in.
_FEW, _GLANCE, _PARTS = 3, 0.25, 4


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
    for length in _LENGTHS:
        found = _along_many(investigation, moved, length)
        if found is not None and (sharpest is None or found.bar < sharpest.bar):
            sharpest = found
        if sharpest is not None and sharpest.tells:
            break
    return sharpest


def is_suspicious(investigation: Investigation, moved: Flags, allowed: float) -> bool:
    """Whether a few segments say that the derivative adds up to too much by more than what is allowed.

    It takes a quarter of what `repeat` does, which says whether that is more than round-off.
    """
    made = [_along(investigation, moved, number, _GLANCE) for number in range(_FEW)]
    parts = [_part(balance) for balance in made if balance is not None]
    return len(parts) == _FEW and abs(float(np.mean(parts))) > allowed


def by_value(point: Vector, block: Block) -> list[Flags]:
    """The coordinates of an input in a few parts, from the smallest numbers to the largest.

    A derivative that is meant for another function of each number (another approximation, say) is too large for some
    and too small for others, which in the sum over all cancels.

    >>> block = Block("input", 0, "x", (6,), 1, 0, 2.0**-7)
    >>> [np.flatnonzero(part).tolist() for part in by_value(np.array([3.0, -1.0, 0.0, 2.0, 1.0, -2.0]), block)]
    [[1, 5], [2, 4], [0, 3]]
    """
    order = np.argsort(point[block.slice], kind="stable") + block.start
    found: list[Flags] = []
    for part in np.array_split(order, min(_PARTS, len(order) // 2)) if len(order) >= 2 * 2 else []:
        flags = np.zeros(len(point), dtype=np.bool_)
        flags[part] = True
        found.append(flags)
    return found


def _along_many(investigation: Investigation, moved: slice | Flags, length: float) -> Repeated | None:
    made: list[Balance] = []
    unsettled = 0.0
    for number in range(_SEGMENTS):
        found = _along(investigation, moved, number, length, panels=2)
        if found is None:
            return None
        if number < _CUT:
            whole = balance(investigation, found.segment, found.cotangent, is_aimed=True)
            if whole is None:
                return None
            unsettled = max(unsettled, abs(whole.claimed - found.claimed) / found.size)
        made.append(found)
    parts = [_part(each) for each in made]
    error = float(np.std(parts, ddof=1)) / math.sqrt(_SEGMENTS)
    return Repeated(float(np.mean(parts)), _STUDENT * error + _BEYOND * unsettled, made[0])


def _along(
    investigation: Investigation, moved: slice | Flags, number: int, length: float, panels: int = 1
) -> Balance | None:
    """The balance along one of the segments; None: it cannot be laid, or says nothing."""
    course = Course(moved, _FIRST_SEED + 2 * number, is_aimed=True)
    segment = lay(investigation, course.direction(investigation, tight=True), length)
    if segment is None or not np.isfinite(segment.change).all():
        return None
    if not _is_resolved(investigation, segment):
        return None
    made = balance(investigation, segment, course.cotangent(investigation, segment), is_aimed=True, panels=panels)
    return made if made is not None and made.size else None


def _is_resolved(investigation: Investigation, segment: Segment) -> bool:
    """Whether most of the change is by many steps of the numbers it is computed with: else round-off is not random.

    These may be as large as the outputs are elsewhere: a value that cancellation left changes by a few steps or none.
    """
    problem, change = investigation.problem, np.abs(segment.change)
    step = np.fmax(segment.error, EVALUATION_ROUND_OFF * problem.outputs.eps * investigation.once(size_around))
    return float(change[change >= _STEPS * step].sum()) > _MOST * float(change.sum())


def _part(made: Balance) -> float:
    """By which part the derivative adds up to too much."""
    return (made.claimed - made.changed) / max(abs(made.changed), 0.5 * made.size)
