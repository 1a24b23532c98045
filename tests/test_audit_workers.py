"""`executor=` of an audit: the report of an audit without it, whoever the workers are and whatever becomes of them."""

from __future__ import annotations

import multiprocessing
import threading
import time
import warnings
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from executor_cases import audited, ending, numbers
from pools import Counting, told

from gradproof import Verdict
from gradproof.dispatch import UnsendableError
from gradproof.torch import audit

CASES = [(slope, dtype) for slope in (1.0, 1.05) for dtype in (torch.float64, torch.float32)]


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(("slope", "dtype"), CASES)
def test_processes_give_the_same_report(slope: float, dtype: torch.dtype, deep: bool, processes: Executor) -> None:
    model, inputs = audited(slope, dtype)
    alone = audit(model, inputs, deep=deep)
    assert told(audit(model, inputs, deep=deep, executor=processes)) == told(alone)
    assert alone.ok is (slope == 1.0)
    assert alone.guilty is None or alone.guilty.name == "Gelu"


@pytest.mark.parametrize(("slope", "dtype"), CASES)
def test_threads_give_the_same_report(slope: float, dtype: torch.dtype) -> None:
    model, inputs = audited(slope, dtype)
    alone = audit(model, inputs, deep=True)
    with ThreadPoolExecutor(2) as executor:
        assert told(audit(model, inputs, deep=True, executor=executor)) == told(alone)


@pytest.mark.parametrize(("slope", "dtype"), CASES)
@pytest.mark.filterwarnings("ignore")
def test_dask_gives_the_same_report(slope: float, dtype: torch.dtype, cluster: Any) -> None:
    model, inputs = audited(slope, dtype)
    alone = audit(model, inputs, deep=True)
    assert told(audit(model, inputs, deep=True, executor=cluster.get_executor())) == told(alone)


@pytest.fixture
def all_are_worth_sending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations that are checked in no time would otherwise stay where they are."""
    monkeypatch.setattr("gradproof.operations.WORTH", 0.0)


def test_operations_are_really_sent(all_are_worth_sending: None) -> None:
    model, inputs = audited(1.0)
    with Counting() as executor:
        assert audit(model, inputs, deep=True, executor=executor)
    assert executor.workers
    assert threading.get_ident() not in executor.workers


def test_with_a_budget_no_chunk_waits_for_a_worker_while_its_time_passes(all_are_worth_sending: None) -> None:
    model, inputs = audited(1.0)
    with Counting() as executor:
        assert audit(model, inputs, deep=True, executor=executor)
    assert executor.most > 2
    with Counting() as executor:
        report = audit(model, inputs, deep=True, budget=60.0, executor=executor)
    assert told(report) == told(audit(model, inputs, deep=True))
    assert 0 < executor.most <= 2


# workers that die


def test_a_worker_that_dies_costs_a_retry(main_process: None, tmp_path: Path, cluster: Any) -> None:
    marker = str(tmp_path / "died")
    alone = audit(ending, (numbers(6), marker), deep=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = audit(ending, (numbers(6), marker), deep=True, executor=cluster.get_executor(retries=2))
    assert Path(marker).exists()
    assert told(report) == told(alone)
    assert report.complete


def test_what_no_worker_can_check_is_told(main_process: None) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        report = audit(ending, (numbers(6), ""), deep=True, executor=executor)
    lost = [operation for operation in report.operations if operation.unchecked]
    assert lost
    assert not report.complete
    assert all("BrokenProcessPool" in operation.unchecked for operation in lost)
    assert report.operations[lost[0].number].word == "NOT CHECKED"


# what cannot be sent


class Locked(torch.autograd.Function):
    """Takes a lock as an option."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, lock: Any) -> torch.Tensor:
        with lock:
            time.sleep(0.05)
            return x.clone()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
        return g, None


def test_what_cannot_be_sent_is_named_before_anything_is_checked(processes: Executor) -> None:
    lock, calls = threading.Lock(), []

    def model(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return Locked.apply(Locked.apply(x.sin(), lock)[:2], lock).sum()

    with pytest.raises(UnsendableError, match=r"argument 1 of the operation Locked \(.*\) \(lock\) cannot be sent"):
        audit(model, numbers(3), executor=processes)
    assert len(calls) == 1, "it was recorded, no more"


def test_nothing_is_sent_to_threads() -> None:
    lock = threading.Lock()

    def model(x: torch.Tensor) -> torch.Tensor:
        return Locked.apply(Locked.apply(x.sin(), lock)[:2], lock).sum()

    alone = audit(model, numbers(3), deep=True)
    with ThreadPoolExecutor(2) as executor:
        report = audit(model, numbers(3), deep=True, executor=executor)
    assert report.verdict is Verdict.PASS
    assert told(report) == told(alone)


def test_an_operator_that_no_worker_knows_is_named(processes: Executor) -> None:
    library = torch.library.Library("gradproof_unknown", "DEF")
    library.define("doubled(Tensor x) -> Tensor")
    library.impl("doubled", lambda x: 2.0 * x, "CompositeImplicitAutograd")
    with pytest.raises(UnsendableError, match=r"doubled.*cannot be found by a worker"):
        audit(lambda x: torch.ops.gradproof_unknown.doubled(x).sum(), numbers(3), executor=processes)


def test_an_executor_must_be_one() -> None:
    with pytest.raises(TypeError, match=r"executor must be a concurrent\.futures\.Executor, got int"):
        audit(torch.sin, numbers(3), executor=2)  # type: ignore[arg-type]
