"""Probes: one random direction and one random cotangent see every entry of the Jacobian at once.

A `Survey` is the numerical J u along a direction u, with an error bar e_j for each output. The cotangent is aimed with
it: v_j ∝ sign_j / e_j, so that a noisy output cannot drown the others. Then the two numbers

    <v, J_num u>   and   <vjp(v), u>

must agree. The signs of v do not know the errors, so by Hoeffding's inequality the numerical side is off by more than
7.55 * sqrt(sum (v_j e_j)^2) with a probability below 1e-12. That is the threshold, not a tolerance: a single wrong
entry of size d moves the difference by at least |v_j d u_i|, and so the threshold says how small an entry can still be
seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gradproof.core.flags import every
from gradproof.core.norm import lowest, norm, norm_of_products, parts, products
from gradproof.core.precision import CONFIDENCE, INNER_PRODUCT_ROUND_OFF
from gradproof.core.space import Space
from gradproof.core.survey import Survey
from gradproof.core.types import Flags, Vector

# What no error bar is below: 1 / it is a number.
_TINY = float(np.finfo(np.float64).tiny)
# How much wider than its error bar an error may hide, times the root of the number of outputs asked about together: two
# thresholds, and what magnitudes from 0.5 to 1.5 may lose, whose root mean square is 1.04.
_IN_COMPANY = 2.0 * CONFIDENCE * 1.04 / 0.5
# The weight of an output with a wide error bar, relative to the sharpest one, at least.
_LEAST_WEIGHT = 2.0**-40


@dataclass(frozen=True, slots=True)
class Probe:
    """A cotangent, and how far apart the two sides are for it: `residual` is <v, J_num u> - <vjp(v), u>.

    Round-off and error bars alone explain a residual of up to `threshold`. What exceeds it accuses.
    """

    cotangent: Vector
    residual: float
    threshold: float
    moved: float
    size: float
    """<vjp(v), u>, and the Euclidean norm of its terms."""

    @property
    def accuses(self) -> bool:
        return not (math.isfinite(self.threshold) and abs(self.residual) <= self.threshold)


Accused = tuple[Survey, Probe]
"""A probe that accuses, and the survey that it was made along."""


def aim(survey: Survey, *, only: Flags | None = None, bent: bool = False, wanted: Vector | None = None) -> Vector:
    """The cotangent for a survey: each output weighs what its error bar allows; outputs without a value nothing.

    So do outputs on a kink or a jump along the survey, unless `bent` asks for them, and those that are not in `only`.
    Where it is known what is `wanted` of each output, those that are seen to it anyway leave room for others.
    """
    problem, investigation = survey.stencil.problem, survey.stencil.investigation
    size, random = problem.outputs.size, investigation.draw(problem.outputs.size, 1)
    bars, seen, unseen = np.empty(size), np.empty(size, dtype=np.bool_), False
    for part in parts(size):
        here = np.isfinite(survey.value[part] + survey.error[part])
        here &= ~(survey.aside[part] if bent else survey.aside[part] | survey.bent[part])
        seen[part] = here if only is None else np.logical_and(here, only[part], out=here)
        sizes = np.abs(survey.value[part], out=bars[part])
        if not every(here):
            unseen, sizes[~here] = True, 0.0
    # the derivative under test is no sharper than its precision, relative to the larger of its numbers
    typical, smallest = norm(bars) / math.sqrt(size or 1), math.inf
    enough = 1.0 / (_IN_COMPANY * math.sqrt(size or 1))
    for part in parts(size):
        here = bars[part]
        here *= problem.coarsest_eps
        here += problem.coarsest_eps * typical + _TINY
        here += survey.noise(part)
        here += survey.error[part]
        if wanted is not None:
            np.maximum(here, enough * wanted[part], out=here)
        if unseen:
            here[~seen[part]] = np.inf
        smallest = min(smallest, lowest(here))
    if not math.isfinite(smallest):
        return np.zeros(size)
    for part in parts(size):
        np.divide(smallest, bars[part], out=bars[part])
    if only is None and wanted is None:
        _level(problem.outputs, bars)
    for part in parts(size):
        weights = bars[part]
        np.maximum(weights, _LEAST_WEIGHT, out=weights, where=seen[part] if unseen else True)
        weights *= random[part]
    problem.outputs.round_in_place(bars)
    return bars


def _level(outputs: Space, weights: Vector) -> None:
    """Take no output of a block for more than the mean of those asked about, in place: what is seen least gains."""
    for block in outputs.blocks:
        part = weights[block.slice]
        count = int(np.count_nonzero(part))
        if count > 1:
            np.minimum(part, float(np.add.reduce(part)) / count, out=part)


def probe(survey: Survey, cotangent: Vector, pullback: Vector) -> Probe:
    """Both sides for one cotangent, and how far apart round-off and error bars alone may bring them."""
    inputs, outputs = survey.stencil.problem.inputs, survey.stencil.problem.outputs
    left, left_norm = products(cotangent, survey.value)
    right, right_norm = products(survey.direction, pullback)
    noise = norm_of_products(cotangent, survey.error)
    size = outputs.coarsest_eps * left_norm + inputs.coarsest_eps * right_norm
    return Probe(cotangent, left - right, CONFIDENCE * noise + INNER_PRODUCT_ROUND_OFF * size, right, right_norm)
