"""Thousands of cases, known by name: run here or by somebody's workers, written down as they finish.

Functions cannot be sent, but the files that make them are there for every worker: it is told a file and the numbers of
cases, and makes them itself. It goes through a file once, however many chunks of it there are. What a chunk came to is
written as lines of JSON at once, so that a run that was killed goes on where it ended.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import math
import multiprocessing
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradproof.collecting import CaseId
from gradproof.results.run import Checked, Crash
from gradproof.results.suite import Row, as_line
from gradproof.running import Refusal, result_of
from gradproof.targets import Found, NoCase, TargetError, found_in

SCHEMA = "gradproof.suite/1"
_CHUNK = 0.5
"""Seconds that a chunk of cases should take."""
_MOST = 256
"""Cases in a chunk at most."""
_TRIES = 2
"""How often a case is tried by itself after its worker was lost."""
_AHEAD = 2
"""Chunks that wait for each worker."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Cases of one target; `alone` counts the tries without others that could have ended the worker."""

    cases: tuple[CaseId, ...]
    alone: int = 0


# in a worker


class _Reader:
    """Goes through the cases of a target once, forwards; back only if asked for an earlier one."""

    def __init__(self, target: str) -> None:
        self._target, self._next = target, 0
        self._cases = found_in(target)

    def case(self, number: int) -> Found:
        if number < self._next:
            self.__init__(self._target)
        found = next(itertools.islice(self._cases, number - self._next, None))
        self._next = number + 1
        return found


@functools.lru_cache(maxsize=4)
def _reader(target: str) -> _Reader:
    return _Reader(target)


def run_chunk(cases: Sequence[CaseId], options: Mapping[str, Any]) -> list[Row]:
    """Check some cases, in this process."""
    return [_row(each, options) for each in cases]


def _row(case_id: CaseId, options: Mapping[str, Any]) -> Row:
    started = time.perf_counter()
    try:
        case = _reader(case_id.target).case(case_id.number)
    except TargetError as error:  # the file itself is broken from here on
        _reader.cache_clear()
        told = "".join(traceback.format_exception(error.__cause__ or error))
        return Row(case_id.name, "RAISED", str(error), time.perf_counter() - started, detail=told)
    if isinstance(case, NoCase):
        return Row(case_id.name, "REFUSED", case.why, time.perf_counter() - started)
    result = case if isinstance(case, Crash) else result_of(case, options)
    match result:
        case Checked():
            return Row.of(case_id.name, result.report)
        case Crash():
            seconds = time.perf_counter() - started
            return Row(case_id.name, "RAISED", f"{result.kind}: {result.text}", seconds, detail=result.traceback)
        case Refusal():
            return Row(case_id.name, "REFUSED", result.why, time.perf_counter() - started)


# the run


