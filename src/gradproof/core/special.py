"""Entries at points that are not ordinary: kinks, jumps, and structure finer than the steps of a ladder.

What looks like a kink is one if it still does at the shortest steps that round-off leaves; and what looks wrong by a
ladder that has not settled is looked at with these before it is called so. What they do not resolve either is neither
right nor wrong: it cannot be judged.
"""

from __future__ import annotations

import math

import numpy as np

from gradproof.core.ladder import Estimate, contradicts
from gradproof.core.resolution import FineLook, Shape, can_look, can_reach, goes_with, is_kink, look_finely, outruns
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.suspects import Judged, Suspects, rank, subgradients
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Flags, Indices, Vector

# A fine look is taken where its error bar is this part of the ladder's, or where the two do not agree.
_SHARPER = 0.25
# Fine looks in vain after which there are no more at ladders that have not settled: it is noise.
_IN_VAIN = 4


class Special:
    """Looks at suspects of one Problem at such points, and judges them."""

    def __init__(self, stencil: Stencil, tolerances: Tolerances) -> None:
        self._stencil, self._tolerances = stencil, tolerances
        self._can_look = can_look(stencil)
        self._in_vain = 0

    def resolve(self, judged: Judged, which: Indices) -> Indices:
        """Judge suspects whose ladders have not settled by shorter steps, where these say otherwise.

        Returns those that are seen so: they lie at ordinary points.
        """
        suspects = judged.suspects
        which = which[can_reach(self._stencil, suspects.columns[which]) & self._can_look]
        resolved, columns = np.zeros(len(which), dtype=np.bool_), suspects.columns[which]
        for column in np.unique(columns):
            if self._in_vain >= _IN_VAIN:
                break
            at = columns == column
            here = which[at]
            look = look_finely(self._stencil, int(column), suspects.rows[here])
            value, error, bar = look.estimate.value, look.estimate.error, judged.error[here]
            with np.errstate(invalid="ignore"):
                otherwise = (np.abs(value - suspects.numeric[here]) > error + bar) | (error < _SHARPER * bar)
            smooth = (look.shape == Shape.SMOOTH) & np.isfinite(error)
            otherwise &= smooth
            self._take(judged, here, look, otherwise)
            unsettled = here[~smooth & (judged.status[here] == Status.INCONCLUSIVE.rank)]
            judged.error[unsettled] = np.inf  # what longer steps say of their own error is nothing
            resolved[at] = otherwise
            self._in_vain = 0 if smooth.any() else self._in_vain + 1
        return which[resolved]

    def spare_waves(self, judged: Judged, which: Indices) -> None:
        """Of what moves far more over the shortest step than its numerical derivative explains, nothing is WRONG.

        Nor of what does not move as was measured over steps far shorter, where there are waves.
        """
        suspects, wrong = judged.suspects, np.zeros(len(judged.status), dtype=np.bool_)
        wrong[which] = judged.status[which] == Status.WRONG.rank
        steepest = np.abs(suspects.numeric) + judged.error
        for k, (left, right) in judged.sides.items():
            steepest[k] += max(abs(left), abs(right))
        unclear = self.waves(suspects, steepest, wrong)
        judged.status[unclear], judged.error[unclear] = Status.INCONCLUSIVE.rank, np.inf

    def waves(self, suspects: Suspects, steepest: Vector, wrong: Flags) -> Flags:
        """Which of some wrong suspects may be on waves that are shorter than all steps so far.

        Where a function was seen to have such waves, all that does not go as was measured over the shortest steps.
        """
        found = outruns(self._stencil, suspects, steepest, wrong)
        if self._stencil.investigation.has_waves and self._can_look:
            for k in np.flatnonzero(wrong & ~found).tolist():
                row, column = int(suspects.rows[k]), int(suspects.columns[k])
                measured, claimed = float(suspects.numeric[k]), float(suspects.analytic[k])
                if math.isfinite(measured) and math.isfinite(claimed):
                    nearest = goes_with(self._stencil, row, column, measured=measured, claimed=claimed)
                    found[k] = nearest != measured
        return found

    def excuse_kinks(self, judged: Judged, which: Indices) -> dict[int, tuple[float, float]]:
        """At kinks and jumps, call those suspects KINK that are valid subgradients, and the others WRONG.

        Returns the derivatives of the two sides, by the number of the suspect.
        """
        suspects, found = judged.suspects, dict[int, tuple[float, float]]()
        for column in np.unique(suspects.columns[which]):
            here = which[suspects.columns[which] == column]
            if self._stencil.bends(int(column), suspects.rows[here]):
                found |= self._excuse(judged, here, int(column))
        return found

    def _excuse(self, judged: Judged, here: Indices, column: int) -> dict[int, tuple[float, float]]:
        status, rows = judged.status, judged.suspects.rows[here]
        left, right = (first_row(estimate) for estimate in self._stencil.sides([column], rows))
        special, valid = self._subgradients(judged, here, left, right)
        if self._can_look and special.any():
            look, left, right, doubtful = self._look(rows, column, left, right, special)
            special, valid = self._subgradients(judged, here, left, right)
            ordinary = doubtful & (look.shape == Shape.SMOOTH)
            self._take(judged, here, look, ordinary)
            unclear = doubtful & (look.shape == Shape.UNCLEAR)
            status[here[unclear]], judged.error[here[unclear]] = Status.INCONCLUSIVE.rank, np.inf
            special, valid = (flags & ~ordinary & ~unclear for flags in (special, valid))
        status[here[special]] = Status.WRONG.rank
        status[here[valid]] = Status.KINK.rank
        return {int(here[k]): (float(left.value[k]), float(right.value[k])) for k in np.flatnonzero(special)}

    def _look(
        self, rows: Indices, column: int, left: Estimate, right: Estimate, special: Flags
    ) -> tuple[FineLook, Estimate, Estimate, Flags]:
        """What short steps see; the sides, by these where they know better; and which of the special are in doubt."""
        doubtful = special & ~is_kink(self._stencil, column, rows, left.value, right.value)
        look = look_finely(self._stencil, column, rows) if doubtful.any() else FineLook.unneeded(len(rows))
        kinked = doubtful & (look.shape == Shape.KINK)
        sides = [_finer(side, fine, kinked) for side, fine in ((left, look.left), (right, look.right))]
        return look, sides[0], sides[1], doubtful

    def _subgradients(self, judged: Judged, here: Indices, left: Estimate, right: Estimate) -> tuple[Flags, Flags]:
        suspects = judged.suspects
        size = np.fmax(np.abs(left.value), np.abs(right.value))
        tolerance = self._tolerances.of(size, suspects.rows[here], suspects.columns[here], left.error + right.error)
        return subgradients(suspects.analytic[here], left, right, suspects.numeric[here], tolerance)

    def _take(self, judged: Judged, here: Indices, look: FineLook, where: Flags) -> None:
        """Judge suspects by what short steps say of them; none is WRONG by the shortest ones alone."""
        suspects, which = judged.suspects, here[where]
        value, error = look.estimate.value[where], look.estimate.error[where]
        rows, columns = suspects.rows[which], suspects.columns[which]
        tolerance, nearby = self._tolerances.of(np.abs(value), rows, columns, error), look.nearby[where]
        with np.errstate(all="ignore"):
            difference = np.abs(suspects.analytic[which] - value)
            suspects.numeric[which], suspects.tolerance[which], judged.error[which] = value, tolerance, error
            judged.status[which] = rank(
                difference, error, tolerance, self._tolerances.widest_bar(rows, columns, nearby)
            )
            suspects.excess[which] = np.nan_to_num(difference / (tolerance + error), nan=np.inf)
        noisy = (judged.status[which] == Status.WRONG.rank) & ~look.plain[where]
        unclear = noisy | (judged.status[which] == Status.INCONCLUSIVE.rank)
        judged.status[which[unclear]] = Status.INCONCLUSIVE.rank
        judged.error[which[unclear & (nearby == 0)]] = np.inf


def _finer(side: Estimate, fine: Estimate, where: Flags) -> Estimate:
    """The derivative of one side, by short steps where these contradict longer ones."""
    better = where & contradicts(fine.value, fine.error, side.value, side.error)
    return Estimate(np.where(better, fine.value, side.value), np.where(better, fine.error, side.error), 0)


def first_row(estimate: Estimate) -> Estimate:
    """What was measured of one input alone."""
    return Estimate(estimate.value[0], estimate.error[0], estimate.evaluations)
