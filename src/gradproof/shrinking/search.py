"""The search for the smallest call: shapes, then values, then the number of inputs.

It knows calls only as `Shrinkable`: a call is proposed, and taken if the same finding is there. Everything is greedy:
what it ends with is a call that no single step of those tried makes smaller, not the smallest of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

from gradproof.backends.shrinkable import Axis, Shrinkable

Place = tuple[int | None, tuple[int, ...], tuple[int, ...]]
"""Of the worst entry: the number of the input's argument, its element, and the element of the output."""
Same = Callable[[Shrinkable], Place | None]
"""Whether a call has the same finding: then where it is."""

# Of at most so many axes of one size all selections are tried; of more, all of them, those in one position, and each.
_FEW_AXES = 4
# Sizes to which all axes are cut at once.
_FEW_INDICES = (1, 2, 3, 4, 8)
# Values are made simple one by one in arrays of at most so many elements.
_FEW_ELEMENTS = 16
_SIMPLE = (1.0, 0.5, 2.0, -1.0, -0.5, -2.0)


class OutOfBudget(Exception):  # noqa: N818 (not an error: the search ends with what it has)
    """The search may not check any more calls."""


class Search:
    """A call, made smaller step by step while `same` says that the finding is there."""

    def __init__(self, call: Shrinkable, place: Place, same: Same) -> None:
        self.call, self._place, self._same = call, place, same
        self._rejected: set[object] = {call.key}
        self._ranges = {
            array.position: _range(call.values(array.position)) for array in call.arrays() if array.kind != "other"
        }
        self.steps: list[str] = []
        self.complete = True

    def run(self) -> None:
        """All stages, each until it comes to an end; the budget may end it before."""
        try:
            self._any(((copy, "arrays of their own") for copy in self.call.copies()), note=False)
            self._any(self._all_at_once())
            while self._shapes():
                pass
            while self._with_simple_values():
                pass
            self._inputs()
        except OutOfBudget:
            self.complete = False

    def _any(self, proposals: Iterable[tuple[Shrinkable, str]], note: bool = True) -> bool:
        """Take the first proposal with the same finding; whether there was one."""
        for proposal, words in proposals:
            if proposal.key in self._rejected:
                continue
            place = self._same(proposal)
            self._rejected.add(proposal.key)
            if place is not None:
                self.call, self._place = proposal, place
                if note:
                    self.steps.append(words)
                return True
        return False

    # shapes

    def _all_at_once(self) -> Iterator[tuple[Shrinkable, str]]:
        """Every axis cut to a few indices: where this is enough, no call of middling size is ever checked."""
        arrays = self.call.arrays()
        for new in _FEW_INDICES:
            sizes = sorted({size for array in arrays for size in array.shape if size > new}, reverse=True)
            starts = {size: self._starts(self._axes(size), size, new) for size in sizes}
            for choice in range(max(map(len, starts.values()), default=0)):
                cut = counted = self.call
                for size in sizes:
                    start = starts[size][min(choice, len(starts[size]) - 1)]
                    cut = cut.cut({axis: range(start, start + new) for axis in self._axes(size)})
                    counted = counted.cut({axis: range(start, start + new) for axis in self._axes(size)})
                    counted = counted.counting(size, new) or counted
                yield cut, f"all sizes to at most {new}"
                yield counted, f"all sizes to at most {new}"

    def _axes(self, size: int) -> dict[Axis, int]:
        """The axes of one size."""
        return {(array.position, k): 1 for array in self.call.arrays() for k, n in enumerate(array.shape) if n == size}

    def _shapes(self) -> bool:
        """One pass over the sizes, the largest first; whether it made anything smaller."""
        sizes = {size for array in self.call.arrays() for size in array.shape if size > 1}
        return True in [self._size(size) for size in sorted(sizes, reverse=True)]

    def _size(self, size: int) -> bool:
        """Make axes of one size smaller: all together if that can be, else some of them."""
        return True in [self._any(self._cuts(axes, size)) for axes in self._groups(size)]

    def _groups(self, size: int) -> Iterator[dict[Axis, int]]:
        """Axes to be cut together, each with how many times `size` it has: those of one size, and multiples of it."""
        axes = [(array, k) for array in self.call.arrays() for k, n in enumerate(array.shape) if n == size]
        equal = self._axes(size)
        multiples = {
            (array.position, k): n // size
            for array in self.call.arrays()
            for k, n in enumerate(array.shape)
            if n and n % size == 0
        }
        yield equal
        if multiples != equal:
            yield multiples
        if len(axes) <= _FEW_AXES:
            for count in range(len(axes) - 1, 0, -1):
                for some in combinations(equal, count):
                    yield dict.fromkeys(some, 1)
            return
        for from_end in (False, True):
            numbers = {k - len(array.shape) if from_end else k for array, k in axes}
            for number in sorted(numbers):
                some = [(a.position, k) for a, k in axes if number == (k - len(a.shape) if from_end else k)]
                yield dict.fromkeys(some, 1)
        for axis in equal:
            yield {axis: 1}

    def _cuts(self, axes: dict[Axis, int], size: int) -> Iterator[tuple[Shrinkable, str]]:
        """The call with fewer indices along these axes, the fewest first: small calls are cheap to reject."""
        shapes = {array.position: array.shape for array in self.call.arrays()}
        if any(shapes[position][k] != times * size for (position, k), times in axes.items()):
            return  # an earlier cut has changed them
        for new in _smaller(size):
            for start in self._starts(axes, size, new):
                kept = {
                    axis: [part * size + start + k for part in range(times) for k in range(new)]
                    for axis, times in axes.items()
                }
                cut = self.call.cut(kept)
                words = f"size {size} to {new} along {len(axes)} {'axis' if len(axes) == 1 else 'axes'}"
                yield cut, words
                counted = cut.counting(size, new)
                if counted is not None:
                    yield counted, words

    def _starts(self, axes: dict[Axis, int], size: int, new: int) -> list[int]:
        """Where the kept indices may begin: so that the wrong entry is among them, at the front, at the back."""
        origin, element, output_element = self._place
        origins = {array.position: array.origin for array in self.call.arrays()}
        near = [element[k] % size for position, k in axes if origins[position] == origin and k < len(element)]
        near += [index for index in output_element if index < size]
        starts = [max(0, min(index - new + 1, size - new)) for index in near]
        starts += [min(index, size - new) for index in near]
        return list(dict.fromkeys([*starts, 0, size - new]))

    # values

    def _with_simple_values(self) -> bool:
        return True in [self._any(self._simpler(array.position)) for array in self.call.arrays()]

    def _simpler(self, position: int) -> Iterator[tuple[Shrinkable, str]]:
        """Other values for one array, inside of the range that it was given with, the simplest first."""
        (kind,) = [each.kind for each in self.call.arrays() if each.position == position]
        values = self.call.values(position) if kind != "other" else []
        if not values:
            return
        low, high = self._ranges[position]
        low = min(low, 0.0) if kind == "integer" else low
        rank = _complexity(values)
        for proposed in _proposals(values, kind == "integer"):
            if all(low <= value <= high for value in proposed) and _complexity(proposed) < rank:
                yield self.call.with_values(position, proposed), f"simpler values in array {position}"

    # inputs

    def _inputs(self) -> None:
        """Inputs that the finding does not need are left out, or become constants."""
        origin = self._place[0]
        for array in reversed(self.call.arrays()):
            if array.origin == origin:
                continue
            if self._any((less, f"argument {array.origin} left out") for less in self.call.without(array.position)):
                continue
            if array.tested:
                self._any([(self.call.constant(array.position), f"argument {array.origin} a constant")])


