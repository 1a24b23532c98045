"""Forward mode by one tangent: every output of it is compared with the numerical J u, each by its own error bar."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from gradproof.core.accusation import CLEARLY, Accusation, Outcome, unexplained
from gradproof.core.accused import Against, accused_entries
from gradproof.core.agreement import is_linear
from gradproof.core.draws import basis
from gradproof.core.entries import Known, every_entry
from gradproof.core.hidden import excused, excused_beside, hidden_in
from gradproof.core.joint import hides_in_tangents
from gradproof.core.judge import Judge
from gradproof.core.largest import certified
from gradproof.core.ledger import Ledger
from gradproof.core.locate import worst_columns
from gradproof.core.norm import norm, parts, products
from gradproof.core.precision import (
    CONFIDENCE,
    INNER_PRODUCT_ROUND_OFF,
    MISS,
    SINGLE,
    SUM_ROUND_OFF,
    UNSEEN_SHARE,
    reordered,
)
from gradproof.core.problem import Mode
from gradproof.core.questioning import FEW_OF, FINEST
from gradproof.core.seen import Seen
from gradproof.core.space import peak
from gradproof.core.status import Status
from gradproof.core.suspects import Judged, Suspects
from gradproof.core.types import ALL, Flags, Indices, Vector

# What a sum of entries may have lost by chance of the largest among them, as a factor.
_CANCELLED = 2.0
# Evaluations after which a search for wrong entries stops with those that it has: where many outputs are wrong, and
# where few are.
_SEARCH, _SEARCH_FEW = 8, 70


class Push:
    """The direction of a ledger's first survey, pushed forward by the derivative under test."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._survey = ledger, ledger.survey
        self._pushed = ledger.investigation.share_tangent(ledger.direction)
        self._hides = hides_in_tangents(ledger, self._pushed)
        """What one question about all outputs leaves hidden in any of them, times |u_i|; infinite if that is too much.
        """
        self._agreed: tuple[Vector, bool] | None = None
        """Whether everything agreed when it was last asked, and with which values."""

    def sharpen(self) -> None:
        """Further rungs, as long as not every output is seen to agree."""
        rungs, survey = self._ledger.rungs, self._survey
        for rung in rungs.coarser if self._ledger.explicit else ():
            if not self._agrees() and not survey.has(rung):
                survey.climb(rung)
        if not self._agrees():
            survey.climb(*(rung for rung in rungs.finer if not survey.has(rung)))
        if self._ledger.precise and not self._ledger.is_affordable and not self._agrees():
            self._look_closely()

    def _look_closely(self) -> None:
        """Steps so short that they reach no kink nearby, such as where two sorted numbers change places.

        Of a few outputs among many, where entries are too many to settle it; kept where nothing is beyond its bars.
        """
        survey, lacking = self._survey, self._lacking()
        if survey.has(FINEST[-1]) or FEW_OF * int(lacking.sum()) > len(lacking):
            return
        before = survey.value, survey.error
        survey.climb(*FINEST, only=lacking)
        if not self._is_within_bars():
            survey.put_back(*before)

    def passes(self) -> bool:
        """Whether every output agrees; in single precision, where entries cannot settle it, as far as the bars tell."""
        problem = self._ledger.problem
        low = not self._ledger.precise and problem.inputs.coarsest_eps <= SINGLE
        low &= problem.noise is None or not self._ledger.is_affordable
        return self._agrees() or (low and self._is_within_bars())

    def seen(self) -> Seen | None:
        """What could hide in any output, of its smallest coordinate; and what would have been excused."""
        ledger = self._ledger
        if not ledger.options.certify:
            return None
        if math.isfinite(self._hides):
            gap = self._hides + peak(self._survey.hides)
        else:
            gap = max([float((self._gap(part) + self._bars(part)).max()) for part in self._parts], default=0.0)
            gap += self._excused_by_reverse()
        hidden = gap / ledger.smallest_step
        if ledger.questions:  # what reverse mode leaves hidden is in the certificate too
            most = excused_beside(ledger, [max(hidden, size) for size in hidden_in(ledger)])
        else:
            most = excused(ledger, self._largest_entries())
        return Seen(tuple(hidden + allowed for allowed in most), MISS)

    def _largest_entries(self) -> list[float]:
        """About the largest entry of each input, where nothing is known of reverse mode: by signs, pushed forward."""
        ledger = self._ledger
        signs = np.copysign(1.0, ledger.investigation.draw(ledger.problem.inputs.size, 2))
        pushed = ledger.investigation.jvp(signs)
        largest = _CANCELLED * float(np.abs(pushed[np.isfinite(pushed)]).max(initial=0.0))
        return [largest if block.size else 0.0 for block in ledger.problem.inputs.blocks]

    def accusation(self) -> Accusation | None:
        """The output that is furthest from its bars, if any is beyond them."""
        bars = self._bars()
        with np.errstate(invalid="ignore"):
            excess = np.where(self._survey.bent, 0.0, self._gap() / bars)
        worst = int(np.argmax(np.nan_to_num(excess, nan=0.0)))
        if not excess[worst] > 1.0:
            return None
        difference, bar = abs(float(self._survey.value[worst] - self._pushed[worst])), float(bars[worst])
        stands = excess[worst] > CLEARLY and self._ledger.precise and not self._is_tolerable()
        return Accusation(difference, bar, bool(stands))

    def outcome(self) -> Outcome:
        """Every entry while that is affordable; else the wrong ones are located and judged."""
        ledger = self._ledger
        alike = self._as_in_reverse()
        if alike is not None:
            return alike
        largest = certified(ledger)
        ledger.tolerances.bound(largest)
        known = Known(self._survey, largest=largest)
        found = None if ledger.is_small else self._located()
        if ledger.is_affordable and (found is None or not found.judged[0].is_wrong):
            compared = accused_entries(ledger.investigation, ledger.options, self._against(), known)
            compared = compared or every_entry(ledger.investigation, ledger.options, (Mode.FORWARD,), known)
            return Outcome(compared.judged, [], compared.seen, nonlinear=not compared.judged and not self._is_linear())
        return found or Outcome([], ["the numerical error is too large for the tolerance"], self.seen())

    def _against(self) -> Against:
        with np.errstate(all="ignore"):
            clarity = self._gap() / self._ledger.stencil.noise
        clarity = np.where(self._survey.bent, 0.0, np.nan_to_num(clarity, nan=math.inf))
        return Against(Mode.FORWARD, self._survey, float(clarity.max(initial=0.0)))

    def _as_in_reverse(self) -> Outcome | None:
        """The entries that are wrong in reverse mode, where forward mode has them wrong too: nothing is measured again.

        None where one of them is right in forward mode.
        """
        ledger = self._ledger
        known = [each for each in ledger.wrong if each.located and (each.status == Status.WRONG.rank).all()]
        if not known or not all(np.isfinite(each.suspects.numeric).all() for each in known):
            return None
        found: list[Judged] = []
        for each in known:
            suspects = each.suspects.take(np.arange(len(each.suspects)))
            pairs = zip(suspects.rows.tolist(), suspects.columns.tolist(), strict=True)
            size = len(ledger.direction)
            units = {column: basis(slice(column, column + 1), size)[0] for column in set(suspects.columns.tolist())}
            pushed = {column: ledger.investigation.jvp(unit) for column, unit in units.items()}
            suspects.analytic[:] = [pushed[column][row] for row, column in pairs]
            difference, allowed = np.abs(suspects.analytic - suspects.numeric), suspects.tolerance + each.error
            if (difference <= allowed).any():
                return None
            suspects.excess[:] = np.nan_to_num(difference / allowed, nan=np.inf)
            found.append(replace(each, mode=Mode.FORWARD, suspects=suspects))
        return Outcome(found, [], self.seen())

    def _located(self) -> Outcome | None:
        """The wrong entries of outputs that differ by more than they may; None: there are no such outputs."""
        ledger = self._ledger
        accused = ~(self._gap() <= self._bars()) | ~np.isfinite(self._pushed)
        if not accused.any():
            return None
        most = _SEARCH if int(accused.sum()) > ledger.options.worst else _SEARCH_FEW
        suspects, judge = Suspects.accused(list(self._locate(accused, most))), Judge(ledger.stencil, ledger.tolerances)
        judged = judge.judge(Mode.FORWARD, suspects, located=True, witness=self._witness, most=most)
        return Outcome([judged], [], self.seen(), unexplained(judged, tolerable=self._is_tolerable()))

    def _witness(self, rows: Indices, columns: Indices) -> tuple[Vector, Vector]:
        """What entries are off by, if each explains by itself what its output differs by."""
        step = self._ledger.direction[columns]
        return (self._survey.value - self._pushed)[rows] / step, self._bars()[rows] / np.abs(step)

    def _is_linear(self) -> bool:
        ledger = self._ledger
        round_off = float((np.abs(ledger.direction) @ ledger.stencil.unresolvable) * ledger.stencil.noise.max())
        slack = ledger.options.nondet_tol + round_off + ledger.tolerances.dust_along(ledger.direction)
        return is_linear(ledger.investigation.jvp, ledger.direction, self._pushed, ledger.problem.coarsest_eps, slack)

    def _is_tolerable(self) -> bool:
        """Whether each output's difference may be the sum of many deviations, each within its tolerance."""
        tolerances = self._ledger.tolerances
        relative = (float(tolerances.rtol.min()) + tolerances.row_rtol) * np.abs(self._pushed)
        allowed = self._bars() + self._ledger.tolerable_sum(relative)
        return bool((self._gap() <= allowed).all())

    @property
    def _parts(self) -> Iterable[slice]:
        return parts(len(self._pushed))

    def _gap(self, outputs: slice = ALL) -> Vector:
        """How far apart the two are."""
        gap = self._survey.value[outputs] - self._pushed[outputs]
        return np.abs(gap, out=gap)

    def _bars(self, outputs: slice = ALL) -> Vector:
        """What they may be apart by error bars and round-off."""
        sizes = np.abs(self._pushed[outputs])
        sizes += np.abs(self._survey.value[outputs])
        sizes *= SUM_ROUND_OFF * self._ledger.problem.coarsest_eps
        sizes += CONFIDENCE * self._survey.error[outputs]
        return sizes

    def _is_within_bars(self) -> bool:
        """Whether nothing differs by more than error bars and round-off."""
        within = np.empty(len(self._pushed), dtype=np.bool_)
        with np.errstate(invalid="ignore"):
            for part in self._parts:
                bars = self._bars(part)
                within[part] = (self._gap(part) <= bars) & np.isfinite(bars)
        return bool(within.all()) or bool((within | self._agrees_with_reverse(exactly=True)).all())

    def _agrees(self) -> bool:
        """Whether nothing differs, and the bars are as narrow as they must be."""
        if math.isfinite(self._hides):
            return True
        if self._agreed is None or self._agreed[0] is not self._survey.value:
            self._agreed = self._survey.value, self._is_within_bars() and self._is_narrow()
        return self._agreed[1]

    def _is_narrow(self) -> bool:
        ledger, narrow = self._ledger, np.empty(len(self._pushed), dtype=np.bool_)
        if ledger.precise:
            wanted = ledger.wanted(self._survey, ledger.smallest_step)
            for part in self._parts:
                narrow[part] = self._bars(part) <= wanted[part]
            return bool(narrow.all()) or bool((narrow | self._agrees_with_reverse()).all())
        share = norm(self._pushed) / math.sqrt(len(self._pushed) * len(ledger.direction))
        return bool((self._bars() <= UNSEEN_SHARE * share).all())

    def _lacking(self) -> Flags:
        """The outputs that differ by more than they may, or whose bars are wider than they must be."""
        bars, ledger = self._bars(), self._ledger
        with np.errstate(invalid="ignore"):
            seen = (self._gap() <= bars) & (bars <= ledger.wanted(self._survey, ledger.smallest_step))
        return ~seen

    def _agrees_with_reverse(self, exactly: bool = False) -> Flags:
        """The outputs whose tangents follow from what was verified in reverse mode: its rows, or all of its answers.

        `exactly`: but for round-off, which is what it takes where a tangent is beyond its bars.

        Then <v, J u> = <J^T v, u> for every question that was answered, with no error bar: what the two differ by
        bounds what could hide in each output, as in the ledger.
        """
        ledger, agrees = self._ledger, self._agrees_with_rows()
        if not ledger.is_settled or not ledger.precise:
            return agrees
        hides = np.full(len(self._pushed), np.inf)
        for cotangent, pullback in ledger.questions:
            forward, forward_norm = products(cotangent, self._pushed)
            reverse, reverse_norm = products(ledger.direction, pullback)
            round_off = INNER_PRODUCT_ROUND_OFF * ledger.problem.coarsest_eps * (forward_norm + reverse_norm)
            if exactly and not abs(forward - reverse) <= reordered(ledger.problem.coarsest_eps) * (
                forward_norm + reverse_norm
            ):
                return agrees
            with np.errstate(divide="ignore"):
                np.fmin(hides, (abs(forward - reverse) + round_off) / np.abs(cotangent), out=hides)
        return agrees | (hides <= ledger.wanted(self._survey, ledger.smallest_step))

    def _excused_by_reverse(self) -> float:
        """What a tangent beyond its bars may be off by, at most, and still follow from the answers of reverse mode."""
        ledger = self._ledger
        if not ledger.is_settled or not ledger.precise:
            return 0.0
        excused = ledger.wanted(self._survey, ledger.smallest_step).copy()
        for cotangent, pullback in ledger.questions:
            norms = products(cotangent, self._pushed)[1] + products(ledger.direction, pullback)[1]
            with np.errstate(divide="ignore"):
                np.fmin(excused, reordered(ledger.problem.coarsest_eps) * norms / np.abs(cotangent), out=excused)
        return float(excused.max(initial=0.0))

    def _agrees_with_rows(self) -> Flags:
        """The outputs of which the row was verified in reverse mode, and whose tangents follow from it."""
        agrees = np.zeros(len(self._pushed), dtype=np.bool_)
        for output, row in self._ledger.seen_rows.items():
            slack = SUM_ROUND_OFF * self._ledger.problem.coarsest_eps * abs(row.value) + row.hides
            agrees[output] = abs(float(self._pushed[output]) - row.value) <= slack
        return agrees

    def _locate(self, accused: Flags, most: int) -> Iterator[tuple[int, int, float]]:
        """The worst input of each of the worst outputs, with the claims for it."""
        ledger, jvp = self._ledger, self._ledger.investigation.jvp
        before = ledger.investigation.cost.evaluations
        excess = np.where(accused, self._gap() / self._bars(), 0.0)
        for output in np.argsort(-excess)[: min(ledger.options.worst, int(accused.sum()))].tolist():

            def claim(part: Vector, run: slice, output: int = output) -> float:
                return float(jvp(part)[output])

            total = float(self._pushed[output])
            column = next(worst_columns(self._survey, output, ledger.rungs.base[-1], total, claim))
            for part in ledger.parts(column):
                along = basis(slice(part, part + 1), len(ledger.direction))[0]
                yield output, part, float(jvp(along)[output])
            if ledger.investigation.cost.evaluations - before > most:
                break
