"""Runs the cases that the command line is asked for: one after the other or in several processes.

A case that raises, or that `check` refuses, does not keep the others from being run.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any

from gradproof.api import check
from gradproof.names import options_written
from gradproof.render.json import dump_run, load_run
from gradproof.results.repeat import command_line
from gradproof.results.report import Report
from gradproof.results.run import Checked, Crash, Run
from gradproof.results.shrunk import ShrinkResult
from gradproof.shrinking.door import shrink
from gradproof.targets import Case, Found, NoCase, crash_of, find_cases_among


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is no case, or one that `check` could make no sense of, or that leaves nothing to check, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the cases came to."""

    run: Run
    refusals: tuple[Refusal, ...] = ()
    stopped: bool = False
    """Whether somebody ended it before all were checked."""


Result = Checked | Crash | Refusal


def run_cases(target: str, options: Mapping[str, Any], jobs: int = 1) -> Outcome:
    """Check every case of a target; `TargetError` if there is none. Ctrl-C ends it with what is there by then."""
    cases = find_cases_among(target)
    results: dict[int, Result] = {}
    found = _here(cases, options) if jobs == 1 else _in_processes(target, [case.name for case in cases], options, jobs)
    stopped = False
    try:
        for number, result in found:
            results[number] = result  # noqa: PERF403 (what is there stays, if it is stopped)
    except KeyboardInterrupt:
        stopped = True
    return _gathered([results[number] for number in sorted(results)], target, options, stopped)


def _here(cases: Sequence[Found], options: Mapping[str, Any]) -> Iterator[tuple[int, Result]]:
    for number, case in enumerate(cases):
        yield number, _result(case, options)


def _result(found: Found, options: Mapping[str, Any]) -> Result:
    if isinstance(found, NoCase):
        return Refusal(found.name, found.why)
    return found if isinstance(found, Crash) else result_of(found, options)


def result_of(case: Case, options: Mapping[str, Any]) -> Result:
    """Check one case; what it says of its own goes before the options of all."""
    try:
        with options_written("--{}"):
            return Checked(case.name, check(case.func, case.inputs, case.kwargs, **{**options, **case.options}))
    except (TypeError, ValueError) as error:
        if _is_ours(error):  # check refuses a call that it cannot make sense of
            return Refusal(case.name, str(error))
        return crash_of(case.name, error)
    except (Exception, SystemExit) as error:  # a case that ends the process would end it for all
        return crash_of(case.name, error)


def _is_ours(error: BaseException) -> bool:
    """Whether gradproof itself raised it, and no code that it called."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return os.path.dirname(os.path.abspath(__file__)) in os.path.abspath(last.filename)


def shrink_cases(
    target: str, names: Collection[str], options: Mapping[str, Any]
) -> Iterator[tuple[str, ShrinkResult | BaseException]]:
    """The cases of these names, made anew and as small as what is wrong with them allows; or what came in between."""
    for case in find_cases_among(target):
        if case.name in names and isinstance(case, Case):
            try:
                yield case.name, shrink(case.func, case.inputs, case.kwargs, **{**options, **case.options})
            except (Exception, SystemExit) as error:
                yield case.name, error


def _repeatable(checked: Checked, target: str, options: Mapping[str, Any]) -> Report:
    """The report with the command that repeats it."""
    return replace(checked.report, repeat=command_line(target, checked.name, options))


def _gathered(results: list[Result], target: str, options: Mapping[str, Any], stopped: bool) -> Outcome:
    checks = tuple(
        each if each.report else replace(each, report=_repeatable(each, target, options))
        for each in results
        if isinstance(each, Checked)
    )
    crashes = tuple(each for each in results if isinstance(each, Crash))
    return Outcome(Run(checks, crashes), tuple(each for each in results if isinstance(each, Refusal)), stopped)


# several processes: each finds the cases itself, since functions cannot be sent


def _in_processes(
    target: str, names: Sequence[str], options: Mapping[str, Any], jobs: int
) -> Iterator[tuple[int, Result]]:
    """What each case comes to, as it does. Each process has every `jobs`-th case; one that is lost is made anew."""
    running: dict[Future[Sent], int] = {}
    pools: list[ProcessPoolExecutor] = []
    with _threads_shared(jobs):
        try:
            for share in range(jobs):
                _start(pools, running, target, options, range(share, len(names), jobs))
            while running:
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(finished, key=lambda each: running.get(each, -1)):
                    if future not in running:
                        continue  # it was lost with its process, and is asked for again
                    number = running.pop(future)
                    try:
                        yield number, _received(future.result())
                    except BrokenProcessPool as error:
                        yield number, Crash(names[number], type(error).__qualname__, str(error), f"{error!r}\n")
                        rest = [each for each, left in running.items() if left % jobs == number % jobs]
                        numbers = sorted(running.pop(each) for each in rest)
                        if numbers:
                            _start(pools, running, target, options, numbers)
        finally:
            for pool in pools:
                _end(pool)


def _start(
    pools: list[ProcessPoolExecutor],
    running: dict[Future[Sent], int],
    target: str,
    options: Mapping[str, Any],
    numbers: Iterable[int],
) -> None:
    """One more process, for these cases one after the other."""
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_ignore_interrupts)
    pools.append(pool)
    running.update({pool.submit(_numbered, target, dict(options), number): number for number in numbers})


def _ignore_interrupts() -> None:
    """Ctrl-C reaches every process of a terminal: the first one decides what becomes of the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(pool: ProcessPoolExecutor) -> None:
    """Without waiting for what it is doing."""
    processes: list[Any] = [*(getattr(pool, "_processes", None) or {}).values()]
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


class _threads_shared:  # noqa: N801 (used as a function, in a with statement)
    """While inside, new processes compute with their share of the cores, unless the user has said otherwise."""

    def __init__(self, jobs: int) -> None:
        self._value = str(max(1, (os.cpu_count() or 1) // jobs))
        self._ours = "OMP_NUM_THREADS" not in os.environ

    def __enter__(self) -> None:
        if self._ours:
            os.environ["OMP_NUM_THREADS"] = self._value

    def __exit__(self, *_: object) -> None:
        if self._ours:
            del os.environ["OMP_NUM_THREADS"]


Sent = tuple[str, Any]

_found = functools.lru_cache(maxsize=1)(find_cases_among)


def _numbered(target: str, options: dict[str, Any], number: int) -> Sent:
    """In a process: what a case comes to, as data that can be sent: a report as JSON."""
    result = _result(_found(target)[number], options)
    return ("checked", dump_run(Run((result,)))) if isinstance(result, Checked) else ("other", result)


def _received(sent: Sent) -> Result:
    kind, value = sent
    return load_run(value).checks[0] if kind == "checked" else value
