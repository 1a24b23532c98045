"""Hooks: the graph of a function does not show them, and what they make of a gradient may change or depend on it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import pytest
import torch
from functions import numbers
from torch.utils.checkpoint import checkpoint

from gradproof import Verdict, check
from gradproof.backends.torch.derivative.hooks import UsersCode
from gradproof.torch import gradcheck

Hook = Callable[[torch.Tensor], torch.Tensor]
Way = Callable[[Hook], Callable[[torch.Tensor], torch.Tensor]]


def hooked(hook: Hook) -> Callable[[torch.Tensor], torch.Tensor]:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        y.register_hook(lambda g: None if g is None else hook(g))
        return 2 * y

    return function


def hooked_before(hook: Hook) -> Callable[[torch.Tensor], torch.Tensor]:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = 2 * x.sin()
        y.grad_fn.register_prehook(lambda gradients: tuple(None if g is None else hook(g) for g in gradients))
        return y

    return function


def one_hot(g: torch.Tensor) -> torch.Tensor:
    return 1.5 * g if int((g != 0).sum()) == 1 else g


def positive(g: torch.Tensor) -> torch.Tensor:
    return 1.5 * g if bool((g >= 0).all()) else g


def every(period: int) -> Hook:
    calls = 0

    def hook(g: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return 1.3 * g if calls % period == 0 else g

    return hook


@pytest.mark.parametrize("way", [hooked, hooked_before])
@pytest.mark.parametrize("hook", [one_hot, positive])
def test_a_hook_that_is_wrong_for_single_elements_fails_where_every_entry_is_wanted(way: Way, hook: Hook) -> None:
    assert not gradcheck(way(hook), (numbers(5),), raise_exception=False)
    assert check(way(hook), numbers(5), modes="reverse").verdict is Verdict.FAIL


@pytest.mark.parametrize("period", range(2, 8))
@pytest.mark.parametrize("n", [5, 40])
def test_a_hook_that_changes_at_every_few_calls_fails(n: int, period: int) -> None:
    assert not gradcheck(hooked(every(period)), (numbers(n),), raise_exception=False)
    assert check(hooked(every(period)), numbers(n), modes="reverse").verdict is Verdict.FAIL


@pytest.mark.parametrize("way", [hooked, hooked_before])
def test_a_hook_that_changes_nothing_passes(way: Way) -> None:
    assert gradcheck(way(torch.clone), (numbers(5),))
    assert check(way(torch.clone), numbers(5)).ok


def test_the_tracer_of_others_is_put_back_also_where_a_hook_raises() -> None:
    def refuse(g: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no gradient today")

    def tracer(*_: object) -> None: ...

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        report = check(hooked(refuse), numbers(3))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert report.verdict is Verdict.FAIL
    assert "no gradient today" in str(report)


def pulled(function: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    """Whether the user's code is noted as the engine goes through the graph of a function."""
    output = function(numbers(3)).sum()
    with UsersCode() as called:
        torch.broadcast_shapes((2,), (1,))
        with warnings.catch_warnings():
            output.backward()
    return called.seen


def test_only_code_of_users_that_the_engine_calls_is_noted() -> None:
    assert not pulled(torch.sin)
    assert pulled(hooked(torch.clone))
    assert pulled(hooked_before(torch.clone))
    assert pulled(lambda x: checkpoint(torch.sin, x, use_reentrant=False))
    with UsersCode() as called:
        numbers(2)
    assert not called.seen


def test_what_stands_in_for_the_engine_is_no_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = torch.autograd.Variable._execution_engine

    class Counting:
        def run_backward(self, *arguments: object, **keywords: object) -> object:
            return engine.run_backward(*arguments, **keywords)

    monkeypatch.setattr(torch.autograd.Variable, "_execution_engine", Counting())
    output = numbers(3).sin().sum()
    with UsersCode() as called:
        output.backward()
    assert not called.seen
