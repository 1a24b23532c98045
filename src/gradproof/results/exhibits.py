"""What was measured around single entries for the figures of a report."""

from __future__ import annotations

from dataclasses import dataclass

from gradproof.results.finding import Entry
from gradproof.results.same import Same


@dataclass(frozen=True, slots=True, eq=False)
class Rung(Same):
    """What one step of the ladder says of a derivative."""

    step: float
    value: float
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class Exhibit(Same):
    """One entry: the output along its input coordinate (`positions`, `values`), and the ladder at the point."""

    entry: Entry
    position: float
    value: float
    positions: tuple[float, ...]
    values: tuple[float, ...]
    ladder: tuple[Rung, ...]
