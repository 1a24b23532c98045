"""`gradproof.distributed.check` on real processes: right functions pass, planted errors are named."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from parallel_functions import SCENARIOS, own, run_scenarios, shared, summed

import gradproof.distributed
from gradproof import Report, Verdict
from gradproof.core.status import Status
from gradproof.distributed import launch

RANKS = [2, 4]


@functools.cache
def reports(ranks: int) -> list[dict[str, Report]]:
    """Of all scenarios, on each rank: processes are started once."""
    return launch(run_scenarios, ranks, [*SCENARIOS], timeout=600.0)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", [name for name, scenario in SCENARIOS.items() if not scenario.wrong])
def test_right_functions_pass(name: str, ranks: int) -> None:
    report = reports(ranks)[0][name]
    assert report.verdict is Verdict.PASS, str(report)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", [name for name, scenario in SCENARIOS.items() if scenario.wrong])
def test_planted_errors_are_named_with_rank_and_cause(name: str, ranks: int) -> None:
    report, scenario = reports(ranks)[0][name], SCENARIOS[name]
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].status is Status.WRONG
    accused = [finding for finding in report.findings if scenario.wrong in finding.headline]
    assert accused, str(report)
    assert "rank" in accused[0].headline
    assert any(finding.input_element is not None for finding in accused)
    assert any(scenario.cause in finding.hint for finding in accused), str(report)


@pytest.mark.parametrize("ranks", RANKS)
def test_every_rank_returns_the_same_report(ranks: int) -> None:
    first, *others = ({name: report.to_json() for name, report in each.items()} for each in reports(ranks))
    assert all(other == first for other in others)


# conventions that nobody declared


def infer(name: str) -> Report:
    torch.set_num_threads(1)
    func, inputs = SCENARIOS[name].make()
    return gradproof.distributed.check(func, inputs, timeout=20.0)


@pytest.mark.parametrize(
    ("name", "checked_as"),
    [
        ("column", "input x replicated, input weight varying, input bias varying, output 0 varying"),
        ("row", "input x varying, input weight varying, input bias replicated, output 0 replicated"),
        ("column, all-reduce missing", "input x varying, input weight varying, input bias varying, output 0 varying"),
    ],
)
def test_conventions_are_inferred(name: str, checked_as: str) -> None:
    report = launch(infer, 2, name)[0]
    assert report.ok
    assert report.notes[0] == f"checked as: {checked_as}"
    assert report.notes[1].startswith("right if ")


# regions of tensor parallelism


def regions() -> dict[str, Any]:
    import parallel_functions as p

    torch.set_num_threads(1)
    found = {}
    for name, region, x in [
        ("copy", p.CopyRegion, shared(2, 4)),
        ("reduce", p.ReduceRegion, own(2, 4)),
        ("gather", p.GatherRegion, own(2, 4)),
        ("scatter", p.ScatterRegion, shared(2, 4)),
        ("gather, wrong rank", p.GatherWrongRank, own(2, 4)),
        ("scatter, stale", p.ScatterStale, shared(2, 4)),
    ]:
        found[name] = gradproof.distributed.check(region.apply, x, timeout=20.0)
    return found


def test_megatron_regions() -> None:
    found = launch(regions, 2)[0]
    checked_as = {name: report.notes[0] for name, report in found.items()}
    assert checked_as["copy"] == "checked as: input x replicated, output 0 varying"
    assert checked_as["reduce"] == "checked as: input x varying, output 0 replicated"
    assert checked_as["gather"] == "checked as: input x varying, output 0 replicated"
    assert checked_as["scatter"] == "checked as: input x replicated, output 0 varying"
    assert all(found[name].ok for name in ("copy", "reduce", "gather", "scatter"))
    assert found["gather, wrong rank"].verdict is Verdict.FAIL
    assert "those of other ranks' parts" in found["gather, wrong rank"].findings[0].hint
    # what a stale shard leaves out, others have: right as shares, and said so
    assert found["scatter, stale"].ok
    assert checked_as["scatter, stale"] == "checked as: input x varying, output 0 varying"


# cost


def million() -> Report:
    torch.set_num_threads(1)
    x = own(250_000)
    return gradproof.distributed.check(lambda x: torch.sin(x) * 2.0, x, outputs_are="varying", inputs_are="varying")


def test_a_million_elements_cost_a_handful_of_calls() -> None:
    report = launch(million, 4)[0]
    assert report.ok
    assert report.cost.evaluations <= 12
    assert report.cost.vjps <= 8


# float32


def low_precision(wrong: bool) -> Report:
    import parallel_functions as p

    torch.set_num_threads(1)
    region = p.CopyAveraged if wrong else p.CopyRegion
    x, weight = shared(4, 3, dtype=torch.float32), own(2, 3, dtype=torch.float32)
    declared = {"x": "replicated", "weight": "varying"}

    def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return region.apply(x) @ weight.t()

    return gradproof.distributed.check(linear, (x, weight), inputs_are=declared, outputs_are="varying", timeout=20.0)


@pytest.mark.parametrize("wrong", [False, True])
def test_float32(wrong: bool) -> None:
    report = launch(low_precision, 2, wrong)[0]
    assert report.verdict is (Verdict.FAIL if wrong else Verdict.PASS), str(report)
    assert not wrong or "averaged" in report.findings[0].hint


# faults


def faulty(how: str) -> tuple[Any, float, bool]:
    """Rank 1 fails at the fourth call; what the others return, after how long, and whether their input is unchanged."""
    torch.set_num_threads(1)
    calls = 0

    def function(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == 4 and dist.get_rank() == 1:
            if how == "raises":
                raise ArithmeticError("no fourth call")
            if how == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            summed(x.detach())  # one communication more than the others
        return Sum.apply(x)

    x = own(3)
    before = x.detach().clone()
    started = time.monotonic()
    report = gradproof.distributed.check(function, x, inputs_are="varying", outputs_are="replicated", timeout=4.0)
    return report, time.monotonic() - started, torch.equal(x.detach(), before)


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return summed(x * x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        raise AssertionError("not asked in this test")


@pytest.mark.parametrize(
    ("how", "words"),
    [("raises", "rank 1 raised ArithmeticError: no fourth call"), ("dies", "rank 1"), ("waits", "rank")],
)
def test_a_rank_that_fails_ends_the_check_everywhere(how: str, words: str) -> None:
    results = launch(faulty, 3, how, timeout=60.0, may_die=True)
    others = [result for rank, result in enumerate(results) if rank != 1 or how != "dies"]
    assert results[1] is None or how != "dies"
    for report, seconds, unchanged in others:
        assert report.verdict is Verdict.FAIL
        assert report.findings[0].kind == "ranks lost"
        assert words in report.findings[0].headline
        assert seconds < 25
        assert unchanged


def leaderless() -> Any:
    torch.set_num_threads(1)
    calls = 0

    def function(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == 4 and dist.get_rank() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return x * 2

    return gradproof.distributed.check(function, own(3), timeout=4.0)


def test_a_leader_that_dies_is_named() -> None:
    results = launch(leaderless, 2, timeout=60.0, may_die=True)
    assert results[0] is None
    assert "rank 0" in results[1].findings[0].headline


def dying() -> None:
    if dist.get_rank() == 1:
        os._exit(3)


def test_a_rank_that_ends_without_returning_is_an_error_of_launch() -> None:
    with pytest.raises(RuntimeError, match="rank 1 ended with code 3"):
        launch(dying, 2)
    with pytest.raises(ValueError, match="at least 1"):
        launch(dying, 0)


# calls that cannot be


def test_without_a_process_group_the_error_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match="init_process_group"):
        gradproof.distributed.check(torch.sin, torch.zeros(2, dtype=torch.float64, requires_grad=True))


def misdeclared(inputs_are: Any) -> str:
    torch.set_num_threads(1)
    try:
        gradproof.distributed.check(lambda x: x * 2, own(3), inputs_are=inputs_are, timeout=5.0)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize(
    ("inputs_are", "words"),
    [("replicated", "hold different values"), ("half", "choose one of"), ({"y": "varying"}, "'y' is none of x")],
)
def test_declarations_that_cannot_be_are_refused_on_every_rank(inputs_are: Any, words: str) -> None:
    assert all(words in told for told in launch(misdeclared, 2, inputs_are))


def test_the_example_names_the_missing_reduction() -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, str(root / "examples" / "column_parallel.py")], capture_output=True, text=True, check=True
    )
    shown = re.findall(r"^  cause .*$", (root / "docs" / "distributed.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert shown
    assert " ".join(shown[0].split()) in " ".join(done.stdout.split())
