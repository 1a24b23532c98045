"""Pictures of what is wrong: the function and the ladder through single entries, and maps of all wrong entries.

Made only for a check that does not pass, from at most as many evaluations as the check itself took.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradproof.core.finding import Entry, Finding, Spots
from gradproof.core.problem import BudgetExhausted, OutputChangedError, Problem
from gradproof.core.space import Block
from gradproof.core.stencil import Stencil, rungs
from gradproof.core.types import Indices, Vector

# Entries shown at most, and how far a slice reaches in units of the coordinate's scale.
_MOST, _REACH = 6, 0.5
# Inputs from which on evaluations are dear.
_LARGE = 20_000
# The fewest evaluations that pictures may take, and the cells of a map along each side.
_LEAST, _SIDE = 64, 64


@dataclass(frozen=True, slots=True)
class Rung:
    """What one step of the ladder says of a derivative."""

    step: float
    value: float
    error: float


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One entry: the output along its input coordinate (`positions`, `values`), and the ladder at the point."""

    entry: Entry
    position: float
    value: float
    positions: tuple[float, ...]
    values: tuple[float, ...]
    ladder: tuple[Rung, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """Wrong entries in one cell of a map: how many, and the worst difference in units of what was allowed."""

    row: int
    column: int
    excess: float
    count: int


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Where the wrong entries between an output and an input are; all other cells have none.

    `over` is "jacobian" (one row for each coordinate of the output, one column for each of the input) or "input" (the
    input's elements, all but the last axis as rows). A cell stands for `height` rows and `width` columns of `shape`.
    """

    output: Block
    input: Block
    over: str
    shape: tuple[int, int]
    height: int
    width: int
    cells: tuple[Cell, ...]


def draw_maps(findings: Iterable[Finding]) -> tuple[HeatMap, ...]:
    """The maps of all findings that know where their entries are."""
    return tuple(
        drawn
        for finding in findings
        if finding.spots is not None and finding.entries
        for drawn in _maps(finding.entries[0].output.block, finding.entries[0].input.block, finding.spots)
    )


def _maps(output: Block, input_: Block, spots: Spots) -> Iterator[HeatMap]:
    rows, columns = spots.rows - output.start, spots.columns - input_.start
    flat = len(input_.shape) < 2
    if output.size > 1 or flat:
        yield _binned(output, input_, "jacobian", (output.size, input_.size), (rows, columns, spots.excess))
    if not flat:
        *others, last = input_.positions(spots.columns)
        shape = math.prod(input_.shape[:-1]), input_.shape[-1]
        row = np.ravel_multi_index(others, input_.shape[:-1])
        yield _binned(output, input_, "input", shape, (row, last, spots.excess))


def _binned(
    output: Block, input_: Block, over: str, shape: tuple[int, int], entries: tuple[Indices, Indices, Vector]
) -> HeatMap:
    height, width = (max(1, -(-side // _SIDE)) for side in shape)
    across = -(-shape[1] // width)
    rows, columns, excess = entries
    cells, which = np.unique((rows // height) * across + columns // width, return_inverse=True)
    worst = np.zeros(len(cells))
    np.maximum.at(worst, which, excess)
    counts = np.bincount(which, minlength=len(cells))
    drawn = tuple(
        Cell(int(cell) // across, int(cell) % across, float(most), int(count))
        for cell, most, count in zip(cells, worst, counts, strict=True)
    )
    return HeatMap(output, input_, over, shape, height, width, drawn)


def draw_exhibits(problem: Problem, findings: Sequence[Finding]) -> tuple[Exhibit, ...]:
    """The worst entries of the findings, as long as the budget and the allowance for pictures last."""
    allowance = problem.cost.evaluations + max(_LEAST, problem.cost.evaluations)
    stencil = Stencil(problem)
    drawn: list[Exhibit] = []
    for entry in _worst(findings):
        column = entry.input.coordinate
        cost = 2 * _points(problem) + 2 * len(rungs(float(stencil.eps[column])))
        if problem.cost.evaluations + cost > allowance:
            break
        try:
            drawn.append(_draw(stencil, entry, column))
        except (BudgetExhausted, OutputChangedError):
            break
    return tuple(drawn)


def _worst(findings: Sequence[Finding]) -> list[Entry]:
    """The worst entry of each finding, then the second of each, and so on."""
    in_turn = itertools.zip_longest(*(finding.entries for finding in findings))
    return [entry for turn in in_turn for entry in turn if entry is not None and entry.input.coordinate >= 0][:_MOST]


def _points(problem: Problem) -> int:
    """The points of a slice on each side: few where evaluations are dear."""
    return 8 if problem.inputs.size < _LARGE else 2


def _draw(stencil: Stencil, entry: Entry, column: int) -> Exhibit:
    problem, output = stencil.problem, entry.output.coordinate
    count = _points(problem)
    side = np.arange(1, count + 1) / count
    offsets = _REACH * float(stencil.scale[column]) * np.concatenate([-side[::-1], side])
    positions, values = stencil.profile(column, offsets, output)
    here, value = float(problem.point[column]), float(problem.value[output])
    return Exhibit(
        entry=entry,
        position=here,
        value=value,
        positions=(*positions[:count].tolist(), here, *positions[count:].tolist()),
        values=(*values[:count].tolist(), value, *values[count:].tolist()),
        ladder=tuple(itertools.starmap(Rung, zip(*(a.tolist() for a in stencil.ladder(column, output)), strict=True))),
    )
