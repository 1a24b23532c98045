"""A function along a direction, at points that its numbers can store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradproof.core.capabilities import Domain
from gradproof.core.directions import short
from gradproof.core.draws import random_probe
from gradproof.core.investigation import Investigation
from gradproof.core.problem import OutputChangedError
from gradproof.core.types import Matrix, Vector


def values_along(investigation: Investigation, direction: Vector, steps: Sequence[float] | Vector) -> Matrix:
    """F at some steps along a direction, one row each; NaN where it refuses the point, which is no verdict."""
    problem = investigation.problem
    values = np.full((len(steps), problem.outputs.size), np.nan)
    for row, step in zip(values, steps, strict=True):
        point = problem.point + step * direction
        if problem.evaluates_in is None:
            problem.inputs.round_in_place(point)
        try:
            row[:] = investigation.evaluate(point)
        except OutputChangedError:
            raise
        except Exception:  # outside of the domain: the others remain
            continue
    return values


class Along:
    """The function along a random direction: signs and magnitudes of few bits, times a power of two near each scale."""

    def __init__(self, investigation: Investigation, which: int, moved: slice = slice(None)) -> None:
        """`moved`: the coordinates that are; no others."""
        self._investigation, self.problem = investigation, investigation.problem
        probe = random_probe(self.problem.inputs.size, investigation.seed + 2 + which)
        self._direction = np.zeros_like(probe)
        self._direction[moved] = short(probe, investigation.scale)[moved]

    def values(self, steps: Sequence[float] | Vector) -> Matrix:
        """F at some steps, NaN where the function refuses a point. Without a batch, which may round otherwise."""
        return values_along(self._investigation, self._direction, steps)

    def own_values(self, steps: Sequence[float] | Vector) -> Matrix:
        """The same where the function can be asked, NaN elsewhere; where that ends nearby, by a direction inwards."""
        domain = self.problem.capability(Domain)
        if domain is None:
            return self.values(steps)
        direction = domain.turned(self._direction)
        holds = np.array([domain.holds(self.problem.point + step * direction) for step in steps], dtype=np.bool_)
        values = np.full((len(steps), self.problem.outputs.size), np.nan)
        values[holds] = values_along(self._investigation, direction, np.asarray(steps)[holds])
        return values
