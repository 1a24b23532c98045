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


def custom(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            return backward(grads[0], *ctx.saved_tensors)

    return Custom.apply


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


@pytest.mark.parametrize("width", [1e-2, 1e-3, 1e-4])
def test_a_ripple_that_finer_steps_resolve_is_no_noise(width: float) -> None:
    def ripple(x: torch.Tensor) -> torch.Tensor:
        return x + width * (x / width).sin()

    wrong = custom(ripple, lambda g, x: g)
    right = custom(ripple, lambda g, x: g * (1 + (x / width).cos()))
    assert check(wrong, randn(5), modes="reverse").verdict is Verdict.FAIL
    assert not gradcheck(wrong, (randn(5),), raise_exception=False)
    assert check(right, randn(5), modes="reverse").verdict is Verdict.PASS


@pytest.mark.parametrize("seed", range(8))
def test_zero_behind_a_cast_to_bfloat16_is_no_pass(seed: int) -> None:
    lost = custom(lambda x: x.bfloat16().double(), lambda g, x: 0 * g)
    assert check(lost, randn(10, seed=seed), modes="reverse").verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("strategy", ["probes", "entries"])
def test_steps_so_wide_that_few_rungs_are_left_are_checked(strategy: str) -> None:
    rounded = custom(lambda x: (x * 16).round() / 16, lambda g, x: g)
    report = check(rounded, randn(3, seed=1), strategy=strategy, modes="reverse")
    assert all(finding.status is not Status.RAISED for finding in report.findings)


def test_thousands_of_zeros_of_abs_have_the_derivative_in_the_middle() -> None:
    x = randn(3000).detach()
    x[::3] = 0.0
    x.requires_grad_()
    assert gradcheck(torch.abs, (x,), fast_mode=True)
    assert check(torch.abs, x, modes="reverse").verdict is Verdict.PASS
    tilted = custom(torch.abs, lambda g, x: g * torch.where(x == 0, 1.5, x.sign()))
    assert check(tilted, x, modes="reverse").verdict is Verdict.FAIL


@pytest.mark.parametrize("function", [torch.exp, torch.special.erfc])
def test_scales_do_not_leave_the_range_of_float16(function: Callable[..., Any]) -> None:
    x = torch.tensor([10.5, 3.5], dtype=torch.float16, requires_grad=True)
    assert check(function, x, modes="reverse").verdict is Verdict.PASS


def test_a_lone_error_beyond_the_certificate_of_a_sum_over_thousands_is_no_pass() -> None:
    def spoiled(error: float) -> Callable[..., Any]:
        def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            gradient = x.softmax(0) * g
            gradient[0] += error * g
            return gradient

        return custom(lambda x: x.logsumexp(0), backward)

    x = randn(3000, seed=1)
    right = check(spoiled(0.0), x, modes="reverse")
    assert right.verdict is Verdict.PASS
    assert right.certificate is not None
    ((_, smallest),) = right.certificate.smallest
    assert check(spoiled(1.2 * smallest), x, modes="reverse").verdict is not Verdict.PASS


def test_what_float32_loses_by_itself_breaks_no_law() -> None:
    x = torch.randn(5, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert check(torch.matrix_exp, x).verdict is Verdict.PASS


@pytest.mark.parametrize("length", [1e-6, 1e-7])
@pytest.mark.parametrize("size", [1, 5, 50])
def test_a_ripple_below_every_ordinary_step_is_no_noise(length: float, size: int) -> None:
    def ripple(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1e-7 * (x / length).sin()

    wrong = custom(ripple, lambda g, x: g * x.cos())
    right = custom(ripple, lambda g, x: g * (x.cos() + 1e-7 / length * (x / length).cos()))
    x = randn(size, seed=1)
    assert check(wrong, x, modes="reverse").verdict is Verdict.FAIL
    assert not gradcheck(wrong, (x,), raise_exception=False)
    assert not gradcheck(wrong, (x,), raise_exception=False, fast_mode=True)
    assert check(right, x, modes="reverse").verdict is Verdict.PASS
    assert gradcheck(right, (x,))
