"""Where the entries of a finding are: all of them if they are few, else the worst of each region."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gradproof.core.space import Block
from gradproof.core.types import Indices, Vector
from gradproof.results.same import Same

# Cells along each side of a grid: as fine as a picture of it can be read.
_SIDE = 64
# Spots kept at most: one for each cell of the Jacobian and one for each cell of the input.
_MOST = 2 * _SIDE**2
# What an infinite excess may have been replaced by.
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of `shape` rows and columns, divided into at most 64 by 64 cells of `height` rows and `width` columns.

    >>> Grid((100, 1000)).cells(np.array([0, 1, 99]), np.array([0, 0, 999]))
    array([   0,    0, 3149])
    """

    shape: tuple[int, int]

    @property
    def height(self) -> int:
        return max(1, -(-self.shape[0] // _SIDE))

    @property
    def width(self) -> int:
        return max(1, -(-self.shape[1] // _SIDE))

    @property
    def down(self) -> int:
        """How many cells lie one below the other."""
        return -(-self.shape[0] // self.height)

    @property
    def across(self) -> int:
        """How many cells lie side by side."""
        return -(-self.shape[1] // self.width)

    def cells(self, rows: Indices, columns: Indices) -> Indices:
        """The numbers of the cells, row by row, that places of the table are in."""
        return rows // self.height * self.across + columns // self.width


def jacobian_grid(output: Block, input_: Block) -> Grid:
    """The Jacobian of two blocks: a row for each coordinate of the output, a column for each of the input."""
    return Grid((output.size, input_.size))


def element_grid(block: Block) -> Grid:
    """The elements of a block as a table: the last axis as columns, all others as rows."""
    return Grid((math.prod(block.shape[:-1]), block.shape[-1] if block.shape else 1))


def table_places(block: Block, coordinates: Indices) -> tuple[Indices, Indices]:
    """Rows and columns, in the table of a block's elements, of these coordinates inside the block."""
    if not block.shape:
        return np.zeros_like(coordinates), np.zeros_like(coordinates)
    number = np.ravel_multi_index(block.positions(coordinates + block.start), block.shape)
    return np.divmod(number, block.shape[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Spots(Same):
    """Where the entries of a finding are: coordinates inside the output's and the input's block.

    `excess` is the difference in units of what was allowed. Where there are too many entries to keep, a spot stands for
    `counts` of them, none worse than itself and all in its own cell of the Jacobian's grid. The worst entry of each
    cell of the Jacobian and of each cell of the input's elements is always among the spots.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    excess: tuple[float, ...]
    counts: tuple[int, ...]

    @staticmethod
    def of(output: Block, input_: Block, rows: Indices, columns: Indices, excess: Vector) -> Spots:
        """The spots of entries, given by their coordinates in the spaces of outputs and inputs."""
        down, across = rows - output.start, columns - input_.start
        excess = np.where(excess < _LARGEST, excess, np.inf)
        kept, counts = np.arange(len(rows)), np.ones(len(rows), dtype=np.intp)
        if len(rows) > _MOST:
            regions = jacobian_grid(output, input_).cells(down, across)
            elements = element_grid(input_).cells(*table_places(input_, across))
            kept, counts = _thinned(excess, regions, elements)
        return Spots(*(tuple(a.tolist()) for a in (down[kept], across[kept], excess[kept], counts)))


def _thinned(excess: Vector, regions: Indices, elements: Indices) -> tuple[Indices, Indices]:
    """The entries to keep, and how many each stands for.

    An entry is represented by the worst one with the same cell of the input's elements if that lies in its own region,
    a cell of the Jacobian; else by the worst one of the region.
    """
    order = np.argsort(excess, kind="stable")
    of_region, of_element = _worst(order, regions), _worst(order, elements)
    standing_for = np.where(regions[of_element] == regions, of_element, of_region)
    return np.unique(standing_for, return_counts=True)


def _worst(order: Indices, cells: Indices) -> Indices:
    """For each entry the worst one of its cell; `order` has the worst entries last."""
    worst = np.empty(int(cells.max()) + 1, dtype=np.intp)
    worst[cells[order]] = order  # of several that are assigned to one place, the last one stays
    return worst[cells]
