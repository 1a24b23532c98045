"""`executor=`: workers of every kind give the report that a check without them gives; one that dies loses nothing."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from executor_cases import CASES, OPTIONS, always_dies, dies_once, numbers, of_sizes, right
from pools import Counting, told

import gradproof
from gradproof import Verdict
from gradproof.workers import UnsendableError


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("func", "inputs"), CASES, ids=[f"{k} {func.__name__}" for k, (func, _) in enumerate(CASES)])
@pytest.mark.filterwarnings("ignore")
def test_dask_gives_the_same_report(func: Any, inputs: Any, options: Any, cluster: Any) -> None:
    alone = gradproof.check(func, inputs, **options)
    assert told(gradproof.check(func, inputs, executor=cluster.get_executor(), **options)) == told(alone)


@pytest.mark.parametrize(("func", "inputs"), CASES[:3])
def test_processes_give_the_same_report(func: Any, inputs: Any, processes: Executor) -> None:
    alone = gradproof.check(func, inputs, strategy="entries")
    assert told(gradproof.check(func, inputs, strategy="entries", executor=processes)) == told(alone)


@pytest.mark.parametrize(("func", "inputs"), CASES[:3])
def test_threads_give_the_same_report(func: Any, inputs: Any) -> None:
    alone = gradproof.check(func, inputs, strategy="entries")
    with ThreadPoolExecutor(2) as executor:
        assert told(gradproof.check(func, inputs, strategy="entries", executor=executor)) == told(alone)


def test_work_is_really_sent() -> None:
    with Counting() as executor:
        assert gradproof.check(right, numbers(8), strategy="entries", executor=executor)
    assert executor.workers
    assert threading.get_ident() not in executor.workers


def test_little_work_is_not_sent() -> None:
    class Refusing(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *arguments: Any, **keywords: Any) -> Any:
            raise AssertionError("sent")

    with Refusing(2) as executor:
        assert gradproof.check(torch.sin, numbers(8), strategy="entries", executor=executor)


# workers that die


def test_a_worker_that_dies_costs_a_retry(main_process: None, tmp_path: Path, cluster: Any) -> None:
    marker = str(tmp_path / "died")
    alone = gradproof.check(dies_once, (numbers(8), marker), strategy="entries")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = gradproof.check(
            dies_once, (numbers(8), marker), strategy="entries", executor=cluster.get_executor(retries=2)
        )
    assert Path(marker).exists()
    assert told(report) == told(alone)


def test_what_no_worker_can_compute_is_inconclusive(main_process: None) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        report = gradproof.check(always_dies, numbers(8), strategy="entries", executor=executor)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "worker was lost" in report.findings[0].headline or "no more work" in report.findings[0].headline
    assert "BrokenProcessPool" in report.findings[0].headline


def test_an_executor_that_was_shut_down_is_told_of() -> None:
    executor = ThreadPoolExecutor(2)
    executor.shutdown()
    report = gradproof.check(right, numbers(8), strategy="entries", executor=executor)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "The executor takes no more work" in report.findings[0].headline


# what cannot be sent


def test_what_cannot_be_sent_is_named_before_any_work_is_done(processes: Executor) -> None:
    lock = threading.Lock()
    calls = 0

    def locked(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        with lock:
            return x * 2

    with pytest.raises(UnsendableError, match=r"refers to `lock` \(lock\)"):
        gradproof.check(locked, numbers(3), executor=processes)
    assert calls == 0


def test_nothing_is_sent_to_threads() -> None:
    """What cannot be copied for each is called in one thread, and a note says so."""
    lock = threading.Lock()

    def locked(x: torch.Tensor) -> torch.Tensor:
        with lock:
            return right(x)

    alone = gradproof.check(locked, numbers(6), strategy="entries")
    with ThreadPoolExecutor(2) as executor:
        report = gradproof.check(locked, numbers(6), strategy="entries", executor=executor)
    assert report
    assert report.cost.evaluations == alone.cost.evaluations
    assert any("cannot be copied: it was called in one thread" in note for note in report.notes)


def test_the_probes_of_each_input_are_sent(processes: Executor) -> None:
    """Inputs that the joint probe does not see are looked at alone: the steps along each go to the workers."""
    inputs = (numbers(4), numbers(3, seed=1), numbers(5, seed=2))
    sent: list[str] = []

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *arguments: Any, **keywords: Any) -> Any:
            sent.append(arguments[3])
            return super().submit(fn, *arguments, **keywords)

    alone = gradproof.check(of_sizes, inputs, strategy="probes")
    with Counting() as executor:
        assert told(gradproof.check(of_sizes, inputs, strategy="probes", executor=executor)) == told(alone)
    assert sent.count("evaluate") >= 2
    assert told(gradproof.check(of_sizes, inputs, strategy="probes", executor=processes)) == told(alone)


def test_the_users_state_is_unchanged(processes: Executor) -> None:
    x = numbers(8)
    before, state = x.detach().clone(), torch.get_rng_state()
    gradproof.check(right, x, strategy="entries", executor=processes)
    assert torch.equal(x.detach(), before)
    assert torch.equal(torch.get_rng_state(), state)


def test_threads_share_generators_so_that_a_function_that_draws_is_called_in_one() -> None:
    func, inputs = next((func, inputs) for func, inputs in CASES if func.__name__ == "drawing")
    with ThreadPoolExecutor(2) as executor:
        report = gradproof.check(func, inputs, strategy="entries", executor=executor)
    assert report
    assert any("without workers" in note for note in report.notes)


def test_a_worker_draws_as_the_check_does_whatever_it_did_for_others_before(processes: Executor) -> None:
    """It remembers a few calls only, and puts back its own random state when it forgets one."""
    func, inputs = next((func, inputs) for func, inputs in CASES if func.__name__ == "drawing")
    state = torch.get_rng_state()
    try:
        for seed in range(7):
            torch.manual_seed(seed)
            alone = gradproof.check(func, inputs, strategy="entries")
            assert told(gradproof.check(func, inputs, strategy="entries", executor=processes)) == told(alone)
    finally:
        torch.set_rng_state(state)
