"""Many reports of one run, by name: what a test run or the command line writes, and what a page lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gradproof.results.report import Report, Verdict

_WORST_FIRST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)


@dataclass(frozen=True, slots=True)
class Checked:
    """One report of a run: of the test or case `name`.

    `expected` says that its test is content with a failure: it passed all the same, or is marked as one that fails.
    `torch` is the verdict of torch's own checker on the same call ("pass", "fail", "raises ..."), where it ran.
    """

    name: str
    report: Report
    expected: bool = False
    torch: str = ""
    torch_seconds: float = 0.0

    @property
    def word(self) -> str:
        """The verdict as a list of checks has it: a failure that its test expects is not one of the run."""
        if self.expected and self.report.verdict is Verdict.FAIL:
            return "EXPECTED"
        return self.report.verdict.name

    @property
    def rank(self) -> int:
        """Failing ones first, then what is inconclusive, what was expected to fail, and what passes."""
        return ("FAIL", "INCONCLUSIVE", "EXPECTED", "PASS").index(self.word)


@dataclass(frozen=True, slots=True)
class Crash:
    """A case that could not be made or checked: the exception's type, its text, and the traceback."""

    name: str
    kind: str
    text: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Run:
    """The reports of a run, the cases that raised, and what was compared with torch.

    >>> Run(()).verdict.name
    'INCONCLUSIVE'
    """

    checks: tuple[Checked, ...]
    crashes: tuple[Crash, ...] = ()
    comparisons: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    @staticmethod
    def of(reports: Run | Iterable[tuple[str, Report]]) -> Run:
        """A run of nothing but named reports."""
        return reports if isinstance(reports, Run) else Run(tuple(Checked(*named) for named in reports))

    @property
    def reports(self) -> list[tuple[str, Report]]:
        """The reports with their names."""
        return [(each.name, each.report) for each in self.checks]

    @property
    def verdict(self) -> Verdict:
        """That of the worst report whose failure is not expected. Where nothing was checked, nothing passed."""
        words = {"FAIL" if self.crashes else "", *(each.word for each in self.checks)}
        otherwise = Verdict.PASS if self.checks else Verdict.INCONCLUSIVE
        return next((verdict for verdict in _WORST_FIRST if verdict.name in words), otherwise)

    @property
    def summary(self) -> str:
        """One line: how many checks came to what."""
        return self.summary_with(0)

    def summary_with(self, refused: int) -> str:
        """The same, with those that were refused, of which a run knows nothing."""
        words = [each.word for each in sorted(self.checks, key=lambda each: each.rank)]
        counts = [f"{words.count(word)} {_SAID.get(word, word)}" for word in dict.fromkeys(words)]
        if self.crashes:
            counts.insert(0, f"{len(self.crashes)} raised an exception")
        if refused:
            counts.append(f"{refused} refused")
        total = len(self.checks) + len(self.crashes) + refused
        return f"{total} {'check' if total == 1 else 'checks'}: {', '.join(counts) or 'none'}"


_SAID = {"EXPECTED": "expected to FAIL"}
