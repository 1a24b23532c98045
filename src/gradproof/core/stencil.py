"""Numerical derivatives that know how wrong they may be.

A column of the Jacobian comes from central differences. `Stencil.screen` takes one step per column, of a size
that balances truncation against round-off: cheap, good to about 1e-10 in float64, and enough to agree with a
right derivative. What does not agree is an accusation, not a verdict, and goes to `Stencil.measure`, which climbs
a ladder of steps and returns an `Estimate`: a value and an error bar for every output.

All sizes come from the dtype (the blocks' `eps`) and from the point: in float32 the steps are larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradproof.core.ladder import (
    Climb,
    Estimate,
    Tolerance,
    contradicts,
    deep_steps,
    drifts,
    ends,
    extrapolate,
    relative_steps,
    rungs,
    settle,
    unsteady,
)
from gradproof.core.precision import (
    BEND,
    DOUBLE,
    EVALUATION_ROUND_OFF,
    OWN_SIZE,
    ROUGH,
    SHORTEST,
    UNLIKE_ROUND_OFF,
)
from gradproof.core.quotients import Quotients
from gradproof.core.types import ALL, Flags, Indices, Matrix, Vector

# A length is short if it is less than this part of the scale; a step should be this many numbers long.
_SHORT, _FEW = 0.125, 16.0
# Rungs of a one-sided ladder along a direction: at a kink the sides are nearly straight.
_SIDE_RUNGS = 4


class Stencil(Quotients):
    """Numerical derivatives of one Problem, with their error bars."""

    def measure(
        self,
        columns: Sequence[int],
        tolerance: Tolerance,
        outputs: Indices | None = None,
        stretch: float = 1.0,
        *,
        brief: bool = False,
    ) -> Estimate:
        """The derivative along each column by the full ladder; if it may be `brief`, by fewer rungs if they suffice.

        Where an error bar exceeds `tolerance(value)`, or the function refuses the steps (its domain is narrow, or
        ends here), or all steps are longer than what it does here, other scales are tried, and where there is no value
        at all, one side only. `outputs` picks some, `stretch` makes all steps longer.
        """
        rows_of = ALL if outputs is None else outputs
        before = self.investigation.cost.evaluations
        index = np.asarray(columns, dtype=np.intp)
        reachable = np.isfinite(self.problem.value[rows_of])
        value = np.full((len(index), len(reachable)), np.nan)
        error, drifting = np.full_like(value, np.inf), np.zeros(value.shape, dtype=np.bool_)
        doubtful = np.zeros(value.shape, dtype=np.bool_)
        for climb in self._climbs(index, brief=brief):
            with np.errstate(invalid="ignore"):
                open_ = ~np.isfinite(value) if climb.last_resort else ~(error <= tolerance(value))
            open_ = drifting | ~np.isfinite(value) if climb.deep else open_ | (drifting & (not climb.last_resort))
            if climb.near:
                open_ |= self.tiny[index][:, None]
            missing = np.flatnonzero((open_ & reachable).any(axis=1))
            if climb.short and len(missing):
                climb, missing = self._shortened(climb, index, missing, rows_of)
            for eps in np.unique(self.eps[index[missing]]):
                rows = missing[self.eps[index[missing]] == eps]
                ladder = self._quotients(climb, index[rows], float(eps), rows_of, stretch)
                new_value, new_error, runs_away = self._settled(climb, index[rows], float(eps), rows_of, ladder)
                if climb.scale is self.scale and eps <= DOUBLE:  # what is looked at is there whatever other steps say
                    doubtful[rows] = runs_away | unsteady(*ladder, climb.order, new_value, new_error)
                better = ~(new_error >= error[rows])
                if climb.short or climb.near or climb.deep:  # it was nearer
                    better |= contradicts(new_value, new_error, value[rows], error[rows])
                better |= drifting[rows] & ~runs_away & np.isfinite(new_error)
                better &= open_[rows] & ~(runs_away & ~drifting[rows] & np.isfinite(error[rows]))
                value[rows] = np.where(better, new_value, value[rows])
                error[rows] = np.where(better, new_error, error[rows])
                drifting[rows] = np.where(better, runs_away, drifting[rows])
        if self.refusal is not None and not np.isfinite(value[:, reachable]).all():
            raise self.refusal
        error[drifting] = np.inf
        return Estimate(value, error, self.investigation.cost.evaluations - before, doubtful)

    def bars(self, columns: Indices) -> Matrix:
        """The error bars of the full ladder along some columns, one row each, of all outputs."""
        climb = Climb(self._central, self.scale, order=2)
        return np.concatenate(
            [self._measure(climb, columns[k : k + 1], float(self.eps[columns[k]]), ALL)[1] for k in range(len(columns))]
        )

    def near(self, column: int, outputs: Indices, *, still: bool = False) -> Estimate:
        """The derivative along a coordinate with steps no longer than itself, whatever longer ones say.

        `still` reckons with no noise but the round-off of each output: where there is more, the quotients scatter.
        """
        before = self.investigation.cost.evaluations
        climb = Climb(self._central, np.abs(self.problem.point), order=2, near=True, still=still)
        index = np.array([column], dtype=np.intp)
        value, error, runs_away = self._measure(climb, index, float(self.eps[column]), outputs)
        error[runs_away] = np.inf
        return Estimate(value, error, self.investigation.cost.evaluations - before)

    def bends(self, column: int, outputs: Indices) -> bool:
        """Whether any of these outputs may have a kink or a jump along this coordinate: a cheap look before `sides`."""
        return bool(self._bent(column, float(self.scale[column]), self.noise[outputs], outputs).any())

    def bends_near(self, column: int, outputs: Indices) -> Flags:
        """Which of these outputs may do so within the coordinate's own size."""
        return self._bent(column, float(abs(self.problem.point[column])), self.own_noise[outputs], outputs)

    def _bent(self, column: int, scale: float, noise: Vector, outputs: Indices) -> Flags:
        (coarse, fine), (wide, narrow), ratio = self._both_parts(column, scale, outputs)
        with np.errstate(all="ignore"):
            smooth = (fine <= 0.5 * ratio * coarse) | (fine <= BEND * noise)
            # of a jump that is symmetric about F at the point, the difference across it does not shrink with the step
            return ~(smooth & ((narrow <= 0.5 * wide) | (narrow <= BEND * noise)))

    def is_rough(self, column: int, outputs: Indices) -> Flags:
        """Along which of these outputs differences across the point do not shrink with the step as smooth ones do."""
        (coarse, fine), (wide, narrow), ratio = self._both_parts(column, float(self.scale[column]), outputs)
        floor = BEND * self.noise[outputs]
        with np.errstate(all="ignore"):
            # where the function leaves its domain, nothing shrinks
            even = (fine <= ROUGH * ratio**2 * coarse) | (fine <= floor)
            return ~(even & ((narrow <= ROUGH * ratio * wide) | (narrow <= floor)))

    def _both_parts(self, column: int, scale: float, outputs: Indices) -> tuple[Matrix, Matrix, float]:
        """The second differences and the differences across the point, of a coarse and a fine step; their ratio."""
        steps = [scale * step for step in ends(relative_steps(float(self.eps[column])))]
        index = np.full(4, column, dtype=np.intp)
        values, _ = self.moved(index, np.array([steps[0], -steps[0], steps[1], -steps[1]]), outputs)
        with np.errstate(all="ignore"):
            second = values[0::2] + values[1::2] - 2.0 * self.problem.value[outputs]
            return np.abs(second), np.abs(values[0::2] - values[1::2]), steps[1] / steps[0]

    def sides(self, columns: Sequence[int], outputs: Indices | None = None) -> tuple[Estimate, Estimate]:
        """The derivatives of each side by itself, left and right: F at the point plays no part, so jumps do not."""
        index = np.asarray(columns, dtype=np.intp)
        found: list[Estimate] = []
        for sign in (-1.0, 1.0):
            before = self.investigation.cost.evaluations
            climb = Climb(self._beside, sign * self.scale, order=1)
            parts = [
                self._measure(climb, index[k : k + 1], float(self.eps[index[k]]), ALL if outputs is None else outputs)
                for k in range(len(index))
            ]
            value, error, runs_away = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            error[runs_away.astype(np.bool_)] = np.inf
            found.append(Estimate(value, error, self.investigation.cost.evaluations - before))
        return found[0], found[1]

    def sides_along(self, direction: Vector, outputs: Indices, *, brief: bool) -> tuple[Estimate, Estimate]:
        """The derivatives along a direction of each side by itself, left and right; if `brief`, by the coarse rungs."""
        before = self.investigation.cost.evaluations
        sizes = relative_steps(float(self.eps[direction != 0].max()))[: _SIDE_RUNGS if brief else None]
        floors = np.stack([self.noise[outputs][None, :] / size for size in sizes])
        found: list[Estimate] = []
        for sign in (-1.0, 1.0):
            values = np.stack([self._beside_along(direction, sign * size, outputs) for size in sizes])
            value, error = settle(values, floors, sizes, order=1)
            found.append(Estimate(value, error, self.investigation.cost.evaluations - before))
        return found[0], found[1]

    def _beside_along(self, direction: Vector, step: float, outputs: Indices) -> Matrix:
        far, near = self.attempt(self._shifted(direction, (2.0 * step, step)), ALL, outputs)
        with np.errstate(all="ignore"):
            return ((far - near) / step)[None, :]

    def _climbs(self, index: Indices, *, brief: bool) -> Iterator[Climb]:
        """Ways to climb the ladder along some columns, from the best to the most modest."""

        def only(scale: Vector) -> Vector:
            """The scales of these columns among all: of many, the others take no memory."""
            everywhere = np.zeros(len(self.scale))
            everywhere[index] = scale
            return everywhere

        if brief:
            yield Climb(self._central, self.scale, order=2, brief=True)
        own, usual = np.abs(self.problem.point[index]), self.scale[index]
        own[(own == 0) | ~np.isfinite(own)] = 1.0
        tight = np.minimum(np.maximum(own, SHORTEST), usual)
        yield Climb(self._central, self.scale, order=2)
        if self.problem.noise is None:  # in noise that was measured, shorter steps see nothing
            yield Climb(self._central, only(tight), order=2, near=True)
            yield Climb(self._central, only(np.minimum(1.0, usual)), order=2)  # sin(x) at x = 1e6 varies over 1
            yield Climb(self._central, self.scale, order=2, short=True)  # sin(1e7 x) at x = 1
        yield Climb(self._central, only(2.0**-13 * tight), order=2, last_resort=True)  # arcsin(x) at x = 1 - 1e-8
        yield Climb(self._central, only(np.exp2(np.floor(np.log2(tight)))), order=2, deep=True)  # at 1 - 1e-12
        yield Climb(self._one_sided, only(tight), order=1, last_resort=True)
        yield Climb(self._one_sided, only(-tight), order=1, last_resort=True)

    def _shortened(
        self, climb: Climb, index: Indices, missing: Indices, outputs: slice | Indices
    ) -> tuple[Climb, Indices]:
        """A climb with steps as long as the function takes to change by its own size; and for which columns.

        That is, for those along which it changes that fast. No step is shorter than a few of the numbers that the
        coordinate can be stored in.
        """
        columns = index[missing]
        finest = 2.0 ** -np.array([rungs(float(eps))[-1] for eps in self.eps[columns]])
        steps = [stretch * self.scale[columns] * finest for stretch in (1.0, 3.3)]  # where one is a whole wave long
        size = self.problem.outputs.typical(self.problem.value)[outputs]
        with np.errstate(all="ignore"):
            steepness = np.abs([self._central(columns, step, outputs) for step in steps]) / size
            length = 1.0 / np.max(steepness, axis=(0, 2), initial=0.0, where=np.isfinite(steepness))
            length = np.maximum(length, _FEW * self.eps[columns] / finest * np.abs(self.problem.point[columns]))
        short = length < _SHORT * self.scale[columns]
        scale = climb.scale.copy()
        scale[columns[short]] = length[short]
        return replace(climb, scale=scale), missing[short]

    def finely(self, columns: Indices, rung: int, outputs: Indices) -> tuple[Matrix, Vector]:
        """The slopes along some columns by one step on a rung, from the point on; and the steps."""
        step = 2.0**-rung * self.scale[columns]
        return self._one_sided(columns, step, outputs), step

    def slope(self, column: int, output: int, size: float) -> float:
        """One entry by one central difference, with a step of this size in units of the coordinate's scale."""
        index, picked = np.array([column], dtype=np.intp), np.array([output], dtype=np.intp)
        return float(self._central(index, size * self.scale[index], picked)[0, 0])

    def ladder(self, column: int, output: int, *, brief: bool) -> tuple[Vector, Vector, Vector]:
        """The rungs of one entry, coarse to fine: steps, extrapolated values, error bars."""
        index, climb = np.array([column], dtype=np.intp), Climb(self._central, self.scale, order=2, brief=brief)
        picked = np.array([output], dtype=np.intp)
        values, floors, sizes = self._quotients(climb, index, float(self.eps[column]), picked)
        limits, errors = extrapolate(values, floors, sizes, climb.order)
        return self.scale[column] * np.array(sizes[1:]), limits[:, 0, 0], errors[:, 0, 0]

    def _measure(
        self, climb: Climb, index: Indices, eps: float, outputs: slice | Indices, stretch: float = 1.0
    ) -> tuple[Matrix, Matrix, Flags]:
        """Values, error bars, and where these mean nothing because all steps are longer than what the function does."""
        return self._settled(climb, index, eps, outputs, self._quotients(climb, index, eps, outputs, stretch))

    def _settled(
        self,
        climb: Climb,
        index: Indices,
        eps: float,
        outputs: slice | Indices,
        ladder: tuple[Matrix, Matrix, list[float]],
    ) -> tuple[Matrix, Matrix, Flags]:
        values, floors, sizes = ladder
        value, error = settle(values, floors, sizes, climb.order)
        if climb.deep:  # a function that does not move by so little may be a staircase
            error[(values == 0).sum(axis=0) > 1] = np.inf
        least = np.maximum(OWN_SIZE * np.abs(self.problem.value[outputs]), UNLIKE_ROUND_OFF * self.noise[outputs])
        least *= not climb.last_resort or climb.order > 1
        if eps > DOUBLE:  # in low precision, waves as short as the steps are ordinary, and so is their round-off
            return value, error, np.zeros(value.shape, dtype=np.bool_)
        with np.errstate(all="ignore"):
            return value, error, drifts(values, floors, least / np.abs(climb.scale[index, None] * sizes[-1]))

    def _quotients(
        self, climb: Climb, index: Indices, eps: float, outputs: slice | Indices, stretch: float = 1.0
    ) -> tuple[Matrix, Matrix, list[float]]:
        """The difference quotients of each rung, their round-off, and the rungs' relative steps."""
        sizes = deep_steps(eps) if climb.deep else [stretch * size for size in relative_steps(eps, brief=climb.brief)]
        steps = [climb.scale[index] * size for size in sizes]
        values = np.stack([climb.quotient(index, step, outputs) for step in steps])
        noise = self.round_off if climb.still else self.own_noise if climb.near or climb.deep else self.noise
        with np.errstate(all="ignore"):
            floors = np.stack([np.outer(1.0 / np.abs(step), noise[outputs]) for step in steps])
            if climb.near:  # where nothing moved, the steps may be too short for the numbers inside the function
                still = np.stack([np.outer(1.0 / np.abs(step), self.noise[outputs]) for step in steps])
                floors = np.where((values == 0).all(axis=0), still, floors)
            if climb.short:  # what a steep function makes of the round-off of its argument
                argument = EVALUATION_ROUND_OFF * eps * np.abs(self.problem.point[index])[:, None]
                steepest = np.max(np.abs(values), axis=0, initial=0.0, where=np.isfinite(values))
                floors += np.stack([argument * steepest / step[:, None] for step in steps])
        return values, floors, sizes
