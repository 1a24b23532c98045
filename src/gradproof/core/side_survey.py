"""Surveys of one side of a kink, and of the mean of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradproof.core.precision import BEND_ALONG
from gradproof.core.survey import Survey
from gradproof.core.types import Vector

# How far the quotients of a jump are from growing as the steps shrink, at most: what the slope beside it adds.
_LEAP = 0.25


@dataclass(slots=True)
class SideSurvey(Survey):
    """The derivative of one side: along a direction from the point on, or from the other side up to it (`sign` -1)."""

    sign: float = 1.0

    def along_each(
        self, direction: Vector, exponents: Sequence[int], bending: Sequence[int]
    ) -> list[tuple[Vector, Vector]]:
        return [self.along(direction, exponent) for exponent in exponents]

    def one_along(self, direction: Vector, exponent: int, output: int) -> float:
        return float(self.along(direction, exponent)[0][output])

    def blunt(self, output: int, exponent: int) -> float | None:
        return None  # it has one side already

    @property
    def leaps(self) -> bool:
        """Whether some output is elsewhere on this side than at the point: its quotients grow as the steps shrink."""
        *_, (before, coarse), (last, fine) = self.ladder
        growth = 2.0 ** (last - before)
        with np.errstate(invalid="ignore"):
            grows = np.abs(fine - growth * coarse) < _LEAP * np.abs(fine)
            return bool((grows & (np.abs(fine) > BEND_ALONG * self.stencil.noise * 2.0**last)).any())

    def along(self, direction: Vector, exponent: int) -> tuple[Vector, Vector]:
        step = self.sign * 2.0**-exponent
        problem = self.stencil.problem
        there = self.stencil.attempt((problem.point + step * direction)[None, :])[0]
        with np.errstate(all="ignore"):
            return (there - problem.value) / step, np.zeros_like(there)


@dataclass(slots=True)
class MiddleSurvey(SideSurvey):
    """The mean of the derivatives of both sides."""

    def along(self, direction: Vector, exponent: int) -> tuple[Vector, Vector]:
        across, bend = self.stencil.along(direction, exponent)
        return across, np.zeros_like(bend)
