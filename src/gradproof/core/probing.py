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

from gradproof.core.certificate import Certificate
from gradproof.core.compare import same
from gradproof.core.entries import STRETCH, Comparison, Suspects, compare_entries, excuse_kinks
from gradproof.core.finding import Status
from gradproof.core.judge import Judge, judge
from gradproof.core.locate import halve
from gradproof.core.norm import norm
from gradproof.core.options import Options
from gradproof.core.probe import CONFIDENCE, Aim, Survey, aim, compare, draw_direction
from gradproof.core.problem import Mode, Problem
from gradproof.core.space import Block
from gradproof.core.stencil import Stencil, rungs
from gradproof.core.types import Flags, Vector

# The part of a typical entry that an error must not exceed unseen, when no tolerance is given.
_LENIENT = 0.1
_MISS = 1e-12
# Relative error of a derivative along many coordinates, in units of eps, that is nobody's mistake.
_CARELESS = 64.0
_SINGLE = 2.0**-23
# Inputs that are looked at alone, if a joint probe does not see them.
_LEAVES = 16
# Outputs up to which two rungs see well enough for torch's tolerances.
_FEW = 20_000
# What a probe that has climbed all it can may be short of the tolerance, and still passes: its certificate says so.
_SHORT = 4.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The comparisons that found something, what could not be judged, and what was seen."""

    comparisons: list[Comparison]
    unseen: list[str]
    certificate: Certificate | None
    """None where every entry was compared, which certifies itself."""
    nonlinear: bool = False
    """Every entry is right, yet a sum of them is not: the derivative is not linear in its cotangent or tangent."""


class Prober:
    """One survey of a Problem, compared with each of its modes."""

    def __init__(self, problem: Problem, options: Options) -> None:
        self.problem, self.options = problem, options
        self.stencil = Stencil(problem)
        self.judgement = Judge(self.stencil, options)
        precise = max(problem.inputs.coarsest_eps, problem.outputs.coarsest_eps) <= 2.0**-52
        self.precise = precise
        self.explicit = options.atol is not None and precise
        self.direction = draw_direction(problem, self.stencil)
        self.survey = Survey(self.stencil, self.direction)
        self._coarser, self._base, self._finer = _ladder(float(self.stencil.eps.max()))
        few = self.explicit and problem.outputs.size <= _FEW
        self.survey.climb(*(self._base if few else (*self._coarser[:1], *self._base)))
        self.smallest_step = float(np.abs(self.direction).min())

    def run(self, mode: Mode) -> Outcome:
        return self._reverse() if mode is Mode.REVERSE else self._forward()

    # reverse mode

    def _reverse(self) -> Outcome:
        problem, survey = self.problem, self.survey
        cotangent = aim(problem, survey)
        problem.aim(cotangent=cotangent)
        pullback = problem.pullback
        seen = compare(problem, survey, cotangent, pullback)
        for rung in self._coarser if self.explicit else ():
            if seen.accuses or self._sees(seen, pullback):
                break
            if survey.has(rung):
                continue
            survey.climb(rung)
            seen = compare(problem, survey, cotangent, pullback)
        if self._finer and not (seen.accuses or self._sees(seen, pullback) or seen.cotangent.all()):
            survey.climb(*self._finer)
            cotangent = aim(problem, survey)
            pullback = problem.vjp(cotangent)
            seen = compare(problem, survey, cotangent, pullback)
        certificate = self._certificate(seen)
        if self._sees(seen, pullback) or self._sees_leaf_by_leaf(seen, pullback):
            return Outcome([], [], certificate)
        if self._affordable():
            comparisons = compare_entries(problem, self.options, (Mode.REVERSE,))
            return Outcome(comparisons, [], None, not comparisons and self._is_nonlinear(seen, pullback))
        if not seen.cotangent.all() and not seen.accuses:
            cotangent = aim(problem, survey, bent=True)
            pullback = problem.vjp(cotangent)
            seen = compare(problem, survey, cotangent, pullback)
        if self._sees(seen, pullback, _SHORT) or not (self.precise or seen.accuses):
            return Outcome([], [], certificate)
        if seen.accuses:
            return self._locate(seen, pullback, certificate)
        return Outcome([], [self._doubt(seen)], certificate)

    def _is_nonlinear(self, seen: Aim, pullback: Vector) -> bool:
        """Whether an accusation that no entry bears out comes from a vjp that is not linear."""
        if not seen.accuses or self._tolerable(seen, pullback):
            return False
        return not self._is_linear(self.problem.vjp, seen.cotangent, pullback)

    def _is_linear(self, apply: Callable[[Vector], Vector], probe: Vector, answer: Vector) -> bool:
        """Whether a derivative answers to two parts of -2 times a probe with the parts of -2 times the answer."""
        part = -2.0 * probe
        part[len(part) // 2 :] = 0.0
        eps = max(self.problem.inputs.coarsest_eps, self.problem.outputs.coarsest_eps)
        return same(apply(part) + apply(-2.0 * probe - part), -2.0 * answer, eps, 2.0 * self.options.nondet_tol)

    def _tolerable(self, seen: Aim, pullback: Vector) -> bool:
        """Whether a residual may be the sum of many deviations, each within its tolerance."""
        relative = float(self.judgement.rtol.min()) * norm(pullback * self.direction)
        absolute = float(self.judgement.atol.min()) * norm(self.direction) * norm(seen.cotangent)
        return abs(seen.residual) <= CONFIDENCE * (relative + absolute)

    def _row(self, output: int) -> Vector:
        basis = np.zeros(self.problem.outputs.size)
        basis[output] = 1.0
        return self.problem.vjp(basis)

    def _sees(self, seen: Aim, pullback: Vector, short: float = 1.0) -> bool:
        """Whether no entry can be wrong beyond tolerance without having been noticed.

        A residual beyond the threshold is never waved through, though it may be within the tolerance: two wrong
        entries can cancel to within a tolerance easily, to within round-off hardly ever.
        """
        if seen.accuses or not seen.cotangent.all():
            return False
        if self.explicit:
            gap = seen.threshold / np.abs(seen.cotangent)
            return bool((gap <= short * self.smallest_step * self._row_tolerance()).all())
        return not self._unseen(seen, pullback, short)

    def _unseen(self, seen: Aim, pullback: Vector, short: float) -> list[Block]:
        """The inputs of whose typical entry the probe could overlook a tenth."""
        shares = [
            (block, norm(pullback[block.slice] * self.direction[block.slice])) for block in self.problem.inputs.blocks
        ]
        return [
            block
            for block, share in shares
            if block.size and not seen.threshold <= short * _LENIENT * share / math.sqrt(block.size)
        ]

    def _sees_leaf_by_leaf(self, seen: Aim, pullback: Vector) -> bool:
        """Whether the inputs that drown in a joint probe can be seen alone: gradients far smaller than others, or zero.

        A bias in front of a batch norm has no influence at all. Where nothing but round-off is left, and the claim is
        no larger than that, there is nothing more to see.
        """
        if seen.accuses or self.explicit or not seen.cotangent.all():
            return False
        unseen = self._unseen(seen, pullback, 1.0)
        if not self.precise:  # a claim that is round-off of the others is no claim
            dust = _CARELESS * self.problem.inputs.coarsest_eps * norm(pullback * self.direction)
            return all(norm(pullback[block.slice] * self.direction[block.slice]) <= dust for block in unseen)
        return len(unseen) <= _LEAVES and all(map(self._sees_alone, unseen))

    def _sees_alone(self, block: Block) -> bool:
        direction = np.zeros_like(self.direction)
        direction[block.slice] = self.direction[block.slice]
        survey = Survey(self.stencil, direction)
        survey.climb(*sorted({*self._coarser, *self._base}))
        cotangent = aim(self.problem, survey)
        pullback = self.problem.vjp(cotangent)
        alone = compare(self.problem, survey, cotangent, pullback)
        floor = 4.0 * CONFIDENCE * norm(cotangent * self.stencil.noise) * 2.0 ** max(self._base)
        share = norm(pullback[block.slice] * direction[block.slice])
        enough = max(_LENIENT * share / math.sqrt(block.size), floor)
        return bool(cotangent.all()) and not alone.accuses and alone.threshold <= enough

    def _row_tolerance(self) -> Vector:
        """What an entry of each output may be off by: atol, and rtol of that output's typical entry."""
        typical = np.abs(self.survey.value) / norm(self.direction)
        return float(self.judgement.atol.min()) + (float(self.judgement.rtol.min()) + self.judgement.row_rtol) * typical

    def _certificate(self, seen: Aim) -> Certificate:
        weights = np.abs(seen.cotangent)
        gap = max(seen.threshold, abs(seen.residual)) / weights.min() if weights.all() else math.inf
        gap = math.inf if math.isnan(gap) else gap
        sizes = np.abs(self.direction)
        return Certificate(
            tuple(
                (block.label, float(gap / sizes[block.slice].min()))
                for block in self.problem.inputs.blocks
                if block.size
            ),
            _MISS,
        )

    def _affordable(self) -> bool:
        n, m = self.problem.inputs.size, self.problem.outputs.size
        return n <= self.options.affordable_columns and n * m <= self.options.affordable_entries

    def _doubt(self, seen: Aim) -> str:
        blind = int((seen.cotangent == 0).sum())
        if blind:
            return f"{blind} of {len(seen.cotangent)} outputs have a kink, a jump or no value along the probe"
        return "the numerical error is too large for the tolerance, and there are too many entries to check each"

    def _locate(self, seen: Aim, pullback: Vector, certificate: Certificate) -> Outcome:
        """The worst entries, by halving first the outputs, then the inputs."""
        problem, survey = self.problem, self.survey

        def residual(low: int, high: int) -> float:
            part = np.zeros_like(seen.cotangent)
            part[low:high] = seen.cotangent[low:high]
            return compare(problem, survey, part, problem.vjp(part)).residual

        def threshold(low: int, high: int) -> float:
            return CONFIDENCE * norm(seen.cotangent[low:high] * survey.error[low:high]) + 0.5 * (
                seen.threshold - CONFIDENCE * norm(seen.cotangent * survey.error)
            )

        found: list[tuple[int, int, float]] = []
        for output in halve(len(seen.cotangent), seen.residual, residual, threshold):
            row = self._row(output)
            found += [(output, column, float(row[column])) for column in self._columns(output, row)]
            if len(found) >= self.options.worst:
                break
        comparison = self._judge(Mode.REVERSE, found)
        explained = bool(np.isin(comparison.status, (Status.WRONG.rank, Status.KINK.rank)).any())
        unseen = (
            []
            if explained or self._tolerable(seen, pullback)
            else ["a probe accuses, but the entries it leads to are right"]
        )
        return Outcome([comparison], unseen, certificate)

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

    def _judge(self, mode: Mode, found: list[tuple[int, int, float]]) -> Comparison:
        """The located entries, each measured along its own coordinate."""
        rows = np.array([row for row, _, _ in found], dtype=np.intp)
        columns = np.array([column for _, column, _ in found], dtype=np.intp)
        analytic = np.array([value for _, _, value in found])
        self.judgement.allow_dust(analytic)
        self.judgement.bear(analytic)
        value, error = np.empty(len(found)), np.empty(len(found))
        for k, (row, column) in enumerate(zip(rows, columns, strict=True)):
            output = np.array([row], dtype=np.intp)
            sharp = self.judgement.sharpness(np.array([column], dtype=np.intp), output)
            estimate = self.stencil.measure([int(column)], sharp, output)
            estimate &= self.stencil.measure([int(column)], sharp, output, stretch=STRETCH)
            value[k], error[k] = estimate.value[0, 0], estimate.error[0, 0]
        difference = np.abs(analytic - value)
        tolerance = self.judgement.tolerance(np.abs(value), rows, columns)
        suspects = Suspects(rows, columns, analytic, value, tolerance, difference / (tolerance + error))
        status = judge(difference, error, tolerance, self.judgement.bearable(columns))
        sides = excuse_kinks(self.stencil, self.judgement, suspects, np.flatnonzero(status > Status.KINK.rank), status)
        return Comparison(mode, suspects, error, status, sides, located=True)

    # forward mode

    def _forward(self) -> Outcome:
        problem, survey = self.problem, self.survey
        problem.aim(tangent=self.direction)
        pushed = problem.pushforward
        for rung in self._coarser if self.explicit else ():
            if not self._agrees(pushed) and not survey.has(rung):
                survey.climb(rung)
        if not self._agrees(pushed):
            survey.climb(*(rung for rung in self._finer if not survey.has(rung)))
        gap = np.abs(survey.value - pushed) + self._bars(pushed)
        worst = float(gap.max(initial=0.0))
        certificate = Certificate(
            tuple((block.label, worst / self.smallest_step) for block in problem.inputs.blocks if block.size), _MISS
        )
        low = not self.precise and self.problem.inputs.coarsest_eps <= _SINGLE
        if self._agrees(pushed) or (low and self._is_innocent(pushed)):
            return Outcome([], [], certificate)
        if self._affordable():
            comparisons = compare_entries(problem, self.options, (Mode.FORWARD,))
            nonlinear = not comparisons and not self._is_linear(problem.jvp, self.direction, pushed)
            return Outcome(comparisons, [], None, nonlinear)
        accused = ~(np.abs(survey.value - pushed) <= self._bars(pushed)) | ~np.isfinite(pushed)
        if accused.any():
            comparison = self._judge(Mode.FORWARD, list(self._locate_forward(pushed, accused)))
            return Outcome([comparison], [], certificate)
        return Outcome([], ["the numerical error is too large for the tolerance"], certificate)

    def _bars(self, pushed: Vector) -> Vector:
        eps = max(self.problem.outputs.coarsest_eps, self.problem.inputs.coarsest_eps)
        careless = _CARELESS * eps * (np.abs(pushed) + np.abs(self.survey.value))
        return CONFIDENCE * self.survey.error + careless

    def _is_innocent(self, pushed: Vector) -> bool:
        """Whether nothing differs by more than error bars and round-off."""
        bars = self._bars(pushed)
        return bool((np.abs(self.survey.value - pushed) <= bars).all() and np.isfinite(bars).all())

    def _agrees(self, pushed: Vector) -> bool:
        if not self._is_innocent(pushed):
            return False
        bars = self._bars(pushed)
        if self.explicit:
            return bool((bars <= self.smallest_step * self._row_tolerance()).all())
        share = norm(pushed) / math.sqrt(len(pushed) * len(self.direction))
        return bool((bars <= _LENIENT * share).all())

    def _locate_forward(self, pushed: Vector, accused: Flags) -> Iterator[tuple[int, int, float]]:
        excess = np.where(accused, np.abs(self.survey.value - pushed) / self._bars(pushed), 0.0)
        rung = self._base[-1]
        for output in np.argsort(-excess)[: min(self.options.worst, int(accused.sum()))].tolist():

            def residual(low: int, high: int, output: int = output) -> float:
                part = np.zeros_like(self.direction)
                part[low:high] = self.direction[low:high]
                quotient, _ = self.stencil.along(part, rung)
                return float(quotient[output]) - float(self.problem.jvp(part)[output])

            bar = CONFIDENCE * float(self.stencil.noise[output] * 2.0**rung + self.survey.error[output])
            total = float(self.survey.value[output] - pushed[output])
            (column,) = itertools.islice(halve(len(self.direction), total, residual, lambda low, high: bar), 1)  # noqa: B023
            basis = np.zeros_like(self.direction)
            basis[column] = 1.0
            yield output, column, float(self.problem.jvp(basis)[output])


def _ladder(eps: float) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The rungs of a probe: one coarser in reserve, the two it starts with, the finer ones in reserve."""
    if eps <= 2.0**-50:
        return (11, 8), (14, 17), (20, 23, 26)
    exponents = rungs(eps)
    middle = len(exponents) // 2
    return exponents[: middle - 1][::-1], exponents[middle - 1 : middle + 1], exponents[middle + 1 :]
