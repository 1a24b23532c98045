"""The figures of a report, as plotly.js reads them.

Colours are names of the page's own, such as "$numeric": the page knows whether it is light or dark. No text of the
user's is in a figure, since plotly.js understands some HTML in texts; the page's captions have the names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradproof.core.exhibits import Exhibit, HeatMap

Figure = dict[str, Any]

# What an infinite excess counts as, in powers of ten, at least.
_BEYOND = 16.0
# Room above and below a slice, as a part of its height.
_MARGIN = 0.15


def heat_map(drawn: HeatMap) -> Figure:
    """Cells with wrong entries, by the power of ten of their worst difference; the others stay empty."""
    rows, columns = -(-drawn.shape[0] // drawn.height), -(-drawn.shape[1] // drawn.width)
    z: list[list[float | None]] = [[None] * columns for _ in range(rows)]
    text: list[list[str]] = [[""] * columns for _ in range(rows)]
    top = max((_power(cell.excess) for cell in drawn.cells if math.isfinite(cell.excess)), default=0.0)
    for cell in drawn.cells:
        if cell.row < rows and cell.column < columns:
            z[cell.row][cell.column] = min(_power(cell.excess), max(top, _BEYOND))
            text[cell.row][cell.column] = _cell_text(drawn, cell.row, cell.column, cell.excess, cell.count)
    down, across = _axes(drawn)
    trace = {
        "type": "heatmap",
        "z": z,
        "x0": 0.5 * (drawn.width - 1),
        "dx": drawn.width,
        "y0": 0.5 * (drawn.height - 1),
        "dy": drawn.height,
        "text": text,
        "hovertemplate": "%{text}<extra></extra>",
        "hoverongaps": False,
        **_range([value for line in z for value in line if value is not None]),
        "xgap": 1 if columns <= 64 else 0,
        "ygap": 1 if rows <= 64 else 0,
        "colorscale": [[0, "$heat-low"], [1, "$heat-high"]],
        "colorbar": {
            "title": {"text": "× allowed", "side": "right"},
            "dtick": 1,
            "tickprefix": "10<sup>",
            "ticksuffix": "</sup>",
            "thickness": 12,
            "outlinewidth": 0,
            "tickfont": {"color": "$text"},
        },
    }
    layout = {
        "xaxis": {**_axis(across), **_indices(drawn.shape[1]), "range": [-0.5, drawn.shape[1] - 0.5]},
        "yaxis": {**_axis(down), **_indices(drawn.shape[0]), "range": [drawn.shape[0] - 0.5, -0.5]},
        "plot_bgcolor": "$field",
        "height": int(min(420, max(170, 120 + 26 * rows))),
        "margin": {"l": 56, "r": 8, "t": 8, "b": 48},
    }
    return {"data": [trace], "layout": layout}


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


def _power(excess: float) -> float:
    return _BEYOND if math.isinf(excess) or math.isnan(excess) else math.log10(max(excess, 1.0))


def _cell_text(drawn: HeatMap, row: int, column: int, excess: float, count: int) -> str:
    rows = _span(row * drawn.height, drawn.height, drawn.shape[0])
    columns = _span(column * drawn.width, drawn.width, drawn.shape[1])
    return f"row {rows}, column {columns}<br>{count} wrong, worst {excess:.3g} × allowed"


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
