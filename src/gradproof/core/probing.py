"""The probe strategy: one probe for the whole Jacobian, more only where it accuses or cannot see.

A pass is given only for what was seen. What was not is asked again by the cheapest question that may see it, and in the
end by every entry, while that is affordable. What a probe accuses is compared entry by entry where that is affordable,
else the wrong entries are located by halving and judged one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from gradproof.core.agreement import same
from gradproof.core.cost import BudgetExhausted
from gradproof.core.entries import every_entry
from gradproof.core.investigation import Investigation, basis
from gradproof.core.locate import halve
from gradproof.core.norm import norm
from gradproof.core.options import Options
from gradproof.core.precision import BEND, CONFIDENCE, DOUBLE, MISS, SINGLE, SUM_ROUND_OFF, UNSEEN_SHARE
from gradproof.core.probe import Probe, SideSurvey, Survey, aim, draw_direction, on_kinks, probe
from gradproof.core.problem import Mode
from gradproof.core.rows import MOST_ENTRIES, Row, SeenRow, look_at, settled
from gradproof.core.seen import Seen
from gradproof.core.space import Block
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil, rungs
from gradproof.core.suspects import Judge, Judged, Suspects
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Flags, Indices, Vector

# Inputs that are looked at alone, if a joint probe does not see them.
_LEAVES = 16
# Questions asked along one survey at most, and outputs that get a vjp each.
_QUESTIONS, _ROWS = 12, 64
# An accusation is withdrawn if finer rungs take the residual to this part of it.
_WITHDRAWN = 0.1
# Where no tolerance is given, no output need be seen below this many times its noise.
_FLOOR = 4.0
# An error bar of up to this many times the round-off of the finest rung is noise, not truncation.
_BLURRED = 2.0
# Coordinates looked at for a kink to show.
_SAMPLES = 8
# An accusation of this many times its threshold stands, even if the budget ends before an entry is found.
_CLEARLY = 100.0
# How often outputs are set aside whose entries turn out to be right, though a probe accuses them.
_ROUNDS = 3
# Rungs for a few outputs among many, one in so many, that a kink or a pole is near to.
_FINEST, _FEW_OF = (29, 32), 50
# Numbers that the points of one rung may come to, for all entries that are looked at closely.
_MOST_WORK = 2**22
# Inputs up to which every entry costs less than to look at some of them closely.
_SMALL = 256
# Outputs up to which two rungs see well enough for torch's tolerances.
_FEW = 20_000
# A common factor of all entries of an input is to be seen if it is off by this much.
_FACTOR = 0.01
# Weights within this factor of each other are about alike.
_EVEN = 3.0
# What a probe that has climbed all it can may be short of the tolerance, and still passes: its certificate says so.
_SHORT = 4.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The suspects that were judged, what could not be judged in words, and what was seen."""

    judged: list[Judged]
    unseen: list[str]
    seen: Seen | None
    unexplained: list[str] = field(default_factory=list[str])
    """Accusations that led to right entries only."""
    unlocated: list[str] = field(default_factory=list[str])
    """Accusations that the budget left no room to locate."""
    nonlinear: bool = False
    """Every entry is right, yet a sum of them is not: the derivative is not linear in its cotangent or tangent."""


@dataclass(frozen=True, slots=True)
class Accusation:
    """A probe that differs by more than it may: some entry is wrong, it is not known yet which."""

    difference: float
    allowed: float
    stands: bool
    """Whether it is believed even if no entry is found."""

    def __str__(self) -> str:
        return f"a sum over all entries differs by {self.difference:.3g}, allowed {self.allowed:.3g}"


