"""Maps of where the entries of a finding are, over the Jacobian and over the elements of the input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gradproof.core.space import Block
from gradproof.core.types import Indices
from gradproof.results.finding import Finding
from gradproof.results.report import Report
from gradproof.results.spots import Grid, Spots, element_grid, jacobian_grid, table_places


@dataclass(frozen=True, slots=True)
class Cell:
    """The entries in one cell of a map: how many, and the worst difference in units of what was allowed.

    `count` is None where it is not known: a spot of many entries over the Jacobian may stand for several elements.
    """

    row: int
    column: int
    excess: float
    count: int | None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Where the entries of a finding about an output and an input are; cells that are not listed have none.

    `over` is "jacobian" (one row for each coordinate of the output, one column for each of the input) or "input" (the
    input's elements, all but the last axis as rows).
    """

    output: Block
    input: Block
    over: str
    grid: Grid
    cells: tuple[Cell, ...]
    located: bool = False
    """Whether there may be more: a search came upon these."""


def maps_of(report: Report) -> tuple[HeatMap, ...]:
    """The maps of all findings that know where their entries are."""
    return tuple(drawn for finding in report.findings for drawn in finding_maps(finding))


def finding_maps(finding: Finding) -> Iterator[HeatMap]:
    """The maps of one finding: over the Jacobian unless that is one row, over the input if it has two axes or more."""
    if finding.spots is None or not finding.entries:
        return
    worst = finding.entries[0]
    output, input_ = worst.output.block, worst.input.block
    rows, columns = (np.array(a, dtype=np.intp) for a in (finding.spots.rows, finding.spots.columns))
    flat = len(input_.shape) < 2
    if output.size > 1 or flat:
        grid = jacobian_grid(output, input_)
        yield HeatMap(output, input_, "jacobian", grid, _binned(grid, rows, columns, finding.spots), finding.located)
    if not flat:
        grid = element_grid(input_)
        cells = _binned(grid, *table_places(input_, columns), finding.spots)
        thinned = any(count > 1 for count in finding.spots.counts)
        kept = tuple(map(_uncounted, cells)) if thinned else cells
        yield HeatMap(output, input_, "input", grid, kept, finding.located)


def _uncounted(cell: Cell) -> Cell:
    return replace(cell, count=None)


def _binned(grid: Grid, rows: Indices, columns: Indices, spots: Spots) -> tuple[Cell, ...]:
    """The cells of spots at these places: the worst excess and the number of entries in each."""
    found: dict[int, tuple[float, int]] = {}
    for cell, excess, count in zip(grid.cells(rows, columns).tolist(), spots.excess, spots.counts, strict=True):
        worst, total = found.get(cell, (0.0, 0))
        found[cell] = max(worst, excess), total + count
    return tuple(Cell(*divmod(cell, grid.across), *found[cell]) for cell in sorted(found))
