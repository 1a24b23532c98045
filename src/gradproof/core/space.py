"""Coordinates and their names.

Everything that can be differentiated is a flat vector of real numbers to the core. A `Block` is the
stretch of that vector that one tensor owns; a complex element owns two neighbouring coordinates, its
real and its imaginary part. A `Space` is a row of blocks, and can say where a coordinate lives:

>>> weight = Block(kind="input", index=1, name="weight", shape=(4, 6), parts=2, start=0, eps=2.0**-52)
>>> str(Space((weight,)).place(47))
'input 1 `weight`, element [3, 5], imaginary part'
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gradproof.core.norm import PART, norm, parts
from gradproof.core.precision import DOUBLE, SINGLE, largest_number
from gradproof.core.types import Indices, Matrix, Vector

_LARGE = 64
_PART_NAMES = {1: ("",), 2: ("real part", "imaginary part")}

# The part of a block's rms that its small numbers are taken for, and one that is less by more than round-off.
_LEAST, _LOWEST = 0.1, 0.09
# Numbers that stand for what is masked are huge, and others far smaller.
_HUGE, _FAR = 2.0**60, 2.0**-40
# The range in which the numbers of single precision have all of their digits.
_LARGEST_SINGLE, _LEAST_SINGLE = largest_number(SINGLE), 2.0**-126


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """The elements of a shape that a block owns, where these are not simply all of them in order.

    `flat` holds the row-major number of each in the shape. `remarks` are words about them: one for all, or those that
    `remark_of` picks for each.
    """

    flat: Indices
    remarks: tuple[str, ...] = ("",)
    remark_of: Indices | None = None

    def remark(self, element: int) -> str:
        return self.remarks[0 if self.remark_of is None else int(self.remark_of[element])]


@dataclass(frozen=True, slots=True)
class Block:
    """The coordinates of one tensor.

    `kind` is "input", "parameter" or "output", `index` the number people count it by, `parts` how many real
    coordinates an element has, and `eps` the relative spacing of the numbers it is stored in.
    `elements` says which elements of the shape these are; None: all of them, in order.
    """

    kind: str
    index: int
    name: str
    shape: tuple[int, ...]
    parts: int
    start: int
    eps: float
    elements: Elements | None = field(default=None, repr=False, compare=False)
    holder: str = ""
    """Who holds it, where that is not this process alone: "rank 2"."""
    size: int = field(init=False, repr=False, compare=False)
    stop: int = field(init=False, compare=False)
    slice: slice = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        count = math.prod(self.shape) if self.elements is None else len(self.elements.flat)
        object.__setattr__(self, "size", count * self.parts)
        object.__setattr__(self, "stop", self.start + self.size)
        object.__setattr__(self, "slice", slice(self.start, self.stop))

    @property
    def key(self) -> int | str:
        """What findings call it: the number of an input or output, the name of a parameter."""
        return self.name if self.kind == "parameter" else self.index

    @property
    def label(self) -> str:
        held = f"{self.holder}, " if self.holder else ""
        if self.kind == "parameter":
            return f"{held}parameter `{self.name}`"
        name = f" `{self.name}`" if self.name else ""
        return f"{held}{self.kind} {self.index}{name}"

    def positions(self, coordinates: Indices) -> tuple[Indices, ...]:
        """Where in the shape the elements of these coordinates lie: one array of indices for each axis."""
        number = (coordinates - self.start) // self.parts
        if self.elements is not None:
            number = self.elements.flat[number]
        return np.unravel_index(number, self.shape) if self.shape else ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where one coordinate lives, in words a reader can look up."""

    block: Block
    element: tuple[int, ...]
    part: str
    remark: str = ""
    coordinate: int = field(default=-1, compare=False)
    """Its number among the coordinates of its space, where that is known."""

    @property
    def within(self) -> str:
        """The place inside its block: `element [3, 5] (specified), imaginary part`."""
        remark = f" ({self.remark})" if self.remark else ""
        words = [f"element {list(self.element)}{remark}"] if self.element else []
        if self.part:
            words.append(self.part)
        return ", ".join(words)

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.block.label, self.within)))


