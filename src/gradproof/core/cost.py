"""How often user code ran, and how often it may."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


class BudgetExhausted(BaseException):
    """The check has cost as much as it may. Like an interrupt, it is nothing that user code or a property handles.

    Its text is another reason for which nothing more can be computed, if there is one.
    """


@dataclass
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
    option: str = "budget="
    """What a caller sets the limit by."""
    calls_anew: Callable[[], bool] | None = None
    """Whether a vjp calls the function too by now; None: it never does."""

    def __post_init__(self) -> None:
        self._is_limited = self.deadline < math.inf

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self._is_limited or self.most_evaluations < math.inf

    @property
    def calls(self) -> int:
        """How often user code ran, in whatever direction."""
        return self.evaluations + self.vjps + self.jvps

    def expect(self, further: int) -> None:
        """Announce that there will be this many more calls."""
        self.expected = self.calls + further

    def afford(self, count: int = 0) -> None:
        """Raise `BudgetExhausted` where there is no time left, or no budget for so many evaluations."""
        late = self.deadline < math.inf and time.perf_counter() > self.deadline
        if late or self.evaluations + count > self.most_evaluations:
            raise BudgetExhausted

    def evaluate(self, count: int = 1) -> None:
        """Count evaluations; raises `BudgetExhausted` where there is no budget for them."""
        if self._is_limited or self.evaluations + count > self.most_evaluations:
            self.afford(count)
        self.evaluations += count

    def counting(self, asked: Iterable[T]) -> Iterator[T]:
        """Each of these in turn, with an evaluation counted before it."""
        for each in asked:
            self.evaluate()
            yield each

    def pull(self, count: int = 1) -> None:
        """Count vjps, and the evaluations that they take where each calls the function first."""
        if self._is_limited:
            self.afford()
        if self.calls_anew is not None and self.calls_anew():
            self.evaluate(count)
        self.vjps += count

    def push(self, count: int = 1) -> None:
        """Count jvps."""
        if self._is_limited:
            self.afford()
        self.jvps += count
