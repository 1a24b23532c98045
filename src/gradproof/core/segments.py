"""Single entries by the integral form, in low precision, where difference quotients say little or lie.

A step of half precision is as long as the point itself: across the pole of 1/x, or over a bend of it. Along a segment
of any length the change of one output must be what its entry adds up to (see `integral`), and round-off is divided by
the length. So entries that a ladder could not settle, or calls wrong, are looked at along segments of several lengths,
the shortest of which stays on its side of zero. An entry is cleared if one of them that tells something says so, and
none that does contradicts it.

Entries of different rows and columns are looked at together, where no other entry is claimed among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from gradproof.core.problem import Mode, Problem
from gradproof.core.space import Space
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.suspects import Judged, Suspects
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Flags, Indices, Vector

# Half the segments: in units of the coordinate itself, and then of its scale.
_OWN, _LENGTHS = (0.5, 0.75, 0.875), (0.5, 1.0, 2.0, 4.0)
# The same in single precision, before these: where there are kinks, few lie in a short segment.
_SHORT = (2.0**-4, 2.0**-6, 2.0**-8)
# A cut into twice as many panels takes a smooth function's error to less than this part of it.
_FASTER = 8.0
# A segment tells something only if it would notice an error of this part of the entry.
_NOTICED = 0.5
# What contradicts an entry where the function is not smooth, in units of the error bar, and along how many segments:
# the bar of a mean across kinks is a guess.
_SURELY, _TWICE = 2.0, 2
# A point right beside another, in spacings of its numbers; and the part by which claims of two such points may differ.
_BESIDE, _ALIKE = 4.0, 0.01
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
    off: Vector
    """What a ladder says that each is off by; infinite where it says nothing."""


@dataclass(frozen=True, slots=True)
class _LookedAt:
    """Which entries segments clear, and of which none tells anything; the error bar and slope of the sharpest."""

    cleared: Flags
    blind: Flags
    bar: Vector
    slope: Vector


@dataclass(frozen=True, slots=True)
class _Balances:
    """Per unit of the segments' length: what is left of each entry's change, its error bar, its size, the change."""

    residual: Vector
    bar: Vector
    size: Vector
    slope: Vector
    rough: Flags
    """Where the derivative is so uneven along the segment that its mean is less sure than round-off makes it."""


def clear(stencil: Stencil, tolerances: Tolerances, judged: Judged) -> None:
    """Call those suspects RIGHT that segments clear.

    Where the ladder is not to be believed, those that were WRONG, and of which no segment tells anything, are
    INCONCLUSIVE; and so are those that were not looked at, if none of the worst of the same output and input is WRONG
    after all.
    """
    investigation, problem = stencil.investigation, stencil.problem
    low = problem.coarsest_eps > DOUBLE and problem.evaluates_in is None and problem.noise is None
    if not low:
        return
    which = np.flatnonzero(judged.status > Status.KINK.rank)
    if judged.mode is Mode.FORWARD:
        which = which[_is_claimed_in_reverse(investigation, judged, which)]
    if not len(which) or problem.capability(Elsewhere) is None:
        return
    kept = [k not in judged.sides or _is_claimed_beside(stencil, judged, k) for k in which.tolist()]
    which = which[np.array(kept, dtype=np.bool_)]
    suspects, wrong = judged.suspects, judged.status == Status.WRONG.rank
    largest = tolerances.widest_bar(suspects.rows, suspects.columns) / WIDEST_BAR * np.ones(len(suspects))
    believed, looked_at = problem.coarsest_eps <= HALF_OR_LESS, np.zeros(len(wrong), dtype=np.bool_)
    for group in _groups(investigation, judged, which):
        found = _looked_at(investigation, _entries(judged, group, largest[group]))
        cleared = group[found.cleared]
        judged.status[cleared], judged.error[cleared] = Status.RIGHT.rank, found.bar[found.cleared]
        believed, looked_at[group] = believed and not wrong[cleared].any(), len(group) == 1
        if not believed:
            _doubt(judged, group[found.blind])
    if not believed:
        for pair in _pairs(problem, suspects, which):
            if not (judged.status[pair[looked_at[pair]]] == Status.WRONG.rank).any():
                _doubt(judged, pair)


def _entries(judged: Judged, which: Indices, largest: Vector) -> _Entries:
    suspects = judged.suspects
    with np.errstate(invalid="ignore"):
        off = np.abs(suspects.analytic[which] - suspects.numeric[which])
    off[judged.status[which] != Status.WRONG.rank] = np.inf
    return _Entries(suspects.rows[which], suspects.columns[which], suspects.tolerance[which], largest, off)


def _is_claimed_in_reverse(investigation: Investigation, judged: Judged, which: Indices) -> Flags:
    """Of which entries reverse mode claims the same: that is asked along segments, and clears both."""
    rows, suspects = investigation.rows, judged.suspects
    if rows is None:
        return np.zeros(len(which), dtype=np.bool_)
    with np.errstate(invalid="ignore"):
        apart = np.abs(rows[suspects.rows[which], suspects.columns[which]] - suspects.analytic[which])
        alike: Flags = apart <= np.nan_to_num(suspects.tolerance[which])
    return alike


def _is_claimed_beside(stencil: Stencil, judged: Judged, which: int) -> bool:
    """Whether about the same is claimed of an entry right beside the point.

    If not, the claim is one for a kink at the point itself, which is nothing special in the middle of a segment.
    """
    suspects, point = judged.suspects, stencil.problem.point
    row, column, claim = suspects.rows[which], suspects.columns[which], suspects.analytic[which]
    cotangent = np.zeros(stencil.problem.outputs.size)
    cotangent[row] = 1.0
    for sign in (-1.0, 1.0):
        beside = point.copy()
        beside[column] += sign * _BESIDE * stencil.problem.coarsest_eps * max(abs(point[column]), stencil.scale[column])
        if abs(vjp_at(stencil.investigation, beside, cotangent)[column] - claim) <= _ALIKE * abs(claim):
            return True
    return False


def _doubt(judged: Judged, which: Indices) -> None:
    """Those of some that were WRONG are INCONCLUSIVE."""
    doubtful = which[judged.status[which] == Status.WRONG.rank]
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
    entries = _Entries(outputs, columns, tolerance, np.abs(analytic), np.full(len(columns), np.inf))
    found = _looked_at(investigation, entries)
    wrong, bar, numeric = ~(found.cleared | found.blind), found.bar, found.slope
    if not wrong.any():
        return None
    with np.errstate(all="ignore"):
        excess = np.abs(analytic - numeric) / (bar + tolerance)
    suspects = Suspects(outputs, columns, analytic, numeric, tolerance, excess).take(np.flatnonzero(wrong))
    return Judged(Mode.REVERSE, suspects, bar[wrong], np.full(len(suspects), Status.WRONG.rank))


def _groups(investigation: Investigation, judged: Judged, which: Indices) -> Iterator[Indices]:
    """Those that can be looked at together, then some alone, worst first: of each output and input in turn.

    Also those that are WRONG in company: beyond a kink, an output may depend on what it does not depend on here.
    """
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
    if len(together) > 1:
        yield together
        together = together[judged.status[together] != Status.WRONG.rank]
    else:
        together = together[:0]
    alone = which[~np.isin(which, together)]
    yield from _by_turns(_pairs(investigation.problem, suspects, alone))[:_ALONE, None]


def _pairs(problem: Problem, suspects: Suspects, which: Indices) -> list[Indices]:
    """Some suspects by their output and input, in their order: entries of others say nothing of them."""
    outputs, inputs = problem.outputs, problem.inputs
    number = _block_of(outputs, suspects.rows[which]) * len(inputs.blocks) + _block_of(inputs, suspects.columns[which])
    _, first, pair = np.unique(number, return_index=True, return_inverse=True)
    return [which[pair == k] for k in np.argsort(first)]


def _block_of(space: Space, coordinates: Indices) -> Indices:
    """The number of the block that each coordinate is in."""
    return np.searchsorted([block.stop for block in space.blocks], coordinates, side="right")


def _by_turns(pairs: Sequence[Indices]) -> Indices:
    """One of each, then another of each, until all are in.

    >>> _by_turns([np.array([7, 3, 5]), np.array([1])]).tolist()
    [7, 1, 3, 5]
    """
    turns = np.concatenate([np.arange(len(pair)) for pair in pairs] or [np.zeros(0)])
    return np.concatenate([*pairs, np.zeros(0, dtype=np.intp)])[np.argsort(turns, kind="stable")]


def _looked_at(investigation: Investigation, entries: _Entries) -> _LookedAt:
    """Segments of one length after the other, until each entry is clear or the next length is no sharper.

    In single precision a ladder is sharp where the function is smooth: what it calls wrong is cleared by a segment that
    would have noticed as much, or on which the function is not smooth.
    """
    count = len(entries.rows)
    holds, done, broken = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_), np.zeros(count)
    sharpest, slope = np.full(count, np.inf), np.full(count, np.nan)
    for half in _halves(investigation, entries.columns):
        made = _along(investigation, entries, half)
        with np.errstate(invalid="ignore"):
            allowed = made.bar + np.nan_to_num(entries.tolerance)
            large = np.fmax(made.size, entries.largest)
            sharp = allowed <= entries.off
            tells = (made.bar <= WIDEST_BAR * large) & (allowed <= _NOTICED * large) & (sharp | made.rough)
            off = np.abs(made.residual)
            holds |= tells & (off <= allowed)
            broken += np.where(
                tells & (off > np.where(made.rough, _SURELY, 1.0) * allowed), np.where(made.rough, 1, _TWICE), 0
            )
            done |= (broken >= _TWICE) | (tells & (broken == 0) & (sharp | (made.bar >= sharpest)))
            sharper = tells & (made.bar < sharpest)
            sharpest, slope = np.where(sharper, made.bar, sharpest), np.where(sharper, made.slope, slope)
        if done.all():
            break
    breaks = broken >= _TWICE
    return _LookedAt(holds & ~breaks, ~(holds | breaks), sharpest, slope)


def _halves(investigation: Investigation, columns: Indices) -> Iterator[Vector]:
    """Half the segments along some coordinates, of one length after the other."""
    problem = investigation.problem
    if problem.coarsest_eps <= HALF_OR_LESS:
        yield from (length * investigation.scale[columns] for length in _SHORT)
    own = np.abs(problem.point[columns])
    scale = np.maximum(investigation.scale, problem.inputs.typical(problem.point, least=1.0))[columns]
    yield from (np.where(own > 0.0, part * own, scale) for part in _OWN)
    yield from (length * scale for length in _LENGTHS)


def _along(investigation: Investigation, entries: _Entries, half: Vector) -> _Balances:
    problem, nothing = investigation.problem, np.full(len(half), np.nan)
    direction = np.zeros(problem.inputs.size)
    direction[entries.columns] = half
    segment = lay(investigation, direction, 1.0)
    if segment is None:
        return _Balances(nothing, nothing, nothing, nothing, np.zeros(len(half), dtype=np.bool_))
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
        first, second = np.abs(claimed[-2] - claimed[-3]), np.abs(claimed[-1] - claimed[-2])
        # across kinks each cut takes it to half only, and may change little by chance
        falls = np.where(second <= first / _FASTER, _FASTER, 2.0)
        unsettled = BEYOND * np.fmax(second, first / falls)
        size = np.fmax(np.abs(change), np.abs(claimed[-1]))
        round_off = 2.0 * EVALUATION_ROUND_OFF * (np.abs(value) + np.abs(change)) + ENTRY_ROUND_OFF * size
        width = 2.0 * np.abs(segment.half[entries.columns])
        rough = unsettled > problem.coarsest_eps * round_off
        bar = problem.coarsest_eps * round_off + unsettled
        if problem.noise is not None:  # of steps, which are as wide elsewhere and for other elements
            bar = unsettled + 2.0 * float(problem.noise[entries.rows].max())
        bar = np.where(change == 0.0, np.fmax(bar, segment.error[entries.rows]), bar)
        return _Balances((change - claimed[-1]) / width, bar / width, size / width, change / width, rough)
