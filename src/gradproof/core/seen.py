"""What comparisons were able to see, and how they were made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from gradproof.core.types import Vector


@dataclass(frozen=True, slots=True)
class Seen:
    """For each input block, the smallest error of a lone entry that would have been noticed; and how surely.

    >>> Seen((1e-8, 1e-3), 0.0) & Seen((1e-6, 1e-6), 1e-12)
    Seen(smallest=(1e-06, 0.001), miss=1e-12)
    """

    smallest: tuple[float, ...]
    miss: float
    """The probability of missing such an error."""
    told: tuple[int, ...] = field(default=(), repr=False)
    """The numbers of the input blocks of which more is known: a tenth of all that they do would have been noticed too,
    and so would gradients that are lost in some of their elements."""

    def __and__(self, other: Seen) -> Seen:
        """What two comparisons were both able to see."""
        pairs = zip(self.smallest, other.smallest, strict=True)
        return Seen(tuple(max(here, there) for here, there in pairs), max(self.miss, other.miss))


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader should know of how a comparison was made; no finding."""

    text: str


class Entered(NamedTuple):
    """A question that did not accuse: how large a residual it could have hidden, and its answer.

    `moved` is the inner product of the answer with the direction, `size` the Euclidean norm of its terms.
    """

    hidden: float
    pullback: Vector
    moved: float
    size: float
