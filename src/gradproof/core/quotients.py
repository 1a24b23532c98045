"""Difference quotients of one Problem along its coordinates, and what their round-off is.

All sizes come from the dtype (the blocks' `eps`) and from the point: in float32 the steps are larger.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container, Sequence

import numpy as np

from gradproof.core.capabilities import Walk
from gradproof.core.flags import some
from gradproof.core.investigation import Investigation
from gradproof.core.ladder import rungs, stepped
from gradproof.core.norm import PART, lowest, parts
from gradproof.core.precision import BEND, DOUBLE, EVALUATION_ROUND_OFF, HALF_OR_LESS, OWN_SIZE, SHORTEST, least_spacing
from gradproof.core.problem import OutputChangedError, Problem
from gradproof.core.space import Block, alike
from gradproof.core.stillness import is_in_question, lengths, stillness
from gradproof.core.types import ALL, Flags, Indices, Matrix, Vector
from gradproof.core.visited import FEW, Visited

# Points of more coordinates than this are made one at a time: blocks of memory of one size leave no gaps.
_LONG = 2**17
# The part of the largest change across a step of screening that a bend must be for a finer step to be taken: that of
# sin(2e3 x) is less.
_BENDS = 2.0**-4
# The part of an error that round-off may come to in a quotient that shows it.
_SHARP = 2.0**-10
_LEAST = float(np.finfo(np.float64).tiny)
_NO_BEND: Vector = np.zeros(0)


class Quotients:
    """Difference quotients of one Problem along its coordinates."""

    def __init__(self, investigation: Investigation, step: float | None = None, *, excused: float = 0.0) -> None:
        """`step` fixes the step in every coordinate; None chooses it. Entries that are off by `excused` are right."""
        self.investigation = investigation
        self.problem = problem = investigation.problem
        self.fixed, self._step = step is not None, step
        inputs, outputs, eps = problem.inputs, problem.outputs, problem.evaluates_in or _only(problem)
        self.scale = investigation.scale
        low = problem.evaluates_in is None and outputs.finest_eps > DOUBLE
        half = (problem.evaluates_in or problem.coarsest_eps) > HALF_OR_LESS
        if half or problem.noise is not None:  # smaller steps drown in round-off
            self.scale = np.maximum(self.scale, inputs.typical(problem.point, least=1.0))
        self.only_eps = eps
        """The spacing of all numbers; None: they differ, and `eps` has that of each coordinate."""
        round_off = EVALUATION_ROUND_OFF * problem.round_off
        if eps is None:
            self.eps = np.maximum(inputs.eps, outputs.coarsest_eps)
            spacing: Vector | float = np.maximum(outputs.eps, inputs.finest_eps)
        else:
            self.eps, spacing = alike(inputs.size, eps), eps
        self.noise = outputs.typical(problem.value, lengths=(known := investigation.once(lengths)))
        self.noise *= round_off * spacing
        if problem.noise is not None:
            self.noise = problem.noise
        self.still: Vector | None = None
        """The part of the noise that outputs beside them suggest which outputs have, where it was measured."""
        in_question = not self.fixed and investigation.once(is_in_question) and not self._is_sharp(excused)
        if in_question and (measured := investigation.once(stillness)) is not None:
            self.still = np.fmin(measured / self.noise, 1.0)
            self.noise *= self.still
        if problem.noise is None:  # no number is sharper than the smallest ones are apart, but for zeros
            least = EVALUATION_ROUND_OFF * least_spacing(outputs.finest_eps if low else DOUBLE)
            if outputs.size and self._may_be_below(least, known) and lowest(self.noise) < least:
                np.maximum(self.noise, least, out=self.noise, where=low or self.size > 0)
        self.refusal: Exception | None = None
        self._visited = investigation.once(Visited)

    @functools.cached_property
    def size(self) -> Vector:
        """How large each output is, or those beside it are."""
        return self.problem.outputs.typical(self.problem.value, lengths=self.investigation.once(lengths))

    @property
    def least_noise(self) -> float:
        """The Euclidean norm of the noise at least, where it is in proportion to how large the outputs are."""
        return self._unit * math.hypot(*self.investigation.once(lengths))

    @property
    def _unit(self) -> float:
        """The noise of an output of 1, where all numbers have one spacing."""
        return EVALUATION_ROUND_OFF * self.problem.round_off * (self.only_eps or self.problem.outputs.finest_eps)

    def _may_be_below(self, least: float, lengths: list[float]) -> bool:
        """Whether some noise may be, as far as the lengths of the outputs tell; to look at all of it is a pass."""
        outputs = self.problem.outputs
        known = outputs.size > PART and self.only_eps is not None and self.still is None
        return not (known and all(outputs.is_above(least / self._unit, lengths, k) for k in range(len(lengths))))

    def _is_sharp(self, error: float) -> bool:
        """Whether an error of this size is seen whatever outputs owe to larger ones beside them."""
        return float(self.noise.max()) <= _SHARP * error * float(self.step.min())

    def _round(self, rows: Matrix, run: slice = ALL) -> None:
        if self.problem.evaluates_in is None:
            self.problem.inputs.round_in_place(rows, run)

    @functools.cached_property
    def step(self) -> Vector:
        """The step of screening along each coordinate."""
        return self.scale * np.cbrt(self.eps) if self._step is None else np.full(len(self.scale), float(self._step))

    def screen(self, columns: slice) -> Matrix:
        """One central difference per column: J^T restricted to `columns`, one row each; NaN where F leaps."""
        return self.screen_bends(columns)[0]

    def screen_bends(self, columns: slice) -> tuple[Matrix, Flags | None]:
        """The same; and where F bends over the step, as at a kink. None: nowhere."""
        count, step = columns.stop - columns.start, self.step[columns]
        rows = np.empty((2 * count, count))
        rows[:] = self.problem.point[columns]
        above, below = (half.reshape(-1)[:: count + 1] for half in (rows[:count], rows[count:]))
        above += step
        below -= step
        self._round(rows, columns)
        values = self.attempt(rows, columns)
        across = values[:count] - values[count:]
        quotients = across / stepped(above - below, 2.0 * step)[:, None]
        if self.fixed or self.only_eps is None or self.only_eps > DOUBLE or self.problem.noise is not None:
            return quotients, None
        second = self.second(values)
        leaps = self.leaps(values, second)
        if some(leaps):
            quotients[leaps] = np.nan
        return quotients, self.find_bends(second, across)

    def second(self, values: Matrix) -> Matrix:
        """How far F is from straight over steps to one side, then to the other, one row of `values` each."""
        count = len(values) // 2
        second = values[:count] + values[count:]
        second -= 2.0 * self.problem.value
        return np.abs(second, out=second)

    def leaps(self, values: Matrix, second: Matrix) -> Flags:
        """Where the function changes by its own size between its point and both sides: what happens there is not seen.

        Outputs that happen to be nearly zero, beside what they are there, have no size of their own.
        """
        found = second > self._own_size
        if not some(found):  # nearly always
            return found
        return found & (OWN_SIZE**2 * np.abs(values[: len(second)]) <= self._own_size)

    def find_bends(self, second: Matrix, across: Matrix, rows: slice = ALL) -> Flags | None:
        """Where some outputs bend over steps as at a kink beside the point, or as near an extremum; None: nowhere.

        `across` is what they move between the two sides: nothing, if what bends is symmetric about the point itself.
        """
        moved = np.abs(across)
        if second.max(initial=0.0) <= _BENDS * moved.max(initial=0.0):  # nearly always
            return None
        by_size = DOUBLE ** (1 / 3) / OWN_SIZE * self._own_size[rows]  # what an output of this size moves by
        largest = np.fmax(moved.max(initial=0.0, where=np.isfinite(moved)), by_size)
        bends = (second > _BENDS * largest + BEND * self.noise[rows]) & (moved > 0)
        return bends if bends.any() else None

    @functools.cached_property
    def _own_size(self) -> Vector:
        """What an output changes by at most within a step that is not longer than what it does."""
        return np.maximum(OWN_SIZE * self.size, _LEAST)

    def screen_ahead(self, columns: slice) -> Matrix:
        """The same by one evaluation per column, from the point on. Of few outputs, it is known from then on."""
        count, step, outputs = columns.stop - columns.start, self.step[columns], self.problem.outputs.size
        if outputs <= FEW:
            index: Indices = np.arange(columns.start, columns.stop, dtype=np.intp)
            values, reached = self.moved(index, step, np.arange(outputs, dtype=np.intp))
            return (values - self.problem.value) / stepped(reached - self.problem.point[columns], step)[:, None]
        rows = np.empty((count, count))
        rows[:] = here = self.problem.point[columns]
        ahead = rows.reshape(-1)[:: count + 1]
        ahead += step
        self._round(rows, columns)
        return (self.attempt(rows, columns) - self.problem.value) / stepped(ahead - here, step)[:, None]

    def along(self, direction: Vector, rung: int) -> tuple[Vector, Vector]:
        """The central difference along a direction with step 2**-rung, and how far the two sides bend: second/step."""
        if len(direction) > _LONG:
            return self.along_each(direction, (rung,))[0]
        step = 2.0**-rung
        above, below = self.attempt(self._shifted(direction, (step, -step)))
        return self._across(above.copy(), below, rung)

    def along_each(
        self, direction: Vector, rungs: Sequence[int], bending: Container[int] | None = None
    ) -> list[tuple[Vector, Vector]]:
        """The same for several rungs; of many numbers, bends are found on the rungs in `bending` only, if it is given.

        Of few numbers all are taken at once, which saves a twentieth of a small check.
        """
        if max(len(direction), len(self.problem.value)) <= PART:
            return self._all_at_once(direction, [2.0**-rung for rung in rungs])
        if len(direction) <= _LONG:
            return [self.along(direction, rung) for rung in rungs]
        walked = self._walked(direction, rungs, bending)
        return [*walked, *(self._apart(direction, rung) for rung in rungs[len(walked) :])]

    def _all_at_once(self, direction: Vector, steps: list[float]) -> list[tuple[Vector, Vector]]:
        values = self.attempt(self._shifted(direction, (*steps, *[-step for step in steps])))
        above, below, step = values[: len(steps)], values[len(steps) :], np.array(steps)[:, None]
        quotients, bends = (above - below) / (2.0 * step), (above + below - 2.0 * self.problem.value) / step
        return [*zip(quotients, bends, strict=True)]

    def _apart(self, direction: Vector, rung: int) -> tuple[Vector, Vector]:
        """By one point at a time."""
        above, below = (self.attempt(self._shifted(direction, (side * 2.0**-rung,)))[0] for side in (1.0, -1.0))
        return self._across(above.copy(), below, rung)

    def _walked(
        self, direction: Vector, rungs: Sequence[int], bending: Container[int] | None
    ) -> list[tuple[Vector, Vector]]:
        """Those of the first rungs, without an array for each point and value; up to one that is refused.

        For sin of a million elements that saves a tenth of gradcheck's time in fast mode.
        """
        found, above = list[tuple[Vector, Vector]](), list[Vector]()

        def take(value: Vector) -> None:
            """With the other side at hand, the quotient is written over the one."""
            if not above:
                above.append(value if value.flags.writeable else value.copy())
                return
            rung = rungs[len(found)]
            found.append(self._across(above.pop(), value, rung, bends=bending is None or rung in bending))

        self._walk(direction, tuple(side * 2.0**-rung for rung in rungs for side in (1.0, -1.0)), take)
        return found

    def one_value(self, direction: Vector, step: float, output: int) -> float:
        """F of one output at a step along a direction; NaN where the function refuses it."""
        found: list[float] = []
        if self._walk(direction, (step,), lambda value: found.append(float(value[output]))):
            return found[0]
        picked = np.array([output], dtype=np.intp)
        return float(self.attempt(self._shifted(direction, (step,)), outputs=picked)[0, 0])

    def _walk(self, direction: Vector, steps: tuple[float, ...], take: Callable[[Vector], None]) -> bool:
        """Show F at steps along a direction to `take`, which keeps what is writeable at most; False: not to be had."""
        walk = self.problem.capability(Walk)
        if walk is None or walk.evaluate != self.problem.evaluate:
            return False
        try:
            walk.visit(direction, self.investigation.cost.counting(steps), take)
        except OutputChangedError:
            raise
        except Exception:  # each point is attempted by itself
            return False
        return True

    def _across(self, above: Vector, below: Vector, rung: int, *, bends: bool = True) -> tuple[Vector, Vector]:
        """The quotient, which is written over `above`, and the bend of the values on both sides, if it is asked for."""
        bend, room = np.empty_like(below) if bends else _NO_BEND, np.empty(min(PART, len(below)))
        for part in parts(len(below)):
            one, other = above[part], below[part]
            if bends:
                mean = np.add(one, other, out=bend[part])
                mean -= np.multiply(self.problem.value[part], 2.0, out=room[: len(mean)])
                mean *= 2.0**rung
            one -= other
            one *= 2.0 ** (rung - 1)
        return above, bend

    def _shifted(self, direction: Vector, steps: tuple[float, ...]) -> Matrix:
        """The points at these steps along a direction, one row each."""
        points = np.empty((len(steps), len(direction)))
        for part in parts(len(direction)):
            here = np.multiply.outer(steps, direction[part], out=points[:, part])
            here += self.problem.point[part]
        self._round(points)
        return points

    def floor(self, rows: slice, columns: slice) -> tuple[Vector, Vector]:
        """Round-off of the screening values of these outputs and inputs, as the outer product of two vectors."""
        return self.noise[rows], (0.0 if self.fixed else 1.0) / self.step[columns]

    @functools.cached_property
    def tiny(self) -> Flags:
        """Which coordinates are shorter than the longest step along them, zeros apart: it straddles what is at zero."""
        if self.fixed:
            return np.zeros(len(self.scale), dtype=np.bool_)
        own = np.abs(self.problem.point)
        longest = 2.0 ** -rungs(self.only_eps or float(self.eps.max(initial=DOUBLE)))[0]
        shorter = own < longest * self.scale
        return shorter & (own >= SHORTEST) if some(shorter) else shorter

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
        own = np.abs(self.problem.value)
        with np.errstate(all="ignore"):
            own /= self.size
            np.fmin(own, 1.0, out=own)
            own *= self.noise
        return own

    @functools.cached_property
    def round_off(self) -> Vector:
        """What each output would be off by if it owed nothing to others, and were computed in its own precision."""
        outputs = self.problem.outputs
        spacing = outputs.eps if self.problem.evaluates_in is None else self.problem.evaluates_in
        return EVALUATION_ROUND_OFF * spacing * np.abs(self.problem.value)

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

    def least_seen(self, block: Block) -> float:
        """The largest of these of one block."""
        scale = self.scale[block.slice]
        return 2.0 ** rungs(float(self.eps[block.start]))[0] / float(scale.min()) if block.size else 0.0

    def _central(self, index: Indices, step: Vector, outputs: slice | Indices) -> Matrix:
        count = len(index)
        values, reached = self.moved(np.concatenate([index, index]), np.concatenate([step, -step]), outputs)
        with np.errstate(all="ignore"):
            width = stepped(reached[:count] - reached[count:], 2.0 * step)
            return (values[:count] - values[count:]) / width[:, None]

    def _one_sided(self, index: Indices, step: Vector, outputs: slice | Indices) -> Matrix:
        values, reached = self.moved(index, step, outputs)
        with np.errstate(all="ignore"):
            width = stepped(reached - self.problem.point[index], step)
            return (values - self.problem.value[outputs]) / width[:, None]

    def _beside(self, index: Indices, step: Vector, outputs: slice | Indices) -> Matrix:
        count = len(index)
        values, reached = self.moved(np.concatenate([index, index]), np.concatenate([2.0 * step, step]), outputs)
        with np.errstate(all="ignore"):
            width = stepped(reached[:count] - reached[count:], step)
            return (values[:count] - values[count:]) / width[:, None]

    def moved(self, index: Indices, step: Vector, outputs: slice | Indices) -> tuple[Matrix, Vector]:
        """F with one coordinate moved in each row, and where that came to lie after rounding."""

        def evaluate(index: Indices, step: Vector) -> tuple[Matrix, Vector]:
            if len(index) > 1 and len(self.problem.point) > _LONG:
                each = [evaluate(index[k : k + 1], step[k : k + 1]) for k in range(len(index))]
                return np.concatenate([values for values, _ in each]), np.concatenate([reached for _, reached in each])
            rows = np.arange(len(index))
            points = np.empty((len(index), len(self.problem.point)))
            points[:] = self.problem.point
            points[rows, index] += step
            self._round(points)
            return self.attempt(points, ALL, outputs), points[rows, index]

        return self._visited.look(index, step, outputs, evaluate)

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
