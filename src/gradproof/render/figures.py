"""The figures of a report: what the page's own script draws, and a description of each in words.

A figure is plain data, small enough that a page of many stays small: cells of a map in runs, powers of ten with two
decimals. Its texts are set as text by the script, never as HTML, so that names of the user's may be among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.core.space import Block, Place, Space
from gradproof.render.maps import Cell, HeatMap
from gradproof.render.text import bar, number, number_or_nan, numeric_of, printable
from gradproof.results.exhibits import Exhibit
from gradproof.results.finding import Entry

# Room above and below a slice, as a part of its height.
_MARGIN = 0.15


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its kind ("heat", "slice", "ladder"), data for the script, a caption, and the same in words."""

    kind: str
    data: dict[str, Any]
    caption: str
    description: str


def heat_map(drawn: HeatMap, entries: Sequence[Entry] = ()) -> Figure:
    """Cells with wrong entries, by the power of ten of their worst difference; the others stay empty.

    Where no difference is finite, the scale has no ends. Of `entries`, those whose values are known, a cell tells both
    values and the error bar.
    """
    grid, cells = drawn.grid, drawn.cells
    rows, columns = _names(drawn)
    powers = [_power(cell.excess) for cell in cells]
    finite = [power for power in powers if power is not None]
    data = {
        "kind": "heat",
        "shape": [*grid.shape],
        "cell": [grid.height, grid.width],
        "x": _axes(drawn)[1],
        "y": _axes(drawn)[0],
        "rows": rows,
        "columns": columns,
        "ends": [min([*finite, max(finite) - 1.0]), max(finite)] if finite else None,
        "runs": _runs([cell.row * grid.across + cell.column for cell in cells]),
        "power": powers,
        "count": _counts(cells),
        "known": _known(drawn, entries),
    }
    over = "over the Jacobian" if drawn.over == "jacobian" else "over the elements of the input"
    where = "What a search came upon" if drawn.located else "Where it is wrong"
    caption = f"{where}: {drawn.output.label} with respect to {drawn.input.label}, {over}"
    return Figure("heat", data, caption, _map_in_words(drawn))


def _power(excess: float) -> float | None:
    """The power of ten of an excess; None of one that is not finite, as JSON has it."""
    return round(math.log10(max(excess, 1.0)), 2) if math.isfinite(excess) else None


def _runs(numbers: Sequence[int]) -> list[int]:
    """Sorted numbers as starts and lengths of runs.

    >>> _runs([3, 4, 5, 9])
    [3, 3, 9, 1]
    """
    runs: list[int] = []
    for each in numbers:
        if runs and runs[-2] + runs[-1] == each:
            runs[-1] += 1
        else:
            runs += [each, 1]
    return runs


def _counts(cells: Sequence[Cell]) -> list[int | None] | int | None:
    """How many entries the cells have: one number where they agree, None where it is not known."""
    counts = [cell.count for cell in cells]
    return counts[0] if len(set(counts)) == 1 else counts


def _axes(drawn: HeatMap) -> tuple[str, str]:
    if drawn.over == "jacobian":
        return f"coordinate of {_short(drawn.output)}", f"coordinate of {_short(drawn.input)}"
    last = len(drawn.input.shape) - 1
    return ("axis 0" if last == 1 else "all axes but the last"), f"axis {last}"


def _short(block: Block) -> str:
    return printable(f"`{block.name}`" if block.name else block.label)


def _names(drawn: HeatMap) -> tuple[list[str], list[str]]:
    """What hovering calls each row and each column of cells."""
    grid = drawn.grid
    if drawn.over == "jacobian":
        rows = [_places(drawn.output, *span) for span in _spans(grid.shape[0], grid.height)]
        columns = [_places(drawn.input, *span) for span in _spans(grid.shape[1], grid.width)]
        return rows, columns
    leading = drawn.input.shape[:-1]
    rows = [_leading(leading, *span) for span in _spans(grid.shape[0], grid.height)]
    columns = [f"axis {len(leading)}: {_range(*span)}" for span in _spans(grid.shape[1], grid.width)]
    return rows, columns


def _spans(count: int, length: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + length, count) - 1) for start in range(0, count, length))


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _places(block: Block, first: int, last: int) -> str:
    """The places of coordinates inside a block, from one to another."""
    ends = [_within(block, each) for each in dict.fromkeys((first, last))]
    return printable(f"{block.label}, {' to '.join(filter(None, ends))}".removesuffix(", "))


def _within(block: Block, coordinate: int) -> str:
    return Space((block,)).place(block.start + coordinate).within if block.size else ""


def _leading(shape: tuple[int, ...], first: int, last: int) -> str:
    ends = [[int(i) for i in np.unravel_index(each, shape)] for each in dict.fromkeys((first, last))]
    if len(shape) == 1:
        return f"axis 0: {_range(first, last)}"
    return f"axes 0 to {len(shape) - 1}: {' to '.join(map(str, ends))}"


def _known(drawn: HeatMap, entries: Sequence[Entry]) -> dict[str, str]:
    """By the number of a cell, the values of the worst entry in it that a finding lists."""
    known: dict[str, str] = {}
    for entry in entries:
        cell = _cell_of(drawn, entry)
        if cell is not None:
            values = f"numeric {numeric_of(entry)}\nanalytic {number_or_nan(entry.analytic)}"
            known.setdefault(str(cell), f"{_exactly(drawn, entry)}{values}")
    return known


