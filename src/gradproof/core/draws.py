"""Random vectors that hide no entry, and unit vectors."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from gradproof.core.norm import PART, parts
from gradproof.core.types import Matrix, Vector

LEAST_OF_LONG = 0.75
"""The smallest magnitude of a long probe; the largest is twice that."""
# Longer probes are not kept.
_LONG = 2**18
# The bits of a number: its sign and its fraction, and the others, as they are in 1.
_DRAWN, _ONE = ~np.int64(0x7FF0 << 48), np.int64(0x3FF0 << 48)


def random_probe(size: int, seed: int) -> Vector:
    """Random signs and magnitudes in [0.5, 1.5] from a private generator: no entry can hide. A lone one is 1."""
    return _draw(size, seed) if size > _KEPT else _draw_kept(size, seed)


def _draw(size: int, seed: int) -> Vector:
    generator = np.random.default_rng(seed)
    if size > PART:
        return _draw_long(size, generator)
    probe = generator.random(size)
    probe *= 2.0  # from -1 to 1, and then away from zero
    probe -= 1.0
    probe += np.copysign(0.5, probe)
    if size == 1:
        probe[0] = 1.0
    probe.flags.writeable = False
    return probe


def _draw_long(size: int, generator: np.random.Generator) -> Vector:
    """The same by 16 random bits for each, a sign and those of a magnitude that is `LEAST_OF_LONG` or more.

    A million take 1.2 ms. By the way of short ones they take 3.4.
    """
    probe = np.empty(size)
    for part in parts(size):
        _fill(probe[part], generator)
    probe.flags.writeable = False
    return probe


def _fill(here: Vector, generator: np.random.Generator) -> None:
    bits = here.view(np.int64)
    drawn = generator.bit_generator.random_raw(-(-len(here) // 4)).view(np.int16)
    bits[:] = drawn[: len(here)]
    bits <<= 37  # 15 bits of a fraction, and before them the sign
    bits &= _DRAWN
    bits |= _ONE  # from 1 to 2, or from -2 to -1
    here *= LEAST_OF_LONG


def drawn_parts(size: int, seed: int) -> Iterator[tuple[slice, Vector]]:
    """A long random probe in parts, for who needs it once; the next part takes the room of the one before."""
    generator, room = np.random.default_rng(seed), np.empty(PART)
    for part in parts(size):
        here = room[: min(size, part.stop) - part.start]
        _fill(here, generator)
        yield part, here


class Drawn:
    """Random probes that are drawn once, but for long ones, which take memory."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], Vector] = {}

    def probe(self, size: int, seed: int) -> Vector:
        """That of a size and a seed."""
        found = self._kept.get((size, seed))
        if found is None:
            found = random_probe(size, seed)
            if size <= _LONG:
                self._kept[size, seed] = found
        return found


def evenly(size: int, reach: float, generator: np.random.Generator) -> Vector:
    """Random numbers between -reach and reach; long vectors of them by 16 random bits each, in a fifth of the time."""
    if size <= PART:
        return generator.uniform(-reach, reach, size)
    drawn = np.empty(size)
    for part in parts(size):
        here = drawn[part]
        bits = generator.bit_generator.random_raw(-(-len(here) // 4)).view(np.int16)
        np.multiply(bits[: len(here)], reach * 2.0**-15, out=here)
    return drawn


# Making a generator takes 15 µs, a tenth of the smallest check: short probes are kept.
_KEPT = 1024
_draw_kept = functools.lru_cache(maxsize=256)(_draw)


def basis(which: slice, size: int) -> Matrix:
    """The unit vectors of some coordinates, one in each row."""
    rows = np.zeros((which.stop - which.start, size))
    rows.reshape(-1)[which.start :: size + 1] = 1.0
    return rows
