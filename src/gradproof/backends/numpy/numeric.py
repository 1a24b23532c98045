"""Numerical derivatives by themselves: where a number is asked for, or nothing better is there to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradproof.backends.numpy.session import session
from gradproof.core.capabilities import StandIn
from gradproof.core.investigation import Investigation
from gradproof.core.precision import CLEAR, default_rtol
from gradproof.core.problem import Problem
from gradproof.core.resolution import Shape, can_look, can_reach, look_finely
from gradproof.core.special import first_row
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey
from gradproof.core.types import Indices, Matrix, Vector

NUMERIC_GRADIENT = 2.0**-33
"""The relative precision of a numerical gradient, at least, of a function in double precision: about 1e-10."""
# The rungs of a derivative along one direction.
_RUNGS = (11, 14, 17, 20)


def numeric_jacobian(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any] | None = None,
    along: Vector | None = None,
    claimed: Matrix | None = None,
) -> Matrix:
    """The Jacobian with respect to the first argument, one column for each element; or the derivative along a vector.

    On a kink, every number between the slopes of its two sides is a derivative: if one is `claimed`, it is that nearest
    to the claim, and else the mean.

    >>> numeric_jacobian(lambda x: np.array([x[0] * x[1], x[1]]), (np.array([2.0, 3.0]),)).round(9).tolist()
    [[3.0, 2.0], [0.0, 1.0]]
    """
    with session(function, arguments, keywords or {}, {"jvp": _unasked}, wrt=None) as made, np.errstate(all="ignore"):
        return _numeric(made.problem(), along, claimed)


def numeric_gradient(function: Callable[..., Any]) -> Callable[..., Vector]:
    """The gradient of a function with one value, as a function of the same arguments."""

    def gradient(x: Any, *args: Any, **keywords: Any) -> Vector:
        return numeric_jacobian(function, (x, *args), keywords).reshape(np.shape(x))

    return gradient


def _unasked(*_: Any, **__: Any) -> Any:
    """There is no derivative under test."""
    raise NotImplementedError


def _numeric(problem: Problem, along: Vector | None, claimed: Matrix | None) -> Matrix:
    if problem.capability(StandIn) is not None:  # it is linear
        if along is not None:
            return problem.evaluate(problem.point + along)
        return np.stack([problem.evaluate(problem.point + unit) for unit in np.eye(problem.inputs.size)], axis=-1)
    stencil = Stencil(Investigation(problem))
    if along is not None:
        survey = Survey(stencil, along)
        survey.climb(*_RUNGS)
        return _columns(stencil, claimed) @ along if survey.reaches_over.any() else survey.value
    return _columns(stencil, claimed)


def _columns(stencil: Stencil, claimed: Matrix | None) -> Matrix:
    problem = stencil.problem
    asked = None if claimed is None else claimed.reshape(problem.outputs.size, problem.inputs.size)
    rtol = float(default_rtol(np.array(problem.coarsest_eps)))
    found = stencil.measure(range(problem.inputs.size), lambda values: rtol * np.abs(values)).value
    if can_look(stencil):
        for column in range(problem.inputs.size):
            kinked = _look_before_kinks(stencil, column, found[column])
            if asked is not None and len(kinked):
                _look_between_sides(stencil, column, kinked, found[column], asked[kinked, column])
    return found.T


def _look_before_kinks(stencil: Stencil, column: int, value: Vector) -> Indices:
    """Where a kink lies beside the point, take the slope of the side that it lies on, in place.

    Steps of the ladder that reach over a kink agree on the mean of both sides. Returns the outputs of which no step
    shows that the point lies on one side.
    """
    rows: Indices = np.arange(len(value), dtype=np.intp)
    if not stencil.bends(column, rows):
        return rows[:0]
    look = look_finely(stencil, column, rows)
    seen = (look.shape == Shape.SMOOTH) & np.isfinite(look.estimate.error)
    value[seen] = look.estimate.value[seen]
    if not can_reach(stencil, np.array([column], dtype=np.intp))[0]:  # by steps of the coordinate's own size
        near = first_row(stencil.near(column, rows))
        clear = near.error <= CLEAR * np.abs(near.value - value)  # else that is what round-off leaves of so short steps
        nearer = ~seen & clear & ~stencil.bends_near(column, rows)
        value[nearer] = near.value[nearer]
        seen |= nearer
    return rows[~seen]


def _look_between_sides(stencil: Stencil, column: int, rows: Indices, value: Vector, claimed: Vector) -> None:
    """Where the point lies on a kink, or as near to one as round-off, take what is nearest to a claim, in place.

    The mean of the slopes of both sides is what steps across a kink say; across a jump, they say something else.
    """
    left, right = map(first_row, stencil.sides([column], rows))
    with np.errstate(invalid="ignore"):
        apart, bar = np.abs(right.value - left.value), left.error + right.error
        mean = np.abs(value[rows] - (left.value + right.value) / 2.0) <= bar + CLEAR * apart
        kinked = mean & (bar <= CLEAR * apart)
    nearest = np.clip(claimed, np.fmin(left.value, right.value), np.fmax(left.value, right.value))
    value[rows[kinked]] = nearest[kinked]
