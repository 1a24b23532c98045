"""The complex step: Im F(x + i h u) / h is J u, with one evaluation and without cancellation.

It holds for functions that compute with complex numbers as with real ones. Whether one does is tried: along a random
direction it must agree with an ordinary difference, to within the error bar of that. What that comparison would not
have shown is in the certificate, and nothing is called wrong by a complex step: then all is asked again with
differences.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradproof.backends.numpy.arrays import Array, as_numbers, split
from gradproof.backends.numpy.setting import Setting
from gradproof.core.capabilities import Original, StandIn
from gradproof.core.directions import draw_direction
from gradproof.core.investigation import Investigation
from gradproof.core.ladder import rungs
from gradproof.core.precision import CLEAR, CONFIDENCE, SUM_ROUND_OFF
from gradproof.core.problem import Problem
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey
from gradproof.core.types import Vector

# The step is so small that its square is nothing beside 1, and so large that nothing underflows. The factors take
# turns, so that round-off does not repeat itself from one rung to the next, and shows.
_STEP, _FACTORS = 2.0**-120, (1.0, 1.37, 0.83, 1.21, 0.71, 1.09)
# The rungs of the difference that it must agree with.
_RUNGS = (11, 14, 17)


class Agreement(NamedTuple):
    """A Problem with the complex step as its numerical side, and how closely it was seen to agree with a difference."""

    problem: Problem
    relative: float


def with_complex_step(problem: Problem, function: Callable[..., Any], setting: Setting) -> Agreement | None:
    """The same Problem, linearised by complex steps; None where the function does not agree with them.

    The values of the new Problem are changes of the function's: F(p) - F(x), to first order.
    """
    if not np.isfinite(problem.value).all() or not np.isfinite(problem.point).all():
        return None
    push = _Push(function, setting, problem.outputs.size)
    stencil = Stencil(Investigation(problem))
    survey = Survey(stencil, draw_direction(stencil))
    try:
        stepped = push(survey.direction)
        survey.climb(*(rung for rung in _RUNGS if rung <= rungs(float(stencil.eps.max()))[-1]))
    except Exception:  # it does not take complex numbers, or is refused nearby
        return None
    apart = np.abs(stepped - survey.value)
    largest = float(np.abs(stepped).max(initial=0.0))
    allowed = 2.0 * survey.error + SUM_ROUND_OFF * problem.coarsest_eps * (np.abs(stepped) + largest)
    with np.errstate(invalid="ignore"):
        agrees = (apart <= allowed) & (survey.error <= CLEAR * largest) & ~survey.bent
    if not agrees.all() or not largest:
        return None
    # as much as differences might not confirm: a question about all outputs that weighs each by its error bar
    hidden = 2.0 * CONFIDENCE * math.sqrt(problem.outputs.size) * float((survey.error + apart).max())
    smallest = [hidden / float(np.abs(survey.direction[block.slice]).min()) for block in problem.inputs.blocks]

    def linearised(point: Vector) -> Vector:
        return push(point - problem.point)

    made = dataclasses.replace(
        problem,
        value=np.zeros_like(problem.value),
        evaluate=linearised,
        round_off=1.0,
        evaluations=problem.evaluations + 2 * len(_RUNGS) + 1,
        capabilities={
            **problem.capabilities,
            Original: Original(problem.value, problem.evaluate),
            StandIn: StandIn(tuple(smallest)),
        },
    )
    return Agreement(made, float((apart + survey.error).max()) / largest)


class _Push:
    """J u by a complex step."""

    def __init__(self, function: Callable[..., Any], setting: Setting, outputs: int) -> None:
        self._function, self._setting, self._outputs = function, setting, outputs
        self._factors = itertools.cycle(_FACTORS)

    def __call__(self, direction: Vector) -> Vector:
        if not direction.any():
            return np.zeros(self._outputs)
        setting, step = self._setting, _STEP * next(self._factors)
        arrays: list[Array] = []
        for like, part in zip(setting.likes, split(setting.likes, direction), strict=True):
            moved = np.asarray(like.array, dtype=np.complex128)
            moved = moved + 1j * (step * np.asarray(like.write(part, elsewhere=False)))
            arrays.append(moved[()] if like.is_number else moved)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # that an imaginary part is discarded is a warning
            value = as_numbers(setting.call_with(self._function, arrays), "the result")
        if value.dtype.kind != "c" or value.size != self._outputs:
            raise TypeError("the function does not return complex numbers for complex ones")
        return np.imag(value).astype(np.float64).reshape(-1) / step
