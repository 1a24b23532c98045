"""The one judge: from entries that did not agree at first sight to statuses.

Whatever strategy came upon them, suspects are measured with the full ladder, worst first; what then looks wrong is
measured once more with other steps; and at kinks and jumps a valid subgradient is told from a wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gradproof.core.cost import BudgetExhausted
from gradproof.core.integral import size_around
from gradproof.core.kinks import Kinks, disproved
from gradproof.core.ladder import Estimate, contradicts
from gradproof.core.precision import CLEAR, DOUBLE, EVALUATION_ROUND_OFF, SHORTEST
from gradproof.core.problem import Mode
from gradproof.core.screened import Look, can_confirm
from gradproof.core.sides import COARSE, FINEST, from_both_sides
from gradproof.core.special import Special, first_row
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.suspects import Judged, Suspects, rank
from gradproof.core.ties import excuse_ties
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Flags, Indices, Matrix, Vector

# Elements measured at a time, and how many are measured once something is known to be wrong.
_BATCH, _ENOUGH = 16, 16
# Numbers that the points of one element may come to, for as many elements at a time.
_ROOM = 2**20
# The second ladder's steps, relative to the first's: noise on one is not the same noise on the other.
_STRETCH = 0.71
# Suspects kept for judgement; beyond this the worst stay.
_MOST = 2_000_000


class _Reading(NamedTuple):
    """What a ladder said of some outputs along some coordinates."""

    columns: Indices
    outputs: Indices
    estimate: Estimate

    def confirming(self, other: _Reading) -> _Reading:
        """This and what another reading, of more, said of the same."""
        rows, columns = np.searchsorted(other.columns, self.columns), np.searchsorted(other.outputs, self.outputs)
        where = np.ix_(rows, columns)
        same = Estimate(other.estimate.value[where], other.estimate.error[where], other.estimate.evaluations)
        return self._replace(estimate=same & self.estimate)

    def is_unsteady(self, suspects: Suspects, which: Indices) -> Flags:
        """For which suspects the ladder may have stepped over what the function does."""
        if self.estimate.unsteady is None:
            return np.zeros(len(which), dtype=np.bool_)
        at = np.searchsorted(self.columns, suspects.columns[which]), np.searchsorted(self.outputs, suspects.rows[which])
        return self.estimate.unsteady[at]


Witness = Callable[[Indices, Indices], tuple[Vector, Vector]]
"""By how much entries (outputs, inputs) differ, numeric from analytic, as was seen with other steps; and error bars."""


class Judge:
    """Measures suspects and judges them, by the tolerances of one Problem."""

    def __init__(self, stencil: Stencil, tolerances: Tolerances) -> None:
        self._stencil, self._tolerances = stencil, tolerances
        self._special = Special(stencil, tolerances)
        self._inputs = stencil.problem.inputs
        width = max(self._inputs.size, stencil.problem.outputs.size, 1)
        self._batch = max(1, min(_BATCH, _ROOM // width))

    def judge(
        self,
        mode: Mode,
        suspects: Suspects,
        *,
        located: bool = False,
        witness: Witness | None = None,
        most: float = math.inf,
    ) -> Judged:
        """Every suspect with its status; once something is wrong, only the worst are measured.

        Of those that a search led to (`located`), no more are measured then after `most` evaluations, and the others
        left out: nothing is known of them.

        With a fixed step there is no ladder, and what the one step says stands. A `witness` spares a second ladder,
        and rungs of the first, where it confirms what the first says.
        """
        if len(suspects) > _MOST:
            suspects = suspects.take(np.argpartition(suspects.excess, -_MOST)[-_MOST:])
        judged = Judged(
            mode, suspects, np.zeros(len(suspects)), rank(suspects.excess, np.zeros(1), np.ones(1)), {}, located
        )
        if not self._stencil.fixed:
            self._tolerances.learn_analytic(suspects.analytic, suspects.rows, suspects.columns)
            done = self._measure_within_budget(judged, witness, most)
            if most < math.inf and not done.all():
                judged = judged.take(np.flatnonzero(done))
            self._spare_valueless(judged)
        return judged

    def _spare_valueless(self, judged: Judged) -> None:
        """Of outputs that are no finite numbers at the point nothing is known: a claim that is one is not WRONG."""
        claim = judged.suspects.analytic
        unknown = ~np.isfinite(self._stencil.problem.value[judged.suspects.rows]) & np.isfinite(claim)
        judged.status[unknown], judged.error[unknown] = Status.INCONCLUSIVE.rank, np.nan

    def from_both_sides(self, mode: Mode, suspects: Suspects, element: int, rung: int) -> Judged | None:
        """Those of the suspects of one element that steps to both sides settle; of a complex one, or on waves, none."""
        here = suspects.take(np.flatnonzero(self._inputs.element_of(suspects.columns) == element))
        if len(np.unique(here.columns)) > 1:
            return None
        judged = from_both_sides(self._stencil, self._tolerances, mode, here, rung)
        if judged is not None and self._stencil.investigation.has_waves:
            wrong = judged.status == Status.WRONG.rank
            if self._special.waves(judged.suspects, np.abs(judged.suspects.numeric) + judged.error, wrong).any():
                return None
        return None if judged is None or self._is_at_ties(judged, judged.status == Status.WRONG.rank) else judged

    def _is_at_ties(self, judged: Judged, wrong: Flags) -> bool:
        """Whether the worst of what is wrong is a valid subgradient at ties: then more than one look is needed."""
        which = np.flatnonzero(wrong)
        worst = which[np.argsort(-judged.suspects.excess[which], kind="stable")][:1]
        return bool(excuse_ties(self._stencil, judged, worst))

    def confirm_worst(self, mode: Mode, suspects: Suspects, screened: Look) -> tuple[Judged, Judged] | None:
        """`confirm` for all of the worst elements; and the others, with what one step said of them."""
        element = self._inputs.element_of(suspects.columns)
        worst = np.isin(element, self.worst_first(suspects)[:_ENOUGH])
        known = self.confirm(mode, suspects.take(np.flatnonzero(worst)), screened)
        rest = suspects.take(np.flatnonzero(~worst))
        if known is None or known.located:
            return None
        return known, Judged(mode, rest, np.zeros(len(rest)), rank(rest.excess, np.zeros(1), np.ones(1)), {})

    def confirm(self, mode: Mode, suspects: Suspects, screened: Look) -> Judged | None:
        """The suspects, if another look confirms that some of them are wrong; None: it does not.

        Those of which it says nothing are left out.
        """
        suspects = suspects.take(np.arange(len(suspects)))
        rows = np.unique(suspects.rows)
        columns = self._inputs.parts_of(suspects.columns)
        judged = Judged(mode, suspects, np.zeros(len(suspects)), np.zeros(len(suspects), dtype=np.intp), {})
        self._tolerances.learn_analytic(suspects.analytic, suspects.rows, suspects.columns)
        reading = _Reading(columns, rows, screened.estimate(columns, rows))
        self._rejudge(judged, np.arange(len(suspects)), reading)
        with np.errstate(invalid="ignore"):
            sharp = judged.error <= CLEAR * np.abs(suspects.analytic - suspects.numeric)
        not_a_number = ~np.isfinite(suspects.analytic) & np.isfinite(suspects.numeric)
        wrong = (judged.status == Status.WRONG.rank) & (sharp | (not_a_number & np.isfinite(judged.error)))
        wrong &= ~self._special.waves(suspects, np.abs(suspects.numeric) + judged.error, wrong)
        if not wrong.any() or self._is_at_ties(judged, wrong):
            return None
        judged.status[~wrong] = Status.RIGHT.rank  # nothing is known against these
        told = np.isfinite(judged.error)
        return judged if told.all() else replace(judged.take(np.flatnonzero(told)), located=True)

    def _measure_within_budget(self, judged: Judged, witness: Witness | None, most: float) -> Flags:
        """If the budget ends, what was found to be wrong by then stays so; nothing is said of the others.

        Returns what was measured.
        """
        measured = np.zeros(len(judged.status), dtype=np.bool_)
        try:
            self._measure(judged, measured, witness, most)
        except BudgetExhausted:
            if not (judged.status[measured] == Status.WRONG.rank).any():
                raise
            judged.status[~measured] = Status.INCONCLUSIVE.rank
            judged.error[~measured] = np.inf
        return measured

    def _measure(self, judged: Judged, done: Flags, witness: Witness | None, most: float) -> None:
        """Batches of elements, worst first, until all are measured or enough are wrong. Marks what is `done`."""
        status, queue = judged.status, self.worst_first(judged.suspects)
        tied, measured, wrong = dict[int, tuple[float, float]](), 0, 0
        before, cost = self._stencil.investigation.cost.evaluations, self._stencil.investigation.cost
        while measured < len(queue) and not (wrong and (measured >= _ENOUGH or cost.evaluations - before > most)):
            # the more turned out not to be wrong, the more at a time: the first one that is may be enough
            batch = queue[measured : measured + (min(self._batch, max(1, measured)) if most == math.inf else 1)]
            which = np.flatnonzero(np.isin(self._inputs.element_of(judged.suspects.columns), batch))
            known, ordinary = witness is not None and self._confirm(judged, which, witness), which[:0]
            if not known and not (wrong and most < math.inf and self._is_wrong_by_sides(judged, which, FINEST)):
                ordinary = self._special.resolve(judged, self._climb_twice(judged, which, cheaply=most < math.inf))
            self._spare_flat(judged, which)
            doubtful = which[(status[which] > Status.KINK.rank) & ~np.isin(which, ordinary)]
            judged.sides.update(self._special.excuse_kinks(judged, self._look_closely(judged, doubtful)))
            self._special.spare_waves(judged, which)
            tied |= excuse_ties(self._stencil, judged, which)
            done[which] = True
            wrong += int((status[which] == Status.WRONG.rank).sum())
            measured += len(batch)
        judged.sides.update(tied)
        if not wrong:
            self._ask_jointly(judged, tied)

    def _climb_twice(self, judged: Judged, which: Indices, *, cheaply: bool) -> Indices:
        """The full ladder; and once more with other steps, for what looks wrong: `cheaply`, if two of these suffice.

        Returns those that the ladder has not settled.
        """
        first = self._climb(judged.suspects, which)
        self._rejudge(judged, which, first)
        doubtful, unsteady = which[judged.status[which] == Status.WRONG.rank], first.is_unsteady(judged.suspects, which)
        cheaply = cheaply and not unsteady.any()
        if len(doubtful) and not (
            cheaply and self._is_wrong_by_sides(judged, doubtful, self._clear_rung(judged, doubtful))
        ):
            second = self._climb(judged.suspects, doubtful, _STRETCH)
            self._rejudge(judged, doubtful, second.confirming(first))
        return which[unsteady]

    def _clear_rung(self, judged: Judged, which: Indices) -> int:
        """The finest rung on which round-off hides no more than a part of what some suspects are off by."""
        suspects, stencil = judged.suspects, self._stencil
        with np.errstate(all="ignore"):
            off = np.abs(suspects.analytic[which] - suspects.numeric[which]) * stencil.scale[suspects.columns[which]]
            told = float(np.nanmin(off / stencil.noise[suspects.rows[which]], initial=2.0 ** (FINEST + 6))) / 2.0**6
        return min(FINEST, max(COARSE, math.floor(math.log2(max(told, 1.0)))))

    def _is_wrong_by_sides(self, judged: Judged, which: Indices, rung: int) -> bool:
        """Whether some suspects of one element are all wrong as seen from both sides; what was not measured is then."""
        suspects, stencil = judged.suspects, self._stencil
        if not can_confirm(stencil.problem) or len(np.unique(suspects.columns[which])) > 1:
            return False
        found = from_both_sides(stencil, self._tolerances, judged.mode, suspects.take(which), rung)
        if found is None or len(found.suspects) < len(which) or (found.status != Status.WRONG.rank).any():
            return False
        if np.isfinite(suspects.numeric[which]).all():  # a ladder has seen them, and more sharply
            return bool((np.abs(found.suspects.numeric - suspects.numeric[which]) <= found.error).all())
        for name in ("numeric", "tolerance", "excess"):
            getattr(suspects, name)[which] = getattr(found.suspects, name)
        judged.status[which], judged.error[which] = found.status, found.error
        judged.sides.update({int(which[k]): sides for k, sides in found.sides.items()})
        return True

    def _spare_flat(self, judged: Judged, which: Indices) -> None:
        """In low precision, an output that does not move at all disproves no claim that cancellation may have hidden.

        So (1 + erf(x)) / 2, which is zero or the spacing of numbers near one.
        """
        problem, suspects, status = self._stencil.problem, judged.suspects, judged.status
        if problem.coarsest_eps <= DOUBLE or problem.evaluates_in is not None:
            return
        flat = which[(status[which] == Status.WRONG.rank) & (suspects.numeric[which] == 0)]
        if len(flat):
            rows, columns = suspects.rows[flat], suspects.columns[flat]
            moved = EVALUATION_ROUND_OFF * problem.outputs.eps * self._stencil.investigation.once(size_around)
            bar = moved[rows] * self._stencil.unresolvable[columns]
            hidden = np.abs(suspects.analytic[flat]) <= suspects.tolerance[flat] + bar
            status[flat[hidden]], judged.error[flat[hidden]] = Status.INCONCLUSIVE.rank, bar[hidden]

    def _confirm(self, judged: Judged, which: Indices, witness: Witness) -> bool:
        """Whether a brief ladder finds all of these to be wrong, and a witness says of each that it is, by as much."""
        suspects = judged.suspects
        reading = self._climb(suspects, which, brief=True)
        self._rejudge(judged, which, reading)
        if reading.is_unsteady(suspects, which).any() or not (judged.status[which] == Status.WRONG.rank).all():
            return False
        difference = suspects.numeric[which] - suspects.analytic[which]
        seen, bar = witness(suspects.rows[which], suspects.columns[which])
        with np.errstate(invalid="ignore"):
            agrees = np.abs(difference - seen) <= bar + judged.error[which]
            wrong = np.abs(seen) > bar + suspects.tolerance[which]
        return bool((agrees & wrong).all())

    def _ask_jointly(self, judged: Judged, tied: Container[int]) -> None:
        """Entries at kinks that are valid one by one, but not together, are WRONG. Of ties that was asked before."""
        suspects, sides = judged.suspects, judged.sides
        kinks = [k for k in sides if judged.status[k] == Status.KINK.rank and k not in tied]
        which = np.array(kinks, dtype=np.intp)
        if len(which) > 1:
            left, right = (np.array([sides[int(k)][side] for k in which]) for side in range(2))
            kinks = Kinks(
                suspects.rows[which],
                suspects.columns[which],
                suspects.analytic[which],
                left,
                right,
                suspects.tolerance[which],
            )
            judged.status[which[disproved(self._stencil, kinks)]] = Status.WRONG.rank

    def worst_first(self, suspects: Suspects) -> Indices:
        """The elements of the inputs that suspects belong to."""
        queue, which = np.unique(self._inputs.element_of(suspects.columns), return_inverse=True)
        worst = np.zeros(len(queue))
        np.maximum.at(worst, which, suspects.excess)
        return queue[np.argsort(-worst, kind="stable")]

    def _climb(self, suspects: Suspects, which: Indices, stretch: float = 1.0, *, brief: bool = False) -> _Reading:
        """The full ladder along the elements of some suspects: both parts of a complex one, which share its modulus."""
        columns = self._inputs.parts_of(suspects.columns[which])
        outputs = np.unique(suspects.rows[which])
        sharp = self._tolerances.sharpness(columns, outputs)
        estimate = self._stencil.measure(columns.tolist(), sharp, outputs, stretch, brief=brief)
        return _Reading(columns, outputs, estimate)

    def _rejudge(self, judged: Judged, which: Indices, reading: _Reading) -> None:
        """Replace the first-sight values of some suspects by the ladder's, and judge them."""
        suspects, tolerances, estimate = judged.suspects, self._tolerances, reading.estimate
        at = (
            np.searchsorted(reading.columns, suspects.columns[which]),
            np.searchsorted(reading.outputs, suspects.rows[which]),
        )
        rows, at_column = suspects.rows[which], suspects.columns[which]
        analytic = np.array(estimate.value)
        analytic[at] = suspects.analytic[which]
        numeric = suspects.numeric[which] = estimate.value[at]
        tolerances.learn_numeric(numeric, rows, at_column)
        element = self._inputs.element_of(reading.columns)
        with np.errstate(all="ignore"):
            size = _modulus(estimate.value, element)[at]
            bar = _modulus(estimate.error, element)[at]
            difference = _modulus(analytic - estimate.value, element)[at]
            tolerance = tolerances.of(size, rows, at_column, bar)
            own = np.abs(suspects.analytic[which] - numeric)
            suspects.tolerance[which], judged.error[which] = tolerance, bar
            judged.status[which] = rank(difference, bar, tolerance, tolerances.widest_bar(rows, at_column))
            # of what cannot be judged, that which differs most comes first
            unsure = judged.status[which] == Status.INCONCLUSIVE.rank
            suspects.excess[which] = np.nan_to_num(own / np.where(unsure, tolerance, tolerance + bar), nan=np.inf)

    def _look_closely(self, judged: Judged, which: Indices) -> Indices:
        """Look at suspects with steps of the coordinate's own size where all others straddle zero.

        What these cannot exclude is not called WRONG, if the function is not smooth across zero. Returns those that
        they do not see to be wrong: a kink at zero, which longer steps see, is no excuse for the others.
        """
        suspects, status = judged.suspects, judged.status
        seen = np.zeros(len(which), dtype=bool)
        columns = suspects.columns[which]
        for column in np.unique(columns[self._stencil.tiny[columns]]):
            here = which[columns == column]
            rows = suspects.rows[here]
            if self._stencil.problem.noise is not None or self._stencil.problem.coarsest_eps > DOUBLE:
                self._acquit_still(judged, int(column), here)
            near = first_row(self._stencil.near(int(column), rows))
            with np.errstate(all="ignore"):
                off = np.abs(suspects.analytic[here] - near.value)
                excess = off - suspects.tolerance[here]
                blurred = ~(excess > near.error) & (status[here] == Status.WRONG.rank)
                blurred &= self._stencil.is_rough(int(column), rows)
                clear = (excess > near.error) & (near.error <= CLEAR * off)
                seen[columns == column] = clear & ~self._stencil.bends_near(int(column), rows)
                wider = np.fmax(near.error, np.abs(suspects.analytic[here] - suspects.numeric[here]))
            judged.error[here[blurred]] = wider[blurred]
            status[here[blurred]] = Status.INCONCLUSIVE.rank
        self._spare_buried(judged, which)
        return which[~seen & (status[which] != Status.RIGHT.rank)]

    def _acquit_still(self, judged: Judged, column: int, which: Indices) -> None:
        """Believe steps of a tiny coordinate's own size that contradict longer ones, where they show no noise.

        Noise is measured for whole arrays. An output that does not have it shows by quotients that do not scatter; what
        agrees with these is RIGHT, though steps that straddle zero say otherwise. 1/x over many magnitudes is such.
        One that stands still may be between two lines of a grid, unless longer steps see a kink: -1e-9 of a relu.
        """
        suspects, status = judged.suspects, judged.status
        wrong = which[status[which] == Status.WRONG.rank]
        if not len(wrong):
            return
        near = first_row(self._stencil.near(column, suspects.rows[wrong], still=True))
        seen = contradicts(near.value, near.error, suspects.numeric[wrong], judged.error[wrong])
        seen &= np.abs(suspects.analytic[wrong] - near.value) <= suspects.tolerance[wrong] + near.error
        if (seen & (near.value == 0)).any():
            seen &= (near.value != 0) | self._stencil.is_rough(column, suspects.rows[wrong])
        right = wrong[seen]
        suspects.numeric[right], judged.error[right] = near.value[seen], near.error[seen]
        status[right] = Status.RIGHT.rank

    def _spare_buried(self, judged: Judged, which: Indices) -> None:
        """Of coordinates too small for a step of their own size nothing is WRONG that happens within a longer one."""
        suspects, status = judged.suspects, judged.status
        columns = suspects.columns[which]
        for column in np.unique(columns[self._stencil.buried[columns]]):
            here = which[(columns == column) & (status[which] == Status.WRONG.rank)]
            rough = self._stencil.is_rough(int(column), suspects.rows[here]) | (self._stencil.scale[column] <= SHORTEST)
            status[here[rough]], judged.error[here[rough]] = Status.INCONCLUSIVE.rank, np.inf


def _modulus(values: Matrix, element: Indices) -> Matrix:
    """The size of each row's entries; rows of the same element are the parts of one number."""
    _, group = np.unique(element, return_inverse=True)
    if len(values) == group.max(initial=-1) + 1:
        return np.abs(values)
    squares = np.zeros((group.max() + 1, values.shape[1]))
    np.add.at(squares, group, np.square(values))
    return np.sqrt(squares)[group]
