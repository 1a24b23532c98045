"""The one object every question is asked of: a map, its point, and what claims to be its derivative."""

from __future__ import annotations

import enum
import functools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradproof.core.certificate import Certificate
from gradproof.core.lazy import lazy
from gradproof.core.space import Block, Space
from gradproof.core.types import Indices, Matrix, Vector

ALL = slice(None)
"""Every coordinate."""


class Mode(enum.Enum):
    """Which of the two linear maps is compared with the numerical derivative."""

    REVERSE = "reverse"
    FORWARD = "forward"
    __hash__ = object.__hash__  # there is one of each

    def __str__(self) -> str:
        return f"{self.value} mode"


class OutputChangedError(RuntimeError):
    """The function returned another number of outputs, another shape or another dtype than at the point itself."""


class MisshapenGradientError(RuntimeError):
    """The framework does not take a gradient because of its form; `str` says which and why."""


class BudgetExhausted(BaseException):
    """The check has cost as much as it may. Like an interrupt, it is nothing that user code or a property handles."""


@dataclass(slots=True)
class Cost:
    """How often user code ran, and how often it may. A batch counts as the number of its rows."""

    evaluations: int = 0
    vjps: int = 0
    jvps: int = 0
    most_evaluations: float = math.inf
    deadline: float = math.inf
    expected: int = 0
    """How much there will be at least, of all kinds together, as far as that is known."""

    @property
    def calls(self) -> int:
        """How often user code ran, in whatever direction."""
        return self.evaluations + self.vjps + self.jvps

    def expect(self, further: int) -> None:
        """Announce that there will be this many more calls."""
        self.expected = self.calls + further

    def evaluate(self, count: int = 1) -> None:
        """Count evaluations; raises `BudgetExhausted` where there is no budget for them."""
        if self.evaluations + count > self.most_evaluations:
            raise BudgetExhausted
        if self.deadline < math.inf:
            self._look_at_the_clock()
        self.evaluations += count

    def pull(self, count: int = 1) -> None:
        """Count vjps."""
        if self.deadline < math.inf:
            self._look_at_the_clock()
        self.vjps += count

    def push(self, count: int = 1) -> None:
        """Count jvps."""
        if self.deadline < math.inf:
            self._look_at_the_clock()
        self.jvps += count

    def _look_at_the_clock(self) -> None:
        if time.perf_counter() > self.deadline:
            raise BudgetExhausted


@dataclass(frozen=True, slots=True)
class Form:
    """What a tensor is besides its values, in the framework's own words."""

    shape: tuple[int, ...]
    dtype: str
    layout: str
    device: str


