"""Runs the cases that the command line is asked for: one after the other or in several processes.

A case that raises, or that `check` refuses, does not keep the others from being run.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from gradproof.api import check
from gradproof.render.json import dump_run, load_run
from gradproof.results.repeat import command_line
from gradproof.results.report import Report
from gradproof.results.run import Checked, Crash, Run
from gradproof.results.shrunk import ShrinkResult
from gradproof.shrinking.door import shrink
from gradproof.targets import Case, crash_of, find_cases


@dataclass(frozen=True, slots=True)
class Refusal:
    """A case that `check` could make no sense of, or that leaves nothing to check, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the cases came to."""

    run: Run
    refusals: tuple[Refusal, ...] = ()


Result = Checked | Crash | Refusal


def run_cases(target: str, options: Mapping[str, Any], jobs: int = 1) -> Outcome:
    """Check every case of a target; `TargetError` if there is none."""
    if jobs == 1:
        return _gathered(list(_results(target, options, 0, 1)), target, options)
    shares = _in_processes(target, options, jobs)
    numbered = [(k * jobs + share, each) for share, made in enumerate(shares) for k, each in enumerate(made)]
    return _gathered([each for _, each in sorted(numbered, key=lambda pair: pair[0])], target, options)


def _results(target: str, options: Mapping[str, Any], share: int, shares: int) -> Iterator[Result]:
    """The results of every `shares`-th case, from number `share` on."""
    for number, case in enumerate(find_cases(target)):
        if number % shares == share:
            yield case if isinstance(case, Crash) else result_of(case, options)


def result_of(case: Case, options: Mapping[str, Any]) -> Result:
    """Check one case; what it says of its own goes before the options of all."""
    try:
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
    for case in find_cases(target):
        if case.name in names and isinstance(case, Case):
            try:
                yield case.name, shrink(case.func, case.inputs, case.kwargs, **{**options, **case.options})
            except (Exception, SystemExit) as error:
                yield case.name, error


def _repeatable(checked: Checked, target: str, options: Mapping[str, Any]) -> Report:
    """The report with the command that repeats it."""
    return replace(checked.report, repeat=command_line(target, checked.name, options))


def _gathered(results: list[Result], target: str, options: Mapping[str, Any]) -> Outcome:
    checks = tuple(
        each if each.report else replace(each, report=_repeatable(each, target, options))
        for each in results
        if isinstance(each, Checked)
    )
    crashes = tuple(each for each in results if isinstance(each, Crash))
    return Outcome(Run(checks, crashes), tuple(each for each in results if isinstance(each, Refusal)))


# several processes: each finds the cases itself, since functions cannot be sent


def _in_processes(target: str, options: Mapping[str, Any], jobs: int) -> list[list[Result]]:
    find_cases(target)  # a target that is none is refused here, once
    context = multiprocessing.get_context("spawn")
    with _threads_shared(jobs):
        pools = [ProcessPoolExecutor(1, mp_context=context) for _ in range(jobs)]
        try:
            futures = [pool.submit(_share, target, dict(options), share, jobs) for share, pool in enumerate(pools)]
            return [_received(future, share) for share, future in enumerate(futures)]
        finally:
            for pool in pools:
                pool.shutdown(cancel_futures=True)


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


def _share(target: str, options: dict[str, Any], share: int, shares: int) -> list[Sent]:
    """The results of a share, as data that can be sent: reports as JSON."""
    return [_sent(each) for each in _results(target, options, share, shares)]


def _sent(result: Result) -> Sent:
    return ("checked", dump_run(Run((result,)))) if isinstance(result, Checked) else ("other", result)


def _received(future: Any, share: int) -> list[Result]:
    try:
        sent: list[Sent] = future.result()
    except Exception as error:
        return [Crash(f"process {share + 1}", type(error).__qualname__, str(error), f"{error!r}\n")]
    return [load_run(value).checks[0] if kind == "checked" else value for kind, value in sent]
