"""What gradients that should be equal may differ by: round-off, noise and tolerances."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gradproof.core.agreement import largest_of
from gradproof.core.cost import BudgetExhausted
from gradproof.core.draws import basis
from gradproof.core.investigation import Investigation
from gradproof.core.nearer import sum_vanishes
from gradproof.core.norm import norm, norm_of_products
from gradproof.core.options import Options
from gradproof.core.precision import DERIVATIVE_ROUND_OFF, DOUBLE, ENTRY_ROUND_OFF, MOST_ROUND_OFF, least_spacing
from gradproof.core.problem import Mode
from gradproof.core.responses import Responses
from gradproof.core.space import Space
from gradproof.core.types import Vector
from gradproof.core.wide import rounded, widened

# Neighbours that are asked how far an answer may be off: of half as many, a few of a hundred elements show too little.
_NEIGHBOURS = 12
# So many tell first whether round-off is of that order at all, one of each kind of runs: an operator in one piece loses
# other digits than its steps do. More of them show at most so many times as much.
_AT_FIRST, _MORE = 2, 16.0
# The spacing that steps in double precision are rounded to: finer ones would stay as they are. Of one that is so many
# times as wide, round-off makes about as many times as much, and in any case more than this part of that.
_COARSER, _WIDER, _LINEAR = 4.0, 2.0**8, 2.0**-4


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


def explains(investigation: Investigation, mode: Mode, sum_: Sequence[tuple[float, Vector]], off: Vector) -> bool:
    """Whether round-off explains what is left of a sum of answers that should be zero.

    The sum is that of factors, each times the answer to a question. How far an answer may be off is measured, where
    that can be done: see `_spread`. Else the same sum nearer to zero tells, where it is larger: see `core/nearer.py`.
    So it costs several vjps, and is asked only where a law seems broken.
    """
    if not np.isfinite(off).all():
        return False
    return _spreads_explain(investigation, mode, sum_, off) or sum_vanishes(investigation, mode, sum_, off)


def explains_difference(investigation: Investigation, mode: Mode, question: Vector, off: Vector) -> bool:
    """Whether round-off explains what two answers to one question differ by."""
    return explains(investigation, mode, [(1.0, question), (-1.0, question)], off)


def _spreads_explain(
    investigation: Investigation, mode: Mode, sum_: Sequence[tuple[float, Vector]], off: Vector
) -> bool:
    """Whether each answer is as far off by itself, as it is measured."""
    if not _can_respond(investigation, mode):
        return False
    asked = [(abs(factor), rounded(_asked_of(investigation, mode), question)) for factor, question in sum_]

    def allowed(neighbours: int) -> Vector:
        return sum((factor * _spread(investigation, mode, question, neighbours) for factor, question in asked), none)

    none = np.zeros(len(off))
    try:
        if norm(off) > _MORE * norm(allowed(_AT_FIRST)):
            return False  # nearly always
        return bool((np.abs(off) <= allowed(_NEIGHBOURS)).all())
    except BudgetExhausted:
        if investigation.problem.coarsest_eps > DOUBLE:
            raise
        return False  # what is off by more than double precision allows is rarely its round-off


def round_off_of(investigation: Investigation, row: int, column: int) -> float:
    """By how much one entry of the derivative may be off by its round-off, as it is measured; 0 where nothing tells."""
    if not _can_respond(investigation, Mode.REVERSE):
        return 0.0
    question = basis(slice(row, row + 1), investigation.problem.outputs.size)[0]
    return float(_spread(investigation, Mode.REVERSE, question, _NEIGHBOURS)[column])


def halves_add_up(investigation: Investigation, mode: Mode) -> bool:
    """Whether the answers to two halves of -2 times the shared question make up that to all, but for round-off."""
    apply = investigation.vjp if mode is Mode.REVERSE else investigation.jvp
    whole = investigation.cotangent if mode is Mode.REVERSE else investigation.tangent
    half = -2.0 * whole
    half[len(half) // 2 :] = 0.0
    other = -2.0 * whole - half
    off = apply(half) + apply(other) + 2.0 * apply(whole)
    return explains(investigation, mode, [(1.0, half), (1.0, other), (2.0, whole)], off)


def explained_gap(investigation: Investigation) -> float:
    """By how much <v, J u> may differ from <J^T v, u> by round-off of both answers, as it is measured."""
    gap = 0.0
    for mode, answered, asked in (
        (Mode.REVERSE, investigation.cotangent, investigation.tangent),
        (Mode.FORWARD, investigation.tangent, investigation.cotangent),
    ):
        if _can_respond(investigation, mode):
            question = rounded(_asked_of(investigation, mode), answered)
            gap += norm(asked * _spread(investigation, mode, question, _NEIGHBOURS))
    return gap if math.isfinite(gap) else 0.0


def _can_respond(investigation: Investigation, mode: Mode) -> bool:
    """Whether something tells how far an answer may be off."""
    responses = _responses(investigation, mode, investigation.problem.coarsest_eps)
    if responses is None or not responses.can_be_asked:
        return False
    return responses.are_rounded or investigation.problem.coarsest_eps > DOUBLE


def _responses(investigation: Investigation, mode: Mode, eps: float) -> Responses | None:
    """The answers to neighbours of a question of a derivative that runs in double precision, with each step rounded."""
    low = investigation.problem.coarsest_eps > DOUBLE
    wide = investigation.once(widened) if low else investigation
    return None if wide is None else Responses(investigation, wide, mode, eps)


def _asked_of(investigation: Investigation, mode: Mode) -> Space:
    """What questions are made of."""
    return investigation.problem.outputs if mode is Mode.REVERSE else investigation.problem.inputs


def _spread(investigation: Investigation, mode: Mode, question: Vector, neighbours: int) -> Vector:
    """How far the answer to a question may be off.

    In double precision it is the derivative itself that is asked, with each step rounded a little more coarsely: what
    it cancels of large numbers shows. If that comes of round-off, coarser steps show more of it. A backward that
    changes from call to call differs as much by any.
    """

    def spread(eps: float) -> Vector:
        responses = _responses(investigation, mode, eps)
        assert responses is not None, "nothing responds"
        return responses.beyond * responses.spread(question, neighbours)

    coarsest = investigation.problem.coarsest_eps
    if coarsest > DOUBLE:
        return spread(coarsest)
    return np.fmin(spread(_COARSER * DOUBLE), _LINEAR * spread(_WIDER * _COARSER * DOUBLE))


def weight(investigation: Investigation, cotangent: Vector | None = None) -> float:
    """The size of the outputs, each as much as a cotangent, the shared one, weighs it."""
    value, weights = investigation.problem.value, investigation.cotangent if cotangent is None else cotangent
    with np.errstate(over="ignore"):
        size = norm_of_products(weights, value)
        return size if math.isfinite(size) else norm(weights * np.where(np.isfinite(value), value, 0.0))
