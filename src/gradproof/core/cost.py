"""How often user code ran, and how often it may."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass


class BudgetExhausted(BaseException):
    """The check has cost as much as it may. Like an interrupt, it is nothing that user code or a property handles."""


@dataclass(slots=True)
class Cost:
    """Calls of user code by kind, and their limits. A batch counts as the number of its rows."""

    evaluations: int = 0
    vjps: int = 0
    jvps: int = 0
    most_evaluations: float = math.inf
    deadline: float = math.inf
    """On the clock of `time.perf_counter`."""
    expected: int = 0
    """How much there will be at least, of all kinds together, as far as that is known."""

    @property
    def calls(self) -> int:
        """How often user code ran, in whatever direction."""
        return self.evaluations + self.vjps + self.jvps

    def expect(self, further: int) -> None:
        """Announce that there will be this many more calls."""
        self.expected = self.calls + further

    def afford(self, count: int) -> None:
        """Raise `BudgetExhausted` where there is no budget for so many evaluations."""
        if self.evaluations + count > self.most_evaluations:
            raise BudgetExhausted
        self._look_at_the_clock()

    def evaluate(self, count: int = 1) -> None:
        """Count evaluations; raises `BudgetExhausted` where there is no budget for them."""
        self.afford(count)
        self.evaluations += count

    def pull(self, count: int = 1) -> None:
        """Count vjps."""
        self._look_at_the_clock()
        self.vjps += count

    def push(self, count: int = 1) -> None:
        """Count jvps."""
        self._look_at_the_clock()
        self.jvps += count

    def _look_at_the_clock(self) -> None:
        if self.deadline < math.inf and time.perf_counter() > self.deadline:
            raise BudgetExhausted
