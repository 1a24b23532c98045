"""The findings of a report as a page shows them: those with one cause together, the worst first."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradproof.results.finding import Finding

# What differs between findings of one cause: how many entries bear it out.
_COUNTS = re.compile(r"\bon \d+ of \d+\b( wrong entries)?")


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of one property and status with the same cause; `cause` is empty where none is named."""

    cause: str
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Finding:
        return self.findings[0]


def groups_of(findings: Sequence[Finding]) -> tuple[Group, ...]:
    """The findings by cause. What no cause is known of stays alone.

    The order is that of the report; among findings of one property and status, the largest excess comes first.
    """
    gathered: dict[tuple[str, ...], list[Finding]] = {}
    for number, finding in enumerate(_worst_first(findings)):
        cause = _without_counts(finding.hint)
        alone = () if cause else (str(number),)
        gathered.setdefault((finding.property, finding.status.name, cause, *alone), []).append(finding)
    return tuple(Group(key[2], tuple(group)) for key, group in gathered.items())


def excess_of(finding: Finding) -> float:
    """How far its worst entry is off, in units of what is allowed; 0 of one without entries, or at a kink."""
    if not finding.entries:
        return 0.0
    excess = finding.entries[0].excess or 0.0
    return math.inf if math.isnan(excess) else excess


def _worst_first(findings: Iterable[Finding]) -> list[Finding]:
    order: dict[tuple[int, str], int] = {}
    for finding in findings:
        order.setdefault((finding.status.rank, finding.property), len(order))
    return sorted(
        findings,
        key=lambda each: (-each.status.rank, order[each.status.rank, each.property], -excess_of(each)),
    )


def _without_counts(hint: str) -> str:
    """
    >>> _without_counts("analytic ≈ 2 × numeric on 3 of 4 wrong entries: a factor 2")
    'analytic ≈ 2 × numeric: a factor 2'
    """
    return re.sub(r"\s+:", ":", _COUNTS.sub("", hint)).strip()
