"""Points and probes as near to given ones as a low precision rounds: what a right computation in it may have seen.

An algorithm that is stable gives the exact answer to a question that differs from the given one by a little more than
the precision rounds. So how answers in double precision differ among neighbours is how far a right answer in low
precision may be off, however badly conditioned the question is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from gradproof.core.draws import evenly
from gradproof.core.norm import parts
from gradproof.core.space import Block, Space
from gradproof.core.types import Vector

# How far they are, in eps.
_NEARBY = 2.0
# Integers below this are labels, where an input holds nothing else.
_LABELS = 16.0


class Neighbours:
    """Those of a point, in pairs to either side of it, so that a tie is broken both ways."""

    def __init__(self, space: Space, point: Vector, eps: float, seed: int) -> None:
        self._space, self._point, self._reach = space, point, _NEARBY * eps
        self._generator = np.random.default_rng(seed)

    def points(self, number: int) -> Iterator[Vector]:
        """So many of them."""
        for point, _ in self.with_probe(np.zeros(0), number):
            yield point

    def with_probe(self, probe: Vector, number: int) -> Iterator[tuple[Vector, Vector]]:
        """So many, each with a neighbour of a probe, which is the same one for both of a pair."""
        shift, turn = np.zeros(0), np.zeros(0)
        for k in range(number):
            if k % 2 == 0:
                shift, turn = (evenly(len(values), self._reach, self._generator) for values in (self._point, probe))
                for block in self._labels:
                    shift[block.slice] = 0.0
            sign = -1.0 if k % 2 == 0 else 1.0
            yield _turned(self._point, sign, shift), _turned(probe, 1.0, turn)

    @functools.cached_property
    def _labels(self) -> list[Block]:
        """Inputs that hold small integers only: they stand for no numbers nearby."""
        return [block for block in self._space.blocks if _are_labels(self._point[block.slice])]


def _turned(values: Vector, sign: float, by: Vector) -> Vector:
    """values * (1 + sign * by)"""
    turned = np.empty(len(values))
    for part in parts(len(values)):
        here = np.multiply(by[part], sign, out=turned[part])
        here += 1.0
        here *= values[part]
    return turned


def _are_labels(values: Vector) -> bool:
    return all(_are_small_integers(values[part]) for part in parts(len(values)))


def _are_small_integers(values: Vector) -> bool:
    return bool(((values == np.rint(values)) & (np.abs(values) < _LABELS)).all())
