"""What gradients that should be equal may differ by: round-off, noise and tolerances."""

from __future__ import annotations

import math

import numpy as np

from gradproof.core.agreement import largest_of
from gradproof.core.investigation import Investigation
from gradproof.core.norm import norm, norm_of_products
from gradproof.core.options import Options
from gradproof.core.precision import DERIVATIVE_ROUND_OFF, ENTRY_ROUND_OFF, MOST_ROUND_OFF, least_spacing
from gradproof.core.types import Vector


def zero_gradient(investigation: Investigation, cotangent: Vector | None = None) -> Vector:
    """How large a gradient for a cotangent, the shared one, may be by round-off alone, where the true one is zero.

    It is made of numbers as large as the outputs, per change of an input as large as it is.
    """
    eps = investigation.problem.coarsest_eps
    relative = min(DERIVATIVE_ROUND_OFF * eps, MOST_ROUND_OFF)
    return relative * weight(investigation, cotangent) / investigation.scale + ENTRY_ROUND_OFF * least_spacing(eps)


def allowed_difference(investigation: Investigation, options: Options, gradient: Vector) -> Vector:
    """What a gradient for a cotangent as large as the shared one may be off by, if it should be this.

    That is noise, round-off, and the tolerances, where they were given: relative to the largest gradient of each input.
    """
    allowed = options.nondet_tol + zero_gradient(investigation) + (options.atol or 0.0)
    if options.rtol:
        for block in investigation.problem.inputs.blocks:
            allowed[block.slice] += options.rtol * largest_of(gradient[block.slice])
    return allowed


def weight(investigation: Investigation, cotangent: Vector | None = None) -> float:
    """The size of the outputs, each as much as a cotangent, the shared one, weighs it."""
    value, weights = investigation.problem.value, investigation.cotangent if cotangent is None else cotangent
    with np.errstate(over="ignore"):
        size = norm_of_products(weights, value)
        return size if math.isfinite(size) else norm(weights * np.where(np.isfinite(value), value, 0.0))
