"""How large the entries are, for each pair of an output block and an input block.

A gradient of 1 is not small because that of another output is 1e9: what is negligible is so next to the entries of its
own pair. Tables of pairs have one row for each output block and one column for each input block; those that are the
same for all pairs may be a single number, of shape (1, 1).
"""

from __future__ import annotations

import functools

import numpy as np

from gradproof.core.agreement import largest_of
from gradproof.core.space import Space
from gradproof.core.types import Indices, Matrix, Vector

Places = slice | Indices
"""Coordinates of a space: a run of them, or some."""


class PairScales:
    """The size of the largest finite entry seen of each pair."""

    def __init__(self, outputs: Space, inputs: Space) -> None:
        self._outputs, self._inputs = outputs, inputs
        self.is_single = len(outputs.blocks) == len(inputs.blocks) == 1
        self.largest: Matrix = np.zeros((len(outputs.blocks), len(inputs.blocks)))

    @functools.cached_property
    def row_of(self) -> Indices:
        """For each output coordinate, which block it is in."""
        return _block_numbers(self._outputs)

    @functools.cached_property
    def column_of(self) -> Indices:
        """For each input coordinate, which block it is in."""
        return _block_numbers(self._inputs)

    def learn(self, values: Matrix, rows: slice, columns: slice) -> None:
        """Be shown a tile of the Jacobian."""
        if self.is_single:
            self.largest[0, 0] = max(self.largest[0, 0], largest_of(values))
            return
        size = np.abs(values)
        size[~np.isfinite(size)] = 0.0
        above, left = _cuts(self.row_of[rows]), _cuts(self.column_of[columns])
        largest = np.maximum.reduceat(np.maximum.reduceat(size, left, axis=1), above, axis=0)
        here = np.ix_(self.row_of[rows][above], self.column_of[columns][left])
        self.largest[here] = np.maximum(self.largest[here], largest)

    def learn_entries(self, values: Vector, rows: Indices, columns: Indices) -> None:
        """Be shown single entries."""
        if self.is_single:
            self.largest[0, 0] = max(self.largest[0, 0], largest_of(values))
            return
        size = np.where(np.isfinite(values), np.abs(values), 0.0)
        np.maximum.at(self.largest, (self.row_of[rows], self.column_of[columns]), size)

    def spread(self, table: Matrix, rows: Places, columns: Places) -> Matrix:
        """A table of pairs, for every one of these outputs with every one of these inputs."""
        return table if table.size == 1 else table[self.row_of[rows]][:, self.column_of[columns]]

    def pick(self, table: Matrix, rows: Indices, columns: Indices) -> Vector:
        """A table of pairs, for single entries."""
        return table[0] if table.size == 1 else table[self.row_of[rows], self.column_of[columns]]


def of_blocks(space: Space, values: Vector) -> Vector:
    """The largest of the values, which are not negative, in each block."""
    if len(space.blocks) == 1:
        return np.array([values.max(initial=0.0)])
    return np.array([values[block.slice].max(initial=0.0) for block in space.blocks])


def _block_numbers(space: Space) -> Indices:
    return np.repeat(np.arange(len(space.blocks)), [block.size for block in space.blocks])


def _cuts(numbers: Indices) -> Indices:
    """Where, in a run of block numbers, each block begins."""
    return np.flatnonzero(np.diff(numbers, prepend=-1))
