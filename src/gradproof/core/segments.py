"""Single entries by the integral form, in low precision, where difference quotients say little or lie.

A step of half precision is as long as the point itself: across the pole of 1/x, or over a bend of it. Along a segment
of any length the change of one output must be what its entry adds up to (see `integral`), and round-off is divided by
the length. So entries that a ladder could not settle, or calls wrong, are looked at along segments of several lengths,
the shortest of which stays on its side of zero. An entry is cleared if one of them that tells something says so, and
none that does contradicts it.

Entries of different rows and columns are looked at together, where no other entry is claimed among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradproof.core.capabilities import Elsewhere
from gradproof.core.integral import BEYOND, PANELS, lay, rule, vjp_at
from gradproof.core.investigation import Investigation
from gradproof.core.precision import (
    BY_DESIGN,
    DOUBLE,
    ENTRY_ROUND_OFF,
    EVALUATION_ROUND_OFF,
    HALF_OR_LESS,
    WIDEST_BAR,
    default_rtol,
)
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.suspects import Judged, Suspects
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Flags, Indices, Vector

# Half the segments: in units of the coordinate itself, and then of its scale.
_OWN, _LENGTHS = (0.5, 0.75, 0.875), (0.5, 1.0, 2.0, 4.0)
# A cut into twice as many panels takes a smooth function's error to less than this part of it.
_FASTER = 8.0
# A segment tells something only if it would notice an error of this part of the entry.
_NOTICED = 0.5
# Entries that are looked at by themselves, where they cannot be together.
_ALONE = 32


@dataclass(frozen=True, slots=True)
class _Entries:
    """Some entries, no two of one row or column."""

    rows: Indices
    columns: Indices
    tolerance: Vector
    largest: Vector
    """The largest claim of each one's pair of an output and an input."""


def clear(stencil: Stencil, tolerances: Tolerances, judged: Judged) -> None:
    """Call those suspects RIGHT that segments clear.

    In half precision those that were WRONG, and of which no segment tells anything, are INCONCLUSIVE.
    """
    investigation, problem = stencil.investigation, stencil.problem
    low = problem.coarsest_eps > DOUBLE and problem.evaluates_in is None and problem.noise is None
    if not low or judged.mode is not Mode.REVERSE:
        return
    which = np.flatnonzero(judged.status > Status.KINK.rank)
    if not len(which) or problem.capability(Elsewhere) is None:
        return
    suspects = judged.suspects
    largest = tolerances.widest_bar(suspects.rows, suspects.columns) / WIDEST_BAR * np.ones(len(suspects))
    for group in _groups(investigation, judged, which):
        entries = _Entries(suspects.rows[group], suspects.columns[group], suspects.tolerance[group], largest[group])
        cleared, blind, bar, _ = _looked_at(investigation, entries)
        judged.status[group[cleared]] = Status.RIGHT.rank
        judged.error[group[cleared]] = bar[cleared]
        if problem.coarsest_eps <= HALF_OR_LESS:  # the ladder of single precision is to be believed
            continue
        doubtful = group[blind & (judged.status[group] == Status.WRONG.rank)]
        judged.status[doubtful], judged.error[doubtful] = Status.INCONCLUSIVE.rank, np.inf


def disputed(stencil: Stencil) -> Judged | None:
    """The slopes that are claimed of a staircase, where long segments contradict them; None: none of those looked at.

    A step of the ladder sees little of a slope behind steps about as wide. Looked at are the largest claims of each
    input, where these share no output.
    """
    investigation, problem = stencil.investigation, stencil.problem
    rows = investigation.rows
    if rows is None or problem.noise is None or problem.capability(Elsewhere) is None:
        return None
    if problem.coarsest_eps <= BY_DESIGN or problem.evaluates_in is not None:
        return None
    columns = np.flatnonzero(rows.any(axis=0))
    outputs = np.abs(rows[:, columns]).argmax(axis=0)
    outputs, first = np.unique(outputs, return_index=True)
    columns = columns[first]
    claimed = rows[np.ix_(outputs, columns)] != 0
    alone = (claimed.sum(axis=0) == 1) & (claimed.sum(axis=1) == 1)
    outputs, columns = outputs[alone], columns[alone]
    if not len(columns):
        return None
    analytic = rows[outputs, columns]
    tolerance = default_rtol(np.full(len(columns), problem.coarsest_eps)) * np.abs(analytic)
    entries = _Entries(outputs, columns, tolerance, np.abs(analytic))
    cleared, blind, bar, numeric = _looked_at(investigation, entries)
    wrong = ~(cleared | blind)
    if not wrong.any():
        return None
    with np.errstate(all="ignore"):
        excess = np.abs(analytic - numeric) / (bar + tolerance)
    found = Suspects(outputs, columns, analytic, numeric, tolerance, excess).take(np.flatnonzero(wrong))
    return Judged(Mode.REVERSE, found, bar[wrong], np.full(len(found), Status.WRONG.rank))


