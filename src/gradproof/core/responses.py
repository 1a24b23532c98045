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

from gradproof.core.capabilities import Elsewhere, RoundOff
from gradproof.core.investigation import Investigation
from gradproof.core.norm import norm
from gradproof.core.precision import DERIVATIVE_ROUND_OFF, MOST_ROUND_OFF
from gradproof.core.problem import Mode
from gradproof.core.types import Flags, Vector

PAIRS = 3
"""Neighbours are asked in pairs, to either side of the point, so that a tie is broken both ways."""
# How far they are, in eps.
_NEARBY = 2.0
# Runs that round, of which outputs are compared.
_RUNS = 3
# Integers below this are labels, where an input holds nothing else.
_LABELS = 16.0
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

    def of(self, question: Vector, neighbours: int) -> Iterator[Vector]:
        """The answers of so many neighbours."""
        point, eps = self._wide.problem.point, _NEARBY * self._eps
        generator = np.random.default_rng(self._low.seed + 17)
        shift, turn = np.zeros(0), np.zeros(0)
        for number in range(neighbours):
            if number % 2 == 0:
                shift = eps * generator.uniform(-1.0, 1.0, len(point)) * self._is_rounded()
                turn = eps * generator.uniform(-1.0, 1.0, len(question))
            shift = -shift
            yield self._answer(point * (1.0 + shift), question * (1.0 + turn), number)

    def value_spread(self) -> Vector:
        """By how much round-off moves each output; nothing, where the backend has no twin that rounds."""
        value = self._wide.problem.value
        spread = np.zeros(len(value))
        if self._round_off is None:
            return spread
        for number in range(_RUNS):
            self._low.cost.evaluate()
            try:
                moved = self._round_off.evaluate(self._wide.problem.point, self._eps, self._low.seed + number)
            except Exception:  # which it refuses
                return spread
            with np.errstate(invalid="ignore"):
                spread = np.fmax(spread, np.abs(moved - value))
        return spread

    def dust(self, question: Vector, answer: Vector) -> Vector:
        """Round-off of what is zero but for that, like the gradient of a bias in front of a batch norm.

        It is made of numbers as large as the outputs, per change of an input as large as it is. What cancellation
        leaves shows by itself where answers are rounded on the way.
        """
        problem, dust = self._low.problem, np.zeros(self._answered.size)
        value = np.where(np.isfinite(problem.value), problem.value, 0.0)
        relative = min(DERIVATIVE_ROUND_OFF * self._eps, MOST_ROUND_OFF)
        if self._reverse:
            whole, scale = norm(question * value), self._low.scale
        else:
            whole, scale = norm(value), np.ones(problem.outputs.size)
        for block in self._answered.blocks:
            part = norm(answer[block.slice] * scale[block.slice])
            if part <= _NOTHING * math.sqrt(block.size) * whole:
                dust[block.slice] = relative * whole / scale[block.slice]
            elif not self.are_rounded and part <= _CANCELLED * self._eps * whole:
                dust[block.slice] = relative * whole / math.sqrt(block.size) / scale[block.slice]
        return dust

    def _is_rounded(self) -> Flags:
        """Which coordinates may stand for numbers nearby; inputs that hold small integers only are labels."""
        point = self._wide.problem.point
        rounded = np.ones(len(point), dtype=bool)
        for block in self._wide.problem.inputs.blocks:
            part = point[block.slice]
            rounded[block.slice] = not ((part == np.rint(part)) & (np.abs(part) < _LABELS)).all()
        return rounded

    def _answer(self, point: Vector, question: Vector, number: int) -> Vector:
        """The answer of the wide side at another point, rounded where it can be; no number where it refuses that."""
        assert self._elsewhere is not None, "the derivative is known at one point only"
        self._low.cost.evaluate()
        (self._low.cost.pull if self._reverse else self._low.cost.push)()
        try:
            if self._round_off is not None:
                ask = self._round_off.vjp if self._reverse else self._round_off.jvp
                return ask(point, question, self._eps, self._low.seed + number)
            return (self._elsewhere.vjp if self._reverse else self._elsewhere.jvp)(point, question)
        except Exception:
            return np.full(self._answered.size, np.nan)
