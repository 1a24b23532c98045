"""What is known of one pair of an output and an input that is wrong: asked for as causes need it, never twice.

A claim costs a vjp and no evaluation: `claimed(v)` is the whole gradient for a cotangent. The truth costs evaluations:
two for each sampled element of the input, whose derivatives of all outputs are then known, or two for each rung along a
direction. A cause says how the claim follows from the truth, and what it says is compared with numbers that it was not
made from: for random cotangents and directions two numbers agree to nine digits by that cause alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from gradproof.core.directions import draw_direction
from gradproof.core.draws import basis
from gradproof.core.investigation import Investigation
from gradproof.core.ladder import stepped
from gradproof.core.norm import norm
from gradproof.core.precision import CONFIDENCE, DOUBLE
from gradproof.core.problem import Mode
from gradproof.core.space import Block
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey
from gradproof.core.types import Flags, Indices, Matrix, Vector
from gradproof.results.finding import Entry

# How closely what a cause predicts must agree, relative to the size of the sum, and two measured numbers.
SUM, CLOSE = 1e-6, 1e-5
# By how many times what may be, claim and truth differ where an order of theirs can be told from none.
_SEEN = 30.0
# Random cotangents that a cause must hold for.
COTANGENTS = 3
# Round-off of a difference quotient, in units of the noise of one value over the step: what two values differ by.
_ROUND_OFF = 8.0
# Numbers that can be squared and added up.
_LARGEST = 1e150


class RefusedError(Exception):
    """The derivative under test raised: there is no more to learn from it."""


class Allowance:
    """How many evaluations the search for causes may still take."""

    def __init__(self, investigation: Investigation, most: int) -> None:
        self._cost, self._until = investigation.cost, investigation.cost.evaluations + most

    @property
    def left(self) -> int:
        return max(0, self._until - self._cost.evaluations)


class Evidence:
    """The pair of one output and one input, in one mode."""

    def __init__(
        self, investigation: Investigation, mode: Mode, output: Block, input_: Block, allowance: Allowance
    ) -> None:
        self.investigation, self.mode, self.output, self.input, self.allowance = (
            investigation, mode, output, input_, allowance,
        )  # fmt: skip
        # the worst entries as they are reported, and whether forward and reverse mode claim the same
        self.entries: Sequence[Entry] = ()
        self.both_modes = False
        self.problem = investigation.problem
        self.stencil = Stencil(investigation)
        self.others = [block for block in self.problem.inputs.blocks if block is not input_ and block.size]
        self._columns: dict[int, tuple[Vector, Vector]] = {}
        self._claims: dict[bytes, Vector] = {}
        self._along: dict[bytes, tuple[Vector, Vector]] = {}
        self.is_small = investigation.screened is not None
        self.step = self.stencil.step
        self._truncation: Vector | None = None
        if investigation.screened is not None:
            screened, self.step = investigation.screened.values, investigation.screened.step
            truncation = investigation.screened.truncation
            self._truncation = None if truncation is None else self._of_values(truncation[output.slice])
            for column in range(input_.start, input_.stop):
                self._columns[column] = screened[output.slice, column], np.full(output.size, np.nan)

    # the question

    @property
    def probe(self) -> str:
        """What users call that which a derivative of this mode is multiplied by."""
        return self.problem.words.cotangent if self.mode is Mode.REVERSE else self.problem.words.tangent

    @functools.cached_property
    def cotangents(self) -> list[Vector]:
        """Random cotangents of the output alone, by the numbers of its block; none of what has no value."""
        draws = [self._of_values(self.investigation.draw(self.output.size, 7 + k)) for k in range(COTANGENTS)]
        return draws if self.output.size > 1 else draws[:1]

    def _of_values(self, vector: Vector) -> Vector:
        """Numbers for each output, with zero for those that are no finite number here: nothing is known of these."""
        return np.where(self._has_value, vector, 0.0)

    @functools.cached_property
    def _has_value(self) -> Flags:
        return np.isfinite(self.problem.value[self.output.slice])

    @functools.cached_property
    def noise(self) -> Vector:
        """That of each output."""
        return self._of_values(self.stencil.noise[self.output.slice])

    @functools.cached_property
    def direction(self) -> Vector:
        """A random direction of the input alone."""
        return draw_direction(self.stencil)[self.input.slice]

    def widened(self, part: Vector, block: Block, size: int) -> Vector:
        whole = np.zeros(size)
        whole[block.slice] = part
        return whole

    # claims

    def claimed(self, cotangent: Vector) -> Vector:
        """The claim for the whole input, in reverse mode."""
        key = cotangent.tobytes()
        if key not in self._claims:
            whole = self.widened(cotangent, self.output, self.problem.outputs.size)
            self._claims[key] = self.pulled(whole)[self.input.slice]
        return self._claims[key]

    def pulled(self, cotangent: Vector) -> Vector:
        """The claim for all inputs, of a cotangent of all outputs."""
        return _asked(self.investigation.vjp, cotangent)

    def pushed(self, direction: Vector) -> Vector:
        """The claim for the whole output, in forward mode."""
        key = b"u" + direction.tobytes()
        if key not in self._claims:
            whole = self.widened(direction, self.input, self.problem.inputs.size)
            self._claims[key] = _asked(self.investigation.jvp, whole)[self.output.slice]
        return self._claims[key]

    def claimed_at(self, cotangent: Vector, columns: Indices) -> Vector:
        """The claim for some coordinates of the input."""
        if self.mode is Mode.REVERSE:
            return self.claimed(cotangent)[columns - self.input.start]
        units = (basis(slice(c, c + 1), self.input.stop)[0][self.input.slice] for c in columns.tolist())
        return np.array([cotangent @ self._of_values(self.pushed(unit)) for unit in units])

    def claimed_sum(self, cotangent: Vector, direction: Vector) -> float:
        """<v, J u> as it is claimed."""
        if self.mode is Mode.REVERSE:
            return float(self.claimed(cotangent) @ direction)
        return float(cotangent @ self._of_values(self.pushed(direction)))

    # the truth

    def measure(self, columns: Indices) -> None:
        """Measure some coordinates, as many as the allowance leaves room for, the first ones first."""
        fresh = [c for c in dict.fromkeys(columns.tolist()) if c not in self._columns]
        fresh = fresh[: self.allowance.left // 2]
        if not fresh:
            return
        index = np.array(fresh, dtype=np.intp)
        step = self.stencil.step[index]
        outputs = np.arange(self.output.start, self.output.stop)
        values, reached = self.stencil.moved(np.concatenate([index, index]), np.concatenate([step, -step]), outputs)
        count, here = len(index), self.problem.value[self.output.slice]
        width = stepped(reached[:count] - reached[count:], 2.0 * step)
        with np.errstate(all="ignore"):
            slopes = (values[:count] - values[count:]) / width[:, None]
            bends = (values[:count] + values[count:] - 2.0 * here) / (step**2)[:, None]
        for k, column in enumerate(fresh):
            self._columns[column] = slopes[k], bends[k]

    @property
    def measured(self) -> Indices:
        return np.array(sorted(self._columns), dtype=np.intp)

    def column(self, column: int) -> Vector:
        return self._columns[column][0]

    def truth_at(self, cotangent: Vector, columns: Indices) -> Vector:
        return np.array([cotangent @ self._of_values(self._columns[c][0]) for c in columns.tolist()])

    def curvature_at(self, cotangent: Vector, columns: Indices) -> Vector:
        """Second derivatives along some coordinates that were measured; NaN where the allowance does not suffice."""
        unknown = [c for c in columns.tolist() if np.isnan(self._columns[c][1][self._has_value]).any()]
        kept = {c: self._columns.pop(c) for c in unknown[: self.allowance.left // 2]}
        self.measure(np.array(list(kept), dtype=np.intp))
        self._columns = {**kept, **self._columns}
        return np.array([cotangent @ self._of_values(self._columns[c][1]) for c in columns.tolist()])

    def round_off(self, column: int) -> Vector:
        """What each output may move by though it does not, for a step along a coordinate."""
        return _ROUND_OFF * self.noise / self.step[column]

    def bar_at(self, cotangent: Vector, columns: Indices) -> Vector:
        """The round-off of the truth at some coordinates."""
        bar = _ROUND_OFF * float(np.linalg.norm(cotangent * self.noise)) / self.step[columns]
        if self._truncation is None:
            return bar
        return bar + norm(cotangent * self._truncation) / self.stencil.scale[columns]

    def along(self, direction: Vector, point: Vector | None = None) -> tuple[Vector, Vector] | None:
        """J u along a direction of the input, with error bars; None where the allowance does not suffice.

        With another `point` than the Problem's, the derivative there.
        """
        if point is None and self.is_small:
            columns = [self._of_values(self._columns[c][0]) for c in range(self.input.start, self.input.stop)]
            matrix = np.stack(columns, axis=1)
            value = matrix @ direction
            scale = np.abs(direction) / self.step[self.input.slice]
            noise = self.noise * float(np.linalg.norm(scale))
            if self._truncation is not None:
                noise = noise + self._truncation
            return value, noise + 1e-9 * (np.abs(matrix) @ np.abs(direction))
        key = direction.tobytes() + (b"" if point is None else point.tobytes())
        if key in self._along:
            return self._along[key]
        whole = self.widened(direction, self.input, self.problem.inputs.size)
        found = self._survey(whole) if point is None else self._elsewhere(whole, point)
        if found is not None:
            self._along[key] = found
        return found

    def _survey(self, direction: Vector) -> tuple[Vector, Vector] | None:
        rungs = (14, 17) if float(self.stencil.eps.max()) <= DOUBLE else ()
        if not rungs:
            from gradproof.core.ledger import ProbeRungs

            rungs = ProbeRungs.of(float(self.stencil.eps.max())).base
        if self.allowance.left < 2 * len(rungs):
            return None
        survey = Survey(self.stencil, direction)
        survey.climb(*rungs)
        return self._of_values(survey.value[self.output.slice]), self._of_values(survey.error[self.output.slice])

    def _glance(self, direction: Vector) -> tuple[Vector, Vector] | None:
        key = b"glance" + direction.tobytes()
        if key not in self._along:
            whole = self.widened(direction, self.input, self.problem.inputs.size)
            found = self._elsewhere(whole, self.problem.point)
            if found is None:
                return None
            self._along[key] = found[0], found[1] + 1e-7 * float(np.abs(found[0]).max(initial=0.0))
        return self._along[key]

    def _elsewhere(self, direction: Vector, point: Vector) -> tuple[Vector, Vector] | None:
        if self.allowance.left < 2:
            return None
        size = float(np.cbrt(self.stencil.eps.max()))
        rows = np.stack([point + size * direction, point - size * direction])
        above, below = self.stencil.attempt(rows)
        with np.errstate(invalid="ignore"):
            value = self._of_values((above - below)[self.output.slice] / (2.0 * size))
        return value, self.noise / size + 1e-8 * np.abs(value)

    # how they are compared

    def agrees(
        self,
        turned: Callable[[Vector], Vector] | None = None,
        moved: Vector | None = None,
        at: tuple[Vector, Vector] | None = None,
        direction: Vector | None = None,
        pulled: Callable[[Vector], Vector] | None = None,
    ) -> bool:
        """Whether the claim along `moved` is the truth along the direction for the cotangent `turned`.

        `pulled` changes the cotangent of the claim. `at` is the truth where it is not that of the point. Holds for
        every random cotangent.
        """
        direction = self.direction if direction is None else direction
        known = self.along(direction) if at is None else at
        if known is None or not np.isfinite(known[0]).all():
            return False
        value, error = known
        for cotangent in self.cotangents:
            asked = cotangent if turned is None else turned(cotangent)
            pull = cotangent if pulled is None else pulled(cotangent)
            claim = self.claimed_sum(pull, direction if moved is None else moved)
            size = norm(asked * value)
            allowed = CONFIDENCE * norm(asked * error) + SUM * size
            if not (size < np.inf and abs(claim - float(asked @ value)) <= allowed <= 1e-3 * size):
                return False
        return True

    def is_seen(self) -> bool:
        """Whether claim and truth differ along the direction, by far more than what a cause must agree to."""
        known = self.along(self.direction)
        if known is None or not np.isfinite(known[0]).all():
            return False
        value, error = known
        for cotangent in self.cotangents:
            allowed = CONFIDENCE * norm(cotangent * error) + SUM * norm(cotangent * value)
            if abs(self.claimed_sum(cotangent, self.direction) - float(cotangent @ value)) > _SEEN * allowed:
                return True
        return False

    def residual(self, direction: Vector, *, quick: bool = False) -> float | None:
        """By how many times what may be, claim and truth differ along a direction; None: it was not measured.

        A `quick` look takes one step, and misses what is off by less than a millionth.
        """
        known = self._glance(direction) if quick and not self.is_small else self.along(direction)
        if known is None or not np.isfinite(known[0]).all():
            return None
        value = known[0]
        worst = 0.0
        for cotangent in self.cotangents:
            allowed = _allowed(cotangent, known)
            off = abs(self.claimed_sum(cotangent, direction) - float(cotangent @ value))
            if not (allowed < np.inf and np.isfinite(off)):
                return None
            worst = max(worst, off / allowed)
        return worst

    def hidden(self, direction: Vector) -> float:
        """The largest error of a lone entry that may not show in the residual along a direction that was measured."""
        known = self.along(direction)
        assert known is not None
        moved = float(np.abs(direction[direction != 0]).min())
        return max(2.0 * _allowed(v, known) / float(np.abs(v).min()) for v in self.cotangents) / moved

    def missing(self, cotangent: Vector, direction: Vector) -> tuple[float, float] | None:
        """<v, J u> less what is claimed of it, by a quick look, and its error bar; None: it was not measured."""
        known = self.along(direction) if self.is_small else self._glance(direction)
        if known is None or not np.isfinite(known[0]).all():
            return None
        value, error = known
        off = float(cotangent @ value) - self.claimed_sum(cotangent, direction)
        return off, CONFIDENCE * norm(cotangent * error)

    # places

    def positions(self, columns: Indices) -> tuple[Indices, ...]:
        return self.input.positions(columns)

    def elements(self) -> Indices:
        """The first coordinate of each element of the input."""
        return np.arange(self.input.start, self.input.stop, self.input.parts)


def _asked(apply: Callable[[Vector], Vector], vector: Vector) -> Vector:
    try:
        return apply(vector)
    except Exception as error:
        raise RefusedError from error


def _allowed(cotangent: Vector, known: tuple[Vector, Vector]) -> float:
    value, error = known
    return CONFIDENCE * norm(cotangent * error) + 1e-3 * SUM * norm(cotangent * value) + float(np.finfo(float).tiny)


def close(left: Vector, right: Vector, bar: Vector | float = 0.0, tolerance: float = CLOSE) -> Flags:
    """Whether numbers agree to within a part of the larger one, and their error bars."""
    with np.errstate(invalid="ignore"):
        return np.abs(left - right) <= tolerance * np.maximum(np.abs(left), np.abs(right)) + bar


def solved(design: Matrix, target: Vector) -> tuple[Vector, int]:
    """Least squares: what the best coefficients give, and how many numbers are left to test them."""
    solution, rank = coefficients(design, target)
    given: Vector = np.asarray(design @ solution, dtype=np.float64)
    return given, len(target) - rank


def coefficients(design: Matrix, target: Vector) -> tuple[Vector, int]:
    """The best coefficients of least squares, and their rank: none where numbers are too large, as what masks is."""
    if not float(np.abs(design).max(initial=0.0)) < _LARGEST:
        return np.zeros_like(design[0]), 0
    solution, _, rank, _ = np.linalg.lstsq(design, target, rcond=1e-10)
    return np.asarray(solution, dtype=np.float64), int(rank)
