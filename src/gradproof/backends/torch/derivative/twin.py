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
from gradproof.backends.torch.derivative.round_off import Rounding
from gradproof.backends.torch.derivative.widening import Widening, wide
from gradproof.backends.torch.tensors.coordinates import build, resolution
from gradproof.backends.torch.tensors.point import Point
from gradproof.backends.twins import (
    OF_THE_LARGEST,
    REACH,
    REACH_IN_EPS,
    SAME_CHANGE,
    SAME_CHANGE_SHARE,
    SAME_VALUE,
)
from gradproof.core.draws import random_probe
from gradproof.core.precision import DERIVATIVE_ROUND_OFF, DOUBLE, HALF_OR_LESS, WIDEST_FORMAT
from gradproof.core.types import Vector

_DOUBLE = (torch.float64, torch.complex128)

# Slopes along the reach and at its beginning differ by so many times its length, relative to the largest.
_CURVED = 4.0
# The largest number that is drawn.
_LONGEST = 1.5
# A step that no lower precision sees, and one that single precision sees. Slopes along the two differ by less than this
# part of the largest, unless the function goes in steps, or jumps at the point: then they do by far more.
_TINY, _NEAR, _BENT, _JUMPS = 2.0**-30, 2.0**-16, 2.0**-6, 2.0**12
# Longer ones that still are tiny, in units of the first; and one of several spacings of single precision.
_TINY_TIMES, _MIDDLE = (4.0, 16.0), 2.0**-20
# Runs of the twin that round, and how far the call may be from what they show.
_RUNS, _BEYOND = 3, 4.0
# If they show more than this part of the largest number, they tell nothing.
_TELLING = 0.125


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
        """Random numbers may be others in double precision: in float32 values would tell, in half they would not."""
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
            twin.is_sharper |= not _same_function(other, output, DOUBLE)
        fine = [twin.here[i].detach() for i in self._chosen]
        pairs = zip(fine, self._outputs, strict=True)
        if all(_same_function(other, output, max(resolution(output.dtype), twin.inside)) for other, output in pairs):
            return True
        return self._is_round_off(fine, self._outputs_here, self._point.coordinates)

    def _is_round_off(self, fine: Sequence[torch.Tensor], coarse: Sequence[torch.Tensor], at: Vector) -> bool:
        """Whether outputs differ by what round-off inside does to them: that of 1e4 x, in sin(1e4 x).

        Both are the twin's and those of the call, for a point.
        """
        spreads = self._spreads(fine, at)
        return all(
            bool(((a - b).abs() <= _BEYOND * spread + SAME_VALUE * self._twin.inside * a.abs()).all())
            for a, b, spread in zip(fine, coarse, spreads, strict=True)
        )

    def _spreads(self, fine: Sequence[torch.Tensor], at: Vector) -> list[torch.Tensor]:
        """By how much round-off moves each number of the outputs, but by no more than a part of the largest of all."""
        spreads = [torch.zeros_like(output.abs()) for output in fine]
        for seed in range(_RUNS):
            with Rounding(self._twin.inside, seed):
                rounded = self._run(at)
            for spread, here, index in zip(spreads, fine, self._chosen, strict=True):
                spread.copy_(torch.maximum(spread, (rounded[index].detach() - here).abs()))
        most = _TELLING * _largest(fine)
        return [(spread + spread.mean()).clamp_(max=most) for spread in spreads]

    def _follows(self) -> bool:
        """Whether twin and original move alike: the twin of a function that also reads inputs by closure does not.

        Nor does a twin that rounds where no operator is seen: it goes in steps, and a tiny step shows less of it than a
        longer one. What both show of a function that bends differs too; that bends less over a step in between.
        """
        point, reach = self._point, max(REACH, REACH_IN_EPS * self._twin.inside)
        slight = self._changes(self._run(point.coordinates + _TINY * self._direction))
        if _is_still(slight) and self._is_stored_low():
            return False
        moved = point.coordinates + reach * self._direction
        point.space.round_in_place(moved)
        coarse = self._moved(moved)
        if _is_still(slight) and not _is_still(coarse):
            return False  # it is rounded where no operator is seen; a flat function stands still over both
        sized = _longer(slight, reach / _TINY)
        if point.space.coarsest_eps > DOUBLE and self._are_alike(sized, coarse, 0.0, min(_CURVED * reach, 0.5)):
            return True
        near = self._changes(self._run(point.coordinates + _NEAR * self._direction))
        telling = self._telling()
        slight, near = [[changes[k] for k in telling] for changes in (slight, near)]
        if _goes_in_steps(_longer(slight, _NEAR / _TINY), near) and not self._is_straight_at_first(slight, near):
            return False
        there = self._run(moved)
        self._twin.is_sharper |= not all(
            _same_function(there[i], change + self._outputs_here[k], DOUBLE)
            for k, (i, change) in enumerate(zip(self._chosen, coarse, strict=True))
        )
        if self._are_alike(self._changes(there), coarse, SAME_CHANGE_SHARE):
            return True
        fine = [there[i].detach() for i in self._chosen]
        pairs = zip(coarse, self._outputs_here, strict=True)
        return self._is_round_off(fine, [change + here for change, here in pairs], moved)

    def _telling(self) -> list[int]:
        """The outputs that are more than round-off of others."""
        here = [self._twin.here[i].detach() for i in self._chosen]
        floor = DERIVATIVE_ROUND_OFF * DOUBLE * _largest(here)
        return [k for k, output in enumerate(here) if not bool((output.abs() <= floor).all())]

    def _is_straight_at_first(self, slight: Sequence[torch.Tensor], near: Sequence[torch.Tensor]) -> bool:
        """Whether what differs over a longer step is straight over all tiny ones, and not still: it bends after them.

        So does sin(1e4 x), or a sorted list with numbers nearby. What goes in steps stands still or jumps.
        """
        bent = [
            _BENT * change.abs().max() < (_NEAR / _TINY * tiny - change).abs() for tiny, change in _pairs(slight, near)
        ]
        differing = sum(int(flags.sum()) for flags in bent)
        straight = [(tiny != 0) & flags for tiny, flags in _pairs(slight, self._stays_straight(slight, near))]
        if 2 * _count(bent, straight) < differing:
            return False
        for times in _TINY_TIMES:
            moved = self._changes(self._run(self._point.coordinates + times * _TINY * self._direction))
            there = [moved[k] for k in self._telling()]
            straight = [
                flags & ((times * tiny - change).abs() <= _BENT * (times * tiny).abs())
                for flags, (tiny, change) in zip(straight, _pairs(slight, there), strict=True)
            ]
        return 2 * _count(bent, straight) >= differing

    def _stays_straight(self, slight: Sequence[torch.Tensor], near: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Where a step of several spacings of single precision still goes on as tiny ones do, not as longer ones do.

        Of a function that rounds a part of it to single precision, tiny steps show the other part only.
        """
        moved = self._changes(self._run(self._point.coordinates + _MIDDLE * self._direction))
        there = [moved[k] for k in self._telling()]
        return [
            (_MIDDLE / _TINY * tiny - change).abs() <= (_MIDDLE / _NEAR * far - change).abs()
            for (tiny, far), change in zip(_pairs(slight, near), there, strict=True)
        ]

    def _is_stored_low(self) -> bool:
        """Whether all outputs are numbers of a lower precision; integers, which a flat function may give, are none."""
        here = [_real(self._twin.here[i].detach()) for i in self._chosen]
        broken = [each[each != each.round()] for each in here]
        return any(map(torch.numel, broken)) and all(bool((each.float() == each).all()) for each in broken)

    @functools.cached_property
    def _direction(self) -> Vector:
        """As long as the point at most, to either side of it at random: no multiple of it, nor of any part of it."""
        coordinates = self._point.coordinates
        return np.abs(coordinates) * random_probe(len(coordinates), 0) / _LONGEST

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

    def _are_alike(
        self, fine: Sequence[torch.Tensor], coarse: Sequence[torch.Tensor], share: float, curved: float = 0.0
    ) -> bool:
        """To within a share of each change, and what slopes differ by where they are `curved`, of the largest."""
        return all(
            _same_change(a, b, o, max(resolution(o.dtype), self._twin.inside), share, curved)
            for a, b, o in zip(fine, coarse, self._outputs, strict=True)
        )


def _largest(outputs: Sequence[torch.Tensor]) -> float:
    return max((float(output.abs().max()) for output in outputs if output.numel()), default=0.0)


def _pairs(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return list(zip(first, second, strict=True))


def _count(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> int:
    """How many elements are marked in both."""
    return sum(int((a & b).sum()) for a, b in _pairs(first, second))


def _is_still(changes: Sequence[torch.Tensor]) -> bool:
    """Whether nothing moves over a step that only double precision sees."""
    return not any(bool(change.any()) for change in changes)


def _longer(changes: Sequence[torch.Tensor], ratio: float) -> list[torch.Tensor]:
    """The changes along a step so many times as long, of a function that is straight."""
    return [(change * ratio).to(change.dtype) for change in changes]


def _goes_in_steps(slight: Sequence[torch.Tensor], near: Sequence[torch.Tensor]) -> bool:
    """Whether a tiny step shows another slope than one a little longer: less, or far too much."""
    for small, large in zip(slight, near, strict=True):
        finite = torch.isfinite(small) & torch.isfinite(large)
        apart, size = (small - large).abs()[finite], large.abs()[finite]
        apart = apart[apart < _JUMPS * size.max()] if apart.numel() else apart  # by as much over either step
        if apart.numel() and bool((apart > _BENT * size.max()).any()):
            return True
    return False


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _same_change(
    fine: torch.Tensor, coarse: torch.Tensor, output: torch.Tensor, eps: float, share: float, curved: float
) -> bool:
    size = output.detach().abs().to(fine.abs().dtype)
    largest = size.max() if size.numel() else 0
    allowed = SAME_CHANGE * eps * (size + OF_THE_LARGEST * largest) + share * fine.abs()
    if curved and fine.numel():
        allowed = allowed + curved * fine.abs().max()
    nowhere = ~torch.isfinite(fine) & ~torch.isfinite(coarse)
    return bool((((fine.detach() - coarse.detach()).abs() <= allowed) | nowhere).all())


def _same_function(fine: torch.Tensor, coarse: torch.Tensor, eps: float) -> bool:
    """Equal to within a generous round-off of the lower precision."""
    fine, coarse = fine.detach(), coarse.detach()
    difference = (fine - coarse.to(fine.dtype)).abs()
    largest = fine.abs().max() if fine.numel() else torch.zeros(())
    allowed = SAME_VALUE * eps * (fine.abs() + OF_THE_LARGEST * largest)
    return bool((difference <= allowed).all())
