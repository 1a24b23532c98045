"""What a check was able to see."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Certificate:
    """The smallest error of a single entry that would have been noticed, by input, and the probability of a miss.

    >>> print(Certificate((("input 0 `x`", 3e-8),), 1e-12))
    a lone entry off by more than 3.0e-08 (input 0 `x`) is missed with probability 1e-12
    """

    smallest: tuple[tuple[str, float], ...]
    miss: float

    def __str__(self) -> str:
        if any(math.isinf(size) for _, size in self.smallest):
            return "some entries were not seen at all"
        sizes = ", ".join(f"{size:.1e} ({label})" for label, size in self.smallest) or "nothing"
        chance = f"is missed with probability {self.miss:.0e}" if self.miss else "cannot be missed"
        return f"a lone entry off by more than {sizes} {chance}"

    def __or__(self, other: Certificate | None) -> Certificate:
        """What two comparisons were both able to see."""
        if other is None:
            return self
        pairs = zip(self.smallest, other.smallest, strict=True)
        weaker = tuple((label, max(here, there)) for (label, here), (_, there) in pairs)
        return Certificate(weaker, max(self.miss, other.miss))
