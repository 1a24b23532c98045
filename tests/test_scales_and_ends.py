"""Elements of other sizes than their neighbours, and points at the end of a domain: right pass, wrong fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gradproof import Verdict, check
from gradproof.torch import gradcheck

Function = Callable[..., torch.Tensor]


def point(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def spoiled(function: Function, derivative: Function, wrong: Function, factor: float = 1.5) -> Function:
    """A function of each element, with a gradient that is off by a factor where `wrong` says so."""

    class Spoiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return grads[0] * derivative(x) * torch.where(wrong(x), factor, 1.0)

    return Spoiled.apply


def passes(function: Function, *values: float) -> bool:
    verdicts = check(function, point(*values)).verdict, check(function, point(*values), strategy="entries").verdict
    drop_in = [gradcheck(function, (point(*values),), fast_mode=fast, raise_exception=False) for fast in (True, False)]
    return all(drop_in) and set(verdicts) == {Verdict.PASS}


ENDS: dict[str, tuple[Function, float, float]] = {
    "asin": (torch.asin, 1.0, -1.0),
    "acos": (torch.acos, -1.0, 1.0),
    "atanh": (torch.atanh, 1.0, -1.0),
    "log1p": (torch.log1p, -1.0, 1.0),
    "acosh": (torch.acosh, 1.0, 1.0),
    "erfinv": (torch.erfinv, 1.0, -1.0),
    "logit": (torch.logit, 1.0, -1.0),
    "root": (lambda x: (1 - x).sqrt(), 1.0, -1.0),
}


@pytest.mark.parametrize("distance", [1e-8, 1e-12, 1e-14])
@pytest.mark.parametrize("name", ENDS)
def test_close_to_the_end_of_its_domain_a_right_function_passes(name: str, distance: float) -> None:
    function, end, inwards = ENDS[name]
    assert passes(function, end + inwards * distance, 1.5 if name == "acosh" else 0.3)


@pytest.mark.parametrize("distance", [1e-8, 1e-12, 1e-14])
def test_and_a_wrong_one_fails(distance: float) -> None:
    wrong = spoiled(torch.asin, lambda x: 1 / (1 - x * x).sqrt(), lambda x: x > 0.9)
    assert not gradcheck(wrong, (point(1 - distance, 0.3),), raise_exception=False)
    assert check(wrong, point(1 - distance, 0.3), modes="reverse").verdict is Verdict.FAIL


@pytest.mark.parametrize("size", [1e-9, 1e-100, 1e-300])
@pytest.mark.parametrize("function", [torch.log, torch.sqrt, torch.sin, lambda x: torch.xlogy(x, x), torch.abs])
def test_an_element_far_smaller_than_its_neighbour_has_steps_of_its_own_size(function: Function, size: float) -> None:
    assert passes(function, size, 1.0)


@pytest.mark.parametrize("size", [1e-9, 1e-100, 1e-300])
def test_where_its_gradient_is_wrong_it_fails(size: float) -> None:
    wrong = spoiled(torch.log, lambda x: 1 / x, lambda x: x < 1e-3)
    assert not gradcheck(wrong, (point(size, 1.0),), raise_exception=False)
    assert check(wrong, point(size, 1.0), modes="reverse").verdict is Verdict.FAIL


def test_of_denormals_nothing_is_called_wrong() -> None:
    assert check(torch.log, point(1e-308, 1.0), modes="reverse").verdict is not Verdict.FAIL


@pytest.mark.parametrize("large", [1e6, 1e12, 1e15, 1e30])
@pytest.mark.parametrize("fast", [False, True])
def test_an_error_beside_a_huge_element_is_seen(large: float, fast: bool) -> None:
    wrong = spoiled(torch.square, lambda x: 2 * x, lambda x: x < 10)
    assert not gradcheck(wrong, (point(1.0, large),), fast_mode=fast, raise_exception=False)
    assert gradcheck(torch.square, (point(1.0, large),), fast_mode=fast)


def test_outputs_that_end_in_denormals_pass() -> None:
    x = torch.rand(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    x = (x / x.max()).requires_grad_()
    assert ((x.cumprod(0) > 0) & (x.cumprod(0) < 1e-310)).any()
    report = check(lambda x: torch.cumprod(x, 0), x)
    assert report.verdict is Verdict.PASS, str(report)


def test_a_function_of_many_sizes_at_once_passes() -> None:
    x = 10.0 ** (18 * torch.rand(500, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) - 9)
    for function in (torch.sin, torch.log, torch.atan, torch.square):
        assert gradcheck(function, (x.requires_grad_(),))


def test_zero_claimed_where_all_steps_are_whole_waves_long_is_no_pass() -> None:
    x = 10.0 ** (9 * torch.rand(50, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    lost = spoiled(torch.sin, torch.cos, lambda x: x == x.max(), 0.0)
    assert not gradcheck(lost, (x.requires_grad_(),), raise_exception=False)


@pytest.mark.parametrize("n", [5, 50, 3000])
def test_a_weak_input_is_seen_in_fast_mode_too(n: int) -> None:
    class Weighted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, strong: torch.Tensor, weak: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(strong, weak)
            return 1e6 * strong.sin() + 1e-2 * weak.sin()

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            strong, weak = ctx.saved_tensors
            return 1e6 * grads[0] * strong.cos(), 1.5e-2 * grads[0] * weak.cos()

    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(n, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(2)]
    assert not gradcheck(Weighted.apply, inputs, fast_mode=True, raise_exception=False)


def test_a_weak_element_of_a_sum_is_seen_in_fast_mode_too() -> None:
    weights = torch.full((50,), 1e8, dtype=torch.float64)
    weights[7] = 1e-3
    x = torch.randn(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()

    class Weighted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return (weights * x.sin()).sum()

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return grads[0] * weights * x.cos() * torch.where(weights < 1, 1.5, 1.0)

    assert not gradcheck(Weighted.apply, (x,), fast_mode=True, raise_exception=False)
    assert gradcheck(lambda x: (weights * x.sin()).sum(), (x,), fast_mode=True)


def of_one_precision(wrong: int | None) -> Function:
    """1/x in single precision alone, with a gradient that is off by half at one place."""

    class Reciprocal(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            if x.dtype is not torch.float32:
                raise TypeError("for float32 only")
            ctx.save_for_backward(x)
            return 1 / x

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            gradient = -grads[0] / x**2
            if wrong is not None:
                gradient[wrong] *= 1.5
            return gradient

    return Reciprocal.apply


@pytest.mark.parametrize("seed", [1, 4])
def test_numbers_of_twelve_magnitudes_in_single_precision_alone(seed: int) -> None:
    """Steps that see something beside the largest straddle the pole of all others, and noise is measured there."""
    generator = torch.Generator().manual_seed(seed)
    sizes = 10 ** (12 * torch.rand(40, dtype=torch.float64, generator=generator) - 6)
    x = (sizes * torch.randn(40, generator=generator).sign()).float().requires_grad_()
    smallest = int(x.detach().abs().argmin())
    assert check(of_one_precision(None), x).verdict is Verdict.PASS
    report = check(of_one_precision(smallest), x)
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].input_element == report.findings[0].output_element == (smallest,)
