"""The one object every question is asked of: a map, its point, and what claims to be its derivative.

This is the contract between a backend and everything else. A Problem is a value: nobody writes on it. What an
investigation counts, shares and learns is in `gradproof.core.investigation`.

>>> import numpy as np
>>> from gradproof.core.space import vector_space
>>> x = np.array([0.5, 2.0])
>>> square = Problem(
...     inputs=vector_space("input", 2), outputs=vector_space("output", 2), point=x, value=x**2,
...     evaluate=lambda x: x**2, vjp=lambda v: 2 * x * v,
... )
>>> square.modes
(<Mode.REVERSE: 'reverse'>,)
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from gradproof.core.precision import SHORTEST
from gradproof.core.space import Space
from gradproof.core.types import Vector
from gradproof.core.words import PLAIN, Words

C = TypeVar("C")

Apply = Callable[[Vector], Vector]
"""A map of coordinates to coordinates."""


class Mode(enum.Enum):
    """Which of the two linear maps is compared with the numerical derivative."""

    REVERSE = "reverse"
    FORWARD = "forward"

    def __str__(self) -> str:
        return f"{self.value} mode"


_BOTH = (Mode.REVERSE, Mode.FORWARD)


class OutputChangedError(RuntimeError, AssertionError):
    """The function returned another number of outputs, another shape or another dtype than at the point itself.

    An `AssertionError` too: that is what `torch.autograd.gradcheck` raises then.
    """


class NothingToCheckError(ValueError):
    """The call leaves nothing to check. Unlike an exception of user code it is the caller's to handle."""


class MisshapenGradientError(RuntimeError):
    """The framework does not take a gradient because of its form; `str` says which and why, `aspect` what of it."""

    def __init__(self, message: str, aspect: str = "layout") -> None:
        super().__init__(message)
        self.aspect = aspect


def given(function: C | None) -> C:
    """A derivative that must be there."""
    assert function is not None, "there is no such derivative"
    return function


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """A map F from R^N to R^M at a point, with J^T v (`vjp`) or J u (`jvp`) by the derivative under test, or both.

    `evaluate` gives F at a point and raises `OutputChangedError` if the outputs take another form there. Whatever these
    functions do to the user's objects is undone when they return or raise; what they return is a new array. What else a
    backend can do are `capabilities`, values of the types in `gradproof.core.capabilities`, by type.
    """

    inputs: Space
    outputs: Space
    point: Vector
    value: Vector
    evaluate: Apply
    vjp: Apply | None = None
    jvp: Apply | None = None
    connected: bool = True
    """False when no output is connected to an input: the derivative is claimed to be zero, and is not asked for."""
    evaluates_in: float | None = None
    """The spacing of the numbers that evaluations are computed in, where it is finer than that of the blocks."""
    round_off: float = 1.0
    """How many times the round-off of the function evaluations have: they may be made of several."""
    noise: Vector | None = None
    """The noise of each output, where it was measured; None: that of the precision."""
    evaluations: int = 1
    """How many evaluations it took to make this."""
    words: Words = PLAIN
    capabilities: Mapping[type, Any] = field(default_factory=dict[type, Any])
    modes: tuple[Mode, ...] = field(init=False)
    """The modes that there is a derivative for."""
    coarsest_eps: float = field(init=False)
    """The widest spacing of numbers among inputs and outputs: what the derivative under test is computed in."""

    def __post_init__(self) -> None:
        if self.vjp is None and self.jvp is None:
            raise ValueError("a Problem needs a derivative to test: give it vjp or jvp, or both")
        modes = _BOTH if self.vjp and self.jvp else _BOTH[:1] if self.vjp else _BOTH[1:]
        object.__setattr__(self, "modes", modes)
        object.__setattr__(self, "coarsest_eps", max(self.inputs.coarsest_eps, self.outputs.coarsest_eps))

    @property
    def is_empty(self) -> bool:
        """Whether inputs and outputs have no elements at all."""
        return not (self.inputs.size or self.outputs.size)

    def capability(self, kind: type[C]) -> C | None:
        """What the backend offers of a kind; None: nothing."""
        return self.capabilities.get(kind)

    def scale(self) -> Vector:
        """How large each input coordinate is, 1 where nothing tells: what steps are measured in."""
        inputs, lengths = self.inputs, self.inputs.lengths(self.point)
        scale = inputs.typical(self.point, lengths=lengths)
        for k, block in enumerate(inputs.blocks):
            if not inputs.is_above(SHORTEST, lengths, k):  # seldom
                here = scale[block.slice]
                here[here == 0] = 1.0
                np.maximum(here, SHORTEST, out=here)
        return scale
