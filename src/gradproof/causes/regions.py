"""Where an input is wrong: at an end of an axis, along its border, where its values are beyond a bound.

"Seen to be wrong only" is said of what a question about all other elements together has confirmed: a direction that
moves every element outside of the region, along which claim and truth agree. An error that is smaller than what may be
along this direction hides from it: of many elements, that size is said too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from gradproof.causes.arrays import base_arrays
from gradproof.causes.evidence import Evidence
from gradproof.causes.sampling import Samples, samples
from gradproof.core.norm import norm
from gradproof.core.precision import CLEAR
from gradproof.core.problem import Mode
from gradproof.core.types import Flags, Indices, Vector

# Claim and truth agree along a direction if they differ by no more than what may be.
_AGREES = 1.0
# How likely it may be that what was sampled lies in a region by chance.
_CHANCE = 1e-2
# How often a bound is narrowed.
_NARROWER = 3
# Evaluations that are kept for the last question, about all that is outside.
_LAST = 4
# Elements inside of a region that are looked at, of many.
_PICKED = 4
# What is said of a region: of what is elsewhere, less was not seen.
_ONLY, _ALL = "seen to be wrong only", "all that was seen to be wrong lies"
# What kernels take at a time.
_TILES = tuple(2**k for k in range(1, 11))


def region(evidence: Evidence, found: Samples) -> str:
    """Where the input is wrong, proved; nothing where that is everywhere, or no region is proved."""
    if not found.right.any() or not found.wrong.any():
        return of_output(evidence)
    for inside, told in _candidates(evidence, found):
        if inside.any() and not inside.all() and _agrees_without(evidence, inside) and (narrowed := told()):
            return _as_seen(evidence, inside, narrowed)
    return of_output(evidence)


@dataclass(frozen=True, slots=True)
class _Region:
    """A region that was narrowed, in words, and what is said of the one it was narrowed from."""

    text: str
    inside: Flags
    wide: str
    hides: bool = True
    """Whether errors outside of it may hide, and that is to be said."""


def _as_seen(evidence: Evidence, wide: Flags, narrowed: _Region) -> str:
    """A region in words, with the size of errors that may hide elsewhere.

    What was left out step by step is asked about once more, all together: many small errors may add up to one that
    shows.
    """
    if evidence.is_small or not narrowed.hides:
        return narrowed.text
    for text, inside in ((narrowed.text, narrowed.inside), (narrowed.wide, wide)):
        outside = _without(evidence, inside)
        off = evidence.residual(outside)
        if text and off is not None and off <= _AGREES:
            return f"{text} (elsewhere, less than {evidence.hidden(outside):.1g} may hide)"
    return ""


def _without(evidence: Evidence, inside: Flags) -> Vector:
    return np.where(np.repeat(inside, evidence.input.parts), 0.0, evidence.direction)


def _is_chance(found: Samples, ways: int) -> bool:
    """Whether as many wrong ones among those sampled are likely to lie so in one of so many ways, by chance."""
    every, wrong = int(found.telling.sum()), int(found.wrong.sum())
    choices = math.lgamma(every + 1) - math.lgamma(wrong + 1) - math.lgamma(every - wrong + 1)
    return math.log(ways / _CHANCE) > choices


def _agrees_without(evidence: Evidence, inside: Flags) -> bool:
    """Whether claim and truth agree along all elements that are not inside."""
    if evidence.is_small:  # every element is known by itself, if it tells anything
        wrong, right = (np.isin(evidence.elements(), each) for each in _known_elements(evidence))
        return not bool((wrong & ~inside).any()) and bool(right[~inside].any()) and not _hides(evidence, inside | right)
    off = evidence.residual(_without(evidence, inside))
    return off is not None and off <= _AGREES


def _known_elements(evidence: Evidence) -> tuple[Indices, Indices]:
    """The elements that are wrong for some cotangent, and those that are right for some."""
    each = [samples(evidence, cotangent) for cotangent in evidence.cotangents]
    wrong, right = (
        np.unique(np.concatenate(columns))
        for columns in ([one.columns[one.wrong] for one in each], [one.columns[one.right] for one in each])
    )
    return evidence.problem.inputs.element_of(wrong), evidence.problem.inputs.element_of(right)


def _hides(evidence: Evidence, settled: Flags) -> bool:
    """Whether an element of which nothing is settled moves the output: so it may be wrong, unseen."""
    columns = evidence.elements()[~settled]
    truth = [np.abs(evidence.truth_at(v, columns)) > evidence.bar_at(v, columns) for v in evidence.cotangents]
    return bool(np.any(truth))


def _candidates(evidence: Evidence, found: Samples) -> Iterator[tuple[Flags, Callable[[], _Region | None]]]:
    """Regions that hold all wrong samples and few right ones, as flags of elements; and how to narrow and tell them."""
    block, shape = evidence.input, evidence.input.shape
    elements = evidence.elements()
    everywhere = block.positions(elements) if shape else ()
    wrong, right = (block.positions(found.columns[which]) for which in (found.wrong, found.right))
    for axis, size in enumerate(shape):
        bad, good = np.unique(wrong[axis]), np.unique(right[axis])
        if size > 2 and not np.intersect1d(bad, good).size:
            yield from _along(evidence, found, _Axis(axis, size, everywhere[axis]), bad, good)
    if shape and min(shape) > 2 and not _is_chance(found, 1):
        border = np.zeros(len(elements), dtype=np.bool_)
        for axis, size in enumerate(shape):
            border |= (everywhere[axis] == 0) | (everywhere[axis] == size - 1)
        if all(border[(found.columns[found.wrong] - block.start) // block.parts]):
            yield border, lambda: _Region(f"{_ONLY} along the border of {block.label}", border, "")
    yield from _by_value(evidence, found)


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of the input, and the index along it of every element."""

    number: int
    size: int
    index: Indices


