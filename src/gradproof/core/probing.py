"""The probe strategy: one probe for the whole Jacobian, more only where it accuses or cannot see.

A pass is given only for what was seen. What a probe accuses, or cannot see well enough, is taken apart: every entry
while that is affordable, else the wrong entries are located by halving and judged one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gradproof.core.agreement import same
from gradproof.core.entries import every_entry
from gradproof.core.investigation import Investigation, basis
from gradproof.core.locate import halve
from gradproof.core.norm import norm
from gradproof.core.options import Options
from gradproof.core.precision import CONFIDENCE, DOUBLE, MISS, SINGLE, SUM_ROUND_OFF, UNSEEN_SHARE
from gradproof.core.probe import Probe, Survey, aim, draw_direction, probe
from gradproof.core.problem import Mode
from gradproof.core.seen import Seen
from gradproof.core.space import Block
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil, rungs
from gradproof.core.suspects import Judge, Judged, Suspects
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Flags, Vector

# Inputs that are looked at alone, if a joint probe does not see them.
_LEAVES = 16
# Outputs up to which two rungs see well enough for torch's tolerances.
_FEW = 20_000
# What a probe that has climbed all it can may be short of the tolerance, and still passes: its certificate says so.
_SHORT = 4.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The suspects that were judged, what could not be judged in words, and what was seen."""

    judged: list[Judged]
    unseen: list[str]
    seen: Seen | None
    nonlinear: bool = False
    """Every entry is right, yet a sum of them is not: the derivative is not linear in its cotangent or tangent."""


