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

    rank: int

    def __init__(self, _: str) -> None:
        self.rank = len(type(self).__members__)
