"""What a check found: single entries, and findings that gather them."""

from __future__ import annotations

import builtins
import math
from dataclasses import dataclass, field, replace

from gradproof.core.problem import Mode
from gradproof.core.space import Place
from gradproof.core.status import Status
from gradproof.results.same import Same
from gradproof.results.spots import Spots

MISMATCH, UNJUDGED = "Jacobian mismatch", "The Jacobian could not be judged"
"""What headlines begin with: of entries that are wrong, and of those that cannot be judged."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry(Same):
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
    def excess(self) -> float | None:
        """The difference in units of what is allowed; None at a kink, where the value lies between two sides."""
        if self.status is Status.KINK:
            return None
        if math.isnan(self.difference):
            return math.nan
        return self.difference / self.allowed if self.allowed else math.inf

    @property
    def ratio(self) -> float:
        """analytic / numeric; NaN where there is none."""
        return self.analytic / self.numeric if self.numeric else math.nan

    def __str__(self) -> str:
        where = f"d({self.output.within or 'output'}) / d({self.input.within or 'input'})"
        if self.sides is not None:
            left, right = self.sides
            return f"{where}: left {left:.9g}, right {right:.9g}, analytic {self.analytic:.9g}"
        error = f" ± {self.error:.1g}" if self.error and not math.isnan(self.error) else ""
        both = f"{where}: numeric {self.numeric:.9g}{error}, analytic {self.analytic:.9g}"
        difference = "" if math.isnan(self.difference) else f", difference {self.difference:.3g}"
        return f"{both}{difference}" + ("" if math.isnan(self.allowed) else f", allowed {self.allowed:.3g}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Finding(Same):
    """One thing that does not hold, or could not be judged, and where.

    `headline` says it in a sentence or two; `kind` tells findings of one property apart (the law that is broken, the
    aspect that differs). `input` and `output` are the numbers of arguments and outputs, or the name of a parameter;
    `input_element` and `output_element` the worst entry's place. `entries` lists the worst ones; `wrong` of `total`
    says how many there are, or how many a search came upon (`located`): then there may be more, unless the one entry
    explains all that was seen (`lone`). `unjudged` more could not be judged, beside what is wrong. `cause` is an
    exception of the user's code.
    """

    property: str
    status: Status
    headline: str
    kind: str = ""
    mode: Mode | None = None
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
    unjudged: int = 0
    total: int = 0
    located: bool = False
    lone: bool = False
    order: int = 1
    """Of which derivative it is: the first, or the second."""
    spots: Spots | None = field(default=None, repr=False)
    """Where all its entries are, in a check that makes a report."""
    cause: Exception | None = None

    @builtins.property  # the field `property` hides it here
    def doubtful(self) -> int:
        """How many entries are wrong or could not be judged."""
        return self.wrong + self.unjudged

    @builtins.property
    def message(self) -> str:
        """The headline, and the worst entries below it."""
        return "\n".join([self.headline, *(f"    {entry}" for entry in self.entries)])

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
