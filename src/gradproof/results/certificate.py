"""What a check was able to see."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradproof.core.seen import Seen
from gradproof.core.space import Block
from gradproof.results.same import Same


@dataclass(frozen=True, slots=True)
class About:
    """What a number of a certificate is about: the derivative with respect to an input, of first or second order."""

    input: Block
    order: int = 1

    def __str__(self) -> str:
        return self.input.label + (", second order" if self.order == 2 else "")


@dataclass(frozen=True, slots=True, eq=False)
class Certificate(Same):
    """The smallest error of a single entry that would have been noticed, by input, and the probability of a miss.

    >>> x = Block(kind="input", index=0, name="x", shape=(3,), parts=1, start=0, eps=2.0**-52)
    >>> print(Certificate(((About(x), 3e-8),), 1e-12))
    a lone entry off by more than 3e-08 (input 0 `x`) is missed with probability at most 1e-12
    """

    smallest: tuple[tuple[About, float], ...]
    miss: float

    @staticmethod
    def of(seen: Seen, inputs: tuple[Block, ...], order: int = 1) -> Certificate:
        """What was seen of each input that has any coordinates."""
        pairs = zip(inputs, seen.smallest, strict=True)
        return Certificate(tuple((About(block, order), size) for block, size in pairs if block.size), seen.miss)

    def __str__(self) -> str:
        if not self.smallest:
            return "there are no entries to see"
        if any(math.isinf(size) for _, size in self.smallest):
            return "some entries were not seen at all"
        sizes = ", ".join(f"{f'{size:.2g}' if size else 'nothing'} ({about})" for about, size in self.smallest)
        chance = f"is missed with probability at most {self.miss:.0e}" if self.miss else "cannot be missed"
        return f"a lone entry off by more than {sizes} {chance}"

    def without(self, unseen: frozenset[About]) -> Certificate | None:
        """What is left when nothing is said of some inputs; None: nothing."""
        left = tuple((about, size) for about, size in self.smallest if about not in unseen)
        return Certificate(left, self.miss) if left else None

    def of_input(self, block: Block, order: int = 1) -> float | None:
        """The number about one input; None: nothing was seen of it."""
        wanted = About(block, order)
        return next((size for about, size in self.smallest if about == wanted), None)

    def __add__(self, other: Certificate) -> Certificate:
        """The certificates of the first and of the second order in one."""
        return Certificate((*self.smallest, *other.smallest), max(self.miss, other.miss))
