"""The operations of an audit, each checked by itself: here, or by the workers of an executor, with the same reports.

An operation is sent with the values that it saw. What its worker's end takes along is sent once more, each operation by
itself; what still cannot be checked is told, with the reason.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, cast

from gradproof.api import check
from gradproof.backends import at_work, surround, surroundings
from gradproof.backends.torch.audit.context import faithful
from gradproof.backends.torch.audit.declared import Declared
from gradproof.backends.torch.audit.operation import FiniteReplay, Operation
from gradproof.backends.torch.audit.portable import Sent, bare, parts, sent
from gradproof.backends.torch.state import preserved
from gradproof.core.problem import NothingToCheckError
from gradproof.dispatch import WORTH, Dispatcher, LostError, UnsendableError, packed, picklable, shares_memory
from gradproof.render.progress import silent
from gradproof.results.report import Report

# What is asked of an operation: of torch's own its Jacobian, of one written by hand also what bears on a gradient.
OF_TORCH = ("jacobian", "unused")
BY_HAND = ("jacobian", "unused", "adjoint", "determinism", "linearity", "layout")

LATE = "the budget ended before"


class Outcome(NamedTuple):
    """The report of an operation, or why there is none."""

    report: Report | None
    why: str = ""


Around = Callable[[], AbstractContextManager[Any]]
"""What keeps the user's state while an operation is called again."""


def examine_operation(operation: Operation, seed: int, seconds: float | None, kept: Around) -> Outcome:
    """Check one operation at the values that it saw."""
    if seconds is not None and seconds <= 0:
        return Outcome(None, LATE)
    with kept():
        if not faithful(operation):
            return Outcome(None, "called again, it gives other values, or raises")
    replay = FiniteReplay(operation)
    try:
        with Declared([operation]).restarting(replay) as function:
            return Outcome(
                check(
                    function,
                    replay.inputs(),
                    modes="reverse" if not operation.kind.by_hand else None,
                    properties=BY_HAND if operation.kind.by_hand else OF_TORCH,
                    budget=seconds,
                    seed=seed,
                )
            )
    except (NothingToCheckError, TypeError, ValueError) as error:
        return Outcome(None, str(error))


Clock = Callable[[], float | None]
"""The seconds that are left, if they are limited."""


class Serial:
    """Checks operations in this process, one after the other."""

    def __init__(self, seed: int, clock: Clock, kept: Around) -> None:
        self._seed, self._clock, self._kept = seed, clock, kept

    def outcomes(self, operations: Sequence[Operation]) -> Iterator[Outcome]:
        """What each comes to, in their order."""
        for operation in operations:
            yield examine_operation(operation, self._seed, self._clock(), self._kept)


_Running = Future[Any] | str | None
"""A chunk that was sent, or why it cannot be; None: threads would be in each other's way, so it is done here."""


def _is_at_work(chunk: _Running) -> bool:
    return isinstance(chunk, Future) and not chunk.done()


