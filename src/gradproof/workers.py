"""Plain calls of the function under test, mapped over somebody else's workers.

`executor=` takes any `concurrent.futures.Executor`. What a check asks for one by one, because it cannot be batched, is
sent to the workers in chunks that are worth sending. Each worker makes the same Problem of the same call and answers
with plain calls, so that the report is the one that a check without workers gives.

A chunk whose worker died is sent once more. What still cannot be computed ends the check as a budget would: what is
known stays known, and the rest is inconclusive.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import os
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple, cast

import numpy as np

from gradproof.backends import (
    Reconsiders,
    Session,
    as_arguments,
    at_work,
    by_hand,
    find_backend,
    surround,
    surroundings,
)
from gradproof.core.capabilities import AccusedBefore, Here, Workers
from gradproof.core.cost import BudgetExhausted
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Mode, Problem
from gradproof.core.types import Matrix, Vector
from gradproof.dispatch import WORTH, Dispatcher, LostError, UnsendableError, packed, picklable, shares_memory

_KEPT = 4
"""Of how many checks a worker keeps the call."""


_DRAWS = "the function draws random numbers, which threads share: it was called in one thread, without workers"
_NO_COPY = (
    "each thread needs a copy of what is called, and something in it cannot be copied: it was called in one thread, "
    "without workers"
)


class Calling(NamedTuple):
    """A call as `gradproof.check` understands it."""

    func: Callable[..., Any]
    inputs: Any
    keywords: Mapping[str, Any]
    wrt: tuple[str | int, ...] | None
    masked: bool
    intended: Callable[..., Any] | None
    given: Mapping[str, Any]
    """Derivatives by hand, by their kinds: of NumPy functions."""
    bounds: Any

    def session(self) -> AbstractContextManager[Session]:
        """A session of this call, by the backend that it is for."""
        if self.given:
            return by_hand(self.func, self.inputs, self.keywords, self.given, wrt=self.wrt, bounds=self.bounds)
        arguments = as_arguments(self.inputs)
        backend = find_backend(self.func, arguments, self.keywords)
        return backend.session(
            self.func, arguments, self.keywords, wrt=self.wrt, masked=self.masked, intended=self.intended
        )


# in the process of the check


class Working:
    """A session whose Problems have workers."""

    def __init__(self, session: Session, executor: Executor, calling: Calling) -> None:
        """Raises `UnsendableError` for a call that cannot be sent to another process."""
        self._session, self._executor = session, executor
        self._text = copied(calling) if shares_memory(executor) else sendable(calling)
        self._name = uuid.uuid4().hex
        self._made: dict[int, Problem] = {}
        self._reconsidered = False

    @property
    def framework(self) -> str:
        return self._session.framework

    @property
    def not_covered(self) -> tuple[str, ...]:
        return self._session.not_covered

    @property
    def notes(self) -> tuple[str, ...]:
        why = self._why_in_turn()
        return (*self._session.notes, why) if why else self._session.notes

    def _why_in_turn(self) -> str:
        """Why threads would be in each other's way, if they would."""
        if self._text is None:
            return _NO_COPY
        draws = shares_memory(self._executor) and bool(getattr(self._session, "draws", False))
        return _DRAWS if draws else ""

    def reconsider(self, accused: Mapping[int, AccusedBefore]) -> bool:
        """Take the session's other way, if it has one; the workers will too."""
        self._reconsidered = isinstance(self._session, Reconsiders) and self._session.reconsider(accused)
        return self._reconsidered

    def problem(self) -> Problem:
        return self._with_workers(self._session.problem(), "problem")

    def second(self) -> Problem:
        return self._with_workers(self._session.second(), "second")

    def modes(self, investigation: Investigation) -> tuple[Mode, ...]:
        """The session looks for the Problem that it made."""
        made = investigation.problem
        investigation.problem = self._made[id(made)]
        try:
            return self._session.modes(investigation)
        finally:
            investigation.problem = made

    def _with_workers(self, problem: Problem, order: str) -> Problem:
        if self._text is None or self._why_in_turn():
            self._made[id(problem)] = problem
            return problem
        crew = Crew(self._executor, self._text, self._name, Wanted(order, self._reconsidered))
        workers = Workers(*(crew.answering(kind, getattr(problem, kind)) for kind in ("evaluate", "vjp", "jvp")))
        equipped = dataclasses.replace(problem, capabilities={**problem.capabilities, Workers: workers})
        self._made[id(equipped)] = problem
        return equipped


class Wanted(NamedTuple):
    """Which Problem of a session is asked about: the name of the method that makes it, after `reconsider` or not."""

    order: str
    reconsidered: bool


