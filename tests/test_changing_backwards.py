"""Backwards that are wrong for some questions, or at some calls only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gradproof import Verdict, check
from gradproof.torch import gradcheck

Spoil = Callable[[torch.Tensor], float]


def sine(factor: Spoil, summed: bool = False) -> Callable[..., Any]:
    """A sine whose gradient is multiplied by what `factor` makes of the cotangent."""

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.sin().sum() if summed else x.sin()

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return factor(grads[0]) * grads[0] * x.cos()

    return Sine.apply


def one_hot(grad: torch.Tensor) -> float:
    return 1.5 if int((grad != 0).sum()) == 1 else 1.0


def every(period: int) -> Spoil:
    calls = 0

    def factor(grad: torch.Tensor) -> float:
        nonlocal calls
        calls += 1
        return 1.3 if calls % period == 0 else 1.0

    return factor


def numbers(n: int) -> torch.Tensor:
    return torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()


@pytest.mark.parametrize("n", [3, 40, 2500])
def test_what_is_wrong_for_one_hot_cotangents_only_fails(n: int) -> None:
    assert check(sine(one_hot), numbers(n), modes="reverse").verdict is Verdict.FAIL
    if n < 100:
        assert not gradcheck(sine(one_hot), (numbers(n),), raise_exception=False)


@pytest.mark.parametrize("period", range(2, 8))
@pytest.mark.parametrize(("n", "summed"), [(1, True), (5, False), (300, False), (5000, True)])
def test_a_backward_that_changes_at_every_few_calls_fails(n: int, summed: bool, period: int) -> None:
    assert check(sine(every(period), summed), numbers(n), modes="reverse").verdict is Verdict.FAIL


@pytest.mark.parametrize("period", range(2, 8))
@pytest.mark.parametrize(("n", "summed"), [(100, False), (100, True)])
def test_where_every_entry_is_compared_it_fails_in_gradcheck_too(n: int, summed: bool, period: int) -> None:
    assert not gradcheck(sine(every(period), summed), (numbers(n),), raise_exception=False)


def test_only_what_is_written_by_hand_is_asked_again_for_a_rare_change() -> None:
    x = numbers(5)
    own, by_hand = (check(f, x, modes="reverse", order=1) for f in (torch.sin, sine(lambda grad: 1.0)))
    assert own
    assert by_hand
    assert own.cost.vjps < by_hand.cost.vjps