class Prober:
    """One survey of a Problem, compared with each of its modes."""

    def __init__(self, investigation: Investigation, options: Options) -> None:
        self.investigation, self.options = investigation, options
        self.problem = problem = investigation.problem
        self.stencil = Stencil(investigation)
        self.tolerances = Tolerances(self.stencil, options)
        self.precise = problem.coarsest_eps <= DOUBLE
        self.explicit = options.atol is not None and self.precise
        self.searches = self.precise or problem.noise is not None
        """Whether what is not seen is asked again: in low precision as such, error bars tell too little for that."""
        self.direction = draw_direction(self.stencil)
        self.survey = Survey(self.stencil, self.direction)
        self._coarser, self._base, self._finer = _ladder(float(self.stencil.eps.max()))
        few = self.explicit and problem.outputs.size <= _FEW
        self.survey.climb(*(self._base if few else (*self._coarser[:1], *self._base)))
        self._steps = self._smallest_steps()
        """The smallest |u_i| of each input."""
        self.smallest_step = min([step for _, step in self._steps], default=1.0)
        self._surveys: list[Survey] = []
        self._questions: list[tuple[Vector, Vector]] = []
        """Every cotangent asked, with its answer: used again with every new direction, for nothing."""
        self._sample: list[Judged] = []
        """An entry at a kink, of those that were verified together; and entries of rows that were looked at alone."""
        self._between_sides = np.zeros(problem.inputs.size)
        """How far apart the two sides of a kink may be along each coordinate, where kinks were verified together."""
        self._seen_rows: dict[int, SeenRow] = {}
        self._shared = False

    def run(self, mode: Mode) -> Outcome:
        """What a mode comes to."""
        return next(found for found in self.steps(mode) if isinstance(found, Outcome))

    def steps(self, mode: Mode) -> Iterator[Outcome | Accusation]:
        """What a mode comes to; before that, where a wrong entry remains to be located, the accusation.

        Locating costs more than all that went before. If the budget ends meanwhile, the accusation stands.
        """
        return self._reverse() if mode is Mode.REVERSE else self._forward()

    def _located(self, accusation: Accusation, locate: Callable[[], Outcome]) -> Outcome:
        try:
            return locate()
        except BudgetExhausted:
            if not accusation.stands:
                raise
            return Outcome(list(self._sample), [], None, unlocated=[str(accusation)])

    # reverse mode

    def _reverse(self) -> Iterator[Outcome | Accusation]:
        """Ask until every output and every input is seen, or until something accuses."""
        accused = (
            self._look(self.survey, self._easiest_step()) or self._look_at_weak_inputs() or self._look_for_factors()
        )
        if accused is not None:
            survey, made = accused
            accusation = self._accusation(survey, made)
            yield accusation
            yield self._located(accusation, lambda: self._pursue(survey, made))
            return
        unseen = self._unseen_blocks()
        if unseen and self._affordable():  # the last resort
            compared = every_entry(self.investigation, self.options, (Mode.REVERSE,), self.survey)
            yield Outcome(compared.judged, [], compared.seen)
        else:
            yield Outcome(self._sample, self._doubts(unseen), self._seen() if self.options.certify else None)

    def _accusation(self, survey: Survey, made: Probe) -> Accusation:
        """What an accusing probe says. It stands by itself if no kink, no tolerance and no luck explains it."""
        asked = made.cotangent != 0
        pullback = next(answer for question, answer in self._questions if question is made.cotangent)
        kinked = bool((survey.bent & asked).any()) or survey.asked_bent or isinstance(survey, SideSurvey)
        clear = abs(made.residual) > _CLEARLY * made.threshold and math.isfinite(made.threshold)
        stands = clear and self.precise and not kinked and not self._tolerable(made, pullback)
        return Accusation(abs(made.residual), made.threshold, stands)

    def _look(self, survey: Survey, step: float) -> tuple[Survey, Probe] | None:
        """Ask about every output along a survey, the cheapest question first; an accusation, if there is one.

        `step` is the smallest |u_i| of the inputs that matter. With J u known, another cotangent costs one vjp; where
        that does not help, further rungs cost two evaluations each and no vjp.
        """
        self._surveys.append(survey)
        accusation = self._again(survey) if self._questions else self._ask(survey, aim(survey))
        asked = 0
        while True:
            if accusation is not None:
                accusation = self._confirmed(survey, accusation)
                if accusation is not None:
                    return survey, accusation
            missing = (survey.hides > self._wanted(survey, step)) & ~survey.aside
            if not missing.any():
                survey.clear_from = math.inf if survey.aside.any() else step
                return None
            if asked >= _QUESTIONS:
                return None
            asked += 1
            question = self._question(survey, missing, step)
            if question is None:
                return self._look_closely(survey, missing, step)
            accusation = question()

    def _question(self, survey: Survey, missing: Flags, step: float) -> Callable[[], Probe | None] | None:
        """The cheapest question along a survey that may see what is missing; None: there is no more."""
        bent = bool((survey.bent & missing).any())
        if self.searches and self._own_cotangent_suffices(survey, missing, step):
            return lambda: self._ask(survey, aim(survey, only=missing))
        if self.searches and bent and self._on_kinks(survey).any():
            return None
        rungs = self._further_rungs(survey, missing) if self.searches else ()  # else they tell no more
        if rungs:
            return lambda: self._climb(survey, rungs)
        if self.precise and not survey.has(_FINEST[-1]) and self._are_few(missing):
            return lambda: self._sharpen(survey, missing)
        unasked = missing & np.isinf(survey.hides) & np.isfinite(survey.error) & ~survey.bent
        if self.searches and unasked.any():  # they seemed to be on a kink before the last rungs
            return lambda: self._ask(survey, aim(survey, only=missing))
        return (lambda: self._ask_bent(survey, missing)) if bent and not survey.asked_bent else None

    def _climb(self, survey: Survey, rungs: tuple[int, ...]) -> Probe | None:
        survey.climb(*rungs)
        return self._again(survey)

    @staticmethod
    def _are_few(missing: Flags) -> bool:
        return _FEW_OF * int(missing.sum()) <= len(missing)

    def _sharpen(self, survey: Survey, missing: Flags) -> Probe | None:
        """Steps so short that they reach no kink nor pole nearby, for a few outputs among many."""
        survey.climb(*_FINEST, only=missing)
        return self._again(survey)

    def _ask_bent(self, survey: Survey, missing: Flags) -> Probe | None:
        """Ask about outputs on a kink all the same, once."""
        survey.asked_bent = True
        return self._ask(survey, aim(survey, only=missing, bent=True))

    def _look_closely(self, survey: Survey, missing: Flags, step: float) -> tuple[Survey, Probe] | None:
        """Other directions around kinks, or a vjp for each output, where there are few."""
        if not self.searches:
            return None
        special = self._on_kinks(survey)
        if (survey.bent & missing).any() and special.any():
            return self._look_around_kinks(survey, special)
        if int(missing.sum()) > _ROWS:
            return None
        return self._look_row_by_row(survey, missing) or self._look_at_entries(survey, step)

    def _look_at_entries(self, survey: Survey, step: float) -> tuple[Survey, Probe] | None:
        """The entries of the few rows that are still not seen, and that nothing else moves their outputs."""
        wanted = self._wanted(survey, step)
        outputs = np.flatnonzero((survey.hides > wanted) & ~survey.aside)
        return None if len(survey.direction) <= _SMALL else self._settle_rows(survey, outputs, wanted)

    def _settle_rows(self, survey: Survey, outputs: Indices, wanted: Vector) -> tuple[Survey, Probe] | None:
        """Set those of some outputs aside whose rows are right; an accusation, if something else moves them."""
        most = min(MOST_ENTRIES, _MOST_WORK // (self.problem.inputs.size + self.problem.outputs.size))
        if len(outputs) > most:
            return None
        rows = [row for row in (self._sparse_row(int(output)) for output in outputs) if row is not None]
        if not rows or sum(len(row.columns) for row in rows) > most:
            return None
        exponents = (*self._base, *self._finer[:1])
        found = look_at(rows, self.stencil, self.tolerances, survey.direction, exponents, wanted)
        if found.judged is not None and (told := settled(found.judged)) is not None:
            self._sample.append(told)
        if found.moved is not None:
            cotangent = np.zeros(self.problem.outputs.size)
            cotangent[[row.output for row in rows]] = 1.0
            return found.moved, self._made(found.moved, cotangent)
        for output, row in found.seen.items():
            survey.aside[output] = survey.verified[output] = True
            survey.hides[output] = row.hides
        self._seen_rows |= found.seen
        return None

    def _sparse_row(self, output: int) -> Row | None:
        return Row.of(output, self._row(output))

    def _made(self, survey: Survey, cotangent: Vector) -> Probe:
        pullback = self.investigation.vjp(cotangent)
        self._questions.append((cotangent, pullback))
        return probe(survey, cotangent, pullback)

    def _ask(self, survey: Survey, cotangent: Vector) -> Probe | None:
        """Ask one cotangent; the probe if it accuses. What does not is written into the ledger."""
        if not cotangent.any():
            return None
        if self._shared:
            pullback = self.investigation.vjp(cotangent)
        else:
            self._shared, pullback = True, self.investigation.share_cotangent(cotangent)
        self._questions.append((cotangent, pullback))
        return self._entered(survey, cotangent, pullback)

    def _entered(self, survey: Survey, cotangent: Vector, pullback: Vector) -> Probe | None:
        asked = cotangent != 0
        if (survey.aside & asked).any() or (not survey.asked_bent and (survey.bent & asked).any()):
            return None  # at a kink the two sides need not agree
        made = probe(survey, cotangent, pullback)
        if made.accuses:
            return made
        survey.enter(made)
        survey.entered.append((made.threshold + abs(made.residual), pullback))
        return None

    def _again(self, survey: Survey) -> Probe | None:
        """Use every answer there is again, for nothing; the worst probe that accuses."""
        made = [self._entered(survey, cotangent, pullback) for cotangent, pullback in self._questions]
        accusing = [each for each in made if each is not None]
        return max(accusing, key=lambda each: abs(each.residual) / each.threshold, default=None)

    def _confirmed(self, survey: Survey, made: Probe) -> Probe | None:
        """An accusation is measured again with finer rungs, and withdrawn only if the residual falls to a tenth.

        Wider bars alone acquit nobody; in half precision finer rungs would acquit wrongly.
        """
        finer = [rung for rung in self._finer if rung > survey.finest][:2]
        if not finer or not self.precise or not math.isfinite(made.threshold):
            return made
        before = survey.value, survey.error
        try:
            survey.climb(*finer)
        except BudgetExhausted:
            return made  # whether it stands by itself is seen later
        pullback = next(answer for question, answer in self._questions if question is made.cotangent)
        again = probe(survey, made.cotangent, pullback)
        if again.accuses:
            return again
        if abs(again.residual) > _WITHDRAWN * abs(made.residual):
            survey.value, survey.error = before
            return made
        return self._again(survey)

    def _wanted(self, survey: Survey, step: float) -> Vector:
        """How small an error of each output must be seen, times |u_i|."""
        if self.explicit:
            wanted = np.abs(survey.value)
            wanted[~np.isfinite(wanted)] = 0.0
            wanted *= step * (float(self.tolerances.rtol.min()) + self.tolerances.row_rtol) / norm(survey.direction)
            wanted += step * self.tolerances.least_atol
            return wanted
        size = np.abs(np.where(np.isfinite(survey.value), survey.value, 0.0))
        for block in self.problem.outputs.blocks:
            part = size[block.slice]
            np.maximum(part, norm(part) / math.sqrt(block.size or 1), out=part)
        share = UNSEEN_SHARE * size / math.sqrt(int(np.count_nonzero(survey.direction)) or 1)
        if self.problem.noise is not None:  # what drowns in noise that was measured is not seen
            return share
        return np.maximum(share, _FLOOR * CONFIDENCE * self.stencil.noise * 2.0 ** max(self._base))

    def _own_cotangent_suffices(self, survey: Survey, missing: Flags, step: float) -> bool:
        """Whether a cotangent of the missing outputs alone is predicted to see half of them."""
        usable = missing & ~survey.bent & np.isfinite(survey.error)
        count = int(usable.sum())
        if not count or count == len(missing):
            return False
        predicted = 2.0 * CONFIDENCE * math.sqrt(count) * survey.error[usable]
        enough = predicted <= self._wanted(survey, step)[usable]
        return 2 * int(enough.sum()) >= count and bool((predicted < 0.5 * survey.hides[usable]).any())

    def _further_rungs(self, survey: Survey, missing: Flags) -> tuple[int, ...]:
        """Two finer rungs where truncation or a bend dominates, one coarser where noise does."""
        finer = tuple(rung for rung in self._finer if rung > survey.finest)[:2]
        coarser = tuple(rung for rung in self._coarser if not survey.has(rung))[:1]
        floor = self.stencil.noise[missing] * 2.0**survey.finest
        blurred = survey.error[missing] <= _BLURRED * floor
        return (coarser or finer) if 2 * int(blurred.sum()) > len(blurred) else (finer or coarser)

    def _look_row_by_row(self, survey: Survey, missing: Flags) -> tuple[Survey, Probe] | None:
        """A vjp for each of a few outputs."""
        for output in np.flatnonzero(missing & np.isfinite(survey.error)):
            accusation = self._ask(survey, basis(slice(output, output + 1), self.problem.outputs.size)[0])
            if accusation is not None:
                return survey, accusation
        return None

    # kinks among many

    def _on_kinks(self, survey: Survey) -> Flags:
        """The coordinates that may sit on a kink: exact zeros and ties, where not all of the survey's are."""
        special = on_kinks(self.problem.point) & (survey.direction != 0)
        return special if not isinstance(survey, SideSurvey) else np.zeros_like(special)

    def _look_around_kinks(self, survey: Survey, special: Flags) -> tuple[Survey, Probe] | None:
        """The coordinates off the kinks by themselves, sharply; then those on them, by one side.

        Most functions take one side's derivative at every kink (relu, abs, hinge, clamp): if the claim is that of the
        left or of the right side for all of them together, one question verifies thousands.
        """
        direction = np.where(special, 0.0, survey.direction)
        if direction.any():
            smooth = Survey(self.stencil, direction)
            smooth.climb(*self._base)
            accusation = self._look(smooth, float(np.abs(direction[direction != 0]).min()))
            if accusation is not None:
                return accusation
        away = np.where(special, np.abs(survey.direction), 0.0)
        sides = [SideSurvey(self.stencil, away, order=1, sign=sign) for sign in (-1.0, 1.0)]
        worst: list[tuple[Survey, Probe]] = []
        for side in sides:
            side.climb(*self._base, *self._finer[:1])
            accusation = self._look(side, float(away[special].min()))
            if accusation is None:
                self._sample = self._sampled_kinks(survey, special)
                self._between_sides = survey.between_sides()
                return None
            worst.append(accusation)
        return min(worst, key=lambda found: abs(found[1].residual))

    def _sampled_kinks(self, survey: Survey, special: Flags) -> list[Judged]:
        """One entry at a kink of each input, judged: of many that were verified together, the report names a place."""
        entries: list[tuple[int, int, float]] = []
        for block in self.problem.inputs.blocks:
            columns = block.start + np.flatnonzero(special[block.slice])
            found = (self._kinked_entry(survey, int(column)) for column in columns[:_SAMPLES])
            entries += next((entry for entry in found if entry), list[tuple[int, int, float]]())
        if not entries:
            return []
        return [Judge(self.stencil, self.tolerances).judge(Mode.REVERSE, Suspects.accused(entries), located=True)]

    def _kinked_entry(self, survey: Survey, column: int) -> list[tuple[int, int, float]]:
        """The output that bends most along a coordinate, if any does, with the claims for it."""
        along = np.zeros_like(survey.direction)
        along[column] = survey.direction[column]
        _, bend = self.stencil.along(along, survey.finest)
        bend = np.where(np.isfinite(bend), np.abs(bend), 0.0)
        output = int(np.argmax(bend))
        if bend[output] <= BEND * self.stencil.noise[output] * 2.0**survey.finest:
            return []
        row = self._row(output)
        return [(output, part, float(row[part])) for part in self._parts(column)]

    # inputs that are weak beside others

    def _smallest_steps(self) -> list[tuple[Block, float]]:
        sizes = np.abs(self.direction)
        return [(block, float(sizes[block.slice].min())) for block in self.problem.inputs.blocks if block.size]

    def _easiest_step(self) -> float:
        return max([step for _, step in self._steps], default=1.0)

    def _look_at_weak_inputs(self) -> tuple[Survey, Probe] | None:
        """Each input that the joint survey does not see, alone: that costs evaluations, and no vjp at first."""
        if len(self.problem.inputs.blocks) == 1 or not self.searches:
            return None
        for block in self._unseen_blocks()[:_LEAVES]:
            direction = np.zeros_like(self.direction)
            direction[block.slice] = self.direction[block.slice]
            survey = Survey(self.stencil, direction)
            survey.climb(*self._base)
            step = float(np.abs(direction[block.slice]).min())
            accusation = self._look(survey, step)
            if accusation is not None:
                return accusation
        return None

    def _look_for_factors(self) -> tuple[Survey, Probe] | None:
        """Each input of which a common factor could hide, because its share of J u cancels by chance: by its gradient.

        Along that nothing cancels, and the answers that are there tell which way it is.
        """
        if not self._questions or not self.searches:
            return None
        _, gradient = self._questions[0]
        for block, step in self._steps[:_LEAVES]:
            if self._sees_factor(block):
                continue
            direction = np.zeros_like(self.direction)
            direction[block.slice] = np.copysign(self.direction[block.slice], gradient[block.slice])
            survey = Survey(self.stencil, direction)
            survey.climb(*self._base)
            accusation = self._look(survey, step)
            if accusation is not None:
                return accusation
        return None

    def _sees_factor(self, block: Block) -> bool:
        """Whether some question would have shown that all of an input's gradient is off by a factor; or none can."""
        can = False
        for survey in self._surveys:
            for hidden, gradient in survey.entered:
                shares = gradient[block.slice] * survey.direction[block.slice]
                if hidden <= _FACTOR * abs(float(shares.sum())):
                    return True
                can = can or hidden <= _FACTOR * float(np.abs(shares).sum())
        return not can

    def _unseen_blocks(self) -> list[Block]:
        """The inputs of which some output's error could still hide."""
        return [block for block, step in self._steps if not self._is_seen(block, step)]

    def _is_seen(self, block: Block, step: float) -> bool:
        """Whether each coordinate of an input is covered by a survey that sees every output along it."""
        if self.explicit and self.survey.clear_from <= step:
            return True  # nearly always: the first survey moves every coordinate
        left = np.ones(block.size, dtype=np.bool_)
        for survey in self._surveys:
            covered = survey.direction[block.slice] != 0
            if (covered & left).any() and not (
                (survey.hides > self._wanted_of(survey, block, step)) & ~survey.verified
            ).any():
                left &= ~covered
        return not left.any()

    def _wanted_of(self, survey: Survey, block: Block, step: float) -> Vector:
        """What must be seen of one input: of its own typical entry, which the answers there are tell."""
        wanted = self._wanted(survey, step)
        if self.explicit or len(self.problem.inputs.blocks) == 1 or not self._questions:
            return wanted
        _, pullback = self._questions[0]
        share = norm(pullback[block.slice] * self.direction[block.slice])
        whole = norm(pullback * self.direction)
        floor = _FLOOR * CONFIDENCE * self.stencil.noise * 2.0 ** max(self._base)
        return np.maximum(
            wanted * min(1.0, math.sqrt(self.problem.inputs.size / block.size) * share / (whole or 1.0)), floor
        )

    def _doubts(self, unseen: list[Block]) -> list[str]:
        """What could not be seen of these inputs, in words."""
        if not self.searches:
            return []
        doubts: list[str] = []
        for block in unseen:
            step = float(np.abs(self.direction[block.slice]).min())
            survey = next(each for each in reversed(self._surveys) if each.direction[block.slice].any())
            hidden = (survey.hides > self._short(survey) * self._wanted_of(survey, block, step)) & ~survey.verified
            if hidden.any():
                size = float(survey.hides[hidden].max()) / step
                doubts.append(
                    f"an error of up to {size:.1g} could hide in {int(hidden.sum())} of {len(hidden)} outputs "
                    f"with respect to {block.label}"
                )
        return doubts

    def _short(self, survey: Survey) -> float:
        """How far what was seen may be short of what was wanted.

        In noise that was measured, what all entries of an output come to is wanted, and not one among them: the rest is
        in the certificate, and no question would show it.
        """
        return _SHORT if self.precise else _SHORT * math.sqrt(int(np.count_nonzero(survey.direction)))

    def _seen(self) -> Seen:
        """The ledger, and what the tolerance would have excused."""
        smallest: list[float] = []
        for block in self.problem.inputs.blocks:
            if not block.size:
                smallest.append(0.0)
                continue
            hidden = np.full(block.size, np.inf)
            for survey in self._surveys:
                size = np.abs(survey.direction[block.slice])
                with np.errstate(divide="ignore"):
                    hidden = np.fmin(hidden, float(survey.hides.max(initial=0.0)) / size)
            excused = max(self._excused(block), float(self._between_sides[block.slice].max(initial=0.0)))
            smallest.append(max(float(hidden.max()), excused))
        return Seen(tuple(smallest), MISS)

    def _excused(self, block: Block) -> float:
        """What the largest entry of an input may be off by; that entry is bounded by J^T v, or about by J u."""
        if not self._questions:
            return 0.0
        cotangent, pullback = self._even_question()
        by_column = float(np.abs(pullback[block.slice]).max(initial=0.0)) / float(np.abs(cotangent).min())
        value = self.survey.value[np.isfinite(self.survey.value)]
        by_row = float(np.abs(value).max(initial=0.0)) / float(np.abs(self.direction[block.slice]).max())
        largest = max(by_column, by_row)  # either sum may have cancelled
        tolerances = self.tolerances
        relative = float(tolerances.rtol[block.slice].max()) + float(tolerances.row_rtol.max(initial=0.0))
        return tolerances.most_atol(self.problem.inputs.blocks.index(block)) + relative * largest

    def _even_question(self) -> tuple[Vector, Vector]:
        """A cotangent that weighs all outputs about alike, with its answer."""
        for cotangent, pullback in self._questions:
            sizes = np.abs(cotangent)
            if float(sizes.max()) <= _EVEN * float(sizes.min()):
                return cotangent, pullback
        signs = self.investigation.draw(self.problem.outputs.size, 2)
        cotangent = np.copysign(0.5 + 0.5 * np.abs(signs), signs)
        self.problem.outputs.round_in_place(cotangent)
        pullback = self.investigation.vjp(cotangent)
        self._questions.append((cotangent, pullback))
        return cotangent, pullback

    # from an accusation to a verdict

    def _pursue(self, survey: Survey, made: Probe) -> Outcome:
        """Every entry while that is affordable; else the wrong ones are located and judged."""
        pullback = next(answer for question, answer in self._questions if question is made.cotangent)
        if self._affordable():
            compared = every_entry(self.investigation, self.options, (Mode.REVERSE,), self.survey)
            nonlinear = not compared.judged and self._is_nonlinear(made, pullback)
            return Outcome(compared.judged, [], compared.seen, nonlinear=nonlinear)
        return self._locate(survey, made, pullback)

    def _is_nonlinear(self, made: Probe, pullback: Vector) -> bool:
        """Whether an accusation that no entry confirms comes from a vjp that is not linear."""
        if not made.accuses or self._tolerable(made, pullback):
            return False
        round_off = float((np.abs(made.cotangent) @ self.stencil.noise) * self.stencil.unresolvable.max())
        return not self._is_linear(self.investigation.vjp, made.cotangent, pullback, round_off)

    def _is_linear(self, apply: Callable[[Vector], Vector], question: Vector, answer: Vector, round_off: float) -> bool:
        """Whether a derivative answers to two parts of -2 times a question with the parts of -2 times the answer.

        `round_off` is the size of an answer that is nothing but round-off of the numbers it is made of.
        """
        part = -2.0 * question
        part[len(part) // 2 :] = 0.0
        slack = 2.0 * (self.options.nondet_tol + round_off)
        return same(apply(part) + apply(-2.0 * question - part), -2.0 * answer, self.problem.coarsest_eps, slack)

    def _tolerable(self, made: Probe, pullback: Vector) -> bool:
        """Whether a residual may be the sum of many deviations, each within its tolerance."""
        relative = float(self.tolerances.rtol.min()) * norm(pullback * self.direction)
        absolute = self.tolerances.least_atol * norm(self.direction) * norm(made.cotangent)
        return abs(made.residual) <= CONFIDENCE * (relative + absolute)

    def _row(self, output: int) -> Vector:
        return self.investigation.vjp(basis(slice(output, output + 1), self.problem.outputs.size)[0])

    def _row_tolerance(self) -> Vector:
        """What an entry of each output may be off by: atol, and rtol of that output's typical entry."""
        typical = np.abs(self.survey.value) / norm(self.direction)
        return self.tolerances.least_atol + (float(self.tolerances.rtol.min()) + self.tolerances.row_rtol) * typical

    def _affordable(self) -> bool:
        n, m = self.problem.inputs.size, self.problem.outputs.size
        return n <= self.options.affordable_columns and n * m <= self.options.affordable_entries

    def _locate(self, survey: Survey, made: Probe, pullback: Vector, rounds: int = _ROUNDS) -> Outcome:
        """The worst entries, by halving first the outputs, then the inputs."""
        bars = made.cotangent * survey.error
        rest = 0.5 * (made.threshold - CONFIDENCE * norm(bars))

        def residual(low: int, high: int) -> float:
            part = np.zeros_like(made.cotangent)
            part[low:high] = made.cotangent[low:high]
            return probe(survey, part, self.investigation.vjp(part)).residual

        def threshold(low: int, high: int) -> float:
            return CONFIDENCE * norm(bars[low:high]) + rest

        found: list[tuple[int, int, float]] = []
        for output in halve(len(made.cotangent), made.residual, residual, threshold):
            row = self._row(output)
            columns = [part for column in self._columns(survey, output, row) for part in self._parts(column)]
            found += [(output, column, float(row[column])) for column in dict.fromkeys(columns)]
            if len(found) >= self.options.worst:
                break
        judged = Judge(self.stencil, self.tolerances).judge(Mode.REVERSE, Suspects.accused(found), located=True)
        unexplained = self._unexplained(judged, tolerable=self._tolerable(made, pullback))
        if unexplained and self.precise and rounds:
            return self._set_aside(survey, judged, rounds - 1)
        return Outcome([judged], [], self._seen(), unexplained)

    def _set_aside(self, survey: Survey, judged: Judged, rounds: int) -> Outcome:
        """An accusation that leads to right entries: their outputs are seen by their rows, and the rest is asked again.

        So it is where two of many numbers nearly tie: no step is short enough for the outputs that change places.
        """
        outputs = np.unique(judged.suspects.rows)
        accused = self._settle_rows(survey, outputs, np.full(self.problem.outputs.size, np.inf))
        survey.aside[outputs] = True
        if accused is None:
            accused = self._look(survey, self._easiest_step())
        if accused is None:
            return Outcome([judged, *self._sample], self._doubts(self._unseen_blocks()), self._seen())
        survey, made = accused
        pullback = next(answer for question, answer in self._questions if question is made.cotangent)
        return self._locate(survey, made, pullback, rounds)

    @staticmethod
    def _unexplained(judged: Judged, *, tolerable: bool) -> list[str]:
        """What to say of an accusation that leads to right entries, unless it may be a sum of tolerable deviations."""
        explained = bool(np.isin(judged.status, (Status.WRONG.rank, Status.KINK.rank)).any())
        return [] if explained or tolerable else ["a probe accuses, but the entries it leads to are right"]

    def _parts(self, column: int) -> list[int]:
        """All coordinates of the element that a coordinate belongs to: they are judged by one modulus."""
        return self.problem.inputs.parts_of(np.array([column])).tolist()

    def _is_tolerable_push(self, pushed: Vector) -> bool:
        """Whether each output's difference may be the sum of many deviations, each within its tolerance."""
        relative = (float(self.tolerances.rtol.min()) + self.tolerances.row_rtol) * np.abs(pushed)
        absolute = self.tolerances.least_atol * norm(self.direction)
        allowed = self._bars(pushed) + CONFIDENCE * (relative + absolute)
        return bool((np.abs(self.survey.value - pushed) <= allowed).all())

    def _columns(self, survey: Survey, output: int, row: Vector) -> Iterator[int]:
        """The worst inputs of one output."""
        direction, rung = survey.direction, survey.finest
        bar = CONFIDENCE * float(self.stencil.noise[output] * 2.0**rung + survey.error[output])

        def residual(low: int, high: int) -> float:
            part = np.zeros_like(direction)
            part[low:high] = direction[low:high]
            quotient, _ = survey.along(part, rung)
            return float(quotient[output]) - float(row[low:high] @ direction[low:high])

        total = float(survey.value[output]) - float(row @ direction)
        return itertools.islice(halve(len(direction), total, residual, lambda low, high: bar), 2)

    # forward mode

    def _forward(self) -> Iterator[Outcome | Accusation]:
        investigation, survey = self.investigation, self.survey
        pushed = investigation.share_tangent(self.direction)
        for rung in self._coarser if self.explicit else ():
            if not self._agrees(pushed) and not survey.has(rung):
                survey.climb(rung)
        if not self._agrees(pushed):
            survey.climb(*(rung for rung in self._finer if not survey.has(rung)))
        gap = np.abs(survey.value - pushed) + self._bars(pushed)
        worst = float(gap.max(initial=0.0))
        seen = Seen((worst / self.smallest_step,) * len(self.problem.inputs.blocks), MISS)
        low = not self.precise and self.problem.inputs.coarsest_eps <= SINGLE
        low &= self.problem.noise is None or not self._affordable()
        if self._agrees(pushed) or (low and self._is_within_bars(pushed)):
            yield Outcome([], [], seen)
            return
        accusation = self._forward_accusation(pushed)
        if accusation is not None:
            yield accusation
        yield self._located(accusation or _UNFOUNDED, lambda: self._pursue_forward(pushed, seen))

    def _forward_accusation(self, pushed: Vector) -> Accusation | None:
        """The output that is furthest from its bars, if any is beyond them."""
        bars = self._bars(pushed)
        with np.errstate(invalid="ignore"):
            excess = np.where(self.survey.bent, 0.0, np.abs(self.survey.value - pushed) / bars)
        worst = int(np.argmax(np.nan_to_num(excess, nan=0.0)))
        if not excess[worst] > 1.0:
            return None
        difference, bar = abs(float(self.survey.value[worst] - pushed[worst])), float(bars[worst])
        stands = excess[worst] > _CLEARLY and self.precise and not self._is_tolerable_push(pushed)
        return Accusation(difference, bar, bool(stands))

    def _pursue_forward(self, pushed: Vector, seen: Seen) -> Outcome:
        """Every entry while that is affordable; else the wrong ones are located and judged."""
        investigation, survey = self.investigation, self.survey
        if self._affordable():
            compared = every_entry(investigation, self.options, (Mode.FORWARD,), survey)
            round_off = float((np.abs(self.direction) @ self.stencil.unresolvable) * self.stencil.noise.max())
            linear = bool(compared.judged) or self._is_linear(investigation.jvp, self.direction, pushed, round_off)
            return Outcome(compared.judged, [], compared.seen, nonlinear=not linear)
        accused = ~(np.abs(survey.value - pushed) <= self._bars(pushed)) | ~np.isfinite(pushed)
        if accused.any():
            suspects = Suspects.accused(list(self._locate_forward(pushed, accused)))
            judged = Judge(self.stencil, self.tolerances).judge(Mode.FORWARD, suspects, located=True)
            tolerable = self._is_tolerable_push(pushed)
            return Outcome([judged], [], seen, self._unexplained(judged, tolerable=tolerable))
        return Outcome([], ["the numerical error is too large for the tolerance"], seen)

    def _bars(self, pushed: Vector) -> Vector:
        round_off = SUM_ROUND_OFF * self.problem.coarsest_eps * (np.abs(pushed) + np.abs(self.survey.value))
        return CONFIDENCE * self.survey.error + round_off

    def _is_within_bars(self, pushed: Vector) -> bool:
        """Whether nothing differs by more than error bars and round-off."""
        bars = self._bars(pushed)
        with np.errstate(invalid="ignore"):
            within = (np.abs(self.survey.value - pushed) <= bars) & np.isfinite(bars)
        return bool(within.all()) or bool((within | self._agrees_with_rows(pushed)).all())

    def _agrees(self, pushed: Vector) -> bool:
        if not self._is_within_bars(pushed):
            return False
        bars = self._bars(pushed)
        if self.precise:
            return bool(
                ((bars <= self._wanted(self.survey, self.smallest_step)) | self._agrees_with_rows(pushed)).all()
            )
        share = norm(pushed) / math.sqrt(len(pushed) * len(self.direction))
        return bool((bars <= UNSEEN_SHARE * share).all())

    def _agrees_with_rows(self, pushed: Vector) -> Flags:
        """The outputs of which the row was verified in reverse mode, and whose tangents follow from it."""
        agrees = np.zeros(len(pushed), dtype=np.bool_)
        for output, row in self._seen_rows.items():
            slack = SUM_ROUND_OFF * self.problem.coarsest_eps * abs(row.value) + row.hides
            agrees[output] = abs(float(pushed[output]) - row.value) <= slack
        return agrees

    def _locate_forward(self, pushed: Vector, accused: Flags) -> Iterator[tuple[int, int, float]]:
        excess = np.where(accused, np.abs(self.survey.value - pushed) / self._bars(pushed), 0.0)
        rung = self._base[-1]
        for output in np.argsort(-excess)[: min(self.options.worst, int(accused.sum()))].tolist():

            def residual(low: int, high: int, output: int = output) -> float:
                part = np.zeros_like(self.direction)
                part[low:high] = self.direction[low:high]
                quotient, _ = self.stencil.along(part, rung)
                return float(quotient[output]) - float(self.investigation.jvp(part)[output])

            bar = CONFIDENCE * float(self.stencil.noise[output] * 2.0**rung + self.survey.error[output])
            total = float(self.survey.value[output] - pushed[output])
            (column,) = itertools.islice(halve(len(self.direction), total, residual, lambda low, high: bar), 1)  # noqa: B023
            for part in self._parts(column):
                along = basis(slice(part, part + 1), len(self.direction))[0]
                yield output, part, float(self.investigation.jvp(along)[output])


_UNFOUNDED = Accusation(0.0, math.inf, stands=False)


def _ladder(eps: float) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The rungs of a probe: one coarser in reserve, the two it starts with, the finer ones in reserve."""
    if eps <= DOUBLE:
        return (11, 8), (14, 17), (20, 23, 26)
    exponents = rungs(eps)
    middle = len(exponents) // 2
    return exponents[: middle - 1][::-1], exponents[middle - 1 : middle + 1], exponents[middle + 1 :]
