"""What the probe strategy says of a mode: an accusation while a wrong entry remains to be located, then an outcome."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gradproof.core.cost import BudgetExhausted
from gradproof.core.seen import Seen
from gradproof.core.status import Status
from gradproof.core.suspects import Judged

CLEARLY = 100.0
"""An accusation of this many times its threshold stands, even if the budget ends before an entry is found."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The suspects that were judged, what could not be judged in words, and what was seen."""

    judged: list[Judged]
    unseen: list[str]
    seen: Seen | None
    unexplained: list[str] = field(default_factory=list[str])
    """Accusations that led to right entries only."""
    unlocated: list[str] = field(default_factory=list[str])
    """Accusations that the budget left no room to locate."""
    drowned: list[str] = field(default_factory=list[str])
    """Accusations of a function that is noisy: entries are looked at once that is known."""
    nonlinear: bool = False
    """Every entry is right, yet a sum of them is not: the derivative is not linear in its cotangent or tangent."""


@dataclass(frozen=True, slots=True)
class Accusation:
    """A probe that differs by more than it may: some entry is wrong, it is not known yet which."""

    difference: float
    allowed: float
    stands: bool
    """Whether it is believed even if no entry is found."""

    def __str__(self) -> str:
        return f"a sum over all entries differs by {self.difference:.3g}, allowed {self.allowed:.3g}"

    def located(self, locate: Callable[[], Outcome], sample: list[Judged]) -> Outcome:
        """What locating comes to. If the budget ends meanwhile, an accusation that stands is told with the `sample`."""
        try:
            return locate()
        except BudgetExhausted:
            if not self.stands:
                raise
            return Outcome(list(sample), [], None, unlocated=[str(self)])


UNFOUNDED = Accusation(0.0, math.inf, stands=False)
"""Nothing accuses, and yet what must be seen was not."""


def unexplained(judged: Judged, *, tolerable: bool) -> list[str]:
    """What to say of an accusation that leads to right entries, unless it may be a sum of tolerable deviations."""
    explained = bool(np.isin(judged.status, (Status.WRONG.rank, Status.KINK.rank)).any())
    return [] if explained or tolerable else ["a probe accuses, but the entries it leads to are right"]
