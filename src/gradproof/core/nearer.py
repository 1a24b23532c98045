"""Laws that round-off of numbers of order one breaks, asked nearer to zero, where answers are larger than that.

The gradient of a saturated loss is what is left of 1 - 1, so that two ways to compute it agree in no digit: reverse and
forward mode, or the gradient for a sum and the sum of two gradients. Nothing at the point tells that from a law that is
broken. But nearer to zero the function comes out of its saturation, and there such a law is broken too. One that is
broken in the tail alone is not: only a derivative that is made of the framework's own operations, which have no branch
for such points that could be wrong, is judged elsewhere. (A hook may have one; nothing tells that it is there.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gradproof.core.capabilities import Elsewhere, is_stateless
from gradproof.core.cost import BudgetExhausted
from gradproof.core.drowned import AGREES, BURIED, NEARER, order_of
from gradproof.core.investigation import Investigation
from gradproof.core.norm import norm
from gradproof.core.precision import HALF_OR_LESS, reordered
from gradproof.core.problem import Mode, OutputChangedError
from gradproof.core.types import Vector

# The questions of a law of multiples.
_MULTIPLES = 2

Terms = Sequence[Vector]
"""What must add up to nothing, element by element."""


def sum_vanishes(investigation: Investigation, mode: Mode, sum_: Sequence[tuple[float, Vector]], off: Vector) -> bool:
    """Whether answers to questions, each times a factor, add up to nothing nearer to zero, as the questions do.

    At the point they leave `off`. A question and a multiple of it are no such law: the factors are powers of two, which
    round-off does not know of.
    """
    questions = [factor * question for factor, question in sum_]
    if len(questions) <= _MULTIPLES:
        return False
    left = np.abs(sum(questions, np.zeros_like(questions[0])))
    if not (left <= reordered(investigation.problem.coarsest_eps) * np.abs(questions).max(axis=0)).all():
        return False  # no law of these questions alone
    excused = np.sum([_excused(investigation, mode, question) for question in questions], axis=0)

    def terms(point: Vector) -> Terms:
        return [factor * _answer(investigation, mode, point, question) for factor, question in sum_]

    return _vanishes(investigation, terms, np.abs(off), excused)


def modes_agree(investigation: Investigation, gap: float) -> bool:
    """Whether <v, J u> and <J^T v, u>, which are this far apart, are the same nearer to zero."""
    v, u = investigation.cotangent, investigation.tangent
    excused = norm(v) * _excused(investigation, Mode.FORWARD, u)[:1]

    def terms(point: Vector) -> Terms:
        pushed = _answer(investigation, Mode.FORWARD, point, u)
        pulled = _answer(investigation, Mode.REVERSE, point, v)
        return [np.array([v @ pushed]), np.array([-(u @ pulled)])]

    return _vanishes(investigation, terms, np.array([gap]), excused)


def _vanishes(investigation: Investigation, terms: Callable[[Vector], Terms], off: Vector, excused: Vector) -> bool:
    """Whether a sum that round-off of order one explains at the point is nothing where its terms are larger.

    `excused` is what that round-off makes of each element at most. What is off must be a smaller part of larger terms
    there: of a function that is small by design it is the same part everywhere.
    """
    problem = investigation.problem
    if problem.capability(Elsewhere) is None or not is_stateless(problem):
        return False
    if problem.coarsest_eps > HALF_OR_LESS or not (off <= excused).all():
        return False
    relative, is_seen = reordered(problem.coarsest_eps), False
    try:
        worst = int(np.argmax(off / excused))
        usual = float(np.sum(np.abs(terms(problem.point.copy())), axis=0)[worst])
        for part in NEARER:
            there = terms(part * problem.point)
            size, left = np.sum(np.abs(there), axis=0), np.abs(np.sum(there, axis=0))
            if not (left <= excused + relative * size).all():
                return False
            is_larger = AGREES * size[worst] >= off[worst]
            is_seen |= bool(is_larger and left[worst] * usual <= AGREES * off[worst] * size[worst])
    except OutputChangedError:
        raise
    except (Exception, BudgetExhausted):  # outside of its domain, or no more to spend: what was found stands
        return False
    return is_seen


def _excused(investigation: Investigation, mode: Mode, question: Vector) -> Vector:
    """What round-off of numbers of order one makes of the answer to a question."""
    one = BURIED * investigation.problem.coarsest_eps
    per_step = order_of(investigation.problem) / investigation.scale
    if mode is Mode.REVERSE:
        return one * norm(question) * per_step
    return np.full(investigation.problem.outputs.size, one * norm(question * per_step))


def _answer(investigation: Investigation, mode: Mode, point: Vector, question: Vector) -> Vector:
    """The derivative under test at another point."""
    elsewhere = investigation.asks(Elsewhere)
    investigation.problem.inputs.round_in_place(point)
    investigation.cost.evaluate()
    if mode is Mode.REVERSE:
        investigation.cost.pull()
        return elsewhere.vjp(point, question)
    investigation.cost.push()
    return elsewhere.jvp(point, question)