def _along(
    evidence: Evidence, found: Samples, axis: _Axis, bad: Indices, good: Indices
) -> Iterator[tuple[Flags, Callable[[], _Region | None]]]:
    """Indices of one axis from a lowest to a highest, or both ends of it."""
    index, size = axis.index, axis.size
    low, high = int(bad.min()), int(bad.max())
    if (low, high) == (0, size - 1):
        if len(bad) == 2 and size > 3 and not _is_chance(found, 1):
            text = f"{_ONLY} at both ends of axis {axis.number} of {evidence.input.label}: the boundary"
            ends = (index == 0) | (index == size - 1)
            yield ends, lambda: _Region(text, ends, "")
        return
    below = max([int(k) for k in good if k < low], default=-1)
    above = min([int(k) for k in good if k > high], default=size)
    if ((good > low) & (good < high)).any():
        return
    at_end = below < 0 or above == size
    lone = len(bad) == 1 and at_end
    # of many elements, those outside are proved to be right all together: that is no chance
    if lone or not evidence.is_small or not _is_chance(found, 2 if at_end else size):
        yield (index > below) & (index < above), lambda: _told(evidence, axis, (below, low, high, above))


def _told(evidence: Evidence, axis: _Axis, known: tuple[int, int, int, int]) -> _Region | None:
    """The region between two indices that are right, narrowed and in words; None where it is most of the axis."""
    below, low, high, above = known
    wide = _within(evidence, axis, below, above)
    below, low = _first_wrong(evidence, axis.index, below, low)
    high, above = _last_wrong(evidence, axis.index, high, above)
    size, count = axis.size, high + 1 - low
    where = f"along axis {axis.number} of {evidence.input.label}"
    if low - below > 1 or above - high > 1:  # there was no room to narrow it further
        text, inside = _within(evidence, axis, below, above), (axis.index > below) & (axis.index < above)
        return _Region(text, inside, wide) if text else None
    inside = (axis.index >= low) & (axis.index <= high)
    if count == size - 1:
        which = "the last" if low == 0 else "the first"
        text = f"only index {size - 1 if low == 0 else 0} of {size} ({which}) {where} was seen to be right"
        return _Region(text, inside, "", hides=False)
    if 2 * count > size + 1:
        return None
    tiles = [tile for tile in _TILES if tile < size and size % tile == count]
    if not _is_solid(evidence, axis, low, high):
        text = f"{_ALL} {_words(low, high + 1, size)} {where}, among right ones"
        return _Region(text, inside, wide)
    tail = f": a tail left over after tiles of {tiles[-1]}?" if high == size - 1 and tiles else ""
    half = f": the {'second' if low else 'first'} half" if 2 * count == size and (low == 0 or high == size - 1) else ""
    return _Region(f"{_ONLY} {_words(low, high + 1, size)} {where}{tail or half}", inside, wide)


