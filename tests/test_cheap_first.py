"""Of a kernel that takes its time, what a few calls tell is known before every entry is compared or located."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from functions import numbers

from gradproof import Status, Verdict, check

CHEAP = {"mutation", "aliasing", "metadata", "layout"}


def slow(seconds: float = 0.0, *, wrong: bool = True) -> Any:
    """a * b, with one wrong entry; or right but for the memory that it uses."""

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            time.sleep(seconds)
            ctx.save_for_backward(a, b, b.clone())
            return a * b

        @staticmethod
        def backward(ctx: Any, cotangent: torch.Tensor) -> Any:
            time.sleep(seconds)
            a, b, copy = ctx.saved_tensors
            copy.data.fill_(7.0)  # it was saved
            flat = torch.as_strided(cotangent, (cotangent.numel(),), (1,)).reshape(cotangent.shape)
            gradient = flat * b
            if wrong:
                gradient[len(a) // 3] *= 1.5
            return gradient, b.detach() if wrong else flat * a  # the other is an input itself, and wrong

    return Slow.apply


def told(report: Any) -> set[str]:
    return {finding.property for finding in report.findings if finding.status is Status.WRONG}


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("budget", [2, 5, 8, 12, 20])
def test_memory_is_judged_whatever_the_budget_of_evaluations(budget: int, strategy: str) -> None:
    function, inputs = slow(), (numbers(300, 2), numbers(300, 2, seed=1))
    report = check(function, inputs, budget=budget, strategy=strategy, modes="reverse")
    assert report.cost.evaluations <= budget
    assert {"mutation", "aliasing"} <= told(report)
    assert report.findings[0].property == "mutation"


@pytest.mark.parametrize("strategy", ["probes", "entries"])
def test_a_slow_kernel_is_judged_by_what_there_is_time_for(strategy: str) -> None:
    function, inputs = slow(0.01), (numbers(400, 2), numbers(400, 2, seed=1))
    started = time.perf_counter()
    report = check(function, inputs, budget=2.5, strategy=strategy, modes="reverse")
    assert time.perf_counter() - started < 12
    assert report.verdict is Verdict.FAIL
    assert {"mutation", "aliasing", "layout"} <= told(report), str(report)
    jacobian = [finding for finding in report.findings if finding.property == "jacobian"]
    assert len(jacobian) >= 1  # accused, located or not; or not compared to the end


def test_no_budget_is_too_short_for_a_report() -> None:
    for budget in (1e-9, 0.01, 0.03, 0.1):
        report = check(slow(0.005), (numbers(50, 2), numbers(50, 2, seed=1)), budget=budget, modes="reverse")
        assert not report
        assert report.findings


def test_a_right_kernel_is_not_blamed_by_a_short_budget() -> None:
    def right(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        time.sleep(0.002)
        return a * b

    for budget in (0.01, 0.05, 0.5):
        report = check(right, (numbers(30), numbers(30, seed=1)), budget=budget)
        assert report.verdict is not Verdict.FAIL
