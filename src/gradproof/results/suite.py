"""The rows of a suite: what each case came to, small enough to keep ten thousand of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradproof.results.report import Report

WORDS = ("FAIL", "RAISED", "LOST", "REFUSED", "INCONCLUSIVE", "PASS")
"""What a case can come to, the worst first. LOST: no worker lived to check it."""
_SLOWER, _NOTABLE = 2.0, 0.1
"""A case is slower than before if it takes this many times as long, and this many seconds more."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one case came to: `word`, the likely cause or reason in a line, and what it cost."""

    case: str
    word: str
    cause: str = ""
    seconds: float = 0.0
    evaluations: int = 0
    vjps: int = 0
    detail: str = ""
    """The whole report or traceback, as text; nothing for a case that passed."""

    @property
    def rank(self) -> int:
        return WORDS.index(self.word)

    @staticmethod
    def of(case: str, report: Report) -> Row:
        worst = report.findings[0] if report.findings and not report else None
        cause = "" if worst is None else worst.hint or " ".join(worst.headline.split())
        spent = report.cost
        detail = "" if report else str(report)
        return Row(case, report.verdict.name, cause, spent.seconds, spent.evaluations, spent.vjps, detail)


def changes(rows: Iterable[Row], before: Mapping[str, Row]) -> dict[str, str]:
    """What is different from an earlier run, by case: "newly FAIL", "fixed", "new", "3.2 times slower".

    >>> changes([Row("a", "FAIL"), Row("b", "PASS")], {"a": Row("a", "PASS"), "b": Row("b", "FAIL")})
    {'a': 'newly FAIL', 'b': 'fixed'}
    """
    found = {row.case: _change(row, before.get(row.case)) for row in rows}
    return {case: change for case, change in found.items() if change}


def _change(row: Row, before: Row | None) -> str:
    if before is None:
        return "new"
    if row.word != before.word:
        return "fixed" if row.word == "PASS" else f"newly {row.word}"
    slower = row.seconds > _SLOWER * before.seconds and row.seconds > before.seconds + _NOTABLE
    return f"{row.seconds / before.seconds:.1f} times slower" if slower and before.seconds else ""


def summary(rows: Sequence[Row]) -> str:
    """One line: how many cases came to what.

    >>> summary([Row("a", "PASS"), Row("b", "FAIL"), Row("c", "PASS")])
    '3 cases: 1 FAIL, 2 PASS'
    """
    words = [row.word for row in rows]
    counts = [f"{words.count(word)} {word}" for word in WORDS if word in words]
    return f"{len(rows)} {'case' if len(rows) == 1 else 'cases'}: {', '.join(counts) or 'none'}"


def as_line(row: Row) -> dict[str, Any]:
    """A row as a line of the JSON file has it."""
    return {name: getattr(row, name) for name in Row.__slots__}