def _within(evidence: Evidence, axis: _Axis, below: int, above: int) -> str:
    """The indices between two that are right; nothing where these are most of the axis."""
    within = _words(below + 1, above, axis.size).removeprefix("at ")
    where = f"along axis {axis.number} of {evidence.input.label}"
    return f"{_ALL} within {within} {where}" if 2 * (above - below) <= axis.size else ""


def _is_solid(evidence: Evidence, axis: _Axis, low: int, high: int) -> bool:
    """Whether elements from a lowest to a highest wrong index are wrong all over, as far as a few of them tell."""
    if evidence.is_small or high - low < 2:
        return True
    inside = evidence.elements()[(axis.index > low) & (axis.index < high)]
    rng = np.random.default_rng(evidence.investigation.seed + 6)
    picked = inside[rng.permutation(len(inside))[:_PICKED]]
    evidence.measure(picked[: max(0, evidence.allowance.left - _LAST) // 2])
    each = [samples(evidence, cotangent) for cotangent in evidence.cotangents]
    wrong, right = (
        np.isin(picked, np.concatenate(known))
        for known in ([one.columns[one.wrong] for one in each], [one.columns[one.right] for one in each])
    )
    return bool((wrong | ~right).all())


def _first_wrong(evidence: Evidence, index: Indices, below: int, low: int) -> tuple[int, int]:
    """The highest right index below the lowest wrong one, and that, by halving; further apart if that has to end."""
    while low - below > 1:
        middle = (low + below) // 2
        off = _off(evidence, (index > below) & (index <= middle))
        if off is None:
            break
        low, below = (middle, below) if off > _AGREES else (low, middle)
    return below, low


def _last_wrong(evidence: Evidence, index: Indices, high: int, above: int) -> tuple[int, int]:
    """The highest wrong index and the right one above it, in the same way."""
    while above - high > 1:
        middle = (high + above) // 2
        off = _off(evidence, (index >= middle) & (index < above))
        if off is None:
            break
        high, above = (middle, above) if off > _AGREES else (high, middle)
    return high, above


def _off(evidence: Evidence, inside: Flags) -> float | None:
    """By how much elements are off, all together; None where there is room for the last question only."""
    if not evidence.is_small and evidence.allowance.left < 2 + _LAST:
        return None
    return evidence.residual(np.where(np.repeat(inside, evidence.input.parts), evidence.direction, 0.0), quick=True)


def _by_value(evidence: Evidence, found: Samples) -> Iterator[tuple[Flags, Callable[[], _Region | None]]]:
    """Beyond a bound of the input, the output or another input."""
    arrays = list(base_arrays(evidence))
    few = int(found.wrong.sum()) < 2 or int(found.right.sum()) < 2
    if few or not arrays or _is_chance(found, 2 * len(arrays)):
        return
    inside = found.columns - evidence.input.start
    arrays += [(f"|{name}|", np.abs(array)) for name, array in arrays if (array < 0).any()]
    for name, array in arrays:
        bad, good = array[inside[found.wrong]], array[inside[found.right]]
        for word, low, high, sign in (("above", good, bad, 1.0), ("below", -good, -bad, -1.0)):
            if low.max() < high.min():
                yield (
                    sign * array > low.max(),
                    partial(_bounded, evidence, name, word, sign * array, (low.max(), high.min())),
                )


def _bounded(evidence: Evidence, name: str, word: str, values: Vector, bounds: tuple[float, float]) -> _Region:
    sign = 1.0 if word == "above" else -1.0
    narrowed = _narrowed_bound(evidence, values, *map(float, bounds))
    text, wide = (
        f"{_ONLY} where {name} is {word} a bound between {first:.3g} and {last:.3g}"
        for first, last in (sorted(sign * bound for bound in each) for each in (narrowed, bounds))
    )
    return _Region(text, values > narrowed[0], wide)


def _narrowed_bound(evidence: Evidence, values: Vector, low: float, high: float) -> tuple[float, float]:
    """Two numbers, closer to each other, between which the bound lies: nothing is wrong up to the lower one."""
    for _ in range(_NARROWER):
        between = values[(values > low) & (values < high)]
        if not len(between):
            break
        middle = float(np.median(between))
        off = _off(evidence, (values > low) & (values <= middle))
        if off is None:
            break
        low, high = (low, middle) if off > _AGREES else (middle, high)
    return low, high


def of_output(evidence: Evidence) -> str:
    """Where an output is wrong: by cotangents of parts of it, which cost no evaluation."""
    block, known = evidence.output, evidence.along(evidence.direction)
    if evidence.mode is not Mode.REVERSE or block.size < 3 or block.elements is not None or known is None:
        return ""
    positions = block.positions(np.arange(block.start, block.stop))
    for axis, (size, index) in enumerate(zip(block.shape, positions, strict=True)):
        off = partial(_is_off, evidence, known, index)
        if size < 3 or (off(0, size - size // 2) and off(size - size // 2, size)):
            continue
        low, high = _narrowed(size, off)
        outside = (index < low) | (index >= high)
        sharp = _is_sharp(evidence, known, ~outside, outside)
        if high - low < size and off(low, high) and not off(0, low) and not off(high, size) and sharp:
            return f"{_ONLY} {_words(low, high, size)} along axis {axis} of {block.label}"
    return ""


def _is_sharp(evidence: Evidence, known: tuple[Vector, Vector], wrong: Flags, others: Flags) -> bool:
    """Whether the others are known so well that a part of what is wrong would have been seen among them."""
    value, error = known
    asked = np.where(wrong, evidence.cotangents[0], 0.0)
    off = abs(evidence.claimed_sum(asked, evidence.direction) - float(asked @ value))
    return 8.0 * norm(np.where(others, evidence.cotangents[0] * error, 0.0)) <= CLEAR * off


def _is_off(evidence: Evidence, known: tuple[Vector, Vector], index: Indices, low: int, high: int) -> bool:
    """Whether the outputs with an index from `low` to `high` - 1 differ, along a direction that was measured."""
    value, error = known
    asked = np.where((index >= low) & (index < high), evidence.cotangents[0], 0.0)
    allowed = 8.0 * float(np.linalg.norm(asked * error)) + 1e-9 * float(np.linalg.norm(asked * value))
    return abs(evidence.claimed_sum(asked, evidence.direction) - float(asked @ value)) > allowed


def _narrowed(size: int, off: Callable[[int, int], bool]) -> tuple[int, int]:
    """The indices between which all that is wrong lies: the first of them, and the one after the last."""
    low, stop = 0, size
    while stop - low > 1:
        middle = (low + stop) // 2
        low, stop = (low, middle) if off(0, middle) else (middle, stop)
    start, high = low, size
    while high - start > 1:
        middle = (start + high) // 2
        start, high = (middle, high) if off(middle, size) else (start, middle)
    return low, high


def _words(low: int, high: int, size: int) -> str:
    count = high - low
    if count == 1:
        which = " (the last)" if high == size else " (the first)" if low == 0 else ""
        return f"at index {low} of {size}{which}"
    if high == size:
        return f"at the last {count} of {size} indices"
    return f"at the first {count} of {size} indices" if low == 0 else f"at indices {low} to {high - 1} of {size}"
