"""The figures of a report, as plotly.js reads them.

Colours are names of the page's own, such as "$numeric": the page knows whether it is light or dark. No text of the
user's is in a figure, since plotly.js understands some HTML in texts; the page's captions have the names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradproof.render.maps import Cell, HeatMap
from gradproof.results.exhibits import Exhibit
from gradproof.results.spots import Grid

Figure = dict[str, Any]

# What an infinite excess counts as, in powers of ten, at least.
_BEYOND = 16.0
# Room above and below a slice, as a part of its height.
_MARGIN = 0.15


def heat_map(drawn: HeatMap) -> Figure:
    """Cells with wrong entries, by the power of ten of their worst difference; the others stay empty."""
    grid, (down, across) = drawn.grid, _axes(drawn)
    rows, columns = grid.shape
    layout = {
        "xaxis": {**_axis(across), **_indices(columns), "range": [-0.5, columns - 0.5]},
        "yaxis": {**_axis(down), **_indices(rows), "range": [rows - 0.5, -0.5]},
        "plot_bgcolor": "$field",
        "height": int(min(420, max(170, 120 + 26 * grid.down))),
        "margin": {"l": 56, "r": 8, "t": 8, "b": 48},
    }
    return {"data": [_heat_trace(grid, drawn.cells)], "layout": layout}


def _heat_trace(grid: Grid, cells: Sequence[Cell]) -> Figure:
    powers = _powers([cell.excess for cell in cells])
    z: list[list[float | None]] = [[None] * grid.across for _ in range(grid.down)]
    text: list[list[str]] = [[""] * grid.across for _ in range(grid.down)]
    for cell, power in zip(cells, powers, strict=True):
        z[cell.row][cell.column] = power
        text[cell.row][cell.column] = _cell_text(grid, cell)
    return {
        "type": "heatmap",
        "z": z,
        "x0": 0.5 * (grid.width - 1),
        "dx": grid.width,
        "y0": 0.5 * (grid.height - 1),
        "dy": grid.height,
        "text": text,
        "hovertemplate": "%{text}<extra></extra>",
        "hoverongaps": False,
        **_range(powers),
        "xgap": 1,
        "ygap": 1,
        "colorscale": [[0, "$heat-low"], [1, "$heat-high"]],
        "colorbar": _COLOUR_BAR,
    }


_COLOUR_BAR: Figure = {
    "title": {"text": "× allowed", "side": "right"},
    "dtick": 1,
    "tickprefix": "10<sup>",
    "ticksuffix": "</sup>",
    "thickness": 12,
    "outlinewidth": 0,
    "tickfont": {"color": "$text"},
}


def _axes(drawn: HeatMap) -> tuple[str, str]:
    if drawn.over == "jacobian":
        return "output coordinate", "input coordinate"
    last = len(drawn.input.shape) - 1
    return ("axis 0" if last == 1 else "all but the last axis"), f"axis {last}"


def _indices(count: int) -> Figure:
    """An axis of whole numbers, about eight of them named."""
    return {"tick0": 0, "dtick": max(1, -(-count // 8)), "showgrid": False}


def _range(powers: list[float]) -> Figure:
    """The ends of the colours: at least a power of ten apart, so that what is nearly equal looks so."""
    top = max(powers, default=1.0)
    return {"zmin": min([*powers, top - 1.0]), "zmax": top}


def _powers(excesses: Sequence[float]) -> list[float]:
    """The powers of ten of these; what is not finite gets none smaller than the others."""
    finite = [math.log10(max(excess, 1.0)) for excess in excesses if math.isfinite(excess)]
    beyond = max([_BEYOND, *finite])
    return [math.log10(max(excess, 1.0)) if math.isfinite(excess) else beyond for excess in excesses]


def _cell_text(grid: Grid, cell: Cell) -> str:
    rows = _span(cell.row * grid.height, grid.height, grid.shape[0])
    columns = _span(cell.column * grid.width, grid.width, grid.shape[1])
    counted = "" if cell.count is None else f"{cell.count} wrong, "
    return f"row {rows}, column {columns}<br>{counted}worst {cell.excess:.3g} × allowed"


def _span(start: int, length: int, end: int) -> str:
    return str(start) if length == 1 else f"{start} to {min(start + length, end) - 1}"


def slice_plot(shown: Exhibit) -> Figure:
    """The output along the coordinate, with both tangents through the point."""
    entry, ends = shown.entry, _ends(shown.positions)
    low, high = _extent([*shown.values, shown.value])
    data = [
        _line("function", shown.positions, shown.values, "$text", "solid"),
        _tangent("numerical tangent", shown, entry.numeric, ends, ("$numeric", "solid")),
        _tangent("analytic tangent", shown, entry.analytic, ends, ("$analytic", "dash")),
        {
            "type": "scatter",
            "mode": "markers",
            "name": "the point",
            "x": [_finite(shown.position)],
            "y": [_finite(shown.value)],
            "marker": {"color": "$text", "size": 8},
            "hoverinfo": "x+y",
        },
    ]
    layout = {"xaxis": _axis("input coordinate"), "yaxis": {**_axis("output"), "range": [low, high]}, **_legend()}
    return {"data": data, "layout": layout}


def ladder_plot(shown: Exhibit) -> Figure:
    """What each step says of the derivative, coarse on the left, next to what the analytic side says."""
    steps = [rung.step for rung in shown.ladder]
    estimate = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "numerical, by step",
        "x": _numbers(steps),
        "y": _numbers([rung.value for rung in shown.ladder]),
        "error_y": {
            "type": "data",
            "array": _numbers([rung.error for rung in shown.ladder]),
            "color": "$numeric",
            "thickness": 1.5,
        },
        "line": {"color": "$numeric", "width": 1.5},
        "marker": {"color": "$numeric", "size": 7},
    }
    ends = _ends(steps)
    analytic = _line("analytic", ends, [shown.entry.analytic] * 2, "$analytic", "dash")
    layout = {
        "xaxis": {**_axis("step"), "type": "log", "autorange": "reversed", "exponentformat": "power"},
        "yaxis": _axis("derivative"),
        **_legend(),
    }
    return {"data": [estimate, analytic], "layout": layout}


def _tangent(name: str, shown: Exhibit, slope: float, ends: Sequence[float], look: tuple[str, str]) -> Figure:
    heights = [shown.value + slope * (x - shown.position) for x in ends]
    return _line(name, ends, heights, *look)


def _line(name: str, x: Sequence[float], y: Sequence[float], colour: str, dash: str) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": _numbers(x),
        "y": _numbers(y),
        "line": {"color": colour, "dash": dash, "width": 2},
    }


def _axis(title: str) -> Figure:
    return {
        "title": {"text": title, "standoff": 8},
        "gridcolor": "$grid",
        "zeroline": False,
        "linecolor": "$grid",
        "automargin": True,
    }


def _legend() -> Figure:
    return {
        "height": 300,
        "margin": {"l": 56, "r": 12, "t": 8, "b": 48},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 11}},
    }


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
    """JSON has no other numbers; plotly.js leaves a gap for null."""
    return value if math.isfinite(value) else None
