"""The probe strategy: one probe for the whole Jacobian, more only where it accuses or cannot see.

A pass is given only for what was seen. What was not is asked again by the cheapest question that may see it, and in the
end by every entry, while that is affordable. What a probe accuses is pursued until the wrong entries are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradproof.core.accusation import UNFOUNDED, Accusation, Outcome
from gradproof.core.capabilities import AccusedBefore, is_stateless
from gradproof.core.draws import basis
from gradproof.core.drowned import BURIED, order_of
from gradproof.core.entries import Known, every_entry
from gradproof.core.flags import some
from gradproof.core.glance import Glance
from gradproof.core.hidden import (
    BESIDE_OTHERS,
    doubts,
    doubts_of_all,
    doubts_of_zeros,
    hidden_outputs,
    hidden_zeros,
    seen,
    sees_factor,
    unseen_blocks,
)
from gradproof.core.investigation import Investigation
from gradproof.core.joint import row_agrees
from gradproof.core.judge import Judge
from gradproof.core.largest import certified
from gradproof.core.ledger import Ledger
from gradproof.core.options import Options
from gradproof.core.precision import DOUBLE
from gradproof.core.probe import Accused, probe
from gradproof.core.problem import Mode
from gradproof.core.pursuit import Pursuit
from gradproof.core.push import Push
from gradproof.core.questioning import Questioning
from gradproof.core.space import Block
from gradproof.core.status import Status
from gradproof.core.survey import Survey
from gradproof.core.suspects import Judged, Suspects
from gradproof.core.weak import dwarfed_elements, weak_elements

# Inputs that are looked at alone, if a joint probe does not see them.
_LEAVES = 16
# Rungs of long steps, on which round-off is least.
_LONG_RUNGS = (2, 5, 8, 11)
# The same where all that is claimed is dwarfed: 1e-3 beside 1e10.
_LONGER_RUNGS = (1, 3, 5, 8)


class Prober:
    """One survey of a Problem, compared with each of its modes."""

    def __init__(self, investigation: Investigation, options: Options, glanced: Glance | None = None) -> None:
        self._ledger = Ledger(investigation, options, glanced)
        self._questioning = Questioning(self._ledger)
        self._all_seen = False
        self._lost: list[str] = []
        """Of what others dwarf, or nothing but zeros is claimed of: what could hide or is in doubt, in words."""

    def run(self, mode: Mode) -> Outcome:
        """What a mode comes to."""
        return next(found for found in self.steps(mode) if isinstance(found, Outcome))

    def steps(self, mode: Mode) -> Iterator[Outcome | Accusation]:
        """What a mode comes to; before that, where a wrong entry remains to be located, the accusation.

        Locating costs more than all that went before. If the budget ends meanwhile, the accusation stands.
        """
        return self._reverse() if mode is Mode.REVERSE else self._forward()

    def judge_accused(self, mode: Mode) -> Judged | None:
        """The entries that another look accuses in this mode, judged by themselves; None: there are none.

        Where this look gives the same value as the other, it excuses no more than that did.
        """
        ledger, told = self._ledger, self._ledger.problem.capability(AccusedBefore)
        entries = [] if told is None else [entry for entry in told.entries if entry.mode is mode]
        if not entries:
            return None
        ledger.tolerances.bound(certified(ledger))
        claims = [self._claimed(mode, entry.output, entry.input) for entry in entries]
        suspects = Suspects.accused(
            [(each.output, each.input, claim) for each, claim in zip(entries, claims, strict=True)]
        )
        judged = Judge(ledger.stencil, ledger.tolerances).judge(mode, suspects, located=True)
        suspects, numeric = judged.suspects, np.array([entry.numeric for entry in entries])
        tolerance = np.fmin(suspects.tolerance, [entry.tolerance for entry in entries])
        off = np.abs(suspects.analytic - suspects.numeric)
        stands = (judged.status == Status.RIGHT.rank) & (off > tolerance + judged.error)
        stands &= np.abs(numeric - suspects.numeric) <= judged.error
        suspects.tolerance[stands], judged.status[stands] = tolerance[stands], Status.WRONG.rank
        suspects.excess[stands] = (off / (tolerance + judged.error))[stands]
        return judged

    def _claimed(self, mode: Mode, row: int, column: int) -> float:
        """What is claimed of one entry. What is negligible in a row is so beside its largest entry."""
        ledger = self._ledger
        if mode is Mode.FORWARD:
            return float(ledger.investigation.jvp(basis(slice(column, column + 1), ledger.problem.inputs.size)[0])[row])
        claims = ledger.row(row)
        largest = np.array([np.argmax(np.abs(claims))], dtype=np.intp)
        ledger.tolerances.learn_analytic(claims[largest], np.array([row], dtype=np.intp), largest)
        return float(claims[column])

    def _reverse(self) -> Iterator[Outcome | Accusation]:
        """Ask until every output and every input is seen, or until something accuses."""
        ledger = self._ledger
        accused = (
            self._questioning.look(ledger.survey, ledger.easiest_step)
            or self._look_at_weak_inputs()
            or self._look_at_lost_inputs()
            or self._look_at_weak_elements()
            or self._look_for_factors()
            or self._look_at_one_output()
        )
        if accused is not None:
            pursuit = Pursuit(ledger, self._questioning, accused)
            accusation = pursuit.accusation()
            yield accusation
            outcome = accusation.located(pursuit.outcome, ledger.sample)
            ledger.wrong = [each for each in outcome.judged if each.is_wrong]
            yield outcome if ledger.wrong or outcome.unlocated else replace(outcome, unseen=outcome.unseen + self._lost)
            return
        self._look_at_dwarfed_elements()
        unseen = self._unseen()
        ledger.is_settled = not unseen
        if unseen and ledger.is_affordable:  # the last resort
            known = Known(ledger.survey, hidden_outputs(ledger, unseen), counted=certified(ledger))
            compared = every_entry(ledger.investigation, ledger.options, (Mode.REVERSE,), known)
            yield Outcome(compared.judged, [*compared.unseen, *self._lost], compared.seen)
        else:
            told = [*(doubts(ledger, unseen) or doubts_of_all(ledger)), *self._lost]
            yield Outcome(ledger.sample, told, seen(ledger) if ledger.options.certify else None)

    def _unseen(self) -> list[Block]:
        """The inputs that are not seen yet; what is seen stays so."""
        unseen = [] if self._all_seen else unseen_blocks(self._ledger)
        self._all_seen = not unseen
        return unseen

    def _look_at_weak_inputs(self) -> Accused | None:
        """Each input that the joint survey does not see, alone: that costs evaluations, and no vjp at first."""
        ledger = self._ledger
        if len(ledger.problem.inputs.blocks) == 1 or not ledger.searches:
            return None
        for block in self._unseen()[:_LEAVES]:
            direction = np.zeros_like(ledger.direction)
            direction[block.slice] = ledger.direction[block.slice]
            accused = self._questioning.look_along(direction, float(np.abs(direction[block.slice]).min()))
            if accused is not None:
                return accused
        return None

    def _look_at_lost_inputs(self) -> Accused | None:
        """Each input of which nothing but zeros is claimed, alone and with long steps, where others could hide it."""
        ledger = self._ledger
        if ledger.explicit or not ledger.precise or ledger.problem.noise is not None or not ledger.questions:
            return None
        if len(ledger.problem.inputs.blocks) == 1:
            return None
        for block in hidden_zeros(ledger)[:_LEAVES]:
            direction = np.zeros_like(ledger.direction)
            direction[block.slice] = ledger.direction[block.slice]
            survey = Survey(ledger.stencil, direction)
            survey.climb(*_LONG_RUNGS)
            ledger.surveys.append(survey)
            accusation = ledger.again(survey)
            if accusation is not None:
                self._lost.append(f"something moves with {block.label}, {BESIDE_OTHERS}")
                return survey, accusation
            self._lost += doubts_of_zeros(ledger, survey, block)
        return None

    def _look_at_dwarfed_elements(self) -> None:
        """Elements of which all that is claimed could hide beside others, together and with long steps: no vjp.

        What disagrees there is within the tolerance of the largest entry, and so in doubt, not wrong.
        """
        ledger, dwarfed = self._ledger, dwarfed_elements(self._ledger)
        if dwarfed is None:
            return
        survey = Survey(ledger.stencil, np.where(dwarfed, ledger.direction, 0.0))
        survey.climb(*_LONGER_RUNGS)
        made = probe(survey, *ledger.questions[0])
        weight, problem = abs(float(made.cotangent[0])), ledger.problem
        round_off = BURIED * DOUBLE * weight * float(order_of(problem).max())
        if made.accuses and abs(made.residual) > round_off and not some(survey.bent):
            most = int(np.argmax(np.where(dwarfed, np.abs(ledger.questions[0][1]), 0.0)))
            self._lost.append(
                f"the output moves by {survey.value[0]:.1g} with {int(dwarfed.sum())} of {len(dwarfed)} elements whose "
                f"gradient is dwarfed by that of others, {problem.inputs.place(most)} among them, where "
                f"{made.moved / made.cotangent[0]:.1g} is claimed"
            )

    def _look_at_weak_elements(self) -> Accused | None:
        """Those of the elements whose gradient is small beside that of others, together and without these."""
        weak = weak_elements(self._ledger)
        if weak is None:
            return None
        direction = np.where(weak, self._ledger.direction, 0.0)
        return self._questioning.look_along(direction, float(np.abs(direction[weak]).min()))

    def _look_at_one_output(self) -> Accused | None:
        """The row of one output, for a certificate: what is written by hand may be wrong for one-hot cotangents."""
        ledger, survey = self._ledger, self._ledger.survey
        if not ledger.options.certify or not ledger.precise or ledger.problem.outputs.size == 1:
            return None
        if is_stateless(ledger.problem):
            return None
        if not survey.is_settled and row_agrees(ledger, survey, ledger.options.seed % ledger.problem.outputs.size):
            return None
        seen = np.flatnonzero((survey.hides < np.inf) & ~survey.aside & ~survey.bent)
        if not len(seen):
            return None
        output = int(seen[ledger.options.seed % len(seen)])
        accusation = ledger.ask(survey, basis(slice(output, output + 1), ledger.problem.outputs.size)[0])
        return None if accusation is None else (survey, accusation)

    def _look_for_factors(self) -> Accused | None:
        """Each input of which a common factor could hide, because its share of J u cancels by chance: by its gradient.

        Along that nothing cancels, and the answers that are there tell which way it is.
        """
        ledger = self._ledger
        if not ledger.questions or not ledger.searches:
            return None
        _, gradient = ledger.questions[0]
        for block, step in ledger.steps[:_LEAVES]:
            if sees_factor(ledger, block):
                continue
            direction = np.zeros_like(ledger.direction)
            direction[block.slice] = np.copysign(ledger.direction[block.slice], gradient[block.slice])
            accused = self._questioning.look_along(direction, step)
            if accused is not None:
                return accused
        return None

    def _forward(self) -> Iterator[Outcome | Accusation]:
        """Push one tangent, and climb until every output is seen to agree, or until one does not."""
        push = Push(self._ledger)
        push.sharpen()
        if push.passes():
            yield Outcome([], [], push.seen())
            return
        accusation = push.accusation()
        if accusation is not None:
            yield accusation
        yield (accusation or UNFOUNDED).located(push.outcome, self._ledger.sample)
