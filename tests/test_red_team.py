"""What attackers found, kept: each class with its right and its wrong case."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gradproof import Status, Verdict, check
from gradproof.torch import NonDifferentiableWarning, gradcheck


def kernel(dtype: torch.dtype, factor: float) -> Callable[..., Any]:
    """A sine that knows one precision only, with a gradient that is off by a factor."""

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            if x.dtype is not dtype:
                raise TypeError(f"{dtype} only")
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return factor * grads[0] * x.cos()

    return Sine.apply


@pytest.mark.parametrize("name", ["bfloat16", None])
def test_saying_the_precision_of_the_dtype_itself_excuses_nothing(name: str | None) -> None:
    x = torch.randn(3000, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
    assert check(kernel(torch.bfloat16, 1.5), x, precision=name, modes="reverse").verdict is Verdict.FAIL
    assert check(kernel(torch.bfloat16, 1.0), x, precision=name, modes="reverse").verdict is not Verdict.FAIL


@pytest.mark.parametrize("budget", [None, 10_000, 60.0])
def test_a_property_that_raises_later_does_not_hide_a_wrong_jacobian(budget: float | None) -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            if float(grads[0].abs().max()) > 100:
                raise RuntimeError("too large")
            (x,) = ctx.saved_tensors
            return 2 * grads[0] * x.cos()

    x = torch.rand(5, dtype=torch.float64, requires_grad=True)
    found = check(Doubled.apply, x, budget=budget, modes="reverse").findings
    assert {("jacobian", Status.WRONG), ("linearity", Status.RAISED)} <= {(f.property, f.status) for f in found}


def test_a_budget_of_seconds_does_not_run_while_another_thread_has_its_turn() -> None:
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    y = torch.rand(3, dtype=torch.float64, requires_grad=True)
    started = threading.Event()

    def slow(y: torch.Tensor) -> torch.Tensor:
        if not started.is_set():
            started.set()
            time.sleep(1.0)
        return y.sin()

    other = threading.Thread(target=check, args=(slow, y))
    other.start()
    assert started.wait(10)
    report = check(torch.sin, x, budget=0.9)
    other.join()
    assert report.verdict is Verdict.PASS


def test_a_filter_that_names_our_warning_is_honoured_and_one_for_all_changes_no_verdict() -> None:
    zero = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NonDifferentiableWarning)
        with pytest.raises(NonDifferentiableWarning):
            gradcheck(torch.relu, (zero,))
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("error")
        assert gradcheck(torch.relu, (zero,))


def test_what_accuses_a_pair_as_a_whole_is_in_the_table() -> None:
    x = torch.randn(3000, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
    report = check(kernel(torch.bfloat16, 1.5), x, modes="reverse")
    assert report.pairs[0].status is Status.WRONG