class Layout(enum.Enum):
    """How the memory of a cotangent is arranged; its values are the same."""

    CONTIGUOUS = "contiguous"
    EXPANDED = "expanded (stride 0), as y.sum().backward() makes it"
    SLICED = "a slice with gaps and an offset"
    TRANSPOSED = "transposed"
    CHANNELS_LAST = "channels last"
    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a vjp gave, and what it wrote to that was not its own, in words."""

    gradient: Vector
    overwritten: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BatchFlaw:
    """Why a batched derivative cannot be had, or is not what a loop gives."""

    reason: str
    cause: Exception | None = None


@dataclass(frozen=True, slots=True)
class Trials:
    """How a few vjps that ask several questions at once went; see `gradproof.properties.trials`."""

    exact: bool
    """The backward was seen to repeat itself to the last bit, in contiguous memory too."""
    agree: bool
    """All gave the expected but for round-off."""
    overwritten: tuple[str, ...]
    """What was written to meanwhile."""


class Problem(ABC):
    """A map F from R^N to R^M at a point, with J^T v (`vjp`) and J u (`jvp`).

    A backend subclasses this. Whatever a method does to the user's objects is undone when it returns or
    raises. The `*_many` methods take and give one row per question; here they loop, a backend may do better.
    """

    inputs: Space
    outputs: Space
    point: Vector
    value: Vector
    cost: Cost
    seed: int
    evaluates_in: float | None = None
    """The spacing of the numbers that evaluations are computed in, where it is finer than that of the blocks."""
    certificate: Certificate | None = None
    """What the comparisons made so far were able to see."""
    rows: Matrix | None = None
    """The whole Jacobian by reverse mode, where it was asked for row by row."""
    trials: Trials | None = None
    """What properties found out together; None before one of them asked."""
    has_graph: bool
    """False when no output is connected to an input: the claimed derivative is zero."""

    @property
    def paired(self) -> Indices | None:
        """Where the outputs are the gradient of one real number: the input coordinate of each."""
        return None

    @abstractmethod
    def evaluate(self, point: Vector) -> Vector:
        """F at `point`; raises `OutputChangedError` if the outputs take another form there."""

    @abstractmethod
    def vjp(self, cotangent: Vector) -> Vector:
        """J^T v by the derivative under test."""

    @abstractmethod
    def jvp(self, tangent: Vector) -> Vector:
        """J u by the derivative under test."""

    @abstractmethod
    def vjp_undefined(self, cotangent: Vector, absent: frozenset[int]) -> Vector:
        """`vjp`, where the cotangents of the output blocks in `absent` are not there at all."""

    @abstractmethod
    def jvp_undefined(self, tangent: Vector, absent: frozenset[int]) -> Vector:
        """`jvp`, where the input blocks in `absent` carry no tangent at all."""

    @property
    @abstractmethod
    def layouts(self) -> frozenset[Layout]:
        """The layouts that some cotangent of this problem can have, beside the contiguous one."""

    @abstractmethod
    def vjp_in(self, cotangent: Vector, layout: Layout) -> Vector:
        """`vjp` with cotangents in a layout, where they can have it.

        For the expanded layout, the coordinates of each block are the same.
        """

    @abstractmethod
    def watched_vjp(self, cotangent: Vector, layout: Layout) -> Pulled:
        """`vjp_in` with a watch on memory that is not its own."""

    @abstractmethod
    def overwritten_inputs(self) -> tuple[str, ...]:
        """The inputs that the function itself wrote to, in words."""

    @abstractmethod
    def aliased_gradients(self) -> list[tuple[Block, str]]:
        """The input blocks whose gradient shares memory with something that is not its own: what, in words."""

    @abstractmethod
    def batch_flaw(self, mode: Mode) -> BatchFlaw | None:
        """What is wrong with the batched vjp or jvp, None if it gives what plain calls give."""

    @abstractmethod
    def misshapen_gradients(self) -> list[tuple[Block, Form, Form]]:
        """The input blocks whose gradient has another form than it should: that form, then the one it has."""

    @abstractmethod
    def misshapen_tangents(self) -> list[tuple[Block, Form, Form]]:
        """The output blocks whose tangent has another form than it should: that form, then the one it has."""

    @lazy
    def scale(self) -> Vector:
        """How large each input coordinate is, 1 where nothing tells: what steps are measured in."""
        scale = self.inputs.typical(self.point)
        if not scale.all():
            scale[scale == 0] = 1.0
        return scale

    # work that properties share: one random question each way, and its answer

    @lazy
    def cotangent(self) -> Vector:
        return random_probe(self.outputs.size, self.seed)

    @lazy
    def tangent(self) -> Vector:
        return random_probe(self.inputs.size, self.seed)

    @lazy
    def pullback(self) -> Vector:
        """vjp(cotangent)"""
        return self.vjp(self.cotangent)

    @lazy
    def pushforward(self) -> Vector:
        """jvp(tangent)"""
        return self.jvp(self.tangent)

    @property
    def is_pulled(self) -> bool:
        """Whether the shared cotangent has its answer by now."""
        return "pullback" in vars(self)

    def aim(self, *, cotangent: Vector | None = None, tangent: Vector | None = None) -> None:
        """Replace the shared random question by a better one."""
        if cotangent is not None:
            vars(self)["cotangent"] = cotangent
            vars(self).pop("pullback", None)
        if tangent is not None:
            vars(self)["tangent"] = tangent
            vars(self).pop("pushforward", None)

    def evaluate_many(self, rows: Matrix, run: slice = ALL) -> Matrix:
        """F at many points, each a row. Rows may hold the coordinates of a `run` only: the others are the point's."""
        return by_rows(self.evaluate, self.points(rows, run), self.outputs.size)

    def points(self, rows: Matrix, run: slice) -> Matrix:
        """The whole points, of which rows hold the coordinates of a run."""
        if rows.shape[1] == self.inputs.size:
            return rows
        points = np.empty((len(rows), self.inputs.size))
        points[:] = self.point
        points[:, run] = rows
        return points

    def vjp_many(self, cotangents: Matrix) -> Matrix:
        return by_rows(self.vjp, cotangents, self.inputs.size)

    def jvp_many(self, tangents: Matrix) -> Matrix:
        return by_rows(self.jvp, tangents, self.outputs.size)


def by_rows(function: Callable[[Vector], Vector], rows: Matrix, width: int) -> Matrix:
    """The function of each row, as rows."""
    result = np.empty((len(rows), width))
    for target, row in zip(result, rows, strict=True):
        target[:] = function(row)
    return result


def random_probe(size: int, seed: int) -> Vector:
    """Random signs and magnitudes in [0.5, 1.5] from a private generator: no entry can hide. A lone one is 1."""
    return _draw(size, seed) if size > _CACHED else _draw_cached(size, seed)


def _draw(size: int, seed: int) -> Vector:
    generator = np.random.default_rng(seed)
    probe = generator.uniform(0.5, 1.5, size)
    probe[generator.random(size) < 0.5] *= -1.0
    if size == 1:
        probe[0] = 1.0
    probe.flags.writeable = False
    return probe


# Making a generator takes longer than a small check can spare.
_CACHED = 1024
_draw_cached = functools.lru_cache(maxsize=256)(_draw)