class Dispatched:
    """Checks operations on the workers of an executor."""

    def __init__(self, executor: Executor, seed: int, clock: Clock, kept: Around) -> None:
        self._executor, self._dispatcher = executor, Dispatcher(executor)
        self._seed, self._clock, self._here = seed, clock, Serial(seed, clock, kept)

    def require_sendable(self, operations: Sequence[Operation]) -> None:
        """Raise `UnsendableError` for what cannot be sent, or not be found where it arrives; not for threads."""
        first = {operation.key: operation for operation in reversed(operations) if operation.differentiable}
        if shares_memory(self._executor) or not first:
            return
        texts = [packed(bare(each), functools.partial(_parts, each)) for each in first.values()]
        try:
            missing: tuple[int, str] | None = self._dispatcher.wait(self._dispatcher.submit(arrive, texts), 0.0)
        except Exception:  # a worker that is lost is a matter for later
            return
        if missing is not None:
            words = next(parts([*first.values()][missing[0]]))[0]
            raise UnsendableError(
                f"{words} cannot be found by a worker ({missing[1]}). Define it in a module that workers can import, "
                "or audit without executor="
            )

    def outcomes(self, operations: Sequence[Operation]) -> Iterator[Outcome]:
        """What each comes to, in their order. The first is checked here, which tells the time."""
        if not operations:
            return
        started = time.perf_counter()
        yield from self._here.outcomes(operations[:1])
        seconds, others = time.perf_counter() - started, operations[1:]
        if self._dispatcher.workers < 2 or seconds * len(others) < WORTH:
            yield from self._here.outcomes(others)
            return
        length = self._dispatcher.length(seconds, len(others))
        chunks = [others[k : k + length] for k in range(0, len(others), length)]
        running: list[_Running] = []
        try:
            for k, chunk in enumerate(chunks):
                self._send_ahead(chunks, running)
                future = running[k]
                yield from self._here.outcomes(chunk) if future is None else self._waited(chunk, future, seconds)
        finally:
            for future in running:
                if isinstance(future, Future):
                    future.cancel()

    def _send_ahead(self, chunks: Sequence[Sequence[Operation]], running: list[_Running]) -> None:
        """Send chunks: all of them, or where time is limited as many as there are workers.

        A chunk is told the seconds that are left when it is sent, and must not wait for a worker while they pass.
        """
        most = len(chunks) if self._clock() is None else self._dispatcher.workers
        while len(running) < len(chunks) and sum(_is_at_work(future) for future in running) < most:
            running.append(self._submitted(chunks[len(running)]))

    def _submitted(self, chunk: Sequence[Operation]) -> _Running:
        """A chunk that is sent."""
        threads = shares_memory(self._executor)
        if threads and any(operation.random is not None for operation in chunk):
            return None
        try:
            text = packed(
                (os.getpid(), surroundings(), [sent(operation) for operation in chunk], self._seed, self._clock()),
                lambda: [part for operation in chunk for part in _parts(operation)],
            )
            return self._dispatcher.submit(serve, text)
        except UnsendableError as error:
            return None if threads else str(error)
        except LostError as lost:
            return str(lost)

    def _waited(self, chunk: Sequence[Operation], future: Future[Any] | str, seconds: float) -> Iterator[Outcome]:
        if isinstance(future, str):
            yield from (Outcome(None, future) for _ in chunk)
            return
        try:
            outcomes: list[Outcome] = self._dispatcher.wait(future, seconds * len(chunk))
        except Exception as error:
            yield from (self._again(operation, error, seconds) for operation in chunk)
            return
        yield from outcomes

    def _again(self, operation: Operation, error: Exception, seconds: float) -> Outcome:
        """By itself: what ended its worker takes no other along twice."""
        future = self._submitted([operation])
        if not isinstance(future, Future):
            return Outcome(None, str(future))
        try:
            (outcome,) = cast(list[Outcome], self._dispatcher.wait(future, seconds))
        except Exception as again:
            told = f"{type(again).__name__}: {again}".rstrip(": ")
            return Outcome(None, f"a worker was lost, and so was the one that was to do its work again ({told})")
        return outcome


def _parts(operation: Operation) -> list[tuple[str, Any]]:
    return [*parts(operation)]


# in a worker

_PRESERVED = functools.partial(preserved, ())


def arrive(texts: Sequence[bytes]) -> tuple[int, str] | None:
    """The first of some operations, sent without their values, that is not there in this process, and why."""
    for k, text in enumerate(texts):
        try:
            cast(Sent, pickle.loads(text)).arrived()
        except Exception as error:
            return k, f"{type(error).__name__}: {error}"
    return None


def serve(text: bytes) -> list[Outcome]:
    """Check some operations."""
    process, there, operations, seed, seconds = cast(tuple[int, Any, list[Sent], int, float | None], pickle.loads(text))
    if process == os.getpid():  # a thread of the audit's own process
        at_work.here = True
        try:
            return _served(operations, seed, seconds)
        finally:
            at_work.here = False
    before = surroundings()
    surround(there)
    try:
        return _served(operations, seed, seconds)
    finally:
        surround(before)


def _served(operations: Sequence[Sent], seed: int, seconds: float | None) -> list[Outcome]:
    started = time.perf_counter()

    def left() -> float | None:
        return None if seconds is None else seconds - (time.perf_counter() - started)

    with silent():
        return [_returned(examine_operation(each.arrived(), seed, left(), _PRESERVED)) for each in operations]


def _returned(outcome: Outcome) -> Outcome:
    """Exceptions in a report may not want to be sent back."""
    report = outcome.report
    if report is None or not any(finding.cause for finding in report.findings):
        return outcome
    findings = tuple(
        finding if finding.cause is None else dataclasses.replace(finding, cause=picklable(finding.cause))
        for finding in report.findings
    )
    return Outcome(dataclasses.replace(report, findings=findings), outcome.why)
