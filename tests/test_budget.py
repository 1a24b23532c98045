"""A budget bounds the work; what it did not suffice for is inconclusive, never a pass."""

from __future__ import annotations

import math
import random
import time
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, numbers

from gradproof import Status, Verdict, check

WRONG = custom(lambda x: x * x, lambda s, g: 3 * s[0] * g)


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("budget", [1, 2, 3])
def test_too_few_evaluations_are_inconclusive(budget: int, strategy: str) -> None:
    report = check(torch.sin, numbers(5), budget=budget, strategy=strategy, modes="reverse")
    assert report.verdict is Verdict.INCONCLUSIVE
    assert not report
    finding = next(finding for finding in report.findings if finding.property == "jacobian")
    assert finding.status is Status.INCONCLUSIVE
    assert finding.message == "The budget was used up before the property `jacobian` was checked."
    assert "budget=" in finding.hint
    assert report.cost.evaluations <= budget
    assert report.certificate is None


@pytest.mark.parametrize("strategy", ["probes", "entries"])
def test_no_budget_below_the_cost_passes_and_the_cost_itself_does(strategy: str) -> None:
    cost = check(torch.sin, numbers(3), strategy=strategy).cost.evaluations
    assert cost < 40
    for budget in range(1, cost):
        report = check(torch.sin, numbers(3), strategy=strategy, budget=budget)
        assert report.verdict is Verdict.INCONCLUSIVE, f"budget {budget} of {cost}"
        assert report.cost.evaluations <= budget
    assert check(torch.sin, numbers(3), strategy=strategy, budget=cost).ok


def test_the_function_is_not_called_more_often_than_the_budget_says() -> None:
    calls = 0

    def counted(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return x.sin()

    check(counted, numbers(5), budget=4, modes="reverse", properties="jacobian")
    assert calls == 4


def test_seconds_are_a_float() -> None:
    def slow(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.01)
        return x.sin()

    started = time.perf_counter()
    report = check(slow, numbers(5), budget=0.02, modes="reverse")
    assert time.perf_counter() - started < 0.5
    assert report.verdict is Verdict.INCONCLUSIVE
    assert {finding.status for finding in report.findings} == {Status.INCONCLUSIVE}
    assert "jacobian" in {finding.property for finding in report.findings}


@pytest.mark.parametrize("budget", [None, 10_000, 60.0, math.inf])
def test_a_generous_budget_changes_nothing(budget: float | None) -> None:
    assert check(torch.sin, numbers(5), budget=budget).verdict is Verdict.PASS
    assert check(WRONG, numbers(5), budget=budget).verdict is Verdict.FAIL


def test_what_was_found_before_the_budget_ended_is_kept() -> None:
    """The Jacobian is wrong; there is nothing left for the properties behind it, if they need any."""
    cost = check(WRONG, numbers(5), modes="reverse", properties="jacobian").cost.evaluations
    report = check(WRONG, numbers(5), modes="reverse", budget=cost)
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].status is Status.WRONG


@pytest.mark.parametrize("budget", [1, 3, 5, 10])
def test_a_wrong_derivative_never_passes_for_lack_of_budget(budget: int) -> None:
    assert check(WRONG, numbers(5), budget=budget, properties="jacobian").verdict is not Verdict.PASS


@pytest.mark.parametrize("budget", [0, -1, 0.0, -2.5, math.nan, -math.inf])
def test_a_budget_that_is_not_positive_is_refused(budget: Any) -> None:
    with pytest.raises(ValueError, match="budget must be positive"):
        check(torch.sin, numbers(3), budget=budget)


@pytest.mark.parametrize("budget", [2, 3, 5, 1e-9, 0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_everything_is_put_back(dtype: torch.dtype, budget: float) -> None:
    x = numbers(5, dtype=dtype)
    before, states = x.detach().clone(), (random.getstate(), torch.get_rng_state(), np.random.get_state()[1].copy())
    with torch.no_grad():
        if budget:
            assert not check(lambda x: x.sin() + 0 * torch.rand(5), x, budget=budget)
        else:
            with pytest.raises(ValueError, match="budget"):
                check(lambda x: x.sin() + 0 * torch.rand(5), x, budget=budget)
        assert not torch.is_grad_enabled()
    assert torch.equal(x.detach(), before)
    assert x.requires_grad
    assert x.grad is None
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    assert (np.random.get_state()[1] == states[2]).all()


def lone(size: int) -> Any:
    """sin with one wrong entry."""

    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        gradient = g * saved[0].cos()
        gradient[size // 3] *= 1.5
        return gradient

    return custom(torch.sin, backward)


@pytest.mark.parametrize("size", [1000, 30_000])
@pytest.mark.parametrize("budget", [8, 12, 20, 50])
def test_an_accusation_stands_when_the_budget_ends(size: int, budget: int) -> None:
    report = check(lone(size), numbers(size), budget=budget)
    assert report.verdict is Verdict.FAIL
    assert report.cost.evaluations <= budget
    finding = report.findings[0]
    assert finding.property == "jacobian"
    if finding.kind == "unlocated":
        assert "place not settled" in finding.headline
        assert "budget=" in finding.hint


@pytest.mark.parametrize("budget", [3, 5, 7, 8, 10, 14, 20, 35, 50, 0.05])
@pytest.mark.parametrize(
    "function",
    [torch.sin, torch.relu, lambda x: x.sort()[0], lambda x: x.max(), lambda x: 1 / x, lambda x: x.softmax(0)],
)
def test_a_budget_blames_no_right_function(function: Any, budget: float) -> None:
    assert check(function, numbers(3000), budget=budget).verdict is not Verdict.FAIL


def test_cheap_properties_are_asked_before_a_wrong_entry_is_located() -> None:
    nonlinear = custom(torch.sin, lambda s, g: 2 * g.abs() * s[0].cos())
    report = check(nonlinear, numbers(3000), budget=9)
    assert "linearity" in {finding.property for finding in report.findings if finding.status is Status.WRONG}
