"""Under which conventions a derivative is right, where nobody declared them.

For each convention of the outputs there is one vjp, and for each input a direction in which copies move together and
one in which every rank moves by itself. One identity judges all combinations: the sum over ranks of <v, J u> is that of
<g, u>, where copies move together and count once. What is inferred is only which convention the verdict is about; the
check that follows is the same as of a declared one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gradproof.backends.torch.distributed.conventions import (
    OF_INPUTS,
    OF_OUTPUTS,
    Conventions,
    Held,
    Holding,
    Key,
    key_of,
)
from gradproof.backends.torch.distributed.local import Share
from gradproof.backends.torch.distributed.slopes import Parts, Slopes, within
from gradproof.core.space import Block
from gradproof.core.types import Vector

_MOST_MIXED = 3
"""Up to so many outputs, each may be held in its own way; beyond, all in one."""
_SAME = 1e3
"""Copies of an output may differ by this many eps: they may be summed in another order on each rank."""

Assigned = Mapping[Key, Held]


class Inferred(NamedTuple):
    """The convention that the check is about, and in words all under which the derivative is right."""

    inputs: Assigned
    outputs: Assigned
    holds: tuple[str, ...]


def keys_of(blocks: Sequence[Sequence[Block]]) -> list[Key]:
    """The tensors that any rank has, in order."""
    return list(dict.fromkeys(key_of(block) for own in blocks for block in own))


def possible_inputs(shares: Sequence[Share], key: Key) -> tuple[Held, ...]:
    """What an input can be: copies are equal to the last bit."""
    values = [share.point[block.slice] for share in shares for block in share.inputs if key_of(block) == key]
    shapes = {block.shape for share in shares for block in share.inputs if key_of(block) == key}
    copies = len(values) == len(shares) > 1 and len(shapes) == 1
    return OF_INPUTS if copies and all(np.array_equal(values[0], other) for other in values) else (Held.VARYING,)


def possible_outputs(shares: Sequence[Share], key: Key) -> tuple[Held, ...]:
    """What an output can be: copies are equal but for round-off, terms have one shape."""
    found = [(block, share.value[block.slice]) for share in shares for block in share.outputs if key_of(block) == key]
    if len(found) < len(shares) or len(shares) == 1 or len({block.shape for block, _ in found}) > 1:
        return (Held.VARYING,)
    first, eps = found[0][1], found[0][0].eps
    allowed = _SAME * eps * float(np.abs(first).max(initial=0.0))
    copies = all(np.abs(other - first).max(initial=0.0) <= allowed for _, other in found)
    return tuple(held for held in OF_OUTPUTS if copies or held is not Held.REPLICATED)


class Inference:
    """Asks what it takes to tell conventions apart."""

    def __init__(self, slopes: Slopes, declared_inputs: Assigned, declared_outputs: Assigned) -> None:
        self._slopes, self._shares = slopes, slopes.shares
        self.inputs = {
            key: (declared_inputs[key],) if key in declared_inputs else possible_inputs(self._shares, key)
            for key in keys_of([share.inputs for share in self._shares])
        }
        self.outputs = {
            key: (declared_outputs[key],) if key in declared_outputs else possible_outputs(self._shares, key)
            for key in keys_of([share.outputs for share in self._shares])
        }

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to choose."""
        return all(len(held) == 1 for held in (*self.inputs.values(), *self.outputs.values()))

    def infer(self) -> Inferred:
        """The most general convention that holds; where none does, the one that is least wrong."""
        if self.is_settled:
            return Inferred(
                {key: held[0] for key, held in self.inputs.items()},
                {key: held[0] for key, held in self.outputs.items()},
                (),
            )
        candidates = [(outputs, self._judged(outputs)) for outputs in self._ways()]
        right = [(outputs, judged) for outputs, judged in candidates if all(_holding(each) for each in judged.values())]
        if not right:
            outputs, judged = min(candidates, key=_implausible)
            return Inferred({key: _most_plausible(miss) for key, miss in judged.items()}, outputs, ())
        outputs, judged = right[0]
        told = tuple(self._in_words(outputs, judged) for outputs, judged in right)
        return Inferred({key: _holding(miss)[0] for key, miss in judged.items()}, outputs, told)

    def _ways(self) -> Iterator[dict[Key, Held]]:
        """The conventions of the outputs, the most general first."""
        keys = list(self.outputs)
        if len(keys) <= _MOST_MIXED:
            ways = sorted(itertools.product(*self.outputs.values()), key=lambda way: sum(map(OF_OUTPUTS.index, way)))
            yield from (dict(zip(keys, way, strict=True)) for way in ways)
        else:
            for held in OF_OUTPUTS:
                if all(held in possible or len(possible) == 1 for possible in self.outputs.values()):
                    yield {key: held if held in possible else possible[0] for key, possible in self.outputs.items()}

    def _judged(self, outputs: Assigned) -> dict[Key, dict[Held, float]]:
        """For each input and each convention of it, how far the identity is missed, in units of what is allowed."""
        cotangents = self._slopes.cotangents({key: held is not Held.VARYING for key, held in outputs.items()})
        gradients = self._slopes.pull(cotangents)
        return {
            key: {held: self._missed(key, held, outputs, cotangents, gradients) for held in possible}
            for key, possible in self.inputs.items()
        }

    def _missed(self, key: Key, held: Held, outputs: Assigned, cotangents: Parts, gradients: Parts) -> float:
        direction, slopes = self._moved(key, held is not Held.VARYING)
        numeric, size = paired(cotangents, slopes, outputs, self._shares)
        own, moved = within(gradients, key, self._shares), within(direction, key, self._shares)
        terms = [float(own[rank] @ moved[rank]) for rank in own]
        sums = terms if held is Held.REPLICATED else [sum(terms)]
        missed = max(abs(each - numeric) for each in sums)
        return missed / (self._slopes.close * max(size, abs(numeric), 1e-300))

    @functools.cache  # noqa: B019 (lives as long as the check)
    def _moved(self, key: Key, alike: bool) -> tuple[Parts, Parts]:
        direction = self._slopes.direction(key, alike)
        return direction, self._slopes.along(direction)

    def _in_words(self, outputs: Assigned, judged: Mapping[Key, Mapping[Held, float]]) -> str:
        of_inputs = ", ".join(
            f"{_label(key)} {' or '.join(held.value for held in _holding(miss))}" for key, miss in judged.items()
        )
        of_outputs = ", ".join(f"{_label(key)} {held.value}" for key, held in outputs.items())
        return f"{of_inputs}; {of_outputs}"