class Suite:
    """A run of named cases, which yields rows as they finish."""

    def __init__(self, cases: Sequence[CaseId], options: Mapping[str, Any], case_timeout: float = 600.0) -> None:
        """`case_timeout`: a case that takes longer, in seconds, counts as lost."""
        self._options, self._timeout = dict(options), case_timeout
        self._waiting = deque(cases)
        self._retries: deque[Chunk] = deque()
        self._mean = 0.0
        self._done = 0

    def here(self) -> Iterator[Row]:
        """All cases in this process."""
        while self._waiting:
            yield from run_chunk([self._waiting.popleft()], self._options)

    def on(self, executor: Callable[[], Executor], workers: int) -> Iterator[Row]:
        """All cases on the workers of an executor, which is made anew where it breaks."""
        pool = executor()
        running: dict[Future[list[Row]], tuple[Chunk, float]] = {}
        try:
            while self._waiting or self._retries or running:
                while self._may_send(running, workers):
                    chunk = self._retries.popleft() if self._retries else self._next(workers)
                    try:
                        future: Future[list[Row]] = pool.submit(run_chunk, chunk.cases, self._options)
                    except RuntimeError:  # it broke meanwhile
                        self._retries.appendleft(chunk)
                        pool = self._replaced(pool, executor)
                        continue
                    running[future] = chunk, time.monotonic()
                finished, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in finished:
                    chunk, _ = running.pop(future)
                    yield from self._finished(future, chunk)
                late = [future for future, (chunk, since) in running.items() if self._is_late(chunk, since, running)]
                if late:
                    yield from self._given_up(late, running)
                    pool = self._replaced(pool, executor)
                    self._retries.extend(chunk for chunk, _ in running.values())
                    running.clear()
        finally:
            for future in running:
                future.cancel()
            _stop(pool)

    def _may_send(self, running: Mapping[Any, Any], workers: int) -> bool:
        """A case that is tried again is alone: what ends its worker may take others along once, not twice."""
        if self._retries:
            return not running
        alone = any(chunk.alone for chunk, _ in running.values())
        return bool(self._waiting) and not alone and len(running) < _AHEAD * workers

    def _next(self, workers: int) -> Chunk:
        """The next cases, of one target: about so many as take half a second."""
        length = 1 if not self._mean else max(1, min(_MOST, round(_CHUNK / self._mean)))
        length = max(1, min(length, math.ceil(len(self._waiting) / workers)))
        first = self._waiting.popleft()
        cases = [first]
        while self._waiting and len(cases) < length and self._waiting[0].target == first.target:
            cases.append(self._waiting.popleft())
        return Chunk(tuple(cases))

    def _finished(self, future: Future[list[Row]], chunk: Chunk) -> Iterator[Row]:
        try:
            rows = future.result()
        except Exception as error:  # of the worker: what a case raises is a row
            yield from self._lost(chunk, f"{type(error).__name__}: {error}".rstrip(": "))
            return
        for row in rows:
            self._done += 1
            self._mean += (row.seconds - self._mean) / self._done
        yield from rows

    def _lost(self, chunk: Chunk, why: str) -> Iterator[Row]:
        """Again, each case by itself, and twice if need be: the one that ends its worker takes no other along."""
        if chunk.alone < _TRIES:
            self._retries.extend(Chunk((case,), chunk.alone + 1) for case in chunk.cases)
        else:
            yield from (Row(case.name, "LOST", f"no worker lived to check it ({why})") for case in chunk.cases)

    def _is_late(self, chunk: Chunk, since: float, running: Mapping[Any, Any]) -> bool:
        """Chunks wait for one another: so many times as long as there are."""
        return time.monotonic() - since > self._timeout * len(chunk.cases) * (1 if len(running) == 1 else _AHEAD)

    def _given_up(self, late: Sequence[Any], running: dict[Any, tuple[Chunk, float]]) -> Iterator[Row]:
        for future in late:
            chunk, _ = running.pop(future)
            future.cancel()
            yield from self._lost(chunk, f"nothing after {self._timeout:g} s a case")

    @staticmethod
    def _replaced(pool: Executor, executor: Callable[[], Executor]) -> Executor:
        _stop(pool)
        return executor()


def _stop(pool: Executor) -> None:
    """Do not wait for what hangs."""
    processes: list[Any] = [*(getattr(pool, "_processes", None) or {}).values()]
    if processes:
        pool.shutdown(wait=False, cancel_futures=True)
    else:  # Dask's takes no other argument
        pool.shutdown(wait=False)
    for process in processes:
        process.terminate()


def processes(workers: int) -> Callable[[], Executor]:
    """Makes pools of so many processes."""
    return lambda: ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def dask(address: str) -> tuple[Callable[[], Executor], int]:
    """Makes executors of a Dask cluster, and how many threads its workers have."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise ImportError("a Dask scheduler needs the package distributed: pip install distributed") from error
    client = distributed.Client(address, timeout="10s")
    workers = sum(client.nthreads().values())
    if not workers:
        raise OSError(f"the scheduler at {address} has no workers")
    return (lambda: client.get_executor(pure=False)), workers


# the file


def _schema(line: str) -> Any:
    """What the first line of a file says that it is."""
    try:
        header: Any = json.loads(line)
        return header["schema"]
    except (ValueError, KeyError, TypeError):
        return None


class Journal:
    """Lines of JSON, one for each case, written as cases finish."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self) -> dict[str, Row]:
        """What is written already, by case. A last line that was cut off counts as not written, and is taken out."""
        if not self._path.exists():
            return {}
        try:
            text = self._path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self._path} is no file of a suite: it is no text ({error})") from error
        whole = text[: text.rfind("\n") + 1]
        header, *lines = whole.splitlines() or [text or json.dumps({"schema": SCHEMA})]
        if _schema(header) != SCHEMA:
            raise ValueError(f"{self._path} is no file of a suite: its first line is {header[:80]!r}")
        found = [self._row(number, line) for number, line in enumerate(lines, start=2)]
        if whole != text:  # only now: a file of something else stays as it is
            self._path.write_text(whole, encoding="utf-8")
        return {row.case: row for row in found}

    def _row(self, number: int, line: str) -> Row:
        try:
            return Row(**json.loads(line))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self._path}, line {number}, is no case of a suite: {line[:80]!r}") from error

    def begin(self) -> None:
        """Write the first line, over whatever there is."""
        self._path.write_text(json.dumps({"schema": SCHEMA}) + "\n", encoding="utf-8")

    def write(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Write each row as it comes, and hand it on."""
        if not self._path.exists() or not self._path.stat().st_size:
            self.begin()
        with self._path.open("a", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(as_line(row)) + "\n")
                file.flush()
                yield row
