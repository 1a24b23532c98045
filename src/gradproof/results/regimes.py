"""The outcome of running one function in every way: which way departs from the derivative that was checked."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from gradproof.results.report import CheckFailedError, Report, Verdict
from gradproof.results.same import Same

if TYPE_CHECKING:
    from rich.text import Text


class Standing(enum.Enum):
    """What a way came to."""

    AGREES = "gives what was checked"
    DEPARTS = "gives something else"
    INCONCLUSIVE = "could not be judged"
    CANNOT_RUN = "the function cannot be run so"
    NOT_APPLICABLE = "is no way to run this function here"

    @property
    def word(self) -> str:
        """As a table says it."""
        return self.name.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegimeRow(Same):
    """One way of running the function, and the worst that was found in it.

    `variation` says in which variation of the way; `target` what was compared; `element` the place in it, where
    `expected` was checked and `found` came out. `fault` says what has no number: another shape or dtype, a rule that is
    broken. `reason` says why the way could not be run. `wrong` of `total` elements of the target are off by
    more than is allowed there.
    """

    way: str
    what: str
    standing: Standing
    variation: str = ""
    target: str = ""
    element: tuple[int, ...] | None = None
    expected: float | None = None
    found: float | None = None
    difference: float | None = None
    allowed: float | None = None
    wrong: int = 0
    total: int = 0
    fault: str = ""
    reason: str = ""
    seconds: float = 0.0

    @property
    def departs(self) -> bool:
        return self.standing is Standing.DEPARTS

    @property
    def place(self) -> str:
        """Target and element, as one would say it."""
        if self.element is None:
            return self.target
        return f"{self.target} at {list(self.element)}" if self.element else self.target


class RegimesFailedError(CheckFailedError):
    """Raised by `RegimesReport.raise_for_failure`; `regimes` has the details."""

    def __init__(self, regimes: RegimesReport) -> None:
        AssertionError.__init__(self, str(regimes))
        self.regimes = regimes


@dataclass(frozen=True, slots=True, kw_only=True)
class RegimesReport:
    """Verdict and rows, one for each way, of the function `subject`.

    `eager` is the report of the check that all others are compared with. `allow` names the ways that need not run.
    PASS says that the checked derivative is right and every way that applies gives it; a way that cannot be run and is
    not allowed makes it INCONCLUSIVE. True in a boolean context only if the verdict is PASS.
    """

    subject: str
    eager: Report
    rows: tuple[RegimeRow, ...]
    allow: tuple[str, ...] = ()
    seconds: float = 0.0
    seed: int = 0

    @property
    def verdict(self) -> Verdict:
        if self.first is not None or self.eager.verdict is Verdict.FAIL:
            return Verdict.FAIL
        return Verdict.INCONCLUSIVE if self.unsettled else Verdict.PASS

    @property
    def first(self) -> RegimeRow | None:
        """The first way that departs; None: none does."""
        return next((row for row in self.rows if row.departs), None)

    @property
    def departing(self) -> tuple[RegimeRow, ...]:
        """All that do."""
        return tuple(row for row in self.rows if row.departs)

    @property
    def unsettled(self) -> tuple[RegimeRow, ...]:
        """The ways that could not be judged and are not allowed to be so."""
        open_ = (Standing.CANNOT_RUN, Standing.INCONCLUSIVE)
        return tuple(row for row in self.rows if row.standing in open_ and row.way not in self.allow)

    @property
    def ok(self) -> bool:
        return bool(self.verdict)

    def __bool__(self) -> bool:
        return self.ok

    def __getitem__(self, way: str) -> RegimeRow:
        """The row of a way, by its name."""
        for row in self.rows:
            if row.way == way:
                return row
        raise KeyError(way)

    def raise_for_failure(self) -> None:
        """Raise `RegimesFailedError`, a `CheckFailedError`, unless the verdict is PASS."""
        __tracebackhide__ = True  # pytest shows the test, not this line
        if not self:
            raise RegimesFailedError(self)

    # Renderings, loaded when they are asked for.

    def __str__(self) -> str:
        from gradproof.render.regimes import plain
        from gradproof.render.text import terminal_width

        return plain(self, terminal_width())

    def __repr__(self) -> str:
        from gradproof.render.regimes import one_line

        return f"<RegimesReport {one_line(self)}>"

    def __rich__(self) -> Text:
        from gradproof.render.regimes import coloured

        return coloured(self)

    def to_json(self) -> str:
        """The report as a JSON document, from which `from_json` makes an equal one."""
        from gradproof.render.regimes_json import dump_regimes

        return dump_regimes(self)

    @staticmethod
    def from_json(text: str) -> RegimesReport:
        """The report that `to_json` wrote; `ValueError` for anything else."""
        from gradproof.render.regimes_json import load_regimes

        return load_regimes(text)

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write the report as one self-contained HTML file. Needs the extra `gradproof[html]`."""
        from gradproof.render.regimes import write_html

        write_html(path, self)
