"""What follows from all that an audit has found out: of each operation, and what else is named."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradproof.backends.torch.audit.account import Account
from gradproof.backends.torch.audit.context import overwriting, overwritten
from gradproof.backends.torch.audit.flat import saturated
from gradproof.backends.torch.audit.operation import Operation, described
from gradproof.backends.torch.audit.run import Leaf, Recording
from gradproof.core.status import Status
from gradproof.results.audit import AuditedOperation, Notice, NoticeKind
from gradproof.results.finding import Finding
from gradproof.results.report import Report, Verdict


@dataclass(frozen=True)
class Blame:
    """What is known at the end. What belongs to operations goes by their numbers.

    `whole` and `account` are None where the model raised or gave no numbers, `declared` are options that declare a
    gradient, `findings` those of the operation in its place in the model, `reports` of it alone, and `unchecked` says
    why there is none.
    """

    recording: Recording
    declared: Mapping[int, str]
    whole: Report | None
    account: Account | None
    findings: Mapping[int, Sequence[Finding]]
    reports: Mapping[int, Report]
    unchecked: Mapping[int, str]

    @property
    def complete(self) -> bool:
        """Whether every operation with a gradient was looked at, and none was missed."""
        wanted = [operation for operation in self.recording.operations if operation.differentiable]
        return not self.recording.missed and all(self.status(operation) is not None for operation in wanted)

    def notices(self, parameters: Sequence[Leaf]) -> Iterator[Notice]:
        """What is named without being wrong."""
        operations = self.recording.operations
        yield from self._overwritten()
        for number, options in self.declared.items():
            yield Notice(kind=NoticeKind.DECLARED, operation=number, options=options)
        for operation in operations:
            if self._cuts(operation):
                yield Notice(kind=NoticeKind.CUT, operation=operation.number)
        for operation in operations:
            if self._is_harmless(operation) and operation.number in self.reports:
                yield Notice(kind=NoticeKind.ALONE, operation=operation.number)
        if self.recording.backward is not None and self.recording.raised is None:
            yield from self._without_gradient(parameters)
        for number, report in self.reports.items():
            kinks = [finding for finding in report.findings if finding.status is Status.KINK]
            if kinks:
                count = sum(finding.wrong for finding in kinks)
                yield Notice(kind=NoticeKind.KINK, operation=number, count=count, total=report.entries)

    def _overwritten(self) -> Iterator[Notice]:
        """Writes to what was saved: such as torch refuses, and such as show in another gradient."""
        operations = self.recording.operations
        saver = overwritten(operations) if self.recording.raised_in == "backward" else None
        for operation in (operations[number] for number in self.findings) if saver is None else (saver,):
            writer = overwriting(operations, operation)
            if writer is not None:
                yield Notice(kind=NoticeKind.OVERWRITTEN, operation=operation.number, by=writer)

    def _cuts(self, operation: Operation) -> bool:
        """Whether no gradient goes on from here although the values do."""
        if self.account is not None:
            parts = self.account.cuts, self.account.outside
            return any(abs(part.get(operation.number, 0.0)) > self.account.significant for part in parts)
        if self.recording.backward is not None or self.whole is None or self.whole.verdict is not Verdict.FAIL:
            return False
        return bool(operation.tested) and not any(given.requires_grad for given in operation.outputs)

    def _is_harmless(self, operation: Operation) -> bool:
        """Wrong by itself, in a whole that passes, of which it explains nothing."""
        if self.whole is None or not self.whole.ok or self.account is None or self.findings.get(operation.number):
            return False
        alone = self.status(operation) in (Status.WRONG, Status.RAISED)
        known = operation.number in self.account.contributions
        return alone and known and not self.account.stands_out(operation.number)

    def _without_gradient(self, parameters: Sequence[Leaf]) -> Iterator[Notice]:
        """Parameters that no gradient reaches, and operations that let none through."""
        recording, backward = self.recording, self.recording.backward
        assert backward is not None
        pairs = zip(recording.leaves, backward.leaves, strict=True)
        reached = {id(leaf.tensor) for leaf, gradient in pairs if gradient is not None}
        for leaf in parameters:
            if id(leaf.tensor) not in reached:
                yield Notice(kind=NoticeKind.NO_GRADIENT, parameter=leaf.name)
        for flat in filter(None, (saturated(recording, operation) for operation in recording.operations)):
            yield Notice(kind=NoticeKind.SATURATED, operation=flat.number, count=flat.zero, total=flat.total)

    # values for the report

    def _report_of(self, operation: Operation) -> tuple[int, Report | None]:
        """The report of an operation itself, or of the first one of its kind."""
        own = self.reports.get(operation.number)
        if own is not None:
            return operation.number, own
        number = self._firsts[operation.key]
        return number, self.reports.get(number)

    @functools.cached_property
    def _firsts(self) -> dict[Any, int]:
        """The number of the first operation of each kind; of those that were looked at, if any was."""
        operations = self.recording.operations
        looked_at = [each for each in operations if each.number in self.reports or each.number in self.unchecked]
        return {operation.key: operation.number for operation in reversed([*looked_at, *operations])}

    def status(self, operation: Operation) -> Status | None:
        """The worst that was found of an operation; None: it was not looked at."""
        if self.findings.get(operation.number):
            return Status.WRONG
        _, report = self._report_of(operation)
        if report is None:
            return None
        return max([finding.status for finding in report.findings], key=lambda each: each.rank, default=Status.RIGHT)

    def audited(self, operation: Operation) -> AuditedOperation:
        """An operation as the report has it."""
        first, report = self._report_of(operation)
        return AuditedOperation(
            number=operation.number,
            name=operation.name,
            kind=operation.kind.value,
            module=operation.module,
            line=operation.line,
            definition=operation.definition,
            inputs=tuple(described(given.value) for _, given in operation.inputs),
            outputs=tuple(described(given.value) for given in operation.outputs),
            by_hand=operation.kind.by_hand,
            differentiable=operation.differentiable,
            first=first,
            status=self.status(operation),
            unchecked=self.unchecked.get(first, ""),
            share=self.account.share(operation.number) if self.account else None,
            cuts=self._cuts(operation),
            harmless=self._is_harmless(operation),
            findings=tuple(self.findings.get(operation.number, ())),
            report=report if first == operation.number else None,
        )
