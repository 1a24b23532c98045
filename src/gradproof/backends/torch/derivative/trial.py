"""Whether a low-precision call has a twin: whether it computes the same function in double precision.

A few calls of both tell, at the point and beside it. Where numbers inside swallow what the function makes of the point,
as the 1 of 1 - cos(x) does where x is small, the values there are nothing but round-off, and tell nothing: then
round-off must explain how the two differ, and a point further away, at which they tell, is tried instead.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.calls import flatten_outputs
from gradproof.backends.torch.derivative.alike import (
    BENT,
    count,
    goes_in_steps,
    is_still,
    largest,
    longer,
    pairs,
    real,
    same_change,
    same_function,
    same_nowhere,
    without,
)
from gradproof.backends.torch.derivative.round_off import RandomRounding
from gradproof.backends.torch.derivative.twin import NOT_TRIED, Tried, Twin
from gradproof.backends.torch.derivative.widening import Widening, wide
from gradproof.backends.torch.tensors.coordinates import resolution
from gradproof.backends.torch.tensors.point import Point
from gradproof.backends.twins import (
    REACH,
    REACH_IN_EPS,
    SAME_CHANGE_SHARE,
    SAME_VALUE,
)
from gradproof.core.draws import random_probe
from gradproof.core.neighbours import Neighbours
from gradproof.core.precision import DERIVATIVE_ROUND_OFF, DOUBLE, WIDEST_FORMAT
from gradproof.core.types import Vector

_DOUBLE = (torch.float64, torch.complex128)

# Slopes along the reach and at its beginning differ by so many times its length, relative to the largest.
_CURVED = 4.0
# The largest number that is drawn.
_LONGEST = 1.5
# A step that no lower precision sees, and one that single precision sees.
_TINY, _NEAR = 2.0**-30, 2.0**-16
# Longer ones that still are tiny, in units of the first; and one of several spacings of single precision.
_TINY_TIMES, _MIDDLE = (4.0, 16.0), 2.0**-20
# Runs of the twin that round, and how far the call may be from what they show.
_RUNS, _BEYOND = 3, 4.0
# If they show more than this part of the largest number, they tell nothing.
_TELLING = 0.125
# If they show more than this part of it, values are blurred; less than that one, or than so many eps, and they tell.
_BLURRED, _CLEAR, _CLEAR_IN_EPS = 2.0**-5, 2.0**-8, 8.0
# Round-off of one number of order one, in eps.
_OF_ONE = 2.0
# How much further away points are, in units of their own length, at which that is looked for.
_FURTHER = tuple(2.0**k for k in range(1, 41))
# Coordinates that are zero are taken to be as long as this there.
_SHORTEST = 2.0**-32


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


@dataclasses.dataclass(frozen=True)
class _Base:
    """A point at which the two are compared: all outputs of the twin there, and the chosen ones of the call itself."""

    coordinates: Vector
    wide: list[Any]
    outputs: Sequence[torch.Tensor]

    @functools.cached_property
    def copies(self) -> list[torch.Tensor]:
        """Copies of the outputs of the call itself: one may be an input."""
        return [output.detach().clone().to(wide(output.dtype)) for output in self.outputs]


class _Trial:
    """Whether a call has a twin: a few calls of both tell, the fewer the sooner it shows that it has none."""

    def __init__(self, call: Call, point: Point, chosen: Sequence[int], outputs: Sequence[torch.Tensor]) -> None:
        self._call, self._point, self._chosen = call, point, chosen
        self._evaluations = 0
        self._twin = Twin(call, point)
        self._drawn = self._twin.drawn
        self._at = _Base(point.coordinates, [], outputs)
        self._nowhere: dict[int, torch.Tensor] = {}
        """Which elements of an output are no finite numbers, of twin and call alike."""
        self._spreads_here: list[torch.Tensor] | None = None
        """By how much round-off moves each number of the outputs at the point, once that was asked."""

    def run(self) -> Tried:
        """Random numbers may be others in double precision: those of the call are recorded first, and given to it."""
        if any(tensor.layout is not torch.strided for tensor in self._point.tensors):
            return NOT_TRIED
        twin = self._twin
        try:
            widened = self._widened_here()
            twin.widens, twin.inside = widened.coarsest > 0.0, max(self._point.space.coarsest_eps, widened.coarsest)
            if twin.inside > WIDEST_FORMAT:
                return Tried(None, self._evaluations)
            self._nowhere = same_nowhere(twin.here, self._chosen, self._at.outputs)
            self._at = _Base(self._at.coordinates, self._told(twin.here), self._chosen_told(self._at.outputs))
            are_wide = self._are_wide()
            is_one = (are_wide and self._follows()) or self._is_one_further_away()
            is_one = is_one and self._drawn.is_same
        except Exception:  # whatever it raises in another precision, or on a device without it: it does not run there
            are_wide = is_one = False
        return Tried(twin if is_one else None, self._evaluations, twin.here if are_wide else None)

    def _widened_here(self) -> Widening:
        """Run the twin at the point, with the random numbers of the call."""
        if self._drawn.draws:
            self._called(self._point.coordinates)
        with self._drawn.noticing() as noticing, Widening() as widened:
            self._twin.here = self._run(self._point.coordinates)
        if noticing is not None and self._drawn.draws:  # from generators of its own
            self._called(self._point.coordinates)
            with Widening() as widened:
                self._twin.here = self._run(self._point.coordinates)
        return widened

    def _run(self, coordinates: Vector) -> list[Any]:
        self._evaluations += 1
        return self._told(self._twin.run(coordinates))

    def _told(self, outputs: list[Any]) -> list[Any]:
        """All outputs, with zeros where twin and call are the same that is no finite number: that tells nothing."""
        return [without(output, self._nowhere.get(index)) for index, output in enumerate(outputs)]

    def _chosen_told(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The same of the chosen ones."""
        return [without(o, self._nowhere.get(i)) for i, o in zip(self._chosen, outputs, strict=True)]

    def _are_wide(self) -> bool:
        """Whether the outputs of a twin are those of the call in double precision."""
        if not self._have_forms():
            return False
        twin, both = self._twin, list(zip(self._fine, self._at.outputs, strict=True))
        twin.is_sharper |= not all(same_function(other, output, DOUBLE) for other, output in both)
        if all(same_function(other, output, max(resolution(output.dtype), twin.inside)) for other, output in both):
            return True
        return self._is_round_off(self._fine, self._outputs_here, self._at.coordinates)

    def _have_forms(self) -> bool:
        """Whether the outputs of a twin have the shapes of the others, and numbers of double precision."""
        for index, output in zip(self._chosen, self._at.outputs, strict=True):
            other = self._at.wide[index] if index < len(self._at.wide) else None
            if not isinstance(other, torch.Tensor) or other.shape != output.shape or other.dtype != wide(output.dtype):
                return False
        return True

    def _is_one_further_away(self) -> bool:
        """Whether it is at a point further away, where what round-off explains here is no explanation any more.

        That is, where values here are so much made of round-off that they cannot tell.
        """
        here = self._at
        if self._twin.inside <= DOUBLE or not self._have_forms():
            return False
        spreads = self._spreads_here
        if spreads is None:
            return False  # the values are the same, and so they tell
        blur = self._blur(spreads)
        if not blur:
            return False
        try:
            return any(self._are_wide() and self._follows() for self._at in self._further_away(here, blur))
        finally:
            self._at = here

    def _blur(self, spreads: Sequence[torch.Tensor]) -> float:
        """What round-off makes of the values here, where they are so much made of it that they do not tell; or zero.

        Inside one operator, as in a loss of 1e-5, numbers of order one may be rounded, and no run of the twin shows it.
        """
        seen, of_one = largest(spreads), _OF_ONE * self._twin.inside
        if seen > max(_BLURRED, 2.0 * self._clear) * largest(self._fine):
            return seen if self._is_within(self._fine, self._outputs_here, spreads) else 0.0
        apart = largest([fine - here for fine, here in zip(self._fine, self._outputs_here, strict=True)])
        return of_one if apart <= of_one else 0.0

    def _further_away(self, here: _Base, blur: float) -> Iterator[_Base]:
        """The nearest point, to either side, at which values are far larger than what round-off makes of them.

        `blur` is what it does at the point itself: where values are less than that says, it is not asked what it does.
        """
        for side in (1.0, -1.0):
            for times in _FURTHER:
                there = here.coordinates + side * times * _along(np.maximum(np.abs(here.coordinates), _SHORTEST))
                self._point.space.round_in_place(there)
                outputs = self._run(there)
                fine = [outputs[i].detach() for i in self._chosen]
                if not all(bool(torch.isfinite(each).all()) for each in fine):
                    break
                size = self._clear * largest(fine)
                if 2.0 * size >= blur and size >= largest(self._spreads(fine, there)):
                    yield _Base(there, outputs, self._called(there))
                    break

    @property
    def _clear(self) -> float:
        """Values tell clearly where round-off is less than this part of the largest."""
        return max(_CLEAR, _CLEAR_IN_EPS * self._twin.inside)

    @property
    def _fine(self) -> list[torch.Tensor]:
        """The outputs of the twin."""
        return [self._at.wide[i].detach() for i in self._chosen]

    def _is_round_off(self, fine: Sequence[torch.Tensor], coarse: Sequence[torch.Tensor], at: Vector) -> bool:
        """Whether outputs differ by what round-off inside does to them: that of 1e4 x, in sin(1e4 x).

        Both are the twin's and those of the call, for a point. What round-off does is no more than a part of the
        largest of all numbers: else they tell nothing.
        """
        most, spreads = _TELLING * largest(fine), self._spreads(fine, at)
        if at is self._point.coordinates:
            self._spreads_here = spreads
        return self._is_within(fine, coarse, [spread.clamp(max=most) for spread in spreads])

    def _is_within(
        self, fine: Sequence[torch.Tensor], coarse: Sequence[torch.Tensor], spreads: Sequence[torch.Tensor]
    ) -> bool:
        return all(
            bool(((a - b).abs() <= _BEYOND * spread + SAME_VALUE * self._twin.inside * a.abs()).all())
            for a, b, spread in zip(fine, coarse, spreads, strict=True)
        )

    def _spreads(self, fine: Sequence[torch.Tensor], at: Vector) -> list[torch.Tensor]:
        """By how much round-off moves each number of the outputs: a few runs show too little of it here and there."""
        spreads = [torch.zeros_like(output.abs()) for output in fine]
        eps = self._twin.inside
        for seed, near in enumerate(Neighbours(self._point.space, at, eps, seed=0).points(_RUNS)):
            with RandomRounding(eps, seed):
                rounded = self._run(near)
            for spread, here, index in zip(spreads, fine, self._chosen, strict=True):
                spread.copy_(torch.maximum(spread, (rounded[index].detach() - here).abs()))
        return [spread + spread.mean() for spread in spreads]

    def _follows(self) -> bool:
        """Whether twin and original move alike: the twin of a function that also reads inputs by closure does not.

        Nor does a twin that rounds where no operator is seen: it goes in steps, and a tiny step shows less of it than a
        longer one. What both show of a function that bends differs too; that bends less over a step in between.
        """
        point, reach = self._point, max(REACH, REACH_IN_EPS * self._twin.inside)
        slight = self._changes(self._run(self._at.coordinates + _TINY * self._direction))
        if is_still(slight) and self._is_stored_low():
            return False
        moved = self._at.coordinates + reach * self._direction
        point.space.round_in_place(moved)
        coarse = self._moved(moved)
        if is_still(slight) and not is_still(coarse):
            return False  # it is rounded where no operator is seen; a flat function stands still over both
        sized = longer(slight, reach / _TINY)
        if point.space.coarsest_eps > DOUBLE and self._are_alike(sized, coarse, 0.0, min(_CURVED * reach, 0.5)):
            return True
        near = self._changes(self._run(self._at.coordinates + _NEAR * self._direction))
        telling = self._telling()
        slight, near = [[changes[k] for k in telling] for changes in (slight, near)]
        if goes_in_steps(longer(slight, _NEAR / _TINY), near) and not self._is_straight_at_first(slight, near):
            return False
        there = self._run(moved)
        self._twin.is_sharper |= not all(
            same_function(there[i], change + self._outputs_here[k], DOUBLE)
            for k, (i, change) in enumerate(zip(self._chosen, coarse, strict=True))
        )
        if self._are_alike(self._changes(there), coarse, SAME_CHANGE_SHARE):
            return True
        fine = [there[i].detach() for i in self._chosen]
        both = zip(coarse, self._outputs_here, strict=True)
        return self._is_round_off(fine, [change + here for change, here in both], moved)

    def _telling(self) -> list[int]:
        """The outputs that are more than round-off of others."""
        here = self._fine
        floor = DERIVATIVE_ROUND_OFF * DOUBLE * largest(here)
        return [k for k, output in enumerate(here) if not bool((output.abs() <= floor).all())]

    def _is_straight_at_first(self, slight: Sequence[torch.Tensor], near: Sequence[torch.Tensor]) -> bool:
        """Whether what differs over a longer step is straight over all tiny ones, and not still: it bends after them.

        So does sin(1e4 x), or a sorted list with numbers nearby. What goes in steps stands still or jumps.
        """
        bent = [
            BENT * change.abs().max() < (_NEAR / _TINY * tiny - change).abs() for tiny, change in pairs(slight, near)
        ]
        differing = sum(int(flags.sum()) for flags in bent)
        straight = [(tiny != 0) & flags for tiny, flags in pairs(slight, self._stays_straight(slight, near))]
        if 2 * count(bent, straight) < differing:
            return False
        for times in _TINY_TIMES:
            moved = self._changes(self._run(self._at.coordinates + times * _TINY * self._direction))
            there = [moved[k] for k in self._telling()]
            straight = [
                flags & ((times * tiny - change).abs() <= BENT * (times * tiny).abs())
                for flags, (tiny, change) in zip(straight, pairs(slight, there), strict=True)
            ]
        return 2 * count(bent, straight) >= differing

    def _stays_straight(self, slight: Sequence[torch.Tensor], near: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Where a step of several spacings of single precision still goes on as tiny ones do, not as longer ones do.

        Of a function that rounds a part of it to single precision, tiny steps show the other part only.
        """
        moved = self._changes(self._run(self._at.coordinates + _MIDDLE * self._direction))
        there = [moved[k] for k in self._telling()]
        return [
            (_MIDDLE / _TINY * tiny - change).abs() <= (_MIDDLE / _NEAR * far - change).abs()
            for (tiny, far), change in zip(pairs(slight, near), there, strict=True)
        ]

    def _is_stored_low(self) -> bool:
        """Whether all outputs are numbers of a lower precision; integers, which a flat function may give, are none."""
        here = [real(each) for each in self._fine]
        broken = [each[each != each.round()] for each in here]
        return any(map(torch.numel, broken)) and all(bool((each.float() == each).all()) for each in broken)

    @property
    def _direction(self) -> Vector:
        return _along(self._at.coordinates)

    @property
    def _outputs_here(self) -> list[torch.Tensor]:
        return self._at.copies

    def _changes(self, there: list[Any]) -> list[torch.Tensor]:
        return [(there[i] - self._at.wide[i]).detach() for i in self._chosen]

    def _moved(self, coordinates: Vector) -> list[torch.Tensor]:
        """How the original changes to there."""
        before = self._outputs_here
        return [there.to(o.dtype) - o for there, o in zip(self._called(coordinates), before, strict=True)]

    def _called(self, coordinates: Vector) -> list[torch.Tensor]:
        """What the call itself gives there."""
        self._evaluations += 1
        try:
            for leaf in self._point.leaves:
                leaf.write(coordinates[leaf.block.slice])
            original = flatten_outputs(self._drawn.by_call(self._call))
            copies = [original[i].detach().clone() for i in self._chosen]  # one may be an input
            return self._chosen_told(copies)
        finally:
            self._point.restore()

    def _are_alike(
        self, fine: Sequence[torch.Tensor], coarse: Sequence[torch.Tensor], share: float, curved: float = 0.0
    ) -> bool:
        """To within a share of each change, and what slopes differ by where they are `curved`, of the largest."""
        return all(
            same_change(a, b, o, max(resolution(o.dtype), self._twin.inside), share, curved)
            for a, b, o in zip(fine, coarse, self._at.outputs, strict=True)
        )


def _along(coordinates: Vector) -> Vector:
    """As long as a point at most, to either side of it at random: no multiple of it, nor of any part of it."""
    return np.abs(coordinates) * random_probe(len(coordinates), 0) / _LONGEST