def _groups(investigation: Investigation, judged: Judged, which: Indices) -> list[Indices]:
    """Those that can be looked at together, then some alone, worst first."""
    suspects, rows = judged.suspects, investigation.rows
    which = which[np.argsort(-suspects.excess[which], kind="stable")]
    together = np.zeros(0, dtype=np.intp)
    if rows is not None:
        _, first = np.unique(suspects.rows[which], return_index=True)
        picked = which[first]
        _, first = np.unique(suspects.columns[picked], return_index=True)
        picked = picked[first]
        claimed = rows[np.ix_(suspects.rows[picked], suspects.columns[picked])] != 0
        np.fill_diagonal(claimed, val=False)
        together = picked[~(claimed.any(axis=0) | claimed.any(axis=1))]
    alone = which[~np.isin(which, together)][:_ALONE]
    return [group for group in (together, *alone[:, None]) if len(group)]


def _looked_at(investigation: Investigation, entries: _Entries) -> tuple[Flags, Flags, Vector, Vector]:
    """Which entries segments clear, of which no segment tells anything; the error bar and slope of the sharpest."""
    problem = investigation.problem
    own = np.abs(problem.point[entries.columns])
    scale = np.maximum(investigation.scale, problem.inputs.typical(problem.point, least=1.0))[entries.columns]
    holds, breaks = np.zeros(len(own), dtype=np.bool_), np.zeros(len(own), dtype=np.bool_)
    sharpest, slope = np.full(len(own), np.inf), np.full(len(own), np.nan)
    near = (np.where(own > 0.0, part * own, scale) for part in _OWN)
    for half in (*near, *(length * scale for length in _LENGTHS)):
        residual, bar, size, mean = _along(investigation, entries, half)
        with np.errstate(invalid="ignore"):
            allowed = bar + np.nan_to_num(entries.tolerance)
            large = np.fmax(size, entries.largest)
            tells = (bar <= WIDEST_BAR * large) & (allowed <= _NOTICED * large)
            close = np.abs(residual) <= allowed
            holds |= tells & close
            breaks |= tells & ~close
            sharper = tells & (bar < sharpest)
            sharpest, slope = np.where(sharper, bar, sharpest), np.where(sharper, mean, slope)
        if (holds | breaks).all():
            break
    return holds & ~breaks, ~(holds | breaks), sharpest, slope


def _along(investigation: Investigation, entries: _Entries, half: Vector) -> tuple[Vector, Vector, Vector, Vector]:
    """Per unit of the segments' length: what is left of each entry's change, its error bar, its size, the change."""
    problem, nothing = investigation.problem, np.full(len(half), np.nan)
    direction = np.zeros(problem.inputs.size)
    direction[entries.columns] = half
    segment = lay(investigation, direction, 1.0)
    if segment is None:
        return nothing, nothing, nothing, nothing
    change, value = segment.change[entries.rows], problem.value[entries.rows]
    cotangent = np.zeros(problem.outputs.size)
    cotangent[entries.rows] = 1.0
    claimed: list[Vector] = []
    for panels in PANELS:
        total = np.zeros(len(half))
        for node, weight in rule(panels):
            gradient = vjp_at(investigation, segment.middle + node * segment.half, cotangent)
            total += weight * (gradient * segment.half)[entries.columns]
        claimed.append(total)
    with np.errstate(all="ignore"):
        unsettled = BEYOND * np.fmax(np.abs(claimed[-1] - claimed[-2]), np.abs(claimed[-2] - claimed[-3]) / _FASTER)
        size = np.fmax(np.abs(change), np.abs(claimed[-1]))
        round_off = 2.0 * EVALUATION_ROUND_OFF * (np.abs(value) + np.abs(change)) + ENTRY_ROUND_OFF * size
        width = 2.0 * np.abs(segment.half[entries.columns])
        bar = problem.coarsest_eps * round_off + unsettled
        if problem.noise is not None:  # of steps, which are as wide elsewhere and for other elements
            bar = unsettled + 2.0 * float(problem.noise[entries.rows].max())
        bar = np.where(change == 0.0, np.fmax(bar, segment.error[entries.rows]), bar)
        return (change - claimed[-1]) / width, bar / width, size / width, change / width