class Crew:
    """Sends rows to workers and waits for what they give."""

    def __init__(self, executor: Executor, text: bytes, name: str, wanted: Wanted) -> None:
        self._dispatcher = Dispatcher(executor)
        self._text, self._name, self._wanted = text, name, wanted
        self._seconds: dict[str, float] = {}

    def answering(self, kind: str, plain: Callable[[Vector], Vector] | None) -> Any:
        """What answers many questions of a kind."""
        return None if plain is None else functools.partial(self._answers, kind)

    def _answers(self, kind: str, rows: Matrix, here: Here) -> Matrix:
        """The first and the last row are asked here: the one tells the time, the other is what is looked at later."""
        values = np.empty((len(rows), here.width))
        started = time.perf_counter()
        values[0] = here.ask(rows[0])
        self._seconds[kind] = min(self._seconds.get(kind, math.inf), time.perf_counter() - started)
        if self._is_worth_it(kind, len(rows) - 2, here):
            values[1:-1] = self._sent(kind, rows[1:-1], here.width)
            values[-1] = here.ask(rows[-1])
        else:
            for k in range(1, len(rows)):
                values[k] = here.ask(rows[k])
        return values

    def _is_worth_it(self, kind: str, count: int, here: Here) -> bool:
        """Whether rows are sent; then they are counted. Where the budget does not reach, they are asked one by one."""
        if self._dispatcher.workers < 2 or self._seconds[kind] * count < WORTH:
            return False
        try:
            here.count(count)
        except BudgetExhausted:
            return False
        return True

    def _sent(self, kind: str, rows: Matrix, width: int) -> Matrix:
        length = self._dispatcher.length(self._seconds[kind], len(rows))
        chunks = [rows[k : k + length] for k in range(0, len(rows), length)]
        futures: list[Future[Any]] = []
        values: list[Vector] = []
        try:
            futures += [self._submit(kind, chunk) for chunk in chunks]
            for chunk, future in zip(chunks, futures, strict=True):
                for value in self._result(kind, chunk, future):
                    if isinstance(value, Exception):
                        raise value
                    values.append(value)
        except LostError as lost:
            raise BudgetExhausted(str(lost)) from lost
        finally:
            for future in futures:
                future.cancel()
        return np.array(values).reshape(len(rows), width)

    def _submit(self, kind: str, chunk: Matrix) -> Future[Any]:
        return self._dispatcher.submit(serve, self._text, self._name, self._wanted, kind, np.ascontiguousarray(chunk))

    def _result(self, kind: str, chunk: Matrix, future: Future[Any]) -> list[Vector | Exception]:
        seconds = self._seconds[kind] * max(len(chunk), 1)
        try:
            return self._dispatcher.wait(future, seconds)
        except Exception as error:  # not of the function: those come back as values
            try:
                return self._dispatcher.wait(self._submit(kind, chunk), seconds)
            except LostError:
                raise
            except Exception as again:
                lost = "A worker was lost, and so was the one that was to do its work again"
                raise self._dispatcher.give_up(again, lost) from error


# what can be sent


def sendable(calling: Calling) -> bytes:
    """The call as bytes; `UnsendableError` names what cannot be sent."""
    return packed((os.getpid(), surroundings(), calling), functools.partial(_parts, calling))


def copied(calling: Calling) -> bytes | None:
    """The call as bytes for threads, of which each has a copy; None where there can be none."""
    try:
        return sendable(calling)
    except UnsendableError:
        return None


def _parts(calling: Calling) -> list[tuple[str, Any]]:
    return [
        (f"the function {_told(calling.func)}", calling.func),
        *((f"{name} ({_told(value)})", value) for name, value in calling.given.items()),
        *((f"input {k} ({type(value).__name__})", value) for k, value in enumerate(as_arguments(calling.inputs))),
        *((f"the keyword {name} ({type(value).__name__})", value) for name, value in calling.keywords.items()),
    ]


def _told(func: Callable[..., Any]) -> str:
    return getattr(func, "__qualname__", type(func).__name__)


# in the worker


class _Served:
    """A call, made a Problem once, for as long as this worker is asked about it."""

    def __init__(self, text: bytes, wanted: Wanted) -> None:
        process, there, calling = cast(tuple[int, Any, Calling], pickle.loads(text))
        self._stack, self._there = ExitStack(), there if process != os.getpid() else None
        if self._there is not None:
            self._stack.callback(surround, surroundings())
        self.surround()
        session = self._stack.enter_context(calling.session())
        if wanted.reconsidered:
            session.problem()
            assert isinstance(session, Reconsiders)
            session.reconsider({})  # what is to be judged is not asked here
        if wanted.order == "second":
            session.problem()
        self.problem: Problem = getattr(session, wanted.order)()

    def surround(self) -> None:
        """Draw and add up as in the process of the check, whatever this worker did for others meanwhile."""
        if self._there is not None:
            surround(self._there)

    def close(self) -> None:
        self._stack.close()


_served: collections.OrderedDict[tuple[str, Wanted, int], _Served] = collections.OrderedDict()
_lock = threading.Lock()


def serve(text: bytes, name: str, wanted: Wanted, kind: str, rows: Matrix) -> list[Vector | Exception]:
    """In a worker: the answer to each row, up to the first that raises, whose exception is the last answer."""
    at_work.here = True
    try:
        return _answers(_problem(text, name, wanted), kind, rows)
    except Exception as error:  # of the function, which must run once before it can be asked
        return [picklable(error)]
    finally:
        at_work.here = False


def _answers(problem: Problem, kind: str, rows: Matrix) -> list[Vector | Exception]:
    apply: Callable[[Vector], Vector] = getattr(problem, kind)
    answers: list[Vector | Exception] = []
    with np.errstate(all="ignore"):
        for row in rows:
            try:
                answers.append(np.array(apply(row)))
            except Exception as error:
                return [*answers, picklable(error)]
    return answers


def _problem(text: bytes, name: str, wanted: Wanted) -> Problem:
    key = name, wanted, threading.get_ident()
    with _lock:
        found = _served.get(key)
    if found is None:
        found = _Served(text, wanted)
        with _lock:
            _served[key] = found
            old = [_served.popitem(last=False)[1] for _ in range(max(0, len(_served) - _KEPT * _threads()))]
        for each in old:
            each.close()
    found.surround()
    return found.problem


def _threads() -> int:
    return max(1, threading.active_count())