class Prober:
    """One survey of a Problem, compared with each of its modes."""

    def __init__(self, investigation: Investigation, options: Options) -> None:
        self.investigation, self.options = investigation, options
        self.problem = problem = investigation.problem
        self.stencil = Stencil(investigation)
        self.tolerances = Tolerances(self.stencil, options)
        self.precise = problem.coarsest_eps <= DOUBLE
        self.explicit = options.atol is not None and self.precise
        self.direction = draw_direction(self.stencil)
        self.survey = Survey(self.stencil, self.direction)
        self._coarser, self._base, self._finer = _ladder(float(self.stencil.eps.max()))
        few = self.explicit and problem.outputs.size <= _FEW
        self.survey.climb(*(self._base if few else (*self._coarser[:1], *self._base)))
        self.smallest_step = float(np.abs(self.direction).min())

    def run(self, mode: Mode) -> Outcome:
        return self._reverse() if mode is Mode.REVERSE else self._forward()

    # reverse mode

    def _reverse(self) -> Outcome:
        investigation, survey = self.investigation, self.survey
        cotangent = aim(survey)
        pullback = investigation.share_cotangent(cotangent)
        made = probe(survey, cotangent, pullback)
        for rung in self._coarser if self.explicit else ():
            if made.accuses or self._sees(made, pullback):
                break
            if not survey.has(rung):
                survey.climb(rung)
                made = probe(survey, cotangent, pullback)
        if self._finer and not (made.accuses or self._sees(made, pullback) or made.cotangent.all()):
            survey.climb(*self._finer)
            made, pullback = self._ask(survey)
        seen = self._seen(made)
        if self._sees(made, pullback) or self._sees_leaf_by_leaf(made, pullback):
            return Outcome([], [], seen)
        if self._affordable():
            compared = every_entry(investigation, self.options, (Mode.REVERSE,))
            return Outcome(
                compared.judged, [], compared.seen, not compared.judged and self._is_nonlinear(made, pullback)
            )
        if not made.cotangent.all() and not made.accuses:
            made, pullback = self._ask(survey, bent=True)
        if self._sees(made, pullback, _SHORT) or not (self.precise or made.accuses):
            return Outcome([], [], seen)
        if made.accuses:
            return self._locate(made, pullback, seen)
        return Outcome([], [self._doubt(made)], seen)

    def _ask(self, survey: Survey, *, bent: bool = False) -> tuple[Probe, Vector]:
        """Aim a cotangent of its own at a survey; the probe, and the answer to the cotangent."""
        cotangent = aim(survey, bent=bent)
        pullback = self.investigation.vjp(cotangent)
        return probe(survey, cotangent, pullback), pullback

    def _is_nonlinear(self, made: Probe, pullback: Vector) -> bool:
        """Whether an accusation that no entry confirms comes from a vjp that is not linear."""
        if not made.accuses or self._tolerable(made, pullback):
            return False
        return not self._is_linear(self.investigation.vjp, made.cotangent, pullback)

    def _is_linear(self, apply: Callable[[Vector], Vector], question: Vector, answer: Vector) -> bool:
        """Whether a derivative answers to two parts of -2 times a question with the parts of -2 times the answer."""
        part = -2.0 * question
        part[len(part) // 2 :] = 0.0
        slack = 2.0 * self.options.nondet_tol
        return same(apply(part) + apply(-2.0 * question - part), -2.0 * answer, self.problem.coarsest_eps, slack)

    def _tolerable(self, made: Probe, pullback: Vector) -> bool:
        """Whether a residual may be the sum of many deviations, each within its tolerance."""
        relative = float(self.tolerances.rtol.min()) * norm(pullback * self.direction)
        absolute = float(self.tolerances.atol.min()) * norm(self.direction) * norm(made.cotangent)
        return abs(made.residual) <= CONFIDENCE * (relative + absolute)

    def _row(self, output: int) -> Vector:
        return self.investigation.vjp(basis(slice(output, output + 1), self.problem.outputs.size)[0])

    def _sees(self, made: Probe, pullback: Vector, short: float = 1.0) -> bool:
        """Whether no entry can be wrong beyond tolerance without having been noticed.

        A residual beyond the threshold is never accepted, though it may be within the tolerance: two wrong
        entries can cancel to within a tolerance easily, to within round-off hardly ever.
        """
        if made.accuses or not made.cotangent.all():
            return False
        if self.explicit:
            gap = made.threshold / np.abs(made.cotangent)
            return bool((gap <= short * self.smallest_step * self._row_tolerance()).all())
        return not self._unseen(made, pullback, short)

    def _unseen(self, made: Probe, pullback: Vector, short: float) -> list[Block]:
        """The inputs of whose typical entry the probe could overlook a tenth."""
        shares = [
            (block, norm(pullback[block.slice] * self.direction[block.slice])) for block in self.problem.inputs.blocks
        ]
        return [
            block
            for block, share in shares
            if block.size and not made.threshold <= short * UNSEEN_SHARE * share / math.sqrt(block.size)
        ]

    def _sees_leaf_by_leaf(self, made: Probe, pullback: Vector) -> bool:
        """Whether the inputs that drown in a joint probe can be seen alone: gradients far smaller than others, or zero.

        A bias in front of a batch norm has no influence at all. Where nothing but round-off is left, and the claim is
        no larger than that, there is nothing more to see.
        """
        if made.accuses or self.explicit or not made.cotangent.all():
            return False
        unseen = self._unseen(made, pullback, 1.0)
        if not self.precise:  # a claim that is round-off of the others is no claim
            round_off = SUM_ROUND_OFF * self.problem.inputs.coarsest_eps * norm(pullback * self.direction)
            return all(norm(pullback[block.slice] * self.direction[block.slice]) <= round_off for block in unseen)
        return len(unseen) <= _LEAVES and all(map(self._sees_alone, unseen))

    def _sees_alone(self, block: Block) -> bool:
        direction = np.zeros_like(self.direction)
        direction[block.slice] = self.direction[block.slice]
        survey = Survey(self.stencil, direction)
        survey.climb(*sorted({*self._coarser, *self._base}))
        alone, pullback = self._ask(survey)
        floor = 4.0 * CONFIDENCE * norm(alone.cotangent * self.stencil.noise) * 2.0 ** max(self._base)
        share = norm(pullback[block.slice] * direction[block.slice])
        enough = max(UNSEEN_SHARE * share / math.sqrt(block.size), floor)
        return bool(alone.cotangent.all()) and not alone.accuses and alone.threshold <= enough

    def _row_tolerance(self) -> Vector:
        """What an entry of each output may be off by: atol, and rtol of that output's typical entry."""
        typical = np.abs(self.survey.value) / norm(self.direction)
        return (
            float(self.tolerances.atol.min()) + (float(self.tolerances.rtol.min()) + self.tolerances.row_rtol) * typical
        )

    def _seen(self, made: Probe) -> Seen:
        weights = np.abs(made.cotangent)
        gap = max(made.threshold, abs(made.residual)) / weights.min() if weights.all() else math.inf
        gap = math.inf if math.isnan(gap) else gap
        sizes = np.abs(self.direction)
        blocks = self.problem.inputs.blocks
        return Seen(tuple(float(gap / sizes[block.slice].min(initial=math.inf)) for block in blocks), MISS)

    def _affordable(self) -> bool:
        n, m = self.problem.inputs.size, self.problem.outputs.size
        return n <= self.options.affordable_columns and n * m <= self.options.affordable_entries

    def _doubt(self, made: Probe) -> str:
        blind = int((made.cotangent == 0).sum())
        if blind:
            return f"{blind} of {len(made.cotangent)} outputs have a kink, a jump or no value along the probe"
        return "the numerical error is too large for the tolerance, and there are too many entries to check each"

    def _locate(self, made: Probe, pullback: Vector, seen: Seen) -> Outcome:
        """The worst entries, by halving first the outputs, then the inputs."""
        survey = self.survey
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
            columns = [part for column in self._columns(output, row) for part in self._parts(column)]
            found += [(output, column, float(row[column])) for column in dict.fromkeys(columns)]
            if len(found) >= self.options.worst:
                break
        judged = Judge(self.stencil, self.tolerances).judge(Mode.REVERSE, Suspects.accused(found), located=True)
        return Outcome([judged], self._unexplained(judged, tolerable=self._tolerable(made, pullback)), seen)

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
        absolute = float(self.tolerances.atol.min()) * norm(self.direction)
        allowed = self._bars(pushed) + CONFIDENCE * (relative + absolute)
        return bool((np.abs(self.survey.value - pushed) <= allowed).all())

    def _columns(self, output: int, row: Vector) -> Iterator[int]:
        """The worst inputs of one output."""
        survey, direction = self.survey, self.direction
        rung = self._base[-1]
        bar = CONFIDENCE * float(self.stencil.noise[output] * 2.0**rung + survey.error[output])

        def residual(low: int, high: int) -> float:
            part = np.zeros_like(direction)
            part[low:high] = direction[low:high]
            quotient, _ = self.stencil.along(part, rung)
            return float(quotient[output]) - float(row[low:high] @ direction[low:high])

        total = float(survey.value[output]) - float(row @ direction)
        return itertools.islice(halve(len(direction), total, residual, lambda low, high: bar), 2)

    # forward mode

    def _forward(self) -> Outcome:
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
        if self._agrees(pushed) or (low and self._is_within_bars(pushed)):
            return Outcome([], [], seen)
        if self._affordable():
            compared = every_entry(investigation, self.options, (Mode.FORWARD,))
            nonlinear = not compared.judged and not self._is_linear(investigation.jvp, self.direction, pushed)
            return Outcome(compared.judged, [], compared.seen, nonlinear)
        accused = ~(np.abs(survey.value - pushed) <= self._bars(pushed)) | ~np.isfinite(pushed)
        if accused.any():
            suspects = Suspects.accused(list(self._locate_forward(pushed, accused)))
            judged = Judge(self.stencil, self.tolerances).judge(Mode.FORWARD, suspects, located=True)
            tolerable = self._is_tolerable_push(pushed)
            return Outcome([judged], self._unexplained(judged, tolerable=tolerable), seen)
        return Outcome([], ["the numerical error is too large for the tolerance"], seen)

    def _bars(self, pushed: Vector) -> Vector:
        round_off = SUM_ROUND_OFF * self.problem.coarsest_eps * (np.abs(pushed) + np.abs(self.survey.value))
        return CONFIDENCE * self.survey.error + round_off

    def _is_within_bars(self, pushed: Vector) -> bool:
        """Whether nothing differs by more than error bars and round-off."""
        bars = self._bars(pushed)
        return bool((np.abs(self.survey.value - pushed) <= bars).all() and np.isfinite(bars).all())

    def _agrees(self, pushed: Vector) -> bool:
        if not self._is_within_bars(pushed):
            return False
        bars = self._bars(pushed)
        if self.explicit:
            return bool((bars <= self.smallest_step * self._row_tolerance()).all())
        share = norm(pushed) / math.sqrt(len(pushed) * len(self.direction))
        return bool((bars <= UNSEEN_SHARE * share).all())

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


def _ladder(eps: float) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The rungs of a probe: one coarser in reserve, the two it starts with, the finer ones in reserve."""
    if eps <= DOUBLE:
        return (11, 8), (14, 17), (20, 23, 26)
    exponents = rungs(eps)
    middle = len(exponents) // 2
    return exponents[: middle - 1][::-1], exponents[middle - 1 : middle + 1], exponents[middle + 1 :]
