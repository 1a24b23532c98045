"""Wrong entries that need no ladder of their own: two looks at the same entries confirm one another.

The every-entry strategy takes one step along each input. If a survey has measured the sum of a whole row along its
direction, by other steps and with an error bar, and the row as screened gives the same sum, then its entries are as
good as that agreement. Without a survey, a second and far finer step along the inputs in question does the same. So a
wrong derivative is told without a ladder for each entry. Entries on a kink, and those of which the two looks do not
agree, are left to the judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from gradproof.core.ladder import Estimate
from gradproof.core.precision import CONFIDENCE, DOUBLE
from gradproof.core.problem import Problem
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey
from gradproof.core.types import Flags, Indices, Matrix

FINE = 25
"""The rung of a fine step, which sees kinks that lie nearer than any step of a survey or of screening."""
# That of another one, which has a kink in its middle where the first does not.
_FINER = 31
# How many rungs above the finest of a survey that is finer still: round-off is less there.
_COARSER = 3
# The part of a slope that the two steps may differ by before that is taken for a kink, and how much round-off.
_BENT, _NOISY = 1e-3, 8.0
# Two looks at an ordinary function differ by less than this part of the largest entry of a row, or than so much
# round-off.
_ALIKE, _ROUND_OFF = 1e-4, 64.0


class Look(Protocol):
    """A numerical Jacobian that can be relied on in places."""

    def estimate(self, columns: Indices, outputs: Indices) -> Estimate:
        """Some entries with error bars, a row for each column; infinite bars where nothing confirms them."""
        ...


def fine_rung(survey: Survey | None) -> int:
    """The rung of a fine step, as short as those that a survey had to take."""
    return FINE if survey is None else max(FINE, survey.finest - _COARSER)


def can_confirm(problem: Problem) -> bool:
    """In low precision and in noise, one step says too little."""
    return problem.coarsest_eps <= DOUBLE and problem.noise is None


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The numerical Jacobian by one fine step for each input, a row for each output, and a survey."""

    values: Matrix
    survey: Survey
    stencil: Stencil
    """With the steps that the values come from."""

    def estimate(self, columns: Indices, outputs: Indices) -> Estimate:
        """The error bar of an entry is what its row and the survey differ by."""
        survey, stencil = self.survey, self.stencil
        fine = stencil.step[columns]
        with np.errstate(all="ignore"):
            off = np.abs(self.values[outputs] @ survey.direction - survey.value[outputs])
            row_bar = off + CONFIDENCE * survey.error[outputs]
            row_bar[survey.bent[outputs] | ~np.isfinite(row_bar)] = np.inf
            step = np.where(survey.direction[columns] != 0, np.abs(survey.direction[columns]), np.nan)
            floor = stencil.noise[outputs][None, :] / fine[:, None]
            error = row_bar[None, :] / step[:, None] + floor
            error[_are_unlike(error, floor, self.values[outputs])] = np.inf
        return Estimate(self.values[np.ix_(outputs, columns)].T, _believed(stencil, columns, error), 0)


@dataclass(frozen=True, slots=True)
class Repeated:
    """The numerical Jacobian by one step for each input, and the means to take a finer one."""

    values: Matrix
    stencil: Stencil

    def estimate(self, columns: Indices, outputs: Indices) -> Estimate:
        """The error bar of an entry is what the two steps differ by.

        The finer one goes to one side only. At a kink it differs from the other, which goes to both: then nothing is
        confirmed.
        """
        stencil, first = self.stencil, self.values[np.ix_(outputs, columns)].T
        before = stencil.investigation.cost.evaluations
        slopes, step = stencil.finely(columns, FINE, outputs)
        with np.errstate(all="ignore"):
            floor = stencil.noise[outputs][None, :] / step[:, None]
            apart = np.abs(slopes - first)
            error = apart + 2.0 * floor
            error[_are_unlike(error, floor, self.values[outputs])] = np.inf
            error[_is_bend(apart, floor, first)] = np.inf
        spent = stencil.investigation.cost.evaluations - before
        return Estimate(first, _believed(stencil, columns, error), spent)


class Claimed(NamedTuple):
    """What is claimed of some outputs along some columns, and by how much it may be off."""

    values: Matrix
    allowed: Matrix


def differs(stencil: Stencil, first: Matrix, claimed: Claimed, columns: Indices, outputs: Indices) -> Flags:
    """Of which entries, outputs by columns, far finer steps to one side say something else than the `first` did.

    And than is claimed, with what that may be off by. One step may end as far behind a kink as the kink is away: then
    its slope is the mean of both sides, too.
    """
    found = np.zeros(first.shape, dtype=np.bool_)
    for rung in (FINE, _FINER) if can_confirm(stencil.problem) else (FINE,):
        slopes, step = stencil.finely(columns, rung, outputs)
        with np.errstate(all="ignore"):
            floor = np.multiply.outer(stencil.noise[outputs], 1.0 / step)
            agrees = np.abs(slopes.T - claimed.values) + floor <= claimed.allowed
            found |= ~agrees & _is_bend(np.abs(slopes.T - first), floor, first)
    return found


def _is_bend(apart: Matrix, floor: Matrix, first: Matrix) -> Flags:
    """Where two steps differ by more than round-off, and more than those of a smooth function do."""
    return apart > _NOISY * floor + _BENT * np.abs(first).max(initial=0.0, where=np.isfinite(first))


def _are_unlike(error: Matrix, floor: Matrix, rows: Matrix) -> Flags:
    """Where two looks differ by what is no round-off: steps may be longer than what the function does here."""
    largest = np.nanmax(np.abs(rows), axis=1, initial=0.0, where=np.isfinite(rows))
    return error > _ALIKE * largest[None, :] + _ROUND_OFF * floor


def _believed(stencil: Stencil, columns: Indices, error: Matrix) -> Matrix:
    """Nothing is along coordinates that are far shorter than steps are."""
    error[stencil.tiny[columns] | stencil.buried[columns]] = np.inf
    return np.where(np.isnan(error), np.inf, error)
