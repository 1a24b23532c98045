"""How a derivative in double precision responds to what a low precision rounds.

That is how much a right derivative in low precision may differ from it. Two things are rounded: what is given (the
point, and the question), by neighbours of which the twin is asked; and what is computed on the way, by a twin that
rounds at random, where the backend has one (`RoundOff`). The first sees bad conditioning and kinks, the second
cancellation inside: y (1 - y), where y is nearly 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gradproof.core.capabilities import TURNS, Elsewhere, RoundOff
from gradproof.core.compared import BEYOND, BEYOND_UNROUNDED
from gradproof.core.investigation import Investigation
from gradproof.core.neighbours import Neighbours
from gradproof.core.norm import norm, norm_of_products, parts
from gradproof.core.precision import DERIVATIVE_ROUND_OFF, MOST_ROUND_OFF
from gradproof.core.problem import Mode
from gradproof.core.space import Block, alike
from gradproof.core.types import Vector

PAIRS = 3
"""Neighbours are asked in pairs, to either side of the point, so that a tie is broken both ways."""
# Runs that round, of which outputs are compared.
_RUNS = 3
# What is this small in float64, relative to the outputs, is zero but for round-off.
_NOTHING = 1e-9
# What is below this many eps of the outputs is what cancellation left, and is no more than round-off in low precision.
_CANCELLED = 16.0


class Responses:
    """Answers of the wide side of one mode to questions that differ by what the low side rounds."""

    def __init__(self, low: Investigation, wide: Investigation, mode: Mode, eps: float) -> None:
        self._low, self._wide, self._eps, self._reverse = low, wide, eps, mode is Mode.REVERSE
        problem = low.problem
        self._answered = problem.inputs if self._reverse else problem.outputs
        self._elsewhere = wide.problem.capability(Elsewhere)
        self._round_off = wide.problem.capability(RoundOff)

    @property
    def can_be_asked(self) -> bool:
        return self._elsewhere is not None

    @property
    def are_rounded(self) -> bool:
        """Whether they are rounded on the way."""
        return self._round_off is not None

    def of(self, question: Vector, which: range) -> Iterator[Vector]:
        """The answers of neighbours, by their numbers."""
        neighbours = self._neighbours.with_probe(question, which.stop)
        for number, (point, turned) in enumerate(neighbours):
            if number in which:
                yield self._answer(point, turned, number)

    @property
    def beyond(self) -> float:
        """How many times as far as a few of them the low side may be."""
        return BEYOND if self.are_rounded else BEYOND_UNROUNDED

    def spread(self, question: Vector, neighbours: int) -> Vector:
        """How far so many of them are from the answer itself, at most."""
        ask = self._wide.vjp if self._reverse else self._wide.jvp
        answer, spread = ask(question), np.zeros(self._answered.size)
        for other in self.of(question, range(neighbours)):
            widen(spread, other, answer)
        return spread

    def value_spread(self) -> Vector:
        """By how much round-off moves each output; nothing, where the backend has no twin that rounds."""
        value = self._wide.problem.value
        spread = np.zeros(len(value))
        if self._round_off is None:
            return spread
        for number, point in enumerate(self._neighbours.points(_RUNS)):
            self._low.cost.evaluate()
            try:
                moved = self._round_off.evaluate(point, self._eps, self._seed_of(number))
            except Exception:  # which it refuses
                return spread
            with np.errstate(invalid="ignore"):
                spread = np.fmax(spread, np.abs(moved - value))
        for block in self._wide.problem.outputs.blocks:  # by chance, few runs move some of them by little
            spread[block.slice] += spread[block.slice].mean() if block.size else 0.0
        return spread

    def dust(self, question: Vector, answer: Vector) -> Iterator[tuple[Block, Vector]]:
        """Round-off of what is zero but for that, like the gradient of a bias in front of a batch norm; by block.

        It is made of numbers as large as the outputs, per change of an input as large as it is. What cancellation
        leaves shows by itself where answers are rounded on the way.
        """
        problem, value = self._low.problem, self._low.problem.value
        if not math.isfinite(norm(value)):
            value = np.where(np.isfinite(value), value, 0.0)
        relative = min(DERIVATIVE_ROUND_OFF * self._eps, MOST_ROUND_OFF)
        if self._reverse:
            whole, scale = norm_of_products(question, value), self._low.scale
        else:
            whole, scale = norm(value), alike(problem.outputs.size, 1.0)
        for block in self._answered.blocks:
            part = norm_of_products(answer[block.slice], scale[block.slice])
            if part <= _NOTHING * math.sqrt(block.size) * whole:
                yield block, relative * whole / scale[block.slice]
            elif not self.are_rounded and part <= _CANCELLED * self._eps * whole:
                yield block, relative * whole / math.sqrt(block.size) / scale[block.slice]

    @property
    def _neighbours(self) -> Neighbours:
        problem = self._wide.problem
        return Neighbours(problem.inputs, problem.point, self._eps, self._low.seed + 17)

    def _seed_of(self, number: int) -> int:
        """That of a run, so that it is of the same kind for every investigation."""
        return TURNS * self._low.seed + number

    def _answer(self, point: Vector, question: Vector, number: int) -> Vector:
        """The answer of the wide side at another point, rounded where it can be; no number where it refuses that."""
        assert self._elsewhere is not None, "the derivative is known at one point only"
        if self._reverse:  # it calls the function first; a jvp is such a call
            self._low.cost.evaluate()
            self._low.cost.pull()
        else:
            self._low.cost.push()
        try:
            if self._round_off is not None:
                ask = self._round_off.vjp if self._reverse else self._round_off.jvp
                return ask(point, question, self._eps, self._seed_of(number))
            return (self._elsewhere.vjp if self._reverse else self._elsewhere.jvp)(point, question)
        except Exception:
            return np.full(self._answered.size, np.nan)


def widen(spread: Vector, answer: Vector, wide: Vector, more: float = 1.0) -> None:
    """Make a spread as wide as an answer is off, or some times `more`, in place."""
    for part in parts(len(spread)):
        with np.errstate(invalid="ignore"):
            off = answer[part] - wide[part]
            np.abs(off, out=off)
        if not math.isfinite(float(np.add.reduce(off))):
            off[np.isnan(off)] = np.inf
        if more != 1.0:
            off *= more
        np.maximum(spread[part], off, out=spread[part])