def _proposals(values: list[float], whole: bool) -> Iterator[list[float]]:
    """Values in place of others: one for all, all in few digits, and of few elements each by itself."""
    simple = (0.0, 1.0) if whole else _SIMPLE
    yield from ([value] * len(values) for value in simple)
    if not whole:
        yield from ([_rounded(value, digits) for value in values] for digits in (1, 2, 3))
    if len(values) <= _FEW_ELEMENTS:
        for k, value in enumerate(values):
            others = simple if whole else (*simple, _rounded(value, 1), _rounded(value, 2))
            yield from ([*values[:k], other, *values[k + 1 :]] for other in others)


def _range(values: list[float]) -> tuple[float, float]:
    return min(values, default=0.0), max(values, default=0.0)


def _smaller(size: int) -> list[int]:
    """Sizes to try in place of one, ascending: small ones, about every power of the square root of two, the next."""
    tried = {1, 2, 3, 4, size - 1, size - 2, size // 2, (size + 1) // 2, size - size // 4}
    power = 4.0
    while power < size:
        tried.add(int(power))
        power *= 2**0.5
    return sorted(new for new in tried if 0 < new < size)


def _rounded(value: float, digits: int) -> float:
    """In so many significant digits.

    >>> _rounded(-0.01234, 2)
    -0.012
    """
    return float(f"{value:.{digits}g}")


def _complexity(values: list[float]) -> tuple[int, int]:
    """How much there is to read: the characters of all numbers; then how many are neither 0 nor 1."""
    return sum(len(repr(value)) for value in values), sum(value not in (0.0, 1.0) for value in values)
