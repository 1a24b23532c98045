"""The outcome of a check."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from gradproof.core.problem import Mode
from gradproof.core.space import Block
from gradproof.core.status import Status
from gradproof.results.certificate import Certificate
from gradproof.results.exhibits import Exhibit
from gradproof.results.finding import Finding
from gradproof.results.pairs import Pair, badness, pair_up
from gradproof.results.same import Same

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text


class Verdict(enum.Enum):
    """What a check says as a whole; only PASS is true."""

    PASS = "every derivative that was checked is right"
    FAIL = "a derivative is wrong, or cannot be computed"
    INCONCLUSIVE = "some derivatives could not be judged, none is known to be wrong"

    def __bool__(self) -> bool:
        return self is Verdict.PASS


@dataclass(frozen=True, slots=True)
class Spent:
    """What a check cost: calls of user code, and the time."""

    evaluations: int
    vjps: int
    jvps: int
    seconds: float


class CheckFailedError(AssertionError):
    """Raised by `Report.raise_for_failure`; `report` has the details."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report(Same):
    """Verdict, findings (worst first) and cost of one check of the function `subject`.

    `not_covered` lists what was not differentiated, and why; `notes` what a reader should know of how it was checked;
    `certificate` says what the comparison of Jacobians was able to see; None: it did not run to its end. Where that of
    the second order did not, it is of the first alone.
    `exhibits` are there where something is wrong.
    True in a boolean context only if the verdict is PASS.
    """

    findings: tuple[Finding, ...]
    modes: tuple[Mode, ...]
    covered: tuple[str, ...]
    entries: int
    certificate: Certificate | None
    cost: Spent
    seed: int
    versions: tuple[tuple[str, str], ...]
    subject: str = ""
    inputs: tuple[Block, ...] = ()
    outputs: tuple[Block, ...] = ()
    second: tuple[tuple[Block, ...], tuple[Block, ...]] = ((), ())
    """Inputs and outputs of the first derivative, where that was differentiated."""
    not_covered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    repeat: str = ""
    """The line that repeats the check: a call, or a command."""

    @property
    def verdict(self) -> Verdict:
        statuses = {finding.status for finding in self.findings}
        if statuses & {Status.WRONG, Status.RAISED}:
            return Verdict.FAIL
        return Verdict.INCONCLUSIVE if Status.INCONCLUSIVE in statuses else Verdict.PASS

    @property
    def ok(self) -> bool:
        return bool(self.verdict)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Each output with each input, worst first; those of the second order as well, where it was checked."""
        first = pair_up(self.inputs, self.outputs, self.findings, self.certificate)
        second = pair_up(*self.second, self.findings, self.certificate, order=2)
        return tuple(sorted((*first, *second), key=badness))

    @property
    def only_entries_are_right(self) -> bool:
        """Whether something is wrong though every entry of every Jacobian is right."""
        pairs = self.pairs
        return self.verdict is Verdict.FAIL and bool(pairs) and all(pair.status is Status.RIGHT for pair in pairs)

    def __bool__(self) -> bool:
        return self.ok

    def raise_for_failure(self) -> None:
        """Raise `CheckFailedError` unless the verdict is PASS."""
        __tracebackhide__ = True  # pytest shows the test, not this line
        if not self:
            raise CheckFailedError(self) from next((f.cause for f in self.findings if f.cause), None)

    # Renderings. They live in gradproof.render and are loaded when they are asked for.

    def __str__(self) -> str:
        """The text of the report, folded to the terminal's width if standard output is one."""
        from gradproof.render.text import plain, terminal_width

        return plain(self, terminal_width())

    def __repr__(self) -> str:
        from gradproof.render.line import one_line

        return f"<Report {one_line(self)}>"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        from gradproof.render.terminal import coloured

        yield coloured(self, options.max_width)

    def _repr_html_(self) -> str:
        """What a notebook shows: a light fragment without scripts."""
        from gradproof.render.notebook import fragment

        return fragment(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows in a terminal: the text, folded to its width."""
        from gradproof.render.text import plain

        printer.text(plain(self, printer.max_width))

    def to_json(self) -> str:
        """The report as a JSON document, from which `from_json` makes an equal one."""
        from gradproof.render.json import dump_report

        return dump_report(self)

    @staticmethod
    def from_json(text: str) -> Report:
        """The report that `to_json` wrote; `ValueError` for anything else."""
        from gradproof.render.json import load_report

        return load_report(text)

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write the report as one self-contained HTML file. Needs the extra `gradproof[html]`."""
        from gradproof.render.html import write_html

        write_html(path, [(self.subject, self)])
