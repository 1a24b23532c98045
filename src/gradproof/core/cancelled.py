"""Outputs that are zero but for round-off: what cancellation leaves of numbers as large as those beside them.

The gradient of a bias in front of a batch norm is 1e-17 where it should be 0, and so it is at every point. Second order
asks how it changes. Relative to itself it changes by all of it, and difference quotients of that are 1e-17 divided by a
step: more than any tolerance that is relative to so small an output. So the noise of such an output is what it is
seen to be, and not what its size suggests.

It is told from a small output that means something by two steps: over a tiny one it changes as much as over one as
long as the point.
"""

from __future__ import annotations

import numpy as np

from gradproof.core.along import values_along
from gradproof.core.draws import random_probe
from gradproof.core.investigation import Investigation
from gradproof.core.norm import norm
from gradproof.core.precision import CLEAR, DERIVATIVE_ROUND_OFF, MEASURED_NOISE
from gradproof.core.problem import Problem
from gradproof.core.types import Matrix, Vector

# Steps in units of the scale: as long as the point, and so short that a smooth output hardly moves.
_LONG = (1.0, -0.75, 0.375)
_SHORT = (2.0**-20, -(2.0**-20), 1.5 * 2.0**-21)


def cancelled(investigation: Investigation) -> Vector | None:
    """The noise of outputs that are nothing but round-off, zero for all others; None: there are none such.

    Asked through `Investigation.once`.
    """
    problem = investigation.problem
    eps = problem.round_off * (problem.evaluates_in or problem.coarsest_eps)
    floor = DERIVATIVE_ROUND_OFF * eps * _largest(problem)
    small = [block for block in problem.outputs.blocks if block.size and _size(problem.value[block.slice]) <= floor]
    if not small or not problem.inputs.size:
        return None
    direction = random_probe(problem.inputs.size, investigation.seed + 2) * investigation.scale
    far = values_along(investigation, direction, _LONG) - problem.value
    near = values_along(investigation, direction, _SHORT) - problem.value
    noise = np.zeros(problem.outputs.size)
    for block in small:
        moved, jittered = _size(far[:, block.slice]), _size(near[:, block.slice])
        if moved <= floor and jittered > CLEAR * moved:  # NaN is none
            value = np.abs(problem.value[block.slice])
            seen = max(float(np.abs(far[:, block.slice]).max()), float(np.abs(near[:, block.slice]).max()))
            noise[block.slice] = MEASURED_NOISE * np.maximum(value, seen)
    return noise if noise.any() else None


def _largest(problem: Problem) -> float:
    """The typical size of the largest output, or input: what the others are made of."""
    outputs = [_size(problem.value[block.slice]) for block in problem.outputs.blocks if block.size]
    inputs = [_size(problem.point[block.slice]) for block in problem.inputs.blocks if block.size]
    return max((size for size in (*outputs, *inputs) if np.isfinite(size)), default=0.0)


def _size(values: Vector | Matrix) -> float:
    return norm(values.ravel()) / np.sqrt(values.size)
