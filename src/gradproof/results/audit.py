"""The outcome of an audit: which operation of a model is wrong, and where a value stops being a number."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from gradproof.core.status import Status
from gradproof.results.finding import Finding
from gradproof.results.report import CheckFailedError, Report, Verdict
from gradproof.results.same import Same

if TYPE_CHECKING:
    from rich.text import Text

# Shares of the deviation below this are not worth a line.
_WORTH_NAMING = 0.01


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuditedOperation(Same):
    """One call of an operation, in the order of the calls, and what was found of it.

    `kind` says who wrote its derivative. `first` is the number of the first call with the same operation, shapes,
    dtypes and options: that one was checked for all of them, unless this one was looked at by itself. `status` is None
    where it was not checked; `unchecked` says why. `share` is the part of the whole model's deviation that it explains;
    None where the whole does not deviate. `harmless` says that it is wrong by itself, and yet the whole passes and it
    explains nothing: for instance, a solve that takes its matrix for symmetric, in a model where it is. `cuts` says
    that no gradient goes on from here although the values do.
    """

    number: int
    name: str
    kind: str
    module: str
    line: str
    definition: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    by_hand: bool
    differentiable: bool
    first: int
    status: Status | None = None
    unchecked: str = ""
    share: float | None = None
    cuts: bool = False
    harmless: bool = False
    findings: tuple[Finding, ...] = ()
    report: Report | None = None

    @property
    def path(self) -> str:
        """As users would say it: `layers.3.attn.softmax`."""
        return ".".join(part for part in (self.module, self.name) if part)

    @property
    def is_wrong(self) -> bool:
        return self.status in (Status.WRONG, Status.RAISED) and not self.harmless

    @property
    def rank(self) -> int:
        """How much speaks against it; 0 is the most."""
        if self.is_wrong:
            return 0
        if self.cuts:
            return 1
        return 2 if self.harmless or self.status is Status.INCONCLUSIVE else 3

    @property
    def word(self) -> str:
        """Its status in a table."""
        if self.harmless:
            return "WRONG ALONE"
        if self.status is not None and not (self.cuts and not self.is_wrong):
            return self.status.name
        return "CUTS" if self.cuts else "NOT CHECKED" if self.differentiable else ""


class NoticeKind(enum.Enum):
    """What is named without being wrong."""

    CUT = "cuts the graph"
    OVERWRITTEN = "overwrites what was saved"
    DECLARED = "declares a gradient that is not the derivative"
    NO_GRADIENT = "receives no gradient"
    ALONE = "is wrong by itself"
    KINK = "is evaluated at a kink"
    SATURATED = "hands on a gradient of exactly zero"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Notice(Same):
    """Something named without being wrong: of an operation, by its number, or of a parameter, by its name."""

    kind: NoticeKind
    operation: int | None = None
    by: int | None = None
    """The operation that did it, where that is another one."""
    parameter: str = ""
    options: str = ""
    """Those that declare a gradient: `padding_idx=0`."""
    count: int = 0
    total: int = 0


class Phase(enum.Enum):
    """Where a value stops being a number."""

    FORWARD = "values"
    BACKWARD = "gradients"
    GIVEN = "what was given"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Origin(Same):
    """The first operation whose finite inputs give a value that is none.

    `value` is what came out at `element` of the output, or of the gradient of the input that `target` names; `values`
    are what went in there. `reason` is one of the known ones, or nothing. Of `GIVEN`, `target` names the input or
    parameter that was not finite from the start.
    """

    phase: Phase
    value: float
    element: tuple[int, ...]
    operation: int | None = None
    target: str = ""
    values: tuple[tuple[str, float], ...] = ()
    reason: str = ""
    count: int = 1


class AuditFailedError(CheckFailedError):
    """Raised by `AuditReport.raise_for_failure`; `audit` has the details."""

    def __init__(self, audit: AuditReport) -> None:
        AssertionError.__init__(self, str(audit))
        self.audit = audit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuditReport(Same):
    """Verdict, operations in the order of their calls, and what was found of the model `subject`.

    `whole` is the report of the check of the whole model; None where a value was not finite, or the model raised.
    `deviation` is how far the two sides of one probe of the whole are apart, and `allowed` what round-off explains.
    `complete` says that every differentiable operation was checked. True in a boolean context only if the verdict is
    PASS.
    """

    subject: str
    whole: Report | None
    operations: tuple[AuditedOperation, ...]
    notices: tuple[Notice, ...] = ()
    origins: tuple[Origin, ...] = ()
    raised: Exception | None = None
    raised_in: str = ""
    raised_at: str = ""
    deviation: float | None = None
    allowed: float | None = None
    complete: bool = False
    not_covered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    seed: int = 0
    versions: tuple[tuple[str, str], ...] = ()

    @property
    def verdict(self) -> Verdict:
        if self.raised is not None or self.origins or any(operation.is_wrong for operation in self.operations):
            return Verdict.FAIL
        if self.whole is not None and self.whole.verdict is not Verdict.INCONCLUSIVE:
            return self.whole.verdict
        return Verdict.PASS if self._is_right_by_parts else Verdict.INCONCLUSIVE

    @property
    def _is_right_by_parts(self) -> bool:
        """Whether every operation is right and nothing else moves the result: then the whole is right."""
        statuses = {operation.status for operation in self.operations if operation.differentiable}
        if self.deviation is None or self.allowed is None:
            return False
        at_kinks = sum(operation.share or 0.0 for operation in self.operations if operation.status is Status.KINK)
        agrees = abs(self.deviation * (1.0 - at_kinks)) <= self.allowed
        return self.complete and agrees and bool(statuses) and statuses <= {Status.RIGHT, Status.KINK}

    @property
    def ok(self) -> bool:
        return bool(self.verdict)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def blamed(self) -> tuple[AuditedOperation, ...]:
        """The operations that something speaks against, by verdict and then by what each explains of the deviation.

        Of calls that are equal but for their values, the one that explains most stands for all.
        """
        ranked = sorted(self.operations, key=lambda operation: (operation.rank, -abs(operation.share or 0.0)))
        named = [o for o in ranked if o.rank < 3 or abs(o.share or 0.0) >= _WORTH_NAMING]
        first: dict[tuple[int, bool], AuditedOperation] = {}
        for operation in named:
            first.setdefault((operation.first, operation.is_wrong), operation)
        return tuple(first.values())

    @property
    def guilty(self) -> AuditedOperation | None:
        """The first of these where the verdict is FAIL."""
        return self.blamed[0] if self.verdict is Verdict.FAIL and self.blamed else None

    def share_of_calls(self, operation: AuditedOperation) -> float | None:
        """The part of the deviation that all calls equal to this one explain together."""
        if operation.share is None:
            return None
        return sum(each.share or 0.0 for each in self.operations if each.first == operation.first)

    def raise_for_failure(self) -> None:
        """Raise `AuditFailedError`, a `CheckFailedError`, unless the verdict is PASS."""
        __tracebackhide__ = True  # pytest shows the test, not this line
        if not self:
            raise AuditFailedError(self) from self.raised

    # Renderings, loaded when they are asked for.

    def __str__(self) -> str:
        from gradproof.render.audit import plain

        return plain(self)

    def __rich__(self) -> Text:
        from gradproof.render.audit import coloured

        return coloured(self)

    def to_json(self) -> str:
        """The report as a JSON document, from which `from_json` makes an equal one."""
        from gradproof.render.audit_json import dump_audit

        return dump_audit(self)

    @staticmethod
    def from_json(text: str) -> AuditReport:
        """The report that `to_json` wrote; `ValueError` for anything else."""
        from gradproof.render.audit_json import load_audit

        return load_audit(text)

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write the report as one self-contained HTML file. Needs the extra `gradproof[html]`."""
        from gradproof.render.audit_html import write_audit

        write_audit(path, self)
