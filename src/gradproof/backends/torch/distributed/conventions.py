"""What the tensors of all ranks are to each other: parts of one, copies of one, or terms of a sum.

The map under test is that of all ranks together. A tensor that each rank has for itself is a block for each rank.
Copies of one tensor are one block: they move together, and count once. So are the terms of a partial sum.
"""

from __future__ import annotations

import dataclasses
import enum
import fnmatch
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradproof.core.problem import NothingToCheckError
from gradproof.core.space import Block, Space
from gradproof.core.types import Vector


class DeclarationError(NothingToCheckError):
    """What was declared cannot be: the call is wrong, and says nothing of a derivative."""


class Held(enum.Enum):
    """What a rank holds of a tensor."""

    VARYING = "varying"
    """Its own part: each rank's is another input, or another output."""
    REPLICATED = "replicated"
    """A copy of one tensor. Of an input each rank's backward gives the whole gradient; of an output all ranks get the
    same cotangent."""
    SHARES = "shares"
    """A copy of one input, of whose gradient each rank's backward gives a share: their sum is the gradient."""
    PARTIAL = "partial"
    """A term of one output: their sum over the ranks is the output, and all ranks get the same cotangent."""


OF_INPUTS = (Held.VARYING, Held.SHARES, Held.REPLICATED)
OF_OUTPUTS = (Held.VARYING, Held.REPLICATED, Held.PARTIAL)
"""What inputs and outputs can be, the most general first."""

Declared = str | Sequence[str] | Mapping[str | int, str] | None
"""What a caller says: one word for all, one for each argument or output, or words by name, pattern or number."""


@dataclass(frozen=True, slots=True)
class Key:
    """Which tensor a block is, on whatever rank."""

    kind: str
    index: int
    name: str


def key_of(block: Block) -> Key:
    return Key(block.kind, block.index, block.name)


class Holding(NamedTuple):
    """What one rank holds of one tensor, and which ranks belong together: those of the same `set`."""

    held: Held
    set: Hashable = None


Conventions = Callable[[int, Block], Holding]
"""What a rank holds of a block of its own."""


class Member(NamedTuple):
    """Where the coordinates of a block lie on a rank."""

    rank: int
    slice: slice


@dataclass(frozen=True, slots=True)
class Joined:
    """A block of all ranks together."""

    block: Block
    held: Held
    members: tuple[Member, ...]


class Layout:
    """The coordinates of all ranks together, and where they lie on each."""

    def __init__(self, blocks: Sequence[Sequence[Block]], conventions: Conventions) -> None:
        """`blocks` are those of each rank."""
        self.sizes = [own[-1].stop if own else 0 for own in blocks]
        members: dict[Hashable, list[Member]] = {}
        held: dict[Hashable, tuple[Held, Block]] = {}
        for rank, own in enumerate(blocks):
            for block in own:
                holding = conventions(rank, block)
                together = rank if holding.held is Held.VARYING else ("together", holding.set)
                members.setdefault((key_of(block), together), []).append(Member(rank, block.slice))
                held.setdefault((key_of(block), together), (holding.held, block))
        self.joined: list[Joined] = []
        start = 0
        for which, (how, block) in held.items():
            placed = dataclasses.replace(block, start=start, holder=_holder(members[which], len(blocks)))
            self.joined.append(Joined(placed, how, tuple(members[which])))
            start = placed.stop
        self.space = Space(tuple(joined.block for joined in self.joined))

    def scatter(self, values: Vector) -> list[Vector]:
        """The coordinates of each rank: members of one block get the same."""
        parts = [np.zeros(size) for size in self.sizes]
        for joined in self.joined:
            for rank, where in joined.members:
                parts[rank][where] = values[joined.block.slice]
        return parts

    def gather(self, parts: Sequence[Vector]) -> Vector:
        """One vector of what all ranks have: of copies the first, of shares and terms the sum."""
        values = np.empty(self.space.size)
        for joined in self.joined:
            own = [parts[rank][where] for rank, where in joined.members]
            summed = joined.held in (Held.SHARES, Held.PARTIAL)
            values[joined.block.slice] = np.sum(own, axis=0) if summed else own[0]
        return values


def _holder(members: Sequence[Member], size: int) -> str:
    ranks = [member.rank for member in members]
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return "every rank" if len(ranks) == size else f"ranks {', '.join(map(str, ranks))}"


def require_known(declared: Declared, keys: Sequence[Key], what: str) -> None:
    """Raise for a declaration that is about nothing."""
    known = ", ".join(key.name or str(key.index) for key in keys)
    if isinstance(declared, Mapping):
        for wanted in declared:
            if not any(_word({wanted: "any"}, key) for key in keys):
                raise DeclarationError(f"{what}: {wanted!r} is none of {known}")
    elif declared is not None and not isinstance(declared, str):
        count = len({key.index for key in keys if key.kind != "parameter"})
        if len(declared) < count:
            raise DeclarationError(f"{what}: {len(declared)} words were given for {known}: give one for each")


def declared_of(declared: Declared, key: Key, allowed: Sequence[Held], what: str) -> Held | None:
    """What was declared of a tensor; None: nothing."""
    word = _word(declared, key)
    if word is None:
        return None
    known = [held.value for held in allowed]
    if word not in known:
        raise DeclarationError(
            f"{what}: {word!r} was said of {key.kind} {key.name or key.index}; choose one of {known}"
        )
    return Held(word)


def _word(declared: Declared, key: Key) -> str | None:
    if declared is None or isinstance(declared, str):
        return declared
    if isinstance(declared, Mapping):
        for wanted, word in declared.items():
            is_number = wanted == key.index and key.kind != "parameter"
            if is_number if isinstance(wanted, int) else fnmatch.fnmatchcase(key.name, wanted):
                return word
        return None
    return declared[key.index] if key.kind != "parameter" and key.index < len(declared) else None