def paired(cotangents: Parts, slopes: Parts, outputs: Assigned, shares: Sequence[Share]) -> tuple[float, float]:
    """<v, J u> where copies count once; and the size of what was added up."""
    total, squares = 0.0, 0.0
    counted: set[Key] = set()
    for rank, share in enumerate(shares):
        for block in share.outputs:
            key = key_of(block)
            if outputs[key] is Held.REPLICATED and key in counted:
                continue
            counted.add(key)
            terms: Vector = cotangents[rank][block.slice] * slopes[rank][block.slice]
            total += float(terms.sum())
            squares += float(terms @ terms)
    return total, squares**0.5


def _holding(missed: Mapping[Held, float]) -> list[Held]:
    return [held for held, miss in missed.items() if miss <= 1.0]


def _implausible(candidate: tuple[Assigned, Mapping[Key, Mapping[Held, float]]]) -> tuple[int, int]:
    """Where no convention holds: how many inputs are wrong, then how many outputs are equal and yet not copies."""
    outputs, judged = candidate
    wrong = sum(not _holding(missed) for missed in judged.values())
    return wrong, -sum(held is Held.REPLICATED for held in outputs.values())


def _most_plausible(missed: Mapping[Held, float]) -> Held:
    """One that holds; else what is equal on all ranks is a copy."""
    return next(iter(_holding(missed)), [*missed][-1])


def _label(key: Key) -> str:
    name = f" `{key.name}`" if key.name else ""
    return f"parameter `{key.name}`" if key.kind == "parameter" else f"{key.kind} {key.index}{name}"


def as_conventions(assigned: Assigned, known: Sequence[Mapping[Key, Holding]]) -> Conventions:
    """What each rank holds, by what was assigned to tensors and, for sets of copies, known of each rank."""

    def holding(rank: int, block: Block) -> Holding:
        key = key_of(block)
        return known[rank].get(key, Holding(Held.VARYING))._replace(held=assigned[key])

    return holding
