"""The door `gradproof.torch.audit`: record a model, check the whole and its operations, and say which is to blame."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from gradproof.api import check
from gradproof.backends import as_arguments
from gradproof.backends.torch.audit.account import Account
from gradproof.backends.torch.audit.context import departure
from gradproof.backends.torch.audit.declared import declares
from gradproof.backends.torch.audit.nonfinite import NonFinite, label, nonfinite, number_of
from gradproof.backends.torch.audit.operation import Operation
from gradproof.backends.torch.audit.run import Recording
from gradproof.backends.torch.audit.session import AuditSession
from gradproof.blame import Blame
from gradproof.core.filters import kept_filters
from gradproof.core.problem import NothingToCheckError
from gradproof.core.status import Status
from gradproof.dispatch import require_executor
from gradproof.engine import unobserved
from gradproof.names import option_form
from gradproof.operations import LATE, OF_TORCH, Dispatched, Serial
from gradproof.render.audit_words import context_headline
from gradproof.render.progress import Steps
from gradproof.results.audit import AuditReport, Origin, Phase
from gradproof.results.called import name_of, version_of
from gradproof.results.finding import Finding
from gradproof.results.report import Report

# Evaluations that the check of the whole may take: what it cannot see with them, the operations show.
_WHOLE = 48
# The same where no gradient reaches the result at all: then no operation can be asked instead.
_WITHOUT_GRAPH = 1024


def audit(
    model: Callable[..., Any],
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    deep: bool = False,
    budget: float | None = None,
    seed: int = 0,
    executor: Executor | None = None,
) -> AuditReport:
    """See `gradproof.torch.audit`."""
    if not callable(model):
        raise TypeError(f"audit expects a model or a function first, got {model!r}")
    if budget is not None and not budget > 0:
        raise ValueError(f"budget is a number of seconds > 0, got {budget!r}")
    if executor is not None:
        require_executor(executor)
    said = option_form.set(option_form.get().format("budget"))
    try:
        with kept_filters():
            return _Audit(model, as_arguments(inputs), dict(kwargs or {}), deep, budget, seed, executor).report()
    finally:
        option_form.reset(said)


class _Audit:
    """One audit, step by step."""

    def __init__(
        self,
        model: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        deep: bool,
        budget: float | None,
        seed: int,
        executor: Executor | None,
    ) -> None:
        self._started = time.perf_counter()
        self._model, self._arguments, self._keywords = model, arguments, keywords
        self._deep, self._budget, self._seed = deep, budget, seed
        self._session = AuditSession(model, arguments, keywords)
        self._recording: Recording = self._session.record(seed)
        self._checker: Serial | Dispatched = Serial(seed, self._left, self._session.kept)
        if executor is not None:
            self._checker = Dispatched(executor, seed, self._left, self._session.kept)
            self._checker.require_sendable(self._recording.operations)
        told = {operation.number: declares(operation) for operation in self._recording.operations}
        self._declared = {number: options for number, options in told.items() if options}
        self._findings: dict[int, list[Finding]] = {}
        self._reports: dict[int, Report] = {}
        self._unchecked: dict[int, str] = {}
        self._notes: list[str] = []

    def report(self) -> AuditReport:
        recording = self._recording
        origins = nonfinite(recording)
        is_sound = recording.raised is None and not origins
        account = self._session.account(self._seed) if is_sound else None
        whole = self._whole() if is_sound else None
        if is_sound:
            self._compare_with_alone()
        self._check_operations(self._wanted(whole, account) if not origins else [], account)
        blame = Blame(recording, self._declared, whole, account, self._findings, self._reports, self._unchecked)
        return AuditReport(
            subject=name_of(self._model),
            whole=whole,
            operations=tuple(map(blame.audited, recording.operations)),
            notices=tuple(blame.notices(self._session.parameters())),
            origins=tuple(map(_origin, origins)),
            raised=recording.raised,
            raised_in=recording.raised_in,
            raised_at=recording.raised_at,
            deviation=account.deviation if account else None,
            allowed=account.significant if account else None,
            complete=blame.complete,
            not_covered=(*recording.missed, *(whole.not_covered if whole else ())),
            notes=tuple(self._notes),
            seconds=time.perf_counter() - self._started,
            seed=self._seed,
            versions=tuple((name, version_of(name)) for name in ("gradproof", "numpy", "torch")),
        )

    # the whole

    def _whole(self) -> Report | None:
        """One calibrated probe of everything that a gradient reaches, by few evaluations."""
        if not self._recording.leaves:
            self._notes.append("nothing that the model reads requires a gradient")
            return None
        left = self._left()
        if left is not None and left <= 0:
            self._notes.append(f"the whole was not checked: {LATE}")
            return None
        try:
            with self._session.declared().restarting(self._session.whole()) as whole:
                report = check(
                    whole,
                    self._arguments,
                    self._keywords,
                    modes="reverse",
                    properties=OF_TORCH,
                    evaluations=_WHOLE if self._recording.backward is not None else _WITHOUT_GRAPH,
                    seconds=left,
                    seed=self._seed,
                )
        except (NothingToCheckError, TypeError, ValueError) as error:
            self._notes.append(f"the whole could not be checked: {error}")
            return None
        raised = next((finding for finding in report.findings if finding.status is Status.RAISED), None)
        if raised is not None:  # and yet it ran once, with its backward: it does not run under a check
            told = str(raised.cause or raised.headline).partition("\n")[0]
            self._notes.append(f"the whole could not be checked: {told}")
            return None
        return report

    # the operations

    def _wanted(self, whole: Report | None, account: Account | None) -> list[Operation]:
        """Those to check: what is written by hand first, then by what each explains.

        Where the whole passes and nothing stands out, what is written by hand or declares a gradient of its own is
        enough, unless all are asked for.
        """
        operations = [operation for operation in self._recording.operations if operation.differentiable]
        everything = self._deep or whole is None or not whole.ok or account is None
        if account is not None:
            everything |= abs(account.deviation) > account.significant

        def urgency(operation: Operation) -> tuple[bool, float, int]:
            part = account.contributions.get(operation.number, 0.0) if account else 0.0
            return not operation.kind.by_hand, -abs(part), operation.number

        special = [each for each in operations if each.kind.by_hand or each.number in self._declared]
        chosen = operations if everything else special
        return sorted(chosen, key=urgency)

    def _check_operations(self, operations: Sequence[Operation], account: Account | None) -> None:
        """One of each kind; and another one by itself where what it explains does not go with what that one is."""
        first: dict[Any, Operation] = {}
        for operation in operations:
            first.setdefault(operation.key, operation)
        with unobserved(), Steps("audit") as steps:
            self._check_each([*first.values()], steps)
            self._check_each([each for each in operations if self._differs(each, first[each.key], account)], steps)

    def _differs(self, operation: Operation, first: Operation, account: Account | None) -> bool:
        """Whether what an operation explains does not go with the report of the first of its kind."""
        report = self._reports.get(first.number)
        if first is operation or report is None or account is None:
            return False
        return account.stands_out(operation.number) is report.ok

    def _check_each(self, operations: Sequence[Operation], steps: Steps) -> None:
        outcomes = self._checker.outcomes(operations)
        for number, operation in enumerate(operations, 1):
            steps.at(number, len(operations), operation.path)
            report, why = next(outcomes)
            if report is None:
                self._unchecked[operation.number] = why
            else:
                self._reports[operation.number] = report

    def _left(self) -> float | None:
        """The seconds that are left."""
        return None if self._budget is None else self._budget - (time.perf_counter() - self._started)

    def _compare_with_alone(self) -> None:
        """Each operation in the model against the same one alone."""
        operations = self._recording.operations
        with self._session.kept():
            for operation in operations:
                found = departure(self._recording, operation)
                if found is not None:
                    writer = None if found.writer is None else operations[found.writer]
                    headline = context_headline(
                        operation.path,
                        label(operation, found.position),
                        found.element,
                        (found.in_model, found.alone),
                        None if writer is None else (writer.path, writer.line),
                    )
                    self._findings.setdefault(operation.number, []).append(
                        Finding(
                            property="context",
                            status=Status.WRONG,
                            headline=headline,
                            input=number_of(operation, found.position),
                            input_element=found.element,
                            numeric=found.alone,
                            analytic=found.in_model,
                            wrong=found.elements,
                        )
                    )


_PHASES = {"forward": Phase.FORWARD, "backward": Phase.BACKWARD, "given": Phase.GIVEN}


def _origin(found: NonFinite) -> Origin:
    return Origin(
        phase=_PHASES[found.phase],
        value=found.value,
        element=found.element,
        operation=found.number,
        target=found.target,
        values=found.values,
        reason=found.reason,
        count=found.elements,
    )
