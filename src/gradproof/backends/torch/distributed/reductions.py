"""Which reduction is missing, doubled or averaged: what a wrong gradient of several ranks has to do with the right one.

The right one is known along a direction, by evaluations. If all ranks' gradients together give it and each alone does
not, nobody added them up. If it is W times too large on W ranks, somebody did so twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gradproof.backends.torch.distributed.conventions import Held, Key
from gradproof.backends.torch.distributed.inference import Assigned, paired
from gradproof.backends.torch.distributed.slopes import Parts, Slopes, within
from gradproof.core.types import Vector

_CLOSE = 1e-3
"""How closely a ratio must be met to be named."""


class Reductions:
    """Looks at one wrong input after the other."""

    def __init__(self, slopes: Slopes, inputs: Assigned, outputs: Assigned) -> None:
        self._slopes, self._inputs, self._outputs = slopes, inputs, outputs
        self._cotangents = slopes.cotangents({key: held is not Held.VARYING for key, held in outputs.items()})
        self._gradients = slopes.pull(self._cotangents)
        self._close = max(_CLOSE, 2 * slopes.close)

    def cause(self, key: Key) -> str:
        """The reduction that explains a wrong gradient of this input; empty: none does."""
        ways = self._of_own_part if self._inputs[key] is Held.VARYING else self._of_copies
        return next(ways(key), "")

    # copies of one tensor

    def _of_copies(self, key: Key) -> Iterator[str]:
        direction = self._slopes.direction(key, alike=True)
        right = self._right(direction)
        own = self._along(key, direction)
        size, total = len(own), sum(own.values())
        if self._inputs[key] is Held.REPLICATED:
            if self._agree(own):
                yield from self._factor(next(iter(own.values())), right, size)
            elif self._is(total, right):
                yield (
                    f"the gradients of the {size} ranks add up to the right one, but each rank holds its own share "
                    "only: an all-reduce (sum) of this gradient is missing in backward"
                )
        else:
            if self._agree(own) and self._is(next(iter(own.values())), right):
                yield f"every rank holds the whole gradient, so that their sum counts it {size} times"
            yield from self._factor(total, right, size)
            return
        yield from self._some(own, right)

    def _some(self, own: Mapping[int, float], right: float) -> Iterator[str]:
        wrong = [rank for rank, each in own.items() if not self._is(each, right)]
        if 0 < len(wrong) < len(own):
            yield f"wrong on {_ranks(wrong)} only, right on the others"

    # a part of its own on each rank

    def _of_own_part(self, key: Key) -> Iterator[str]:
        ranks = list(within(self._gradients, key, self._slopes.shares))
        directions = {rank: self._slopes.direction(key, alike=False, ranks=[rank]) for rank in ranks}
        slopes = {rank: self._slopes.along(direction) for rank, direction in directions.items()}
        right = {rank: paired(self._cotangents, slopes[rank], self._outputs, self._slopes.shares)[0] for rank in ranks}
        own = {rank: self._along(key, directions[rank])[rank] for rank in ranks}
        wrong = [rank for rank in ranks if not self._is(own[rank], right[rank])]
        if not wrong:
            return
        world = len(self._slopes.shares)
        yield from self._common_factor(own, right, wrong, world)
        yield from self._only_own_outputs(own, slopes, wrong)
        yield from self._of_another_rank(key, directions, right, wrong)
        if len(wrong) < len(ranks):
            yield f"wrong on {_ranks(wrong)} only, right on the others"

    def _common_factor(
        self, own: Mapping[int, float], right: Mapping[int, float], wrong: Sequence[int], world: int
    ) -> Iterator[str]:
        found = {next(self._factor(own[rank], right[rank], world), "") for rank in wrong}
        if len(found) == 1 and "" not in found:
            yield found.pop()

    def _only_own_outputs(
        self, own: Mapping[int, float], slopes: Mapping[int, Parts], wrong: Sequence[int]
    ) -> Iterator[str]:
        """A rank's outputs depend on the inputs of others, and what comes back from there is lost."""
        if all(held is not Held.REPLICATED for held in self._outputs.values()) and all(
            self._is(own[rank], float(self._cotangents[rank] @ slopes[rank][rank])) for rank in wrong
        ):
            yield (
                "each rank's gradient is that of its own outputs only: what the outputs of the other ranks send back "
                "is missing (a reduction or exchange of cotangents in backward)"
            )

    def _of_another_rank(
        self, key: Key, directions: Mapping[int, Parts], right: Mapping[int, float], wrong: Sequence[int]
    ) -> Iterator[str]:
        gradients = within(self._gradients, key, self._slopes.shares)
        source: dict[int, int] = {}
        for rank in wrong:
            moved: Vector = within(directions[rank], key, self._slopes.shares)[rank]
            for other, gradient in gradients.items():
                if other != rank and gradient.shape == moved.shape and self._is(float(gradient @ moved), right[rank]):
                    source[rank] = other
        if source and len(source) == len(wrong):
            told = ", ".join(f"rank {other} returns that of rank {rank}" for rank, other in source.items())
            yield f"the gradients are those of other ranks' parts: {told} (a slice or a shift by the wrong rank)"

    # numbers

    def _right(self, direction: Parts) -> float:
        slopes = self._slopes.along(direction)
        return paired(self._cotangents, slopes, self._outputs, self._slopes.shares)[0]

    def _along(self, key: Key, direction: Parts) -> dict[int, float]:
        gradients, moved = (within(parts, key, self._slopes.shares) for parts in (self._gradients, direction))
        return {rank: float(gradients[rank] @ moved[rank]) for rank in gradients}

    def _is(self, value: float, wanted: float) -> bool:
        return bool(abs(value - wanted) <= self._close * abs(wanted))

    def _agree(self, own: Mapping[int, float]) -> bool:
        first = next(iter(own.values()))
        return all(self._is(each, first) for each in own.values())

    def _factor(self, value: float, right: float, size: int) -> Iterator[str]:
        """A ratio that is a power of the number of ranks."""
        if not right or not np.isfinite(value):
            return
        for power, told in _POWERS.items():
            if self._is(value, right * float(size) ** power):
                yield f"{_times(size, power)} the right gradient on {size} ranks: {told}"


_POWERS = {
    1: "a reduction too many in backward, or copies that are counted once for each rank",
    -1: "averaged over the ranks where it should be summed, or divided by their number once too often",
    2: "two reductions too many in backward",
    -2: "divided twice by the number of ranks",
}


def _times(size: int, power: int) -> str:
    return f"{size**power} times" if power > 0 else f"1/{size**-power} of"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
