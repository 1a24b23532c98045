"""Where an input is wrong: at an end of an axis, along its border, where its values are beyond a bound.

"Only" is said of what a question about all other elements together has confirmed: a direction that moves every element
outside of the region, along which claim and truth agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gradproof.causes.arrays import base_arrays
from gradproof.causes.evidence import Evidence
from gradproof.causes.sampling import Samples
from gradproof.core.problem import Mode
from gradproof.core.types import Flags, Vector

# Claim and truth agree along a direction if they differ by no more than what may be.
_AGREES = 1.0
# How likely it may be that what was sampled lies in a region by chance.
_CHANCE = 1e-2


def region(evidence: Evidence, found: Samples) -> str:
    """Where the input is wrong, proved; nothing where that is everywhere, or no region is proved."""
    if not found.right.any() or not found.wrong.any():
        return _of_output(evidence)
    for text, inside in _candidates(evidence, found):
        if inside.any() and not inside.all() and _agrees_without(evidence, inside):
            return text
    return _of_output(evidence)


def _is_chance(found: Samples, ways: int) -> bool:
    """Whether as many wrong ones among those sampled are likely to lie so in one of so many ways, by chance."""
    return ways > _CHANCE * math.comb(int(found.telling.sum()), int(found.wrong.sum()))


def _agrees_without(evidence: Evidence, inside: Flags) -> bool:
    """Whether claim and truth agree along all elements that are not inside."""
    parts = np.repeat(inside, evidence.input.parts)
    outside = np.where(parts, 0.0, evidence.direction)
    if evidence.is_small:  # every element is known by itself
        found = np.isin(evidence.elements(), _wrong_elements(evidence))
        return not bool((found & ~inside).any())
    off = evidence.residual(outside)
    return off is not None and off <= _AGREES


def _wrong_elements(evidence: Evidence) -> Vector:
    from gradproof.causes.sampling import samples

    wrong = [each.columns[each.wrong] for each in (samples(evidence, v) for v in evidence.cotangents)]
    return evidence.problem.inputs.element_of(np.unique(np.concatenate(wrong)))


def _candidates(evidence: Evidence, found: Samples) -> Iterator[tuple[str, Flags]]:
    block = evidence.input
    shape = block.shape
    elements = evidence.elements()
    everywhere = block.positions(elements) if shape else ()
    wrong, right = (block.positions(found.columns[which]) for which in (found.wrong, found.right))
    for axis, size in enumerate(shape):
        bad, good = np.unique(wrong[axis]), np.unique(right[axis])
        between = bool(((good > bad.min()) & (good < bad.max())).any())
        if size < 3 or np.intersect1d(bad, good).size or (between and bad.tolist() != [0, size - 1]):
            continue
        index = everywhere[axis]
        for text, inside in _ends(evidence, axis, size, (int(bad.min()), int(bad.max())), good, index):
            lone = len(bad) == 1 and bad[0] in (0, size - 1)
            at_end = bool(inside[index == 0].any() or inside[index == size - 1].any())
            if 2 * len(np.unique(index[inside])) <= size and (lone or not _is_chance(found, 2 if at_end else size)):
                yield text, inside
    if shape and min(shape) > 2:
        border = np.zeros(len(elements), dtype=np.bool_)
        for axis, size in enumerate(shape):
            border |= (everywhere[axis] == 0) | (everywhere[axis] == size - 1)
        if not _is_chance(found, 1) and all(border[(found.columns[found.wrong] - block.start) // block.parts]):
            yield f"wrong only along the border of {block.label}", border
    yield from _by_value(evidence, found)


def _ends(
    evidence: Evidence, axis: int, size: int, bad: tuple[int, int], good: Vector, index: Vector
) -> Iterator[tuple[str, Flags]]:
    """Indices from a lowest to a highest, as far as wrong ones reach."""
    label = evidence.input.label
    low, high = bad
    below = max([int(k) for k in good if k < low], default=-1)
    above = min([int(k) for k in good if k > high], default=size)
    if low == 0 and high == size - 1 and not evidence.is_small:
        both = (index == 0) | (index == size - 1)
        yield f"wrong only at both ends of axis {axis} of {label}: the boundary", both
        return
    low = _first_wrong(evidence, index, below, low)
    high = _last_wrong(evidence, index, high, above)
    inside = (index >= low) & (index <= high)
    count = high - low + 1
    if low == 0 and high == size - 1:
        both = (index == 0) | (index == size - 1)
        yield f"wrong only at both ends of axis {axis} of {label}: the boundary", both
    elif count == 1:
        which = ": the last" if low == size - 1 else ": the first" if low == 0 else ""
        yield f"wrong only at index {low} of {size} along axis {axis} of {label}{which}", inside
    elif high == size - 1:
        yield (
            f"wrong only at the last {count} of {size} indices along axis {axis} of {label}: a tail left over?",
            inside,
        )
    elif low == 0:
        yield f"wrong only at the first {count} of {size} indices along axis {axis} of {label}", inside
    else:
        yield f"wrong only at indices {low} to {high} of {size} along axis {axis} of {label}", inside


def _first_wrong(evidence: Evidence, index: Vector, below: int, low: int) -> int:
    """The lowest wrong index, between one that is right and one that is wrong, by halving."""
    while low - below > 1:
        middle = (low + below + 1) // 2 if not low - below > 2 else (low + below) // 2
        off = _off(evidence, (index > below) & (index <= middle))
        if off is None:
            return low
        if off > _AGREES:
            low = middle if middle < low else middle
            if low - below == 1:
                return low
        else:
            below = middle
    return low


def _last_wrong(evidence: Evidence, index: Vector, high: int, above: int) -> int:
    """The highest wrong index, in the same way."""
    while above - high > 1:
        middle = (high + above) // 2
        off = _off(evidence, (index >= middle) & (index < above))
        if off is None:
            return high
        if off > _AGREES:
            high = middle
        else:
            above = middle
    return high


def _off(evidence: Evidence, inside: Flags) -> float | None:
    return evidence.residual(np.where(np.repeat(inside, evidence.input.parts), evidence.direction, 0.0))


def _by_value(evidence: Evidence, found: Samples) -> Iterator[tuple[str, Flags]]:
    """Beyond a bound of the input, the output or another input."""
    if int(found.wrong.sum()) < 2 or int(found.right.sum()) < 2 or _is_chance(found, 2):
        return
    inside = found.columns - evidence.input.start
    for name, array in base_arrays(evidence):
        bad, good = array[inside[found.wrong]], array[inside[found.right]]
        for word, low, high, sign in (("above", good, bad, 1.0), ("below", -good, -bad, -1.0)):
            if low.max() < high.min():
                bound, told = _bound(sign * float(low.max()), sign * float(high.min()))
                yield f"wrong only where {name} is {word} {told}", sign * array > sign * bound


def _bound(first: float, second: float) -> tuple[float, str]:
    """A bound between two numbers: a round one, if there is one."""
    low, high = min(first, second), max(first, second)
    for digits in range(3):
        rounded = round((low + high) / 2.0, digits)
        if low <= rounded <= high:
            return rounded, f"{rounded + 0.0:g}"
    middle = (low + high) / 2.0
    return middle, f"about {middle:.3g}"


def _of_output(evidence: Evidence) -> str:
    """Where an output is wrong: by cotangents of parts of it, which cost no evaluation."""
    if evidence.mode is not Mode.REVERSE or evidence.output.size < 3 or evidence.output.elements is not None:
        return ""
    known = evidence.along(evidence.direction)
    if known is None:
        return ""
    block, (value, error) = evidence.output, known
    parts = np.arange(block.start, block.stop)
    for axis, (size, index) in enumerate(zip(block.shape, block.positions(parts), strict=True)):
        if size < 3:
            continue

        def off(inside: Flags) -> bool:
            asked = np.where(inside, evidence.cotangents[0], 0.0)
            allowed = 8.0 * float(np.linalg.norm(asked * error)) + 1e-9 * float(np.linalg.norm(asked * value))
            return abs(evidence.claimed_sum(asked, evidence.direction) - float(asked @ value)) > allowed

        if off(index < size - size // 2) and off(index >= size - size // 2):
            continue
        low, high = _narrowed(size, lambda lo, hi, index=index, off=off: off((index >= lo) & (index < hi)))
        inside = (index >= low) & (index < high)
        if high - low < size and not off(~inside) and off(inside):
            words = _words(low, high, size)
            return f"wrong only {words} along axis {axis} of {block.label}"
    return ""


def _narrowed(size: int, off: object) -> tuple[int, int]:
    """The indices between which all that is wrong lies."""
    assert callable(off)
    low, high = 0, size
    start, stop = 0, size
    while stop - start > 1:
        middle = (start + stop) // 2
        if off(0, middle):
            stop = middle
        else:
            start = middle
    low = start
    start, stop = low, size
    while stop - start > 1:
        middle = (start + stop) // 2
        if off(middle, size):
            start = middle
        else:
            stop = middle
    high = stop
    return low, high


def _words(low: int, high: int, size: int) -> str:
    count = high - low
    if count == 1:
        which = " (the last)" if high == size else " (the first)" if low == 0 else ""
        return f"at index {low} of {size}{which}"
    if high == size:
        return f"at the last {count} of {size} indices"
    return f"at the first {count} of {size} indices" if low == 0 else f"at indices {low} to {high - 1} of {size}"
