"""The outcome of a check."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gradproof.core.certificate import Certificate
from gradproof.core.finding import Finding, Status
from gradproof.core.problem import Mode


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Verdict, findings (worst first) and cost of one check.

    `not_covered` lists what was not differentiated, and why; `notes` what a reader should know of how it was checked;
    `certificate` says what the comparison of Jacobians was able to see; None: it did not run to its end.
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
    not_covered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        statuses = {finding.status for finding in self.findings}
        if statuses & {Status.WRONG, Status.RAISED}:
            return Verdict.FAIL
        return Verdict.INCONCLUSIVE if Status.INCONCLUSIVE in statuses else Verdict.PASS

    @property
    def ok(self) -> bool:
        return bool(self.verdict)

    def __bool__(self) -> bool:
        return self.ok

    def raise_for_failure(self) -> None:
        """Raise `CheckFailedError` unless the verdict is PASS."""
        if not self:
            raise CheckFailedError(self) from next((f.cause for f in self.findings if f.cause), None)

    def __str__(self) -> str:
        lines = [f"{self.verdict.name}: {self.verdict.value}", *map(str, self.findings)]
        modes = " and ".join(mode.value for mode in self.modes)
        covered = ", ".join(self.covered) or "nothing"
        cost = f"{self.cost.evaluations} evaluations, {self.cost.vjps} vjps, {self.cost.jvps} jvps"
        lines.append(f"covered: {covered}; {self.entries} Jacobian entries, {modes} mode")
        if self.not_covered:
            lines.append(f"not covered: {', '.join(self.not_covered)}")
        lines += [f"note: {note}" for note in self.notes]
        if self.certificate is not None:
            lines.append(f"certificate: {self.certificate}")
        lines.append(f"cost: {cost}, {self.cost.seconds:.3f} s; seed {self.seed}")
        return "\n".join(lines)
