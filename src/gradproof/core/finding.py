"""What a check found: statuses that carry their meaning, single entries, findings."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, replace

from gradproof.core.space import Place
from gradproof.core.types import Indices, Vector


class Status(enum.Enum):
    """The outcome of one comparison; members further down are worse."""

    RIGHT = "agrees with the numerical derivative"
    KINK = "a valid subgradient at a point without a derivative"
    INCONCLUSIVE = "cannot be judged: the numerical error bar is wider than the tolerance"
    WRONG = "does not hold"
    RAISED = "user code raised an exception"

    @property
    def rank(self) -> int:
        return list(Status).index(self)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the Jacobian, seen from both sides."""

    output: Place
    input: Place
    numeric: float
    error: float
    analytic: float
    tolerance: float
    status: Status
    sides: tuple[float, float] | None = None
    """The derivatives from the left and from the right, at a kink or a jump."""

    @property
    def difference(self) -> float:
        return abs(self.analytic - self.numeric)

    @property
    def allowed(self) -> float:
        return self.tolerance + self.error

    @property
    def ratio(self) -> float:
        """analytic / numeric; NaN where there is none."""
        return self.analytic / self.numeric if self.numeric else math.nan

    def __str__(self) -> str:
        where = f"d({self.output.within or 'output'}) / d({self.input.within or 'input'})"
        if self.sides is not None:
            left, right = self.sides
            return f"{where}: left {left:.9g}, right {right:.9g}, analytic {self.analytic:.9g}"
        error = f" ± {self.error:.1g}" if self.error else ""
        return (
            f"{where}: numeric {self.numeric:.9g}{error}, analytic {self.analytic:.9g}, "
            f"difference {self.difference:.3g}, allowed {self.allowed:.3g}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Spots:
    """All entries of a finding as coordinates, with their difference in units of what was allowed."""

    rows: Indices
    columns: Indices
    excess: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that does not hold, or could not be judged, and where.

    `input` and `output` are the numbers of arguments and outputs, or the name of a parameter; `input_element` and
    `output_element` the worst entry's place. `entries` lists the worst ones; `wrong` of `total` says how many there
    are, or how many a search came upon (`located`): then there may be more. `cause` is an exception of the user's code.
    """

    property: str
    status: Status
    message: str
    input: int | str | None = None
    input_element: tuple[int, ...] | None = None
    output: int | None = None
    output_element: tuple[int, ...] | None = None
    numeric: float | None = None
    error: float | None = None
    analytic: float | None = None
    allowed: float | None = None
    hint: str = ""
    entries: tuple[Entry, ...] = ()
    wrong: int = 0
    total: int = 0
    located: bool = False
    cause: Exception | None = None
    spots: Spots | None = field(default=None, repr=False, compare=False)
    """Where all its entries are, until the report's heat maps are drawn from them."""

    def at(self, entry: Entry) -> Finding:
        """This finding, placed at its worst entry."""
        return replace(
            self,
            input=entry.input.block.key,
            input_element=entry.input.element,
            output=entry.output.block.index,
            output_element=entry.output.element,
            numeric=entry.numeric,
            error=entry.error,
            analytic=entry.analytic,
            allowed=entry.allowed,
        )

    def __str__(self) -> str:
        return self.message if not self.hint else f"{self.message}\n  hint: {self.hint}"
