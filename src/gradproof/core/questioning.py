"""Questions along a survey, the cheapest first, until every output is seen or something accuses.

With J u known, another cotangent costs one vjp. Where that does not help, further rungs cost two evaluations each and
no vjp; then come other directions around kinks, a vjp for each of a few outputs, and the entries of their rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gradproof.core.accusation import CLEARLY
from gradproof.core.cost import BudgetExhausted
from gradproof.core.draws import basis
from gradproof.core.flags import some
from gradproof.core.joint import ask_jointly
from gradproof.core.ledger import Ledger
from gradproof.core.many_kinks import look_around, on_kinks_along
from gradproof.core.precision import CONFIDENCE
from gradproof.core.probe import Accused, Probe, aim, probe
from gradproof.core.resolution import can_look
from gradproof.core.rows import MOST_ENTRIES, Row, look_at, settled
from gradproof.core.survey import Survey
from gradproof.core.types import Flags, Indices, Vector

# Questions asked along one survey at most, and outputs that get a vjp each.
_QUESTIONS, _ROWS = 12, 64
# An accusation is withdrawn if finer rungs take the residual to this part of it.
_WITHDRAWN = 0.1
# An error bar of up to this many times the round-off of the finest rung is noise, not truncation.
_BLURRED = 2.0
# Rungs for a few outputs among many, one in so many, that a kink or a pole is near to.
FINEST, FEW_OF = (29, 32, 35), 50
# Numbers that the points of one rung may come to, for all entries that are looked at closely.
_MOST_WORK = 2**24
# Inputs up to which every entry costs less than to look at some of them closely.
_SMALL = 256


class Questioning:
    """Asks along one survey after the other, and enters into one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._in_vain: set[bytes] = set()
        """The sets of coordinates that were looked at together, and not seen."""

    def look(self, survey: Survey, step: float) -> Accused | None:
        """Ask about every output along a survey; an accusation, if there is one.

        `step` is the smallest |u_i| of the inputs that matter.
        """
        accused = self._look(survey, step)
        if accused is None and not survey.clear_from <= step:
            self._in_vain.add(_coordinates(survey.direction))
        return accused

    def _look(self, survey: Survey, step: float) -> Accused | None:
        ledger = self._ledger
        ledger.surveys.append(survey)
        accusation = self._first_answer(survey, step)
        if survey.clear_from <= step:
            return None  # one question has seen every output
        asked = 0
        while True:
            if accusation is not None:
                accusation = self._confirmed(survey, accusation)
                if accusation is not None:
                    return survey, accusation
            missing = (survey.hides > ledger.wanted(survey, step)) & ~survey.aside
            if not some(missing) and (finer := self._rungs_below(survey)):
                survey.climb_again(*finer)
                accusation = ledger.again(survey)
                continue
            if not some(missing):
                survey.clear_from = math.inf if some(survey.aside) else step
                return None
            if asked >= _QUESTIONS:
                return None
            asked += 1
            question = self._question(survey, missing, step)
            if question is None:
                return self._look_closely(survey, missing, step)
            accusation = question()

    def _first_answer(self, survey: Survey, step: float) -> Probe | None:
        """What the answers there are accuse of; where there are none, the first question."""
        ledger, known = self._ledger, self._ledger.investigation.first_question
        if known is not None and not ledger.questions:
            ledger.questions.append(known)
        is_first = len(ledger.surveys) == 1 and (not ledger.questions or known is not None)
        if is_first and (made := ask_jointly(ledger, survey, step)) is not None:
            return made if made.accuses else None if survey.clear_from <= step else ledger.again(survey)
        if ledger.questions:
            return ledger.again(survey)
        # a certificate is of what is seen least
        wanted = ledger.wanted(survey, step) if ledger.explicit and not ledger.options.certify else None
        return ledger.ask(survey, aim(survey, wanted=wanted))

    def look_along(self, direction: Vector, step: float) -> Accused | None:
        """The same along a new direction; not if that was in vain before, and every entry will be compared."""
        if self._ledger.is_affordable and _coordinates(direction) in self._in_vain:
            return None
        survey = Survey(self._ledger.stencil, direction)
        survey.climb(*self._ledger.rungs.base)
        return self.look(survey, step)

    def settle_rows(self, survey: Survey, outputs: Indices, wanted: Vector) -> Accused | None:
        """Set those of some outputs aside whose rows are right; an accusation, if something else moves them."""
        ledger = self._ledger
        sizes = ledger.problem.inputs.size, ledger.problem.outputs.size
        most = min(MOST_ENTRIES, _MOST_WORK // sum(sizes))
        if len(outputs) > most:
            return None
        named = (Row.of(int(output), ledger.row(int(output))) for output in outputs)
        rows = [row for row in named if row is not None]
        if not rows or sum(len(row.columns) for row in rows) > most:
            return None
        exponents = (*ledger.rungs.base, *ledger.rungs.finer[:1])
        found = look_at(rows, ledger.stencil, ledger.tolerances, survey.direction, exponents, wanted)
        if found.judged is not None and (told := settled(found.judged)) is not None:
            ledger.sample.append(told)
        if found.moved is not None:
            cotangent = np.zeros(ledger.problem.outputs.size)
            cotangent[[row.output for row in rows]] = 1.0
            return found.moved, probe(found.moved, cotangent, ledger.pull(cotangent))
        for output, row in found.seen.items():
            survey.verify(output, row.hides)
        ledger.seen_rows |= found.seen
        return None

    def _confirmed(self, survey: Survey, made: Probe) -> Probe | None:
        """An accusation is measured again with finer rungs, and withdrawn only if the residual falls to a tenth.

        Wider bars alone acquit nobody; in half precision finer rungs would acquit wrongly.
        """
        ledger = self._ledger
        finer = [rung for rung in ledger.rungs.finer if rung > survey.finest][:2]
        if not finer or not ledger.precise or not math.isfinite(made.threshold):
            return made
        bent = bool((survey.bent & (made.cotangent != 0)).any())
        if ledger.is_small and abs(made.residual) > CLEARLY * made.threshold and not bent:
            return made  # every entry is compared next, by steps of its own
        before = survey.value, survey.error
        try:
            survey.climb(*finer)
        except BudgetExhausted:
            return made  # whether it stands by itself is seen later
        again = probe(survey, made.cotangent, ledger.answer(made))
        if again.accuses and not self._is_unresolved(survey, made):
            return again
        if not again.accuses and abs(again.residual) > _WITHDRAWN * abs(made.residual):
            survey.put_back(*before)
            return made
        return ledger.again(survey)

    def _is_unresolved(self, survey: Survey, made: Probe) -> bool:
        """Whether most outputs that accuse bend on all rungs so far, away from kinks: all may be longer than waves."""
        asked = made.cotangent != 0
        most = 2 * int((survey.bent & asked).sum()) > int(asked.sum())
        shorter = most and can_look(self._ledger.stencil) and not survey.has(FINEST[-1])
        return shorter and not on_kinks_along(survey).any()

    # the next question

    def _question(self, survey: Survey, missing: Flags, step: float) -> Callable[[], Probe | None] | None:
        """The cheapest question along a survey that may see what is missing; None: there is no more."""
        ledger = self._ledger
        bent = bool((survey.bent & missing).any())
        if ledger.searches and self._own_cotangent_suffices(survey, missing, step):
            return lambda: ledger.ask(survey, aim(survey, only=missing))
        if ledger.searches and bent and on_kinks_along(survey).any():
            return None
        rungs = self._further_rungs(survey, missing) if ledger.searches else ()  # else they tell no more
        if rungs:
            return lambda: self._climb(survey, rungs)
        if ledger.precise and not survey.has(FINEST[-1]):
            # steps so short that they reach no kink nor pole nearby, for a few outputs among many
            if FEW_OF * int(missing.sum()) <= len(missing):
                return lambda: self._climb(survey, FINEST, only=missing)
            if can_look(ledger.stencil) and 2 * int((survey.is_unsettled & missing).sum()) > int(missing.sum()):
                return lambda: self._climb(survey, FINEST)
        unasked = missing & np.isinf(survey.hides) & np.isfinite(survey.error) & ~survey.bent
        if ledger.searches and unasked.any():  # they seemed to be on a kink before the last rungs
            return lambda: ledger.ask(survey, aim(survey, only=missing))
        return (lambda: self._ask_bent(survey, missing)) if bent and not survey.asked_bent else None

    def _own_cotangent_suffices(self, survey: Survey, missing: Flags, step: float) -> bool:
        """Whether a cotangent of the missing outputs alone is predicted to see half of them."""
        usable = missing & ~survey.bent & np.isfinite(survey.error)
        count = int(usable.sum())
        if not count or count == len(missing):
            return False
        predicted = 2.0 * CONFIDENCE * math.sqrt(count) * survey.error[usable]
        enough = predicted <= self._ledger.wanted(survey, step)[usable]
        return 2 * int(enough.sum()) >= count and bool((predicted < 0.5 * survey.hides[usable]).any())

    def _further_rungs(self, survey: Survey, missing: Flags) -> tuple[int, ...]:
        """Two finer rungs where truncation or a bend dominates, one coarser where noise does.

        No bar is narrower than the noise of its rung: a finer one whose noise is wider than all bars tells nothing,
        except of a bend, on both sides of which longer steps may reach over all that the function does.
        """
        noise, error = self._ledger.stencil.noise[missing], survey.error[missing]
        error = np.where(survey.bent[missing], np.inf, error)
        finer = tuple(
            rung for rung in self._ledger.rungs.finer if rung > survey.finest and not (noise * 2.0**rung >= error).all()
        )[:2]
        coarser = tuple(rung for rung in self._ledger.rungs.coarser if not survey.has(rung))[:1]
        blurred = error <= _BLURRED * noise * 2.0**survey.finest
        return (coarser or finer) if 2 * int(blurred.sum()) > len(blurred) else (finer or coarser)

    def _rungs_below(self, survey: Survey) -> tuple[int, ...]:
        """Finer rungs for a certificate, where those so far may have stepped over what the function does."""
        ledger = self._ledger
        if not ledger.options.certify or not can_look(ledger.stencil) or not survey.is_stepped_over:
            return ()
        return tuple(rung for rung in (*ledger.rungs.finer, *FINEST) if rung > survey.finest)[:3]

    def _climb(self, survey: Survey, rungs: tuple[int, ...], only: Flags | None = None) -> Probe | None:
        survey.climb(*rungs, only=only)
        return self._ledger.again(survey)

    def _ask_bent(self, survey: Survey, missing: Flags) -> Probe | None:
        """Ask about outputs on a kink all the same, once."""
        survey.asked_bent = True
        return self._ledger.ask(survey, aim(survey, only=missing, bent=True))

    # where no question helps

    def _look_closely(self, survey: Survey, missing: Flags, step: float) -> Accused | None:
        """Other directions around kinks, or a vjp for each output, where there are few."""
        if not self._ledger.searches:
            return None
        special = on_kinks_along(survey)
        if (survey.bent & missing).any() and special.any():
            return look_around(self._ledger, survey, special, self.look)
        if int(missing.sum()) > _ROWS:
            return None
        return self._look_row_by_row(survey, missing, step) or self._look_at_entries(survey, step)

    def _look_row_by_row(self, survey: Survey, missing: Flags, step: float) -> Accused | None:
        """A vjp for each of a few outputs; of those that even this will not show, where every entry is not compared."""
        asked = missing & np.isfinite(survey.error)
        if self._ledger.is_affordable:
            asked &= survey.error <= self._ledger.wanted(survey, step)
        for output in np.flatnonzero(asked):
            alone = basis(slice(output, output + 1), self._ledger.problem.outputs.size)[0]
            accusation = self._ledger.ask(survey, alone)
            if accusation is not None:
                return survey, accusation
        return None

    def _look_at_entries(self, survey: Survey, step: float) -> Accused | None:
        """The entries of the few rows that are still not seen, and that nothing else moves their outputs."""
        wanted = self._ledger.wanted(survey, step)
        outputs = np.flatnonzero((survey.hides > wanted) & ~survey.aside)
        return None if len(survey.direction) <= _SMALL else self.settle_rows(survey, outputs, wanted)


def _coordinates(direction: Vector) -> bytes:
    """Which coordinates a direction moves."""
    return (direction != 0).tobytes()
