"""Thousands of suspects at kinks, verified together: by the left or the right derivative.

Most functions take one side's derivative at every kink (those that take the mean agree with a central difference, and
are no suspects). So before each suspect is measured by itself, the coordinates of all of them move at once to one side,
by weights of which no two are alike. For an output whose derivative to that side is what its row claims, an error of
one entry beyond its tolerance would have shown. What does not agree is judged one by one, and so is a sample of what
does: the report names places.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradproof.core.directions import draw_direction, on_kinks
from gradproof.core.judge import Judge
from gradproof.core.ledger import ProbeRungs
from gradproof.core.precision import APART, DOUBLE, INNER_PRODUCT_ROUND_OFF
from gradproof.core.problem import Mode
from gradproof.core.side_survey import SideSurvey
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.suspects import Judged, Statuses, Suspects
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Flags, Indices, Vector

Claim = Callable[[Vector], Vector]
"""What the derivative under test says along a direction."""

# Suspect coordinates from which on it pays to ask about them together; suspects that are judged all the same.
_MANY, _SAMPLES = 32, 16


def judge_many(stencil: Stencil, tolerances: Tolerances, mode: Mode, suspects: Suspects, claim: Claim | None) -> Judged:
    """Every suspect with its status, those that one side verifies together and the others by the judge."""
    judge = Judge(stencil, tolerances)
    if claim is None or not _can_be_many(stencil, suspects):
        return judge.judge(mode, suspects)
    special = on_kinks(stencil.problem.point)[suspects.columns]
    found = _judge_around(judge, stencil, suspects, mode, claim, special if special.any() else ~special)
    if found is not None:
        return found
    judged = judge.judge(mode, suspects)
    wrong = _measured_wrong(judged)
    if not len(wrong):
        return judged
    # one that is wrong has hidden the others
    others = ~np.isin(suspects.columns, wrong) & (special | ~special.any())
    return _judge_around(judge, stencil, suspects, mode, claim, others) or judged


def _judge_around(
    judge: Judge, stencil: Stencil, suspects: Suspects, mode: Mode, claim: Claim, which: Flags
) -> Judged | None:
    """The same, where those along the coordinates of some suspects can be verified together; None: they cannot."""
    if not _are_many(suspects, which):
        return None
    status = _together(stencil, suspects, claim, which)
    verified = np.flatnonzero(status < Status.INCONCLUSIVE.rank)
    if len(verified) <= _SAMPLES:
        return None
    worst_first = verified[np.argsort(-suspects.excess[verified], kind="stable")]
    sampled = judge.judge(mode, suspects.take(worst_first[:_SAMPLES]))
    if (sampled.status > Status.KINK.rank).any():
        return None  # it is not what it seems
    others = _as_verified(mode, suspects.take(worst_first[_SAMPLES:]), status[worst_first[_SAMPLES:]])
    rest = np.flatnonzero(status >= Status.INCONCLUSIVE.rank)
    return joined([sampled, others, *([judge.judge(mode, suspects.take(rest))] if len(rest) else [])])


def _measured_wrong(judged: Judged) -> Indices:
    """The coordinates of what was measured and found to be wrong."""
    wrong = np.flatnonzero(judged.status == Status.WRONG.rank)
    measured = (judged.error[wrong] > 0) | np.isin(wrong, list(judged.sides))
    return np.unique(judged.suspects.columns[wrong[measured]])


def _can_be_many(stencil: Stencil, suspects: Suspects) -> bool:
    problem = stencil.problem
    plain = not stencil.fixed and problem.noise is None and problem.coarsest_eps <= DOUBLE
    return plain and len(suspects) >= _MANY


def _are_many(suspects: Suspects, which: Flags) -> bool:
    return len(np.unique(suspects.columns[which])) >= _MANY


def _together(stencil: Stencil, suspects: Suspects, claim: Claim, which: Flags) -> Statuses:
    """For each suspect RIGHT or KINK, where a side says what is claimed; INCONCLUSIVE elsewhere."""
    direction = np.zeros(stencil.problem.inputs.size)
    columns = np.unique(suspects.columns[which])
    direction[columns] = np.abs(draw_direction(stencil)[columns])
    ladder = ProbeRungs.of(DOUBLE)
    sides = [SideSurvey(stencil, direction, order=1, sign=sign) for sign in (-1.0, 1.0)]
    claimed = claim(direction)
    agrees: list[Vector] = []
    for side in sides:
        side.climb(*ladder.coarser[:1], *ladder.base, *ladder.finer[:1])
        with np.errstate(invalid="ignore"):
            bar = side.error + INNER_PRODUCT_ROUND_OFF * DOUBLE * (np.abs(side.value) + np.abs(claimed))
            agrees.append(np.where(np.abs(side.value - claimed) <= bar, bar, np.inf))
    left, right = sides
    with np.errstate(invalid="ignore"):
        kinked = ~(np.abs(left.value - right.value) <= APART * (left.error + right.error))
        # an error beyond the tolerance of one entry would have shown
        allowed = suspects.tolerance * direction[suspects.columns]
        seen = (2.0 * np.min(agrees, axis=0)[suspects.rows] <= allowed) & (allowed > 0)
    status = np.where(kinked[suspects.rows], Status.KINK.rank, Status.RIGHT.rank)
    return np.where(seen, status, Status.INCONCLUSIVE.rank)


def _as_verified(mode: Mode, suspects: Suspects, status: Indices) -> Judged:
    """Suspects with the status that a side gave them; in a report they come after those that were measured."""
    suspects.excess[:] = np.fmin(suspects.excess, 1.0)
    return Judged(mode, suspects, np.zeros(len(suspects)), status)


def joined(parts: list[Judged]) -> Judged:
    """Several as one."""
    sides: dict[int, tuple[float, float]] = {}
    start = 0
    for part in parts:
        sides |= {start + k: pair for k, pair in part.sides.items()}
        start += len(part.suspects)
    return Judged(
        parts[0].mode,
        Suspects.join([part.suspects for part in parts]),
        np.concatenate([part.error for part in parts]),
        np.concatenate([part.status for part in parts]),
        sides,
    )
