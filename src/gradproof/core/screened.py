"""Wrong entries that need no ladder of their own: a survey confirms what one step said of their row.

The every-entry strategy takes one step along each input. A survey has measured the sum of a whole row along its
direction, by other steps and with an error bar. Where the row as screened gives the same sum, its entries are as good
as that agreement: the error bar of each is what the two differ by. So a wrong derivative is told without measuring any
entry again. Rows on a kink, and those that do not agree, are left to the judge and its ladder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradproof.core.ladder import Estimate
from gradproof.core.precision import CONFIDENCE, DOUBLE
from gradproof.core.probe import Survey
from gradproof.core.problem import Problem
from gradproof.core.types import Indices, Matrix


@dataclass(frozen=True, slots=True)
class Screened:
    """The numerical Jacobian by one step for each input, a row for each output, and a survey that can confirm it."""

    values: Matrix
    survey: Survey

    @staticmethod
    def can_confirm(problem: Problem) -> bool:
        """In low precision and in noise, one step says too little."""
        return problem.coarsest_eps <= DOUBLE and problem.noise is None

    def estimate(self, columns: Indices, outputs: Indices) -> Estimate:
        """Some entries with error bars, a row for each column; infinite bars where nothing confirms them."""
        survey, stencil = self.survey, self.survey.stencil
        with np.errstate(all="ignore"):
            off = np.abs(self.values[outputs] @ survey.direction - survey.value[outputs])
            row_bar = off + CONFIDENCE * survey.error[outputs]
            row_bar[survey.bent[outputs] | ~np.isfinite(row_bar)] = np.inf
            step = np.where(survey.direction[columns] != 0, np.abs(survey.direction[columns]), np.nan)
            error = row_bar[None, :] / step[:, None] + stencil.noise[outputs][None, :] / stencil.step[columns][:, None]
        error[stencil.tiny[columns] | stencil.buried[columns] | ~np.isfinite(step)] = np.inf
        return Estimate(self.values[np.ix_(outputs, columns)].T, np.where(np.isnan(error), np.inf, error), 0)
