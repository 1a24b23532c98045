"""The float64 twin of a low-precision call.

float32 and below are too coarse to difference well. Where the function runs in float64, its numerical side is evaluated
there, at the very same point: the low-precision numbers are float64 numbers too. What it casts inside, or mixes in of
low-precision tensors of its own, is widened on the way (`derivative/widening.py`). Where it does not run there (it has
a kernel for one dtype only), there is no twin, and error bars are what the native dtype allows.

`Twin` evaluates without a graph of its own; `WideCall` is the call itself on float64 copies, of which a whole Problem
can be made, derivative included.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.calls import flatten_outputs, is_floating
from gradproof.backends.torch.derivative.widening import Widening, wide
from gradproof.backends.torch.tensors.coordinates import build, resolution
from gradproof.backends.torch.tensors.point import Point
from gradproof.core.precision import DOUBLE, HALF_OR_LESS, WIDEST_FORMAT
from gradproof.core.types import Vector

_DOUBLE = (torch.float64, torch.complex128)

# Twin and original compute the same function if their values differ by at most this many eps of the lower precision: a
# long sum or product may lose that many. A cast inside the function loses more in one of the two only.
_SAME_VALUE = 64.0
# Moved by this part of the point, or by this many eps where that is more, they must change alike, …
_REACH, _REACH_IN_EPS = 2.0**-6, 16.0
# … to within this many eps of the value and this part of the change: a twin that does not follow misses all of it.
_SAME_CHANGE, _SAME_CHANGE_SHARE = 8.0, 0.25
# A step that no lower precision sees. Slopes along it and along the other one differ by less than this factor, …
_TINY, _BENT = 2.0**-30, 8.0
# … unless the function goes in steps, on which at least this part of its outputs does not move.
_STILL = 0.5
# Where an element is small, round-off is that of this part of the largest.
_OF_THE_LARGEST = 0.1


class Twin:
    """The same call on double-precision copies of its floating-point tensors."""

    def __init__(self, call: Call, point: Point) -> None:
        self._call, self._point = call, point
        self.widens = False
        """Whether the function is to be widened on the way: it does not compute in double precision by itself."""
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
        with _around(widens=self.widens):
            return flatten_outputs(self._call.with_values({**self._constants, **self._point.placed(moved)}))


def _around(*, widens: bool) -> AbstractContextManager[Any]:
    return Widening() if widens else nullcontext()


class WideCall(Call):
    """A call whose floating-point tensors are double-precision copies, each a leaf of its own."""

    def __init__(self, call: Call, *, widens: bool) -> None:
        """`widens`: as the `Twin` does."""
        self.__dict__.update(call.__dict__)
        self._narrow, self._widens = call, widens
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
        with _around(widens=self._widens):
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


NOT_TRIED = Tried(None, 0)


def find_twin(call: Call, point: Point, chosen: Sequence[int], outputs: Sequence[torch.Tensor]) -> Tried:
    """The twin of a low-precision call, if there is one that computes the same function in double precision.

    `outputs` are those of the call itself whose numbers are `chosen`.
    """
    if all(tensor.dtype in _DOUBLE for tensor in point.tensors):
        return NOT_TRIED
    return _Trial(call, point, chosen, outputs).run()


def find_widened(call: Call, point: Point, chosen: Sequence[int], outputs: Sequence[torch.Tensor]) -> Tried:
    """The twin of a call in double precision that computes in a lower one inside, by casts that it can do without."""
    tried = _Trial(call, point, chosen, outputs).run()
    return tried if tried.twin is not None and tried.twin.is_sharper else tried._replace(twin=None)


class _Trial:
    """Whether a call has a twin: a few calls of both tell, the fewer the sooner it shows that it has none."""

    def __init__(self, call: Call, point: Point, chosen: Sequence[int], outputs: Sequence[torch.Tensor]) -> None:
        self._call, self._point, self._chosen, self._outputs = call, point, chosen, outputs
        self._evaluations = 0
        self._twin = Twin(call, point)

    def run(self) -> Tried:
        """Random numbers may be others in double precision: in float32 the values would tell, in half they would not."""
        if any(tensor.layout is not torch.strided for tensor in self._point.tensors):
            return NOT_TRIED
        twin = self._twin
        try:
            with Widening() as widened:
                twin.here = self._run(self._point.coordinates)
            twin.widens, twin.inside = widened.coarsest > 0.0, max(self._point.space.coarsest_eps, widened.coarsest)
            if twin.inside > WIDEST_FORMAT or (self._call.draws and twin.inside > HALF_OR_LESS):
                return Tried(None, self._evaluations)
            is_one = self._are_wide() and self._follows()
        except Exception:  # whatever it raises in another precision, or on a device without it: it does not run there
            is_one = False
        return Tried(twin if is_one else None, self._evaluations)

    def _run(self, coordinates: Vector) -> list[Any]:
        self._evaluations += 1
        return self._twin.run(coordinates)

    def _are_wide(self) -> bool:
        """Whether the outputs of a twin are those of the call in double precision."""
        twin = self._twin
        for index, output in zip(self._chosen, self._outputs, strict=True):
            other = twin.here[index] if index < len(twin.here) else None
            if not isinstance(other, torch.Tensor) or other.shape != output.shape or other.dtype != wide(output.dtype):
                return False
            if not _same_function(other, output, max(resolution(output.dtype), twin.inside)):
                return False
            twin.is_sharper |= not _same_function(other, output, DOUBLE)
        return True

    def _follows(self) -> bool:
        """Whether twin and original move alike: the twin of a function that also reads inputs by closure does not.

        Nor does a twin that rounds where no operator is seen. A step that only double precision sees tells; where it
        does not agree with the one that both see, the twin takes that too.
        """
        point, reach = self._point, max(_REACH, _REACH_IN_EPS * self._twin.inside)
        slight = self._changes(self._run(point.coordinates + _TINY * self._direction))
        if _is_still(slight) and point.coordinates.any():
            return False
        moved = point.coordinates + reach * self._direction
        point.space.round_in_place(moved)
        coarse = self._moved(moved)
        sized = [(change * (reach / _TINY)).to(change.dtype) for change in slight]
        if point.space.coarsest_eps > DOUBLE and self._are_alike(sized, coarse):
            return True
        there = self._run(moved)
        self._twin.is_sharper |= not all(
            _same_function(there[i], change + self._outputs_here[k], DOUBLE)
            for k, (i, change) in enumerate(zip(self._chosen, coarse, strict=True))
        )
        fine = self._changes(there)
        return self._are_alike(fine, coarse) and not _goes_in_steps(sized, fine)

    @functools.cached_property
    def _direction(self) -> Vector:
        """As long as the point, to either side of it in turn: a function that is the same of any multiple moves too."""
        coordinates = self._point.coordinates
        return np.abs(coordinates) * np.where(np.arange(len(coordinates)) % 2, -1.0, 1.0)

    @functools.cached_property
    def _outputs_here(self) -> list[torch.Tensor]:
        """Copies of the outputs of the call itself: one may be an input."""
        return [output.detach().clone().to(wide(output.dtype)) for output in self._outputs]

    def _changes(self, there: list[Any]) -> list[torch.Tensor]:
        return [(there[i] - self._twin.here[i]).detach() for i in self._chosen]

    def _moved(self, coordinates: Vector) -> list[torch.Tensor]:
        """How the original changes to there."""
        before = self._outputs_here
        self._evaluations += 1
        try:
            for leaf in self._point.leaves:
                leaf.write(coordinates[leaf.block.slice])
            original = flatten_outputs(self._call())
            return [original[i].detach().to(o.dtype) - o for i, o in zip(self._chosen, before, strict=True)]
        finally:
            self._point.restore()

    def _are_alike(self, fine: Sequence[torch.Tensor], coarse: Sequence[torch.Tensor]) -> bool:
        return all(
            _same_change(a, b, o, max(resolution(o.dtype), self._twin.inside))
            for a, b, o in zip(fine, coarse, self._outputs, strict=True)
        )


def _is_still(changes: Sequence[torch.Tensor]) -> bool:
    """Whether nothing moves over a step that only double precision sees."""
    return not any(bool(change.any()) for change in changes)


def _goes_in_steps(slight: Sequence[torch.Tensor], fine: Sequence[torch.Tensor]) -> bool:
    """Whether a tiny step, taken for as long as the other one, tells another slope: none or far too much."""
    for small, large in zip(slight, fine, strict=True):
        moves = large != 0
        count = int(moves.sum())
        if count and int((moves & (small == 0)).sum()) >= _STILL * count:
            return True
        if float(small.abs().double().norm()) > _BENT * float(large.abs().double().norm()) > 0.0:
            return True
    return False


def _same_change(fine: torch.Tensor, coarse: torch.Tensor, output: torch.Tensor, eps: float) -> bool:
    size = output.detach().abs().to(fine.abs().dtype)
    largest = size.max() if size.numel() else 0
    allowed = _SAME_CHANGE * eps * (size + _OF_THE_LARGEST * largest) + _SAME_CHANGE_SHARE * fine.abs()
    nowhere = ~torch.isfinite(fine) & ~torch.isfinite(coarse)
    return bool((((fine.detach() - coarse.detach()).abs() <= allowed) | nowhere).all())


def _same_function(fine: torch.Tensor, coarse: torch.Tensor, eps: float) -> bool:
    """Equal to within a generous round-off of the lower precision."""
    fine, coarse = fine.detach(), coarse.detach()
    difference = (fine - coarse.to(fine.dtype)).abs()
    largest = fine.abs().max() if fine.numel() else torch.zeros(())
    allowed = _SAME_VALUE * eps * (fine.abs() + _OF_THE_LARGEST * largest)
    return bool((difference <= allowed).all())
