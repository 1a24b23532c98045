"""Two answers to one question, in low and in double precision: what they differ by, and what they may.

All in parts that stay in the processor's cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gradproof.core.agreement import smallest_of
from gradproof.core.norm import norm, parts, products
from gradproof.core.options import Options
from gradproof.core.precision import default_rtol, least_spacing
from gradproof.core.space import Block, Space, rms
from gradproof.core.types import Flags, Vector

ELEMENT, FACTOR = 16.0, 4.0
"""In units of eps: what an element may be off by, relative to itself and its block's rms; and a common factor."""
BEYOND, BEYOND_UNROUNDED = 2.0, 4.0
"""How far the low precision may go beyond what a few neighbours showed: that rounded on the way, and that did not. Of
658 operators in bfloat16 none needed more than 0.8 of what neighbours that round showed."""
GROSS = 4.0
"""What exceeds all explanations by this factor is wrong without a pattern: no zeros, no common factor."""
NARROW = 2.0**-10
"""A range of numbers as narrow as float16's: …"""
# … below the second number they are spaced evenly.
_EVENLY = 2.0**-24


def parts_of(block: Block) -> Iterator[slice]:
    """The coordinates of a block, in parts that stay in the processor's cache."""
    for part in parts(block.size):
        first, last, _ = part.indices(block.size)
        yield slice(block.start + first, block.start + last)


def _least(eps: float, question: Vector) -> float:
    """What is nothing, in the range of a format: what lies between its evenly spaced numbers.

    Of a wider range it is what a processor may take for zero altogether, times the largest weight of the question.
    """
    if abs(math.log2(eps / NARROW)) < 1:
        return _EVENLY
    weight = float(np.abs(question).max(initial=1.0))
    return least_spacing(eps) / eps * (weight if weight < math.inf else 1.0)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What an answer in low precision may be off by: relative to its elements, to a common factor, and in any case."""

    element: float
    factor: float
    absolute: float

    @staticmethod
    def of(eps: float, options: Options, question: Vector) -> Allowance:
        rtol = float(default_rtol(np.array([eps]))[0]) if options.rtol is None else options.rtol
        absolute = options.nondet_tol + (options.atol * norm(question) if options.atol else 0.0)
        absolute += ELEMENT * _least(eps, question)
        return Allowance(max(ELEMENT * eps, rtol), max(FACTOR * eps, rtol), absolute)


class _Piece(NamedTuple):
    """Some coordinates of a block, and the rms of the block."""

    where: slice
    rms: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both answers to one question, and what they differ by; `spread` is what neighbours in float64 differ by."""

    space: Space
    question: Vector
    low: Vector
    wide: Vector
    allowance: Allowance
    spread: Vector = field(default_factory=lambda: np.zeros(0))
    spread_factor: dict[int, float] = field(default_factory=dict[int, float])
    """The same of the common factor, by where a block starts."""
    beyond: float = BEYOND_UNROUNDED
    """How many times as much is allowed."""

    @property
    def off(self) -> Vector:
        """The difference of each element; none where the wide one is no number, or both are the same."""
        return self._off(slice(None))

    @property
    def allowed(self) -> Vector:
        """For each element."""
        allowed = np.empty(len(self.wide))
        for piece in self._pieces(self.space.blocks):
            allowed[piece.where] = self._allowed(piece)
        return allowed

    @property
    def accused(self) -> Flags:
        accused = np.empty(len(self.wide), dtype=np.bool_)
        for piece in self._pieces(self.space.blocks):
            np.greater(self._off(piece.where), self._allowed(piece), out=accused[piece.where])
        return accused

    @property
    def is_clean(self) -> bool:
        """Whether nothing is accused, neither an element nor a block as a whole."""
        pieces = self._pieces(self.space.blocks)
        return all((self._off(piece.where) <= self._allowed(piece)).all() for piece in pieces) and not any(
            map(self.is_scaled, self.space.blocks)
        )

    def _pieces(self, blocks: tuple[Block, ...]) -> Iterator[_Piece]:
        for block in blocks:
            typical = _rms(self.wide[block.slice])
            yield from (_Piece(part, typical) for part in parts_of(block))

    def _off(self, where: slice) -> Vector:
        low, wide = self.low[where], self.wide[where]
        with np.errstate(invalid="ignore", over="ignore"):
            off = low - wide
            np.abs(off, out=off)
            if math.isfinite(float(np.add.reduce(off))):  # nearly always
                return off
        off[~np.isfinite(wide) | (low == wide)] = 0.0
        off[np.isnan(off)] = np.inf
        return off

    def _allowed(self, piece: _Piece) -> Vector:
        allowed = np.abs(self.wide[piece.where])
        if not math.isfinite(piece.rms + float(np.add.reduce(allowed))):
            allowed[~np.isfinite(allowed)] = 0.0
        allowed += piece.rms + self.allowance.absolute / self.allowance.element
        allowed *= self.allowance.element
        if len(self.spread):
            allowed += self.beyond * self.spread[piece.where]
        return allowed

    def factor(self, block: Block, without: Flags | None = None) -> float:
        """By how much the block is too large as a whole: <g - g64, g64> / <g64, g64>; `without` some elements."""
        low, wide = self.low[block.slice], self.wide[block.slice]
        return along(low, wide, None if without is None else without[block.slice])

    def allowed_factor(self, block: Block) -> float:
        size = norm(self.wide[block.slice])
        if not 0.0 < size < math.inf:
            return math.inf
        spread = self.beyond * self.spread_factor.get(block.start, 0.0)
        return self.allowance.factor + self.allowance.absolute * math.sqrt(block.size) / size + spread

    def is_scaled(self, block: Block, without: Flags | None = None) -> bool:
        """Whether the block as a whole is off; `without` what is off by itself."""
        return bool(block.size) and abs(self.factor(block, without)) > self.allowed_factor(block)

    def smallest(self, blocks: tuple[Block, ...]) -> tuple[float, ...]:
        """What would have been called wrong of a lone entry, whatever weight the question gives to it, by block."""
        least = smallest_of(self.question) or float(np.abs(self.question[self.question != 0.0]).min(initial=1.0))
        return tuple(self._gap(block) / min(least, 1.0) for block in blocks)

    def _gap(self, block: Block) -> float:
        gaps = (GROSS * self._allowed(piece) + self._off(piece.where) for piece in self._pieces((block,)))
        return max([float(gap.max()) for gap in gaps], default=0.0)


def _rms(values: Vector) -> float:
    """That of the finite numbers."""
    length = norm(values)
    return length / math.sqrt(len(values) or 1) if length < math.inf else rms(np.abs(values))


def along(low: Vector, wide: Vector, without: Flags | None = None) -> float:
    """The part of their difference that is along the second, relative to it; `without` some elements."""
    with np.errstate(all="ignore"):
        size = norm(wide)
        if not 0.0 < size < math.inf:
            return 0.0
        found = sum(_product(low, wide, part, without) for part in parts(len(wide))) / size / size
        if not math.isfinite(found):  # something is no number, or products leave the range of numbers
            off = _difference(low, wide, slice(None), without)
            found = products(np.where(np.isfinite(off), off, 0.0) / size, wide / size)[0]
    return found if math.isfinite(found) else 0.0


def _product(low: Vector, wide: Vector, part: slice, without: Flags | None) -> float:
    off = _difference(low, wide, part, without)
    off *= wide[part]
    return float(np.add.reduce(off))


def _difference(low: Vector, wide: Vector, part: slice, without: Flags | None) -> Vector:
    off = low[part] - wide[part]
    if without is not None:
        off[without[part]] = 0.0
    return off
