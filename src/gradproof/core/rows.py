"""Outputs that no joint question sees: of each, the few inputs that its row names entry by entry, all others at once.

Among thousands of random numbers some are always near a pole, a tie or the end of the domain. The output there cannot
be seen along a direction that moves everything by steps of an ordinary size. But its row, one vjp, mostly names a few
inputs only: these entries are measured with the full ladder, which tries other scales, and along a direction that
leaves these inputs out the output must not move at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gradproof.core.judge import Judge
from gradproof.core.precision import CONFIDENCE
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey
from gradproof.core.suspects import Judged, Suspects
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Flags, Indices, Vector

# Entries that are measured for outputs that no survey sees; a row with more than these is dense.
MOST_ENTRIES = 64


@dataclass(frozen=True, slots=True)
class Row:
    """The claims of one output: the inputs that it names, and the entries there. All others are claimed to be zero."""

    output: int
    columns: Indices
    entries: Vector

    @staticmethod
    def of(output: int, gradient: Vector) -> Row | None:
        """None where it is not sparse."""
        columns = np.flatnonzero(gradient)
        return Row(output, columns, gradient[columns]) if len(columns) <= MOST_ENTRIES else None


@dataclass(frozen=True, slots=True)
class SeenRow:
    """A row that was verified: the derivative along the survey that follows from it, and what could hide there."""

    value: float
    hides: float
    """An error, times |u_i|."""


@dataclass(slots=True)
class Rows:
    """What entries say of some outputs: those verified, those that move without their inputs, the judgement of all."""

    seen: dict[int, SeenRow] = field(default_factory=dict[int, SeenRow])
    moved: Survey | None = None
    """The survey without their inputs, if some output moves along it all the same."""
    judged: Judged | None = None


def look_at(
    rows: list[Row],
    stencil: Stencil,
    tolerances: Tolerances,
    direction: Vector,
    exponents: tuple[int, ...],
    wanted: Vector,
) -> Rows:
    """Judge the entries of some rows; and, by rungs of these exponents, whether the other inputs move their outputs.

    An error there must be seen that is as small as `wanted` for each output, times |u_i|.
    """
    columns = np.unique(np.concatenate([row.columns for row in rows]))
    outputs = np.array([row.output for row in rows], dtype=np.intp)
    found = Rows()
    others = direction.copy()
    others[columns] = 0.0
    still = np.zeros(len(outputs))
    if others.any():
        survey = Survey(stencil, others)
        survey.climb(*exponents)
        still = CONFIDENCE * survey.error[outputs]
        if not (np.abs(survey.value[outputs]) <= still).all():
            found.moved = survey
            return found
    pairs = [
        (row.output, int(column), float(entry))
        for row in rows
        for column, entry in zip(row.columns, row.entries, strict=True)
    ]
    if pairs:
        found.judged = Judge(stencil, tolerances).judge(Mode.REVERSE, Suspects.accused(pairs), located=True)
    for row, rest in zip(rows, still, strict=True):
        own = _of_row(found.judged, row)
        hides = _hides(found.judged, own, direction)
        if hides is not None and 2.0 * rest <= wanted[row.output]:
            value = float(row.entries @ direction[row.columns])
            found.seen[row.output] = SeenRow(value, max(hides, float(2.0 * rest)))
    return found


def _of_row(judged: Judged | None, row: Row) -> Flags:
    return np.zeros(0, dtype=np.bool_) if judged is None else judged.suspects.rows == row.output


def _hides(judged: Judged | None, own: Flags, direction: Vector) -> float | None:
    """What could hide in the entries of a row, times |u_i|; None where some of them could not be judged."""
    if judged is None or not own.any():
        return 0.0
    if not np.isin(judged.status[own], (Status.RIGHT.rank, Status.KINK.rank)).all():
        return None
    suspects = judged.suspects
    excused = suspects.tolerance[own] + judged.error[own]
    return float((excused * np.abs(direction[suspects.columns[own]])).max())


def settled(judged: Judged) -> Judged | None:
    """The entries that were judged one way or the other, if any is not right; what could not be is told elsewhere."""
    which = np.flatnonzero(judged.status != Status.INCONCLUSIVE.rank)
    if not (judged.status[which] > Status.RIGHT.rank).any():
        return None
    sides = {int(new): judged.sides[int(old)] for new, old in enumerate(which) if int(old) in judged.sides}
    return Judged(judged.mode, judged.suspects.take(which), judged.error[which], judged.status[which], sides, True)
