"""From an accusation to a verdict, in reverse mode.

What a probe accuses is compared entry by entry where that is affordable; else the wrong entries are located by halving,
first the outputs and then the inputs, and judged one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradproof.core.accusation import CLEARLY, Accusation, Outcome, unexplained
from gradproof.core.accused import Against, accused_entries
from gradproof.core.agreement import is_linear
from gradproof.core.decoding import NOWHERE, Answer, Decoder, Window
from gradproof.core.entries import Known, every_entry
from gradproof.core.hidden import doubts, seen, unseen_blocks
from gradproof.core.judge import Judge, Witness
from gradproof.core.largest import certified
from gradproof.core.ledger import Ledger
from gradproof.core.locate import halve, sharpest_rung, worst_columns
from gradproof.core.noise import known_inside
from gradproof.core.norm import norm, products
from gradproof.core.precision import CLEAR, CONFIDENCE, INNER_PRODUCT_ROUND_OFF
from gradproof.core.probe import Accused, Probe, probe
from gradproof.core.problem import Mode
from gradproof.core.questioning import FEW_OF, FINEST, Questioning
from gradproof.core.rounding import rounded_to
from gradproof.core.segments import clear
from gradproof.core.side_survey import SideSurvey
from gradproof.core.survey import Survey
from gradproof.core.suspects import Judged, Suspects
from gradproof.core.types import Indices, Vector
from gradproof.core.wide import widened

# How often what a probe accuses is asked again, though the entries turn out to be right: once with the shortest steps,
# then without these outputs.
_ROUNDS = 4
# Inputs that are located of one output.
_COLUMNS = 2
# Entries that a row claims at most, all others being zero, for the wrong one to be looked for among them first.
_CLAIMED = 64
# Evaluations after which a search for wrong entries stops with those that it has: where many outputs are wrong, and
# where few are, of which each has a wrong entry of its own.
_SEARCH, _SEARCH_FEW = 8, 60


class Pursuit:
    """One accusation, which may lead to others: each is pursued in its turn."""

    def __init__(self, ledger: Ledger, questioning: Questioning, accused: Accused) -> None:
        self._ledger, self._questioning = ledger, questioning
        self._survey, self._made = accused
        self._last: tuple[int, Vector] | None = None

    def accusation(self) -> Accusation:
        """What the probe says. It stands by itself if no kink, no tolerance and no luck explains it."""
        survey, made = self._survey, self._made
        asked = made.cotangent != 0
        kinked = bool((survey.bent & asked).any()) or survey.asked_bent or isinstance(survey, SideSurvey)
        clear = abs(made.residual) > CLEARLY * made.threshold and math.isfinite(made.threshold)
        stands = clear and self._ledger.precise and not kinked and not self._is_tolerable(made)
        return Accusation(abs(made.residual), made.threshold, stands)

    def outcome(self) -> Outcome:
        """Every entry while that is affordable; else the wrong ones are located and judged."""
        ledger = self._ledger
        largest = certified(ledger)
        drowned = Outcome([], [], None, drowned=[str(self.accusation())])
        if not ledger.is_small:
            if not self.accusation().stands and self._is_drowned():
                return drowned
            ledger.tolerances.bound(largest)
            found = self._locate(self._survey, self._made, 0 if ledger.is_affordable else _ROUNDS)
            wrong = any(each.is_wrong for each in found.judged)
            if not ledger.is_affordable or wrong or self._is_rounding(self._made):
                return found
        known, against = Known(ledger.survey, largest=largest), Against.probe(ledger.survey, self._made)
        compared = accused_entries(ledger.investigation, ledger.options, against, known)
        if compared is None and self._is_drowned():
            return drowned
        compared = compared or every_entry(ledger.investigation, ledger.options, (Mode.REVERSE,), known)
        nonlinear = not compared.judged and self._is_nonlinear()
        return Outcome(compared.judged, [], compared.seen, nonlinear=nonlinear)

    def _is_drowned(self) -> bool:
        """Whether what is accused may drown entry by entry, in a low precision inside that a twin knows.

        Then the twin tells, and a ladder for each entry would not. A twin itself is looked at as it is.
        """
        investigation = self._ledger.investigation
        first = investigation.problem is investigation.made and investigation.first_question is None
        if not first or self._ledger.options.precision is not None:
            return False
        return investigation.once(known_inside) is not None and investigation.once(widened) is not None

    def _is_nonlinear(self) -> bool:
        """Whether an accusation that no entry confirms comes from a vjp that is not linear."""
        made, ledger = self._made, self._ledger
        if not made.accuses or self._is_tolerable(made):
            return False
        round_off = float((np.abs(made.cotangent) @ ledger.stencil.noise) * ledger.stencil.unresolvable.max())
        slack = ledger.options.nondet_tol + round_off
        vjp = ledger.investigation.vjp
        return not is_linear(vjp, made.cotangent, ledger.answer(made), ledger.problem.coarsest_eps, slack)

    def _is_tolerable(self, made: Probe) -> bool:
        """Whether a residual may be the sum of many deviations, each within its tolerance."""
        ledger = self._ledger
        relative = float(ledger.tolerances.rtol.min()) * norm(ledger.answer(made) * self._survey.direction)
        return bool(abs(made.residual) <= ledger.tolerable_sum(relative, norm(made.cotangent)))

    def _is_rounding(self, made: Probe) -> bool:
        """Whether a residual is that of answers which are rounded to fewer bits, though to enough for every entry.

        That is for `linearity` to report: there is no wrong entry to be found.
        """
        ledger, answer = self._ledger, self._ledger.answer(made)
        bits = rounded_to(answer) if ledger.precise else None
        if bits is None or 2.0**-bits > float(ledger.tolerances.rtol.min()):
            return False
        return abs(made.residual) <= made.threshold + CONFIDENCE * 2.0**-bits * norm(answer * self._survey.direction)

    def _locate(self, survey: Survey, made: Probe, rounds: int) -> Outcome:
        """The worst entries, by halving first the outputs, then the inputs."""
        ledger, before = self._ledger, self._ledger.investigation.cost.evaluations
        found: list[tuple[int, int, float]] = []
        alone: dict[tuple[int, int], tuple[float, float]] = {}
        outputs = list(itertools.islice(self._outputs(survey, made), ledger.options.worst + 1))
        most = _SEARCH if len(outputs) > ledger.options.worst else _SEARCH_FEW
        for output in outputs:
            row = self._row(output)
            self._learn_largest(output, row)
            columns = [part for column in _columns(survey, output, row) for part in ledger.parts(column)]
            found += [(output, column, float(row[column])) for column in dict.fromkeys(columns)]
            if len(columns) == 1 and survey.direction[columns[0]]:
                alone[output, columns[0]] = _difference(survey, output, row, columns[0])
            if len(found) >= ledger.options.worst or ledger.investigation.cost.evaluations - before > most:
                break
        judge = Judge(ledger.stencil, ledger.tolerances)
        smooth = {entry: off for entry, off in alone.items() if not survey.bent[entry[0]]}
        judged = judge.judge(Mode.REVERSE, Suspects.accused(found), located=True, witness=_witness(smooth), most=most)
        judged = replace(judged, lone=len(outputs) == 1 and _is_lone(judged, alone))
        clear(ledger.stencil, ledger.tolerances, judged)
        # where no tolerance was given, the certificate knows of none that many small deviations might add up to
        doubt = unexplained(judged, tolerable=ledger.explicit and self._is_tolerable(made))
        if doubt and ledger.precise and rounds:
            return self._set_aside(survey, judged, rounds - 1)
        wrong = judged.is_wrong
        if not wrong and not doubt and not ledger.precise and self._accuses_others(survey, made, judged):
            doubt = ["a probe accuses, beyond the kinks that it leads to"]
        seen_whole = survey is ledger.survey  # to within what it tolerates
        unseen = [] if wrong or doubt or seen_whole else doubts(ledger, unseen_blocks(ledger))
        return Outcome([judged], unseen, seen(ledger), doubt)

    def _outputs(self, survey: Survey, made: Probe) -> Iterator[int]:
        """The outputs that an accusation is about, by halving its cotangent."""
        rest = 0.5 * (made.threshold - CONFIDENCE * products(made.cotangent, survey.error)[1])
        outputs = self._ledger.problem.outputs

        def ask(low: int, weights: Vector) -> Answer:
            part, run = np.zeros_like(made.cotangent), slice(low, low + len(weights))
            np.multiply(made.cotangent[run], weights, out=part[run])
            if len(weights) == 1:
                asked = probe(survey, part, part[low] * self._row(low))
            else:
                outputs.round_in_place(part)
                asked = probe(survey, part, self._ledger.in_passing(part))
            return Answer(asked.residual, asked.threshold)

        def residual(low: int, high: int) -> float:
            return ask(low, np.ones(high - low)).residual

        def threshold(low: int, high: int) -> float:
            return CONFIDENCE * products(made.cotangent[low:high], survey.error[low:high])[1] + rest

        decode = Decoder(ask, outputs.element_of)

        def shortcut(low: int, high: int, here: float) -> Window | None:
            return decode(low, high, Answer(here, threshold(low, high) + rest))

        return halve(len(made.cotangent), made.residual, residual, threshold, shortcut)

    def _accuses_others(self, survey: Survey, made: Probe, judged: Judged) -> bool:
        """Whether an accusation stands without the outputs whose entries were judged."""
        others = made.cotangent.copy()
        others[judged.suspects.rows] = 0.0
        return probe(survey, others, self._ledger.in_passing(others)).accuses

    def _row(self, output: int) -> Vector:
        """What is claimed of one output; the last answer is kept, because who finds an output wants its row."""
        if self._last is None or self._last[0] != output:
            self._last = output, self._ledger.row(output)
        return self._last[1]

    def _learn_largest(self, output: int, row: Vector) -> None:
        """What is negligible in a row is so beside its largest entry, which need not be among those accused."""
        column = np.array([np.argmax(np.abs(row))], dtype=np.intp)
        self._ledger.tolerances.learn_analytic(row[column], np.array([output], dtype=np.intp), column)

    def _set_aside(self, survey: Survey, judged: Judged, rounds: int) -> Outcome:
        """An accusation that leads to right entries: with the shortest steps first, the same questions are asked again.

        So it is where two of many numbers nearly tie. Where no step is short enough for the outputs that change places,
        these are seen by their rows, and the rest is asked again.
        """
        ledger = self._ledger
        shorter = [rung for rung in (*ledger.rungs.finer, *FINEST) if rung > survey.finest]
        accused = None
        if not shorter or not survey.climb_unless_noisy(shorter, ledger.problem.outputs.size // FEW_OF):
            outputs = np.unique(judged.suspects.rows)
            accused = self._questioning.settle_rows(survey, outputs, np.full(ledger.problem.outputs.size, np.inf))
            survey.aside[outputs] = True
        if accused is None:
            accused = self._questioning.look(survey, ledger.easiest_step)
        if accused is None:
            return Outcome([judged, *ledger.sample], doubts(ledger, unseen_blocks(ledger)), seen(ledger))
        return self._locate(*accused, rounds)


def _difference(survey: Survey, output: int, row: Vector, column: int) -> tuple[float, float]:
    """By how much an entry is off that explains by itself what its output differs by along a survey; the error bar."""
    step, (claimed, size) = float(survey.direction[column]), products(survey.direction, row)
    round_off = INNER_PRODUCT_ROUND_OFF * survey.stencil.problem.coarsest_eps * size
    bar = CONFIDENCE * float(survey.error[output]) + round_off
    return (float(survey.value[output]) - claimed) / step, bar / abs(step)


def _is_lone(judged: Judged, alone: dict[tuple[int, int], tuple[float, float]]) -> bool:
    """Whether the only entry is off by what its output differs by, and this is known sharply.

    An output that seems to bend may do so by the round-off of a long sum: at a kink the two would not agree.
    """
    suspects = judged.suspects
    if len(suspects) != 1 or len(alone) != 1:
        return False
    ((off, bar),) = alone.values()
    bar += float(judged.error[0])
    return bar <= CLEAR * abs(off) and abs(float(suspects.numeric[0] - suspects.analytic[0]) - off) <= bar


def _witness(alone: dict[tuple[int, int], tuple[float, float]]) -> Witness:
    """What the surveys say of entries that are alone in their rows; of others nothing."""

    def witness(rows: Indices, columns: Indices) -> tuple[Vector, Vector]:
        said = [alone.get(entry, (0.0, 0.0)) for entry in zip(rows.tolist(), columns.tolist(), strict=True)]
        return np.array([value for value, _ in said]), np.array([bar for _, bar in said])

    return witness


def _columns(survey: Survey, output: int, row: Vector) -> Iterator[int]:
    """The worst inputs of one output, by its row."""

    def claim(part: Vector, run: slice) -> float:
        return float(row[run] @ part[run])

    total = float(row @ survey.direction)
    rung = sharpest_rung(survey, output, float(survey.value[output]) - total)
    likely = np.flatnonzero(row) if np.count_nonzero(row) <= _CLAIMED else NOWHERE
    return itertools.islice(worst_columns(survey, output, rung, total, claim, likely), _COLUMNS)
