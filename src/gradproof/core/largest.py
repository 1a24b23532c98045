"""How large the entries of each input may be, by sums of them: J^T v for some cotangents, and J u along a direction.

What an entry is excused by its relative tolerance counts no more than a part of that. A certificate promises as much,
so both must rest on the same numbers, though a check of a wrong derivative learns more: what it accuses is measured
again, by other steps and other questions. Hence what is `counted` of an entry is known before anything accuses.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from gradproof.core.agreement import largest_of, smallest_of
from gradproof.core.draws import random_probe
from gradproof.core.ledger import Ledger, are_same
from gradproof.core.norm import norm, parts
from gradproof.core.space import Block
from gradproof.core.survey import Survey
from gradproof.core.types import Vector

# Weights within this factor of each other are about alike.
_EVEN = 3.0


def is_bounded(ledger: Ledger) -> bool:
    """Whether entries are judged by what a certificate knows of: not where what they are excused was asked for."""
    return ledger.options.certify and ledger.precise and ledger.options.rtol is None and bool(ledger.questions)


def certified(ledger: Ledger) -> list[float] | None:
    """The largest entries that any certificate knows of, which bound what a wrong one is excused; None: nothing."""
    if not is_bounded(ledger):
        return None
    return [size if math.isfinite(size) else math.inf for size in _counted(ledger)]


def largest_entries(ledger: Ledger) -> list[float]:
    """The largest entry of each input: bounded by J^T v, or about by J u. No less than what is `certified`."""
    if not ledger.questions:
        return [0.0] * len(ledger.problem.inputs.blocks)
    if ledger.largest is None or not are_same(ledger.largest[0], ledger.known):
        found = _find_largest(ledger)
        ledger.largest = ledger.known, found
    return ledger.largest[1]


def bounded_entries(ledger: Ledger) -> list[float]:
    """More than the largest entry of each input, by the answers there are: no further question is asked."""
    known = len(ledger.questions), ledger.survey.about
    if ledger.bounds is None or not are_same(ledger.bounds[0], known):
        ledger.bounds = known, _find_bounds(ledger)
    return ledger.bounds[1]


def _find_bounds(ledger: Ledger) -> list[float]:
    blocks = ledger.problem.inputs.blocks
    asked = [(answer, ledger.least_of(cotangent)) for cotangent, answer in ledger.questions]
    whole = [(answer, least) for answer, least in asked if least > 0]
    if not whole:
        return [math.inf] * len(blocks)
    by_row = [_by_row(ledger.survey, _largest_move(ledger.survey), block) for block in blocks]
    by_column = [max(largest_of(answer[block.slice]) / least for answer, least in whole) for block in blocks]
    return [max(pair) if block.size else 0.0 for block, *pair in zip(blocks, by_row, by_column, strict=True)]


def _counted(ledger: Ledger) -> list[float]:
    """How large the largest entry of each input is at most, by what is known before anything accuses.

    That is the first question and the first rungs.

    Steps that reach over a jump say nothing of slopes. Of an input that moves with others, J u says nothing by itself.
    """
    pullback, least = _even_question(ledger)
    alone = len([block for block in ledger.problem.inputs.blocks if block.size]) == 1
    survey = ledger.survey
    by_row = _steady_move(survey) * math.sqrt(len(survey.direction)) / survey.length if alone else 0.0
    return [
        max(largest_of(pullback[block.slice]) / least, by_row) if block.size else 0.0
        for block in ledger.problem.inputs.blocks
    ]


def _steady_move(survey: Survey) -> float:
    """How far any output moves by each of the first rungs: what one of them alone sees may be a jump."""
    steady = functools.partial(functools.reduce, np.fmin)
    moved = (steady([np.abs(quotient[part]) for quotient in survey.first]) for part in parts(len(survey.hides)))
    return max((largest_of(part) for part in moved), default=0.0)


def _find_largest(ledger: Ledger) -> list[float]:
    blocks = ledger.problem.inputs.blocks
    counted = _counted(ledger)
    surveys = [ledger.survey, *(survey for survey in ledger.surveys if survey is not ledger.survey)]
    moved = [(survey, _largest_move(survey)) for survey in surveys]
    # any sum may have cancelled by chance
    others = [(answer, largest_of(asked)) for asked, answer in ledger.questions]
    largest: list[float] = []
    for block, least in zip(blocks, counted, strict=True):
        by_row = min(_by_row(survey, size, block) for survey, size in moved)
        by_others = [largest_of(answer[block.slice]) / size for answer, size in others]
        largest.append(max(least, by_row, *by_others) if block.size else 0.0)
    return largest


def _largest_move(survey: Survey) -> float:
    """How far any output moves along a survey; infinite if it has no values."""
    value = survey.about
    largest = largest_of(value)
    return largest if largest or np.isfinite(value).any() else math.inf


def _by_row(survey: Survey, moved: float, block: Block) -> float:
    """About what the largest entry of an input is, if a survey moves nothing else; infinite if it does not move it."""
    length = survey.length if block.size == len(survey.direction) else norm(survey.direction[block.slice])
    return moved * math.sqrt(block.size) / length if length else math.inf


def _even_question(ledger: Ledger) -> tuple[Vector, float]:
    """The answer to a cotangent that weighs all outputs about alike, and the least of its weights.

    That is the first question, or one that is asked for this alone: later ones depend on what was accused.
    """
    if ledger.even is None:
        first = ledger.investigation.first_question
        for cotangent, pullback in (*ledger.questions[:1], *([first] if first is not None else ())):
            least = smallest_of(cotangent)
            if largest_of(cotangent) <= _EVEN * least:
                ledger.even = pullback, least
                return ledger.even
        cotangent = random_probe(ledger.problem.outputs.size, ledger.investigation.seed + 2).copy()
        for part in parts(len(cotangent)):
            cotangent[part] = np.copysign(0.5 + 0.5 * np.abs(cotangent[part]), cotangent[part])
        ledger.problem.outputs.round_in_place(cotangent)
        ledger.even = ledger.pull(cotangent), smallest_of(cotangent)
    return ledger.even
