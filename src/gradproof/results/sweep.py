"""The outcome of a sweep: one report for each case, the smallest that fails first."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

from gradproof.results.report import CheckFailedError, Report, Verdict

_WORST_FIRST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)


@dataclass(frozen=True, slots=True)
class CaseReport:
    """One case of a sweep: its name, how many numbers its inputs have, and its report."""

    name: str
    elements: int
    report: Report


class SweepFailedError(CheckFailedError):
    """Raised by `SweepReport.raise_for_failure`; `report` is that of the smallest case, `sweep` has all of them."""

    def __init__(self, sweep: SweepReport) -> None:
        AssertionError.__init__(self, str(sweep))
        self.sweep, self.report = sweep, sweep.cases[0].report


@dataclass(frozen=True, slots=True)
class SweepReport:
    """Verdict and reports of all cases of a sweep of the function `subject`.

    `cases` has those that fail first, then those that are inconclusive, then those that pass, the smallest of each
    first. True in a boolean context only if every case passes.
    """

    subject: str
    cases: tuple[CaseReport, ...]

    @staticmethod
    def of(subject: str, cases: list[CaseReport]) -> SweepReport:
        """The cases, sorted. Among those of one size the order stays."""
        return SweepReport(
            subject, tuple(sorted(cases, key=lambda case: (_WORST_FIRST.index(case.report.verdict), case.elements)))
        )

    @property
    def verdict(self) -> Verdict:
        """That of the worst case."""
        return self.cases[0].report.verdict

    @property
    def ok(self) -> bool:
        return bool(self.verdict)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def failures(self) -> tuple[CaseReport, ...]:
        """The cases that do not pass, the smallest that fails first."""
        return tuple(case for case in self.cases if not case.report)

    def raise_for_failure(self) -> None:
        """Raise `SweepFailedError`, a `CheckFailedError`, unless every case passes."""
        __tracebackhide__ = True  # pytest shows the test, not this line
        if not self:
            raise SweepFailedError(self) from next((f.cause for f in self.cases[0].report.findings if f.cause), None)

    # Renderings, loaded when they are asked for.

    def __str__(self) -> str:
        from gradproof.render.sweep import plain

        return plain(self)

    def __repr__(self) -> str:
        from gradproof.render.line import one_line

        told = f"; {one_line(self.cases[0].report)}" if not self else ""
        return f"<SweepReport {self.verdict.name}: {self.subject}, {len(self.cases)} cases{told}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: a light fragment without scripts."""
        from gradproof.render.notebook import sweep_fragment

        return sweep_fragment(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows in a terminal."""
        printer.text(str(self))

    def to_json(self) -> str:
        """All reports as one JSON document, as a test run writes it: `gradproof show` reads it."""
        from gradproof.render.json import dump_run

        return dump_run([(case.name, case.report) for case in self.cases])

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write all reports into one self-contained HTML file. Needs the extra `gradproof[html]`."""
        from gradproof.render.html import write_html

        write_html(path, [(case.name, case.report) for case in self.cases])
