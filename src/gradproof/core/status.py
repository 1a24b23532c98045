"""The outcome of one comparison."""

from __future__ import annotations

import enum


class Status(enum.Enum):
    """The outcome of one comparison; members further down are worse."""

    RIGHT = "agrees with the numerical derivative"
    KINK = "a valid subgradient at a point without a derivative"
    INCONCLUSIVE = "cannot be judged: the numerical error bar is wider than the tolerance"
    WRONG = "does not hold"
    RAISED = "user code raised an exception"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {status: rank for rank, status in enumerate(Status)}
