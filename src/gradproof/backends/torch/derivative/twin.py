"""The float64 twin of a low-precision call.

float32 and below are too coarse to difference well. Where the function runs in float64, its numerical side is evaluated
there, at the very same point: the low-precision numbers are float64 numbers too. What it casts inside, or mixes in of
low-precision tensors of its own, is widened on the way (`derivative/widening.py`). Where it does not run there (it has
a kernel for one dtype only), there is no twin, and error bars are what the native dtype allows.

`Twin` evaluates without a graph of its own; `WideCall` is the call itself on float64 copies, of which a whole Problem
can be made, derivative included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

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
# A point that no lower precision can hold is this far from one that it can.
_APART = 1e-3 / 3.0
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


def find_twin(call: Call, point: Point, chosen: Sequence[int], outputs: Sequence[torch.Tensor]) -> Twin | None:
    """The twin of a low-precision call, if there is one that computes the same function in double precision.

    `outputs` are those of the call itself whose numbers are `chosen`.
    """
    if all(tensor.dtype in _DOUBLE for tensor in point.tensors):
        return None
    return _twin(call, point, chosen, outputs)


def find_widened(call: Call, point: Point, chosen: Sequence[int], outputs: Sequence[torch.Tensor]) -> Twin | None:
    """The twin of a call in double precision that computes in a lower one inside, by casts that it can do without."""
    twin = _twin(call, point, chosen, outputs)
    return twin if twin is not None and twin.is_sharper else None


def _twin(call: Call, point: Point, chosen: Sequence[int], outputs: Sequence[torch.Tensor]) -> Twin | None:
    """Random numbers may be others in double precision: in float32 the values would tell, in half they would not."""
    if any(tensor.layout is not torch.strided for tensor in point.tensors):
        return None
    try:
        twin = Twin(call, point)
        with Widening() as widened:
            twin.here = twin.run(point.coordinates)
        twin.widens, twin.inside = widened.coarsest > 0.0, max(point.space.coarsest_eps, widened.coarsest)
        if twin.inside > WIDEST_FORMAT or (call.draws and twin.inside > HALF_OR_LESS):
            return None
        is_one = _are_wide(twin, chosen, outputs) and _follows(call, twin, point, chosen, outputs)
    except Exception:  # whatever it raises in another precision, or on a device without it: it does not run there
        return None
    return twin if is_one and not _is_coarse(twin, point, chosen) else None


def _are_wide(twin: Twin, chosen: Sequence[int], outputs: Sequence[torch.Tensor]) -> bool:
    """Whether the outputs of a twin are those of the call in double precision."""
    for index, output in zip(chosen, outputs, strict=True):
        other = twin.here[index] if index < len(twin.here) else None
        if not isinstance(other, torch.Tensor) or other.shape != output.shape or other.dtype != wide(output.dtype):
            return False
        if not _same_function(other, output, max(resolution(output.dtype), twin.inside)):
            return False
        twin.is_sharper |= not _same_function(other, output, DOUBLE)
    return True


def _follows(call: Call, twin: Twin, point: Point, chosen: Sequence[int], outputs: Sequence[torch.Tensor]) -> bool:
    """Whether twin and original move alike: the twin of a function that also reads inputs by closure does not."""
    reach = max(_REACH, _REACH_IN_EPS * twin.inside)
    moved = point.coordinates + reach * np.abs(point.coordinates)
    point.space.round_in_place(moved)
    there = twin.run(moved)
    before = [output.detach().clone() for output in outputs]  # it may be an input itself
    try:
        for leaf in point.leaves:
            leaf.write(moved[leaf.block.slice])
        original = flatten_outputs(call())
        twin.is_sharper |= not all(_same_function(there[i], original[i], DOUBLE) for i in chosen)
        changes = [
            (there[i] - twin.here[i], (original[i] - o).to(there[i].dtype)) for i, o in zip(chosen, before, strict=True)
        ]
    finally:
        point.restore()
    return all(
        _same_change(fine, coarse, o, max(resolution(o.dtype), twin.inside))
        for (fine, coarse), o in zip(changes, before, strict=True)
    )


def _is_coarse(twin: Twin, point: Point, chosen: Sequence[int]) -> bool:
    """Whether all that changes are numbers of a lower precision, at a point that is none: something rounds inside."""
    there = twin.run(point.coordinates * (1.0 - _APART))
    changed = [_changed(there[i].detach(), twin.here[i].detach()) for i in chosen]
    return any(bool(each.numel()) and bool((each.float() == each).all()) for each in changed)


def _changed(there: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
    """The real numbers that changed. Integers are left out: a function may be made of them."""
    if there.is_complex():
        there, here = (torch.view_as_real(each.resolve_conj()) for each in (there, here))
    return there[(there != here) & (there != there.round())]


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