@dataclass(frozen=True)
class Space:
    """A row of blocks that together make one coordinate vector."""

    blocks: tuple[Block, ...]
    size: int = field(init=False)
    coarsest_eps: float = field(init=False, repr=False)
    finest_eps: float = field(init=False, repr=False)
    _pairs: tuple[Block, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        blocks = self.blocks
        eps = [block.eps for block in blocks] or [DOUBLE]
        object.__setattr__(self, "size", blocks[-1].stop if blocks else 0)
        object.__setattr__(self, "coarsest_eps", max(eps))
        object.__setattr__(self, "finest_eps", min(eps))
        object.__setattr__(self, "_pairs", tuple([block for block in blocks if block.parts == 2]))

    @functools.cached_property
    def eps(self) -> Vector:
        """The spacing of the numbers behind each coordinate."""
        if len(self.blocks) == 1:
            return alike(self.size, self.blocks[0].eps)
        eps = np.empty(self.size)
        for block in self.blocks:
            eps[block.slice] = block.eps
        return eps

    def element_of(self, coordinates: Indices) -> Indices:
        """The first coordinate of the element that each of these belongs to."""
        first = np.array(coordinates, dtype=np.intp)
        for block in self._pairs:
            inside = (first >= block.start) & (first < block.stop)
            first[inside] -= (first[inside] - block.start) % block.parts
        return first

    def parts_of(self, coordinates: Indices) -> Indices:
        """All coordinates of the elements that these belong to, in order.

        >>> z = Block(kind="input", index=0, name="", shape=(3,), parts=2, start=0, eps=2.0**-52)
        >>> Space((z,)).parts_of(np.array([3, 4])).tolist()
        [2, 3, 4, 5]
        """
        first = self.element_of(coordinates)
        both = [first[(first >= block.start) & (first < block.stop)] + 1 for block in self._pairs]
        return np.unique(np.concatenate([first, *both]))

    def block_at(self, coordinate: int) -> Block:
        return next(block for block in self.blocks if coordinate < block.stop)

    def place(self, coordinate: int) -> Place:
        block = self.block_at(coordinate)
        element, part = divmod(coordinate - block.start, block.parts)
        index = tuple(int(i[0]) for i in block.positions(np.array([coordinate])))
        remark = block.elements.remark(element) if block.elements is not None else ""
        return Place(block, index, _PART_NAMES[block.parts][part], remark, coordinate)

    def chunks(self, length: int) -> Iterator[slice]:
        """All coordinates in runs of about this length, cut between large blocks, never through an element."""
        start = 0
        while start < self.size:
            end = self.block_at(start).stop
            worth_a_cut = min(end - start, self.size - end) >= _LARGE
            stop = min(start + length, end if worth_a_cut else self.size)
            if stop < self.size:
                block = self.block_at(stop)
                stop += (stop - block.start) % block.parts
            yield slice(start, stop)
            start = stop

    def magnitude(self, values: Matrix, coordinates: slice = slice(None)) -> Matrix:
        """How large each value is; both parts of a complex element share its modulus.

        The last axis of `values` runs over `coordinates`, which must hold whole elements.

        >>> z = Block(kind="input", index=0, name="", shape=(1,), parts=2, start=0, eps=2.0**-52)
        >>> Space((z,)).magnitude(np.array([3.0, 4.0]))
        array([5., 5.])
        """
        size = np.abs(values)
        first, last, _ = coordinates.indices(self.size)
        for block in self._pairs:
            part = size[..., _overlap(block, first, last)]
            pair = part.reshape(*part.shape[:-1], -1, 2)
            part[...] = np.repeat(np.hypot(pair[..., 0], pair[..., 1]), 2, axis=-1)
        return size

    def lengths(self, values: Vector) -> list[float]:
        """The Euclidean norm of each block."""
        return [norm(values[block.slice]) for block in self.blocks]

    def typical(self, values: Vector, least: float = _LEAST, lengths: Sequence[float] | None = None) -> Vector:
        """A size for each coordinate that is not fooled by a lone zero: max(|v|, `least` of its block's rms).

        Nor by one huge number that stands for what is masked. `lengths` are those of the blocks, where they are known.
        """
        typical = np.empty(len(values))
        for block, length in zip(self.blocks, lengths or self.lengths(values), strict=True):
            sizes, own = typical[block.slice], values[block.slice]
            size = length / math.sqrt(block.size or 1)
            if not size < _HUGE:
                own = np.abs(own)
                size = _without_masked(own, rms(own))  # and no infinities
            lowest = least * size if block.size > 1 else 0.0
            # with an array, the larger of two numbers is found in half the time
            low = np.full(PART, lowest) if block.size > PART else None
            for part in parts(block.size):
                here = np.abs(own[part], out=sizes[part])
                np.maximum(here, lowest if low is None else low[: len(here)], out=here)
        return typical

    def is_above(self, least: float, lengths: Sequence[float], block: int) -> bool:
        """Whether what is `typical` of a block is never less than this, as far as its length tells."""
        size = self.blocks[block].size
        return size > 1 and lengths[block] < _HUGE and _LOWEST * lengths[block] > least * math.sqrt(size)

    def round_in_place(self, values: Matrix, coordinates: slice = slice(None)) -> None:
        """Move points to the nearest numbers their blocks can store. The last axis runs over `coordinates`."""
        if self.coarsest_eps > DOUBLE:
            first, last, _ = coordinates.indices(self.size)
            for block in self.blocks:
                if block.eps > DOUBLE:
                    part = values[..., _overlap(block, first, last)]
                    part[...] = _round_to(part, block.eps)


def _overlap(block: Block, first: int, last: int) -> slice:
    """Where the coordinates of a block lie among those from `first` to `last`."""
    return slice(max(block.start - first, 0), max(min(block.stop, last) - first, 0))


def rms(sizes: Vector) -> float:
    """The root of the mean square; what is not finite becomes zero first, in place."""
    length = norm(sizes)
    if not length < math.inf:
        sizes[~np.isfinite(sizes)] = 0.0
        length = norm(sizes)
    return length / math.sqrt(len(sizes) or 1)


def _without_masked(sizes: Vector, rms: float) -> float:
    """The rms of the others, where all that is not far smaller than the largest is one and the same huge number."""
    if rms < _HUGE:
        return rms
    largest = float(sizes.max())
    others = sizes[sizes <= _FAR * largest]
    if not others.any() or int((sizes == largest).sum()) + len(others) < len(sizes):
        return rms
    return norm(others) / math.sqrt(len(others))


def _round_to(values: Vector, eps: float) -> Vector:
    if eps == SINGLE:  # the processor's own, a fifth of the time, unless numbers leave its range
        size = np.abs(values)
        if size.max(initial=0.0) < _LARGEST_SINGLE and not ((size < _LEAST_SINGLE) & (size != 0)).any():
            return values.astype(np.float32).astype(np.float64)
    mantissa, exponent = np.frexp(values)
    scale = 2.0 / eps
    return np.ldexp(np.rint(mantissa * scale) / scale, exponent)


def alike(size: int, value: float) -> Vector:
    """A vector of one number; a long one takes no memory, and is not written to.

    >>> alike(3, 0.5)
    array([0.5, 0.5, 0.5])
    """
    if size > PART:
        return np.broadcast_to(np.float64(value), (size,))
    values = np.empty(size)
    values.fill(value)  # np.full takes three times as long
    return values


def peak(values: Vector) -> float:
    """The largest of numbers that are not negative, 0 if there are none; of those that are `alike`, one is looked at.

    >>> peak(alike(10**9, 0.5))
    0.5
    """
    return float((values[:1] if values.strides == (0,) else values).max(initial=0.0))


def vector_space(kind: str, *sizes: int, eps: float = DOUBLE) -> Space:
    """A space of plain vectors, numbered from 0.

    >>> [block.label for block in vector_space("input", 3, 2).blocks]
    ['input 0', 'input 1']
    """
    blocks: list[Block] = []
    for index, size in enumerate(sizes):
        start = blocks[-1].stop if blocks else 0
        blocks.append(Block(kind, index, "", (size,), 1, start, eps))
    return Space(tuple(blocks))
