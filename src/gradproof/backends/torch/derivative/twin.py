"""The float64 twin of a low-precision call.

float32 and below are too coarse to difference well. Where the function runs in float64, its numerical side is evaluated
there, at the very same point: the low-precision numbers are float64 numbers too. What it casts inside, or mixes in of
low-precision tensors of its own, is widened on the way (`derivative/widening.py`). Where it does not run there (it has
a kernel for one dtype only), there is no twin, and error bars are what the native dtype allows.

`Twin` evaluates without a graph of its own; `WideCall` is the call itself on float64 copies, of which a whole Problem
can be made, derivative included.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.calls import flatten_outputs, is_floating
from gradproof.backends.torch.derivative.drawn import Drawn
from gradproof.backends.torch.derivative.widening import Widening, wide
from gradproof.backends.torch.tensors.coordinates import build
from gradproof.backends.torch.tensors.point import Point
from gradproof.core.types import Vector


class Twin:
    """The same call on double-precision copies of its floating-point tensors."""

    def __init__(self, call: Call, point: Point) -> None:
        self._call, self._point = call, point
        self.widens = False
        """Whether the function is to be widened on the way: it does not compute in double precision by itself."""
        self.drawn = Drawn(draws=call.draws)
        """The random numbers of the call, which it is given."""
        self.inside = 0.0
        """The widest spacing of the numbers that it computes with by itself."""
        self.is_sharper = False
        """Whether its values are others than those of the call, by more than double precision rounds."""
        self.here: list[Any] = []
        """The outputs at the point itself."""
        self.models = [
            torch.empty(tensor.shape, dtype=wide(tensor.dtype), device=tensor.device) for tensor in point.tensors
        ]
        self._constants = {
            position: value.detach().to(wide(value.dtype))
            for position, value in enumerate(call.flat)
            if isinstance(value, torch.Tensor) and is_floating(value)
        }

    def run(self, coordinates: Vector) -> list[Any]:
        """The outputs there."""
        pairs = zip(self._point.blocks, self.models, strict=True)
        return self.run_with([build(coordinates[block.slice], model) for block, model in pairs])

    def run_with(self, moved: Sequence[torch.Tensor]) -> list[Any]:
        """The outputs with these tensors in place of those under test."""
        with _around(self):
            return flatten_outputs(self._call.with_values({**self._constants, **self._point.placed(moved)}))


@contextmanager
def _around(twin: Twin) -> Generator[None]:
    """What one run of a twin is run in: double precision throughout, and the random numbers of the call."""
    with Widening() if twin.widens else nullcontext(), twin.drawn.given():
        yield


class WideCall(Call):
    """A call whose floating-point tensors are double-precision copies, each a leaf of its own."""

    def __init__(self, call: Call, twin: Twin) -> None:
        """A call that runs as its `twin` does."""
        self.__dict__.update(call.__dict__)
        self._narrow, self._twin = call, twin
        self.flat = [_widened(value) for value in call.flat]
        tested = set(self.differentiable())
        self._tested = {i: self.flat[i] for i in tested}
        self._constants = {
            i: value for i, value in enumerate(self.flat) if isinstance(value, torch.Tensor) and i not in tested
        }

    def kind(self, position: int) -> str:
        return self._narrow.kind(position)

    def names(self) -> list[str]:
        return self._narrow.names()

    def __call__(self) -> Any:
        return self.with_values({})

    def with_values(self, replaced: Mapping[int, Any]) -> Any:
        """Constants are fresh copies each time: batch norm writes to its statistics."""
        constants = {i: value.clone() for i, value in self._constants.items() if i not in replaced}
        with _around(self._twin):
            return self._narrow.with_values({**constants, **self._tested, **replaced})


def _widened(value: Any) -> Any:
    """A tensor of numbers in double precision, as a leaf; all else as it is."""
    if not isinstance(value, torch.Tensor) or not is_floating(value):
        return value
    return value.detach().to(wide(value.dtype), copy=True).requires_grad_(value.requires_grad)


class Tried(NamedTuple):
    """A twin, if there is one, and how often the function was called to find out."""

    twin: Twin | None
    evaluations: int
    here: list[Any] | None = None
    """What it gave in double precision at the point, where that is the same but for round-off."""


NOT_TRIED = Tried(None, 0)
