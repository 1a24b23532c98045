"""One question about all outputs of a long survey at once, before any of them is looked at by itself.

Of a right function of many numbers this is all it takes. Values, error bars and kinks of single outputs, a cotangent
that is aimed with them, and what each output may hide are many passes over as many numbers. They are left for the case
that this question accuses, or does not see enough: for sin of a million elements, a quarter of a check's time.

With L1 and L2 extrapolated from the coarser and the finer two of three rungs, an output's value is L1 here, and its bar

    3 |L2 - L1| + noise on the second rung + 0.2 noise on the third

which holds all that the bar of `ladder.settle` does, whichever of the two that takes. Of two rungs, value and bar are
those of `Survey`: the extrapolation, twice what that adds to the finer one, and noise. The cotangent weighs all outputs
alike, so that the one that is seen least is seen as well as it can be.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gradproof.core.draws import LEAST_OF_LONG
from gradproof.core.ledger import Ledger
from gradproof.core.norm import PART, parts, products, sum_of_squares
from gradproof.core.paired import Paired
from gradproof.core.precision import CONFIDENCE, INNER_PRODUCT_ROUND_OFF, UNSEEN_SHARE, reordered
from gradproof.core.probe import Probe
from gradproof.core.seen import Entered
from gradproof.core.survey import Survey
from gradproof.core.types import Vector

# How much of what must be seen the threshold may take: the rest is for the residual, which is mostly far smaller.
_ROOM = 0.8

# Bars that are this many times wider than precision explains differ from output to output: a cotangent that is aimed
# with them sees more. Of a million elements of sin they are 1.7 times wider, of a cumulative sum 130 times.
_BLURRED = 6.0


class _Side(NamedTuple):
    """<v, J_num u>, the Euclidean norms of its terms and their bars, and what precision makes of the bars at least."""

    total: float
    size: float
    noise: float
    least: float


def ask_jointly(ledger: Ledger, survey: Survey, step: float) -> Probe | None:
    """Ask one random cotangent about all outputs; None where that is known not to see enough.

    Where one is answered already, whose signs know nothing of the direction, that is the question. What it does not
    accuse of is entered, for all outputs alike.
    """
    if not _can_be_asked(ledger, survey):
        return None
    known = ledger.questions[0] if ledger.questions else None
    cotangent = ledger.investigation.draw(ledger.problem.outputs.size, 1) if known is None else known[0]
    least = LEAST_OF_LONG if known is None else ledger.least_of(cotangent)
    numeric, wanted = _numeric(survey, cotangent), least * _least_wanted(ledger, survey, step)
    if not CONFIDENCE * numeric.noise <= _ROOM * wanted or numeric.noise > _BLURRED * numeric.least or survey.bends:
        return None
    pullback = ledger.answered(cotangent) if known is None else known[1]
    claimed, size = ledger.investigation.once(Paired).of(survey.direction, pullback)
    problem = ledger.problem
    round_off = problem.outputs.coarsest_eps * numeric.size + problem.inputs.coarsest_eps * size
    threshold = CONFIDENCE * numeric.noise + INNER_PRODUCT_ROUND_OFF * round_off
    made = Probe(cotangent, numeric.total - claimed, threshold, claimed, size)
    hidden = threshold + abs(made.residual)
    if not made.accuses and hidden <= wanted:
        survey.enter_jointly(Entered(hidden, pullback, claimed, size), hidden / least)
        survey.clear_from = step
    return made


def hides_in_tangents(ledger: Ledger, pushed: Vector) -> float:
    """What could hide in any output's tangent, times |u_i|, by that question: infinite where it was not enough.

    Reverse mode was found to be right by it, and <v, J u> = <J^T v, u>, with no error bar. What is excused is what sums
    in another order may differ by, whether they do or not: another tangent that differs by less passes, too.
    """
    survey = ledger.survey
    if survey.is_settled or not ledger.is_settled:
        return math.inf
    (cotangent, _), shown = ledger.questions[0], survey.entered[0]
    forward, size = ledger.investigation.once(Paired).of(cotangent, pushed)
    excused = reordered(ledger.problem.coarsest_eps) * (size + shown.size)
    if not abs(forward - shown.moved) <= excused:
        return math.inf
    hides = excused / ledger.least_of(cotangent)
    return hides if hides <= _least_wanted(ledger, survey, ledger.smallest_step) else math.inf


def row_agrees(ledger: Ledger, survey: Survey, output: int) -> bool:
    """Whether the row of one output does, of a survey whose outputs were not looked at by themselves; it is entered."""
    row, problem = ledger.row(output), ledger.problem
    (moved, size), (value, error) = products(survey.direction, row), survey.at(output)
    round_off = problem.outputs.coarsest_eps * abs(value) + problem.inputs.coarsest_eps * size
    threshold = CONFIDENCE * error + INNER_PRODUCT_ROUND_OFF * round_off
    if not abs(value - moved) <= threshold:
        return False
    survey.entered.append(Entered(threshold + abs(value - moved), row, moved, size))
    return True


def _can_be_asked(ledger: Ledger, survey: Survey) -> bool:
    """Of one array of many outputs, all about as noisy as their size tells."""
    problem = ledger.problem
    return (
        not survey.is_settled
        and len(survey.ladder) in (2, 3)
        and ledger.precise
        and problem.noise is None
        and ledger.stencil.still is None
        and len(problem.outputs.blocks) == 1
        and problem.outputs.size > PART
    )


def _numeric(survey: Survey, cotangent: Vector) -> _Side:
    limits = _Limits(survey)
    sums, squares, bars = list[float](), list[float](), list[float]()
    noise = np.empty(PART)
    with np.errstate(all="ignore"):
        for part in parts(len(cotangent)):
            weights = cotangent[part]
            value, bar = limits.of(part)
            floor = np.multiply(survey.stencil.noise[part], limits.blurred, out=noise[: len(weights)])
            bar += floor
            bar *= weights
            bars.append(sum_of_squares(bar))
            value *= weights
            sums.append(float(np.add.reduce(value)))
            squares.append(sum_of_squares(value))
        size, noisy = math.sqrt(sum(squares)), math.sqrt(sum(bars))
        return _Side(sum(sums), size, limits.times * noisy, limits.times * limits.blurred * survey.stencil.least_noise)


class _Limits:
    """Values of outputs, and their bars but for noise; in room that the next part takes over.

    Bars are smaller by a factor, `times`, and so is the noise on the rungs that is to be added, `blurred`.
    """

    def __init__(self, survey: Survey) -> None:
        self._quotients = [quotient for _, quotient in survey.ladder]
        (middle, _), (finest, _) = survey.ladder[-2:]
        self._gain = 4.0 ** (finest - middle) - 1.0
        self.times = 3.0 if len(self._quotients) == 3 else 2.0
        blurred = 2.0**middle + 0.2 * 2.0**finest if len(self._quotients) == 3 else 2.0**finest
        self.blurred = blurred / self.times
        self._value, self._bar = np.empty(PART), np.empty(PART)

    def of(self, part: slice) -> tuple[Vector, Vector]:
        *_, mid, fine = (quotient[part] for quotient in self._quotients)
        here = slice(len(fine))
        if len(self._quotients) == 2:
            leap = np.subtract(fine, mid, out=self._value[here])
            leap *= 1.0 / self._gain
            bar = np.abs(leap, out=self._bar[here])
            leap += fine
            return leap, bar
        leap = np.subtract(mid, self._quotients[0][part], out=self._value[here])
        leap *= 1.0 / self._gain
        finer = np.subtract(fine, mid, out=self._bar[here])
        finer *= 1.0 + 1.0 / self._gain
        finer -= leap
        leap += mid
        return leap, np.abs(finer, out=finer)


def _least_wanted(ledger: Ledger, survey: Survey, step: float) -> float:
    """No more than what must be seen of any output: see `Ledger.wanted`."""
    if ledger.explicit:
        return step * ledger.tolerances.least_atol
    return UNSEEN_SHARE * survey.typical_entry