def _exactly(drawn: HeatMap, entry: Entry) -> str:
    """Where the entry is, if the cell has more than one; over an input, also in which output."""
    if drawn.over == "jacobian" and (drawn.grid.height, drawn.grid.width) == (1, 1):
        return ""
    return printable(f"{entry.output}, with respect to {entry.input}:\n")


def _cell_of(drawn: HeatMap, entry: Entry) -> int | None:
    """The number of the cell that an entry is in; None where its place is in none."""
    grid = drawn.grid
    if drawn.over == "jacobian":
        row, column = _coordinate(entry.output), _coordinate(entry.input)
    else:
        row, column = divmod(_flat(entry.input), drawn.input.shape[-1])
    if row is None or column is None or row >= grid.shape[0] or column >= grid.shape[1]:
        return None
    return row // grid.height * grid.across + column // grid.width


def _flat(place: Place) -> int:
    """The row-major number of an element in its shape."""
    return int(np.ravel_multi_index(place.element, place.block.shape)) if place.block.shape else 0


def _coordinate(place: Place) -> int | None:
    """The coordinate of a place inside its block, from its element and part: a saved report has no more."""
    number, block = _flat(place), place.block
    if block.elements is not None:
        found = np.flatnonzero(block.elements.flat == number)
        if not len(found):
            return None
        number = int(found[0])
    return number * block.parts + (place.part == "imaginary part")


def _map_in_words(drawn: HeatMap) -> str:
    grid, cells = drawn.grid, drawn.cells
    if not cells:
        return f"A map of {grid.down} by {grid.across} cells, none of them wrong."
    rows, columns = _names(drawn)
    worst = max(cells, key=lambda cell: cell.excess)
    return (
        f"A map of {grid.down} by {grid.across} cells. {len(cells)} have wrong entries, "
        f"in rows {_range(min(c.row for c in cells), max(c.row for c in cells))} and "
        f"columns {_range(min(c.column for c in cells), max(c.column for c in cells))}. "
        f"{_said(worst.excess)} is at {rows[worst.row]}, {columns[worst.column]}."
    )


def _said(excess: float) -> str:
    return f"The worst, {excess:.2g} times what is allowed," if math.isfinite(excess) else "One that is not finite"


def slice_plot(shown: Exhibit) -> Figure:
    """The output along the coordinate, with both tangents through the point."""
    entry, ends = shown.entry, _ends(shown.positions)
    low, high = _extent([*shown.values, shown.value])
    tangents = [("numerical tangent", "numeric", entry.numeric), ("analytic tangent", "analytic", entry.analytic)]
    drawn = [tangent for tangent in tangents if math.isfinite(tangent[2])]  # no line in the legend without one
    series = [
        _line("function", "plain", shown.positions, shown.values),
        *(_line(name, style, ends, _heights(shown, slope, ends)) for name, style, slope in drawn),
    ]
    data = {
        "kind": "slice",
        "x": printable(str(entry.input)),
        "y": printable(str(entry.output)),
        "series": series,
        "point": [_finite(shown.position), _finite(shown.value)],
        "range": [low, high],
    }
    description = (
        f"A line plot of {entry.output} over {entry.input}. At {number(shown.position, 6)} the function is "
        f"{number(shown.value, 6)}; its slope is {numeric_of(entry)} by the numerical derivative and "
        f"{number_or_nan(entry.analytic)} by the analytic one."
    )
    caption = "The function through this entry: the curve must leave the point along the tangent"
    return Figure("slice", data, caption, description)


def ladder_plot(shown: Exhibit) -> Figure:
    """What each step says of the derivative, coarse on the left, next to what the analytic side says."""
    steps = [rung.step for rung in shown.ladder]
    estimate = {
        **_line("numerical, by step", "numeric", steps, [rung.value for rung in shown.ladder]),
        "error": _numbers(rung.error for rung in shown.ladder),
    }
    claimed = shown.entry.analytic
    analytic = [_line("analytic", "analytic", _ends(steps), [claimed] * 2)] if math.isfinite(claimed) else []
    data = {
        "kind": "ladder",
        "x": "step, in units of the input",
        "y": "derivative, output per input",
        "series": [estimate, *analytic],
        "log": True,
    }
    said = "; ".join(f"step {number(r.step)}: {number_or_nan(r.value)}{bar(r.error)}" for r in shown.ladder)
    description = (
        f"A plot of the numerical derivative over the step, from coarse to fine. {said or 'No step was measured'}. "
        f"The analytic value is {number_or_nan(shown.entry.analytic)}."
    )
    caption = "The ladder: what each step of the numerical derivative says, with its error bar"
    return Figure("ladder", data, caption, description)


def _heights(shown: Exhibit, slope: float, ends: Sequence[float]) -> list[float]:
    return [shown.value + slope * (x - shown.position) for x in ends]


def _line(name: str, style: str, x: Sequence[float], y: Sequence[float]) -> dict[str, Any]:
    return {"name": name, "style": style, "x": _numbers(x), "y": _numbers(y)}


def _extent(values: Iterable[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    room = _MARGIN * (high - low) or _MARGIN * abs(high) or 1.0
    return float(np.nan_to_num(low - room)), float(np.nan_to_num(high + room))


def _ends(values: Sequence[float]) -> list[float]:
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    return [min(finite), max(finite)]


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [_finite(value) for value in values]


def _finite(value: float) -> float | None:
    """JSON has no other numbers; the script leaves a gap for null."""
    return value if math.isfinite(value) else None
