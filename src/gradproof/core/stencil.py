"""Numerical derivatives that know how wrong they may be.

A column of the Jacobian comes from central differences. `Stencil.screen` takes one step per column, of a size
that balances truncation against round-off: cheap, good to about 1e-10 in float64, and enough to agree with a
right derivative. What does not agree is an accusation, not a verdict, and goes to `Stencil.measure`, which climbs
a ladder of steps and returns an `Estimate`: a value and an error bar for every output.

All sizes come from the dtype (the blocks' `eps`) and from the point: in float32 the steps are larger.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradproof.core.investigation import ALL, Investigation
from gradproof.core.ladder import Climb, Estimate, Tolerance, contradicts, extrapolate, relative_steps, rungs, settle
from gradproof.core.precision import (
    BEND,
    DOUBLE,
    EVALUATION_ROUND_OFF,
    HALF_OR_LESS,
    ROUGH,
    SHORTEST,
    least_spacing,
)
from gradproof.core.problem import OutputChangedError, Problem
from gradproof.core.types import Flags, Indices, Matrix, Vector

# A length is short if it is less than this part of the scale; a step should be this many numbers long.
_SHORT, _FEW = 0.125, 16.0
# Rungs of a one-sided ladder along a direction: at a kink the sides are nearly straight.
_SIDE_RUNGS = 4


class Stencil:
    """Difference quotients of one Problem along its coordinates."""

    def __init__(self, investigation: Investigation, step: float | None = None) -> None:
        """`step` fixes the step in every coordinate; None chooses it."""
        self.investigation = investigation
        self.problem = problem = investigation.problem
        self.fixed = step is not None
        inputs, outputs, eps = problem.inputs, problem.outputs, problem.evaluates_in or _only(problem)
        self.scale = investigation.scale
        low = problem.evaluates_in is None and problem.outputs.finest_eps > DOUBLE
        half = (problem.evaluates_in or problem.coarsest_eps) > HALF_OR_LESS
        if half or problem.noise is not None:  # smaller steps drown in round-off
            self.scale = np.maximum(self.scale, inputs.typical(problem.point, least=1.0))
        self.noise = outputs.typical(problem.value)
        if eps is None:
            self.eps = np.maximum(inputs.eps, outputs.coarsest_eps)
            self.noise *= EVALUATION_ROUND_OFF * np.maximum(outputs.eps, inputs.finest_eps)
        else:
            self.eps = np.full(inputs.size, eps)
            self.noise *= EVALUATION_ROUND_OFF * eps
        if low:
            np.maximum(self.noise, EVALUATION_ROUND_OFF * least_spacing(problem.outputs.finest_eps), out=self.noise)
        if problem.noise is not None:
            self.noise = problem.noise
        if step is not None:
            self.step = np.full(inputs.size, float(step))
        else:
            self.step = self.scale * (np.cbrt(self.eps) if eps is None else math.cbrt(eps))
        self.refusal: Exception | None = None

    def _round(self, rows: Matrix, run: slice = ALL) -> None:
        if self.problem.evaluates_in is None:
            self.problem.inputs.round_in_place(rows, run)

    def screen(self, columns: slice) -> Matrix:
        """One central difference per column: J^T restricted to `columns`, one row each."""
        count, step = columns.stop - columns.start, self.step[columns]
        rows = np.empty((2 * count, count))
        rows[:] = self.problem.point[columns]
        above, below = (half.reshape(-1)[:: count + 1] for half in (rows[:count], rows[count:]))
        above += step
        below -= step
        self._round(rows, columns)
        values = self.attempt(rows, columns)
        with np.errstate(all="ignore"):
            return (values[:count] - values[count:]) / _width(above - below, 2.0 * step)[:, None]

    def along(self, direction: Vector, rung: int) -> tuple[Vector, Vector]:
        """The central difference along a direction with step 2**-rung, and how far the two sides bend: second/step."""
        step = 2.0**-rung
        shift, points = step * direction, np.empty((2, len(direction)))
        np.add(self.problem.point, shift, out=points[0])
        np.subtract(self.problem.point, shift, out=points[1])
        self._round(points)
        above, below = self.attempt(points)
        with np.errstate(all="ignore"):
            across, bend = above - below, above + below
            across /= 2.0 * step
            bend -= 2.0 * self.problem.value
            bend /= step
        return across, bend

    def floor(self, rows: slice, columns: slice) -> tuple[Vector, Vector]:
        """Round-off of the screening values of these outputs and inputs, as the outer product of two vectors."""
        return self.noise[rows], (0.0 if self.fixed else 1.0) / self.step[columns]

    @functools.cached_property
    def tiny(self) -> Flags:
        """Which coordinates are shorter than the longest step along them, zeros apart: it straddles what is at zero."""
        own = np.abs(self.problem.point)
        longest = self.scale * 2.0 ** -rungs(float(self.eps.max(initial=DOUBLE)))[0]
        return (own >= SHORTEST) & (own < longest) if not self.fixed else np.zeros(len(own), dtype=bool)

    @functools.cached_property
    def buried(self) -> Flags:
        """Which coordinates are so small, zeros apart, that no step of their own size can be taken."""
        own = np.abs(self.problem.point)
        return (own > 0) & (own < SHORTEST)

    @functools.cached_property
    def own_noise(self) -> Vector:
        """`noise` of outputs that owe nothing to larger ones beside them; where they do, the ladder shows it."""
        if self.problem.noise is not None:  # it was measured
            return self.noise
        typical = self.problem.outputs.typical(self.problem.value)
        with np.errstate(all="ignore"):
            return self.noise * np.fmin(np.abs(self.problem.value) / typical, 1.0)

    def screen_tiny(self, index: Indices) -> tuple[Matrix, Matrix]:
        """One central difference for each of some tiny coordinates with a step of its own size, and its round-off."""
        step = np.abs(self.problem.point[index]) * np.cbrt(self.eps[index])
        with np.errstate(all="ignore"):
            return self._central(index, step, ALL), np.multiply.outer(1.0 / step, self.own_noise)

    @functools.cached_property
    def unresolvable(self) -> Vector:
        """Per input: 1 / its largest step. Times `noise`, what this precision cannot see with any step."""
        reach = 1.0 / self.scale
        for block in self.problem.inputs.blocks:
            if block.size:
                reach[block.slice] *= 2.0 ** rungs(float(self.eps[block.start]))[0]
        return reach

    def measure(
        self, columns: Sequence[int], tolerance: Tolerance, outputs: Indices | None = None, stretch: float = 1.0
    ) -> Estimate:
        """The derivative along each column by the full ladder.

        Where an error bar exceeds `tolerance(value)`, or the function refuses the steps (its domain is narrow, or
        ends here), other scales are tried, and where there is no value at all, one side only. `outputs` picks some,
        `stretch` makes all steps longer.
        """
        rows_of = _all_or(outputs)
        before = self.investigation.cost.evaluations
        index = np.asarray(columns, dtype=np.intp)
        reachable = np.isfinite(self.problem.value[rows_of])
        value = np.full((len(index), len(reachable)), np.nan)
        error = np.full_like(value, np.inf)
        for climb in self._climbs():
            with np.errstate(invalid="ignore"):
                open_ = ~np.isfinite(value) if climb.last_resort else ~(error <= tolerance(value))
            if climb.near:
                open_ |= self.tiny[index][:, None]
            missing = np.flatnonzero((open_ & reachable).any(axis=1))
            if climb.short and len(missing):
                climb, missing = self._shortened(climb, index, missing, rows_of)
            for eps in np.unique(self.eps[index[missing]]):
                rows = missing[self.eps[index[missing]] == eps]
                new_value, new_error = self._measure(climb, index[rows], float(eps), rows_of, stretch)
                better = ~(new_error >= error[rows])
                if climb.short or climb.near:  # it was nearer
                    better |= contradicts(new_value, new_error, value[rows], error[rows])
                better &= open_[rows]
                value[rows] = np.where(better, new_value, value[rows])
                error[rows] = np.where(better, new_error, error[rows])
        if self.refusal is not None and not np.isfinite(value[:, reachable]).all():
            raise self.refusal
        return Estimate(value, error, self.investigation.cost.evaluations - before)

    def near(self, column: int, outputs: Indices) -> Estimate:
        """The derivative along a coordinate with steps no longer than itself, whatever longer ones say."""
        before = self.investigation.cost.evaluations
        climb = Climb(self._central, np.abs(self.problem.point), order=2, near=True)
        index = np.array([column], dtype=np.intp)
        value, error = self._measure(climb, index, float(self.eps[column]), outputs)
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
            even = (fine > ROUGH * ratio**2 * coarse) & (fine > floor)
            return even | ((narrow > ROUGH * ratio * wide) & (narrow > floor))

    def _both_parts(self, column: int, scale: float, outputs: Indices) -> tuple[Matrix, Matrix, float]:
        """The second differences and the differences across the point, of a coarse and a fine step; their ratio."""
        steps = [scale * 2.0**-rung for rung in _ends(rungs(float(self.eps[column])))]
        index = np.full(4, column, dtype=np.intp)
        points, _ = self._displaced(index, np.array([steps[0], -steps[0], steps[1], -steps[1]]))
        values = self.attempt(points, ALL, outputs)
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
                self._measure(climb, index[k : k + 1], float(self.eps[index[k]]), _all_or(outputs))
                for k in range(len(index))
            ]
            value, error = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            found.append(Estimate(value, error, self.investigation.cost.evaluations - before))
        return found[0], found[1]

    def sides_along(self, direction: Vector, outputs: Indices) -> tuple[Estimate, Estimate]:
        """The derivatives along a direction of each side by itself, left and right."""
        before = self.investigation.cost.evaluations
        sizes = relative_steps(float(self.eps[direction != 0].max()))[:_SIDE_RUNGS]
        floors = np.stack([self.noise[outputs][None, :] / size for size in sizes])
        found: list[Estimate] = []
        for sign in (-1.0, 1.0):
            values = np.stack([self._beside_along(direction, sign * size, outputs) for size in sizes])
            value, error = settle(values, floors, sizes, order=1)
            found.append(Estimate(value, error, self.investigation.cost.evaluations - before))
        return found[0], found[1]

    def _beside_along(self, direction: Vector, step: float, outputs: Indices) -> Matrix:
        points = self.problem.point + np.multiply.outer([2.0 * step, step], direction)
        self._round(points)
        far, near = self.attempt(points, ALL, outputs)
        with np.errstate(all="ignore"):
            return ((far - near) / step)[None, :]

    def _climbs(self) -> Iterator[Climb]:
        """Ways to climb the ladder, from the best to the most modest."""
        own = np.abs(self.problem.point)
        own[(own == 0) | ~np.isfinite(own)] = 1.0
        tight = np.minimum(np.maximum(own, SHORTEST), self.scale)
        yield Climb(self._central, self.scale, order=2)
        if self.problem.noise is None:  # in noise that was measured, shorter steps see nothing
            yield Climb(self._central, tight, order=2, near=True)
            yield Climb(self._central, np.minimum(1.0, self.scale), order=2)  # sin(x) at x = 1e6 varies over 1
            yield Climb(self._central, self.scale, order=2, short=True)  # sin(1e7 x) at x = 1
        yield Climb(self._central, 2.0**-13 * tight, order=2, last_resort=True)  # arcsin(x) at x = 1 - 1e-8
        yield Climb(self._one_sided, tight, order=1, last_resort=True)
        yield Climb(self._one_sided, -tight, order=1, last_resort=True)

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

    def profile(self, column: int, offsets: Vector, output: int) -> tuple[Vector, Vector]:
        """One output along one coordinate: where that coordinate came to lie, and the values there."""
        points, reached = self._displaced(np.full(len(offsets), column, dtype=np.intp), offsets)
        return reached, self.attempt(points, ALL, np.array([output], dtype=np.intp))[:, 0]

    def ladder(self, column: int, output: int) -> tuple[Vector, Vector, Vector]:
        """The rungs of one entry, coarse to fine: steps, extrapolated values, error bars."""
        index, climb = np.array([column], dtype=np.intp), Climb(self._central, self.scale, order=2)
        picked = np.array([output], dtype=np.intp)
        values, floors, sizes = self._quotients(climb, index, float(self.eps[column]), picked)
        limits, errors = extrapolate(values, floors, sizes, climb.order)
        return self.scale[column] * np.array(sizes[1:]), limits[:, 0, 0], errors[:, 0, 0]

    def _measure(
        self, climb: Climb, index: Indices, eps: float, outputs: slice | Indices, stretch: float = 1.0
    ) -> tuple[Matrix, Matrix]:
        return settle(*self._quotients(climb, index, eps, outputs, stretch), climb.order)

    def _quotients(
        self, climb: Climb, index: Indices, eps: float, outputs: slice | Indices, stretch: float = 1.0
    ) -> tuple[Matrix, Matrix, list[float]]:
        """The difference quotients of each rung, their round-off, and the rungs' relative steps."""
        sizes = [stretch * size for size in relative_steps(eps)]
        steps = [climb.scale[index] * size for size in sizes]
        values = np.stack([climb.quotient(index, step, outputs) for step in steps])
        noise = self.own_noise if climb.near else self.noise
        with np.errstate(all="ignore"):
            floors = np.stack([np.outer(1.0 / np.abs(step), noise[outputs]) for step in steps])
            if climb.near:  # where nothing moved, the steps may be too short for the numbers inside the function
                still = np.stack([np.outer(1.0 / np.abs(step), self.noise[outputs]) for step in steps])
                floors = np.where((values == 0).all(axis=0), still, floors)
        return values, floors, sizes

    def _central(self, index: Indices, step: Vector, outputs: slice | Indices) -> Matrix:
        count = len(index)
        points, reached = self._displaced(np.concatenate([index, index]), np.concatenate([step, -step]))
        values = self.attempt(points, ALL, outputs)
        with np.errstate(all="ignore"):
            width = _width(reached[:count] - reached[count:], 2.0 * step)
            return (values[:count] - values[count:]) / width[:, None]

    def _one_sided(self, index: Indices, step: Vector, outputs: slice | Indices) -> Matrix:
        points, reached = self._displaced(index, step)
        values = self.attempt(points, ALL, outputs)
        with np.errstate(all="ignore"):
            width = _width(reached - self.problem.point[index], step)
            return (values - self.problem.value[outputs]) / width[:, None]

    def _beside(self, index: Indices, step: Vector, outputs: slice | Indices) -> Matrix:
        count = len(index)
        points, reached = self._displaced(np.concatenate([index, index]), np.concatenate([2.0 * step, step]))
        values = self.attempt(points, ALL, outputs)
        with np.errstate(all="ignore"):
            width = _width(reached[:count] - reached[count:], step)
            return (values[:count] - values[count:]) / width[:, None]

    def _displaced(self, index: Indices, step: Vector) -> tuple[Matrix, Vector]:
        """Points with one coordinate moved in each, and where that coordinate came to lie after rounding."""
        rows = np.arange(len(index))
        points = np.empty((len(index), len(self.problem.point)))
        points[:] = self.problem.point
        points[rows, index] += step
        self._round(points)
        return points, points[rows, index]

    def attempt(self, rows: Matrix, run: slice = ALL, outputs: slice | Indices = ALL) -> Matrix:
        """Evaluations of some outputs, NaN where the function refuses a point: a step too far is not a verdict.

        Rows are points, or the coordinates of a run of them.
        """
        try:
            return self.investigation.evaluate_many(rows, run, outputs)
        except OutputChangedError:
            raise
        except Exception as refusal:
            self.refusal = refusal
        values = np.full((len(rows), len(self.problem.value[outputs])), np.nan)
        for row, point in zip(values, self.investigation.points(rows, run), strict=True):
            try:
                row[:] = self.investigation.evaluate(point)[outputs]
            except OutputChangedError:
                raise
            except Exception as refusal:
                self.refusal = refusal
        return values


def _only(problem: Problem) -> float | None:
    """The one spacing of numbers that all inputs and outputs have; None: they differ."""
    inputs, outputs = problem.inputs, problem.outputs
    finest = min(inputs.finest_eps, outputs.finest_eps)
    return finest if finest == inputs.coarsest_eps == outputs.coarsest_eps else None


def _ends(exponents: tuple[int, ...]) -> tuple[int, int]:
    """A coarse and a fine rung, with room for round-off below the fine one."""
    return exponents[0], exponents[len(exponents) // 2]


def _all_or(outputs: Indices | None) -> slice | Indices:
    return slice(None) if outputs is None else outputs


def _width(width: Vector, asked: Vector) -> Vector:
    """The distance really stepped, which rounding made a little other than asked; an infinite coordinate stays."""
    finite = np.isfinite(width)
    return width if finite.all() else np.where(finite, width, asked)
