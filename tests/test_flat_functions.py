"""Functions that stand still: a zero gradient is right, costs no more than any other, and a wrong one is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import gradproof
from gradproof.results.report import Verdict


class Claims(torch.autograd.Function):
    """0.3 everywhere, with a gradient that is claimed."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, claimed: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(claimed)
        return torch.full_like(x, 0.3)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return ctx.saved_tensors[0] * grad, None


def softmax_of_one(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x[:, None], -1)


def saturated(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(5.0, 5.5)


def dead(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x - 10.0) + 0.7


def beside_another(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sin(), x.clamp(5.0, 5.5)


def of_two(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x - 10.0) * torch.sigmoid(x)


def zero(x: torch.Tensor) -> torch.Tensor:
    return Claims.apply(x, torch.zeros_like(x))


FLAT = [softmax_of_one, saturated, dead, beside_another, of_two, torch.sign, zero]


def point(n: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n", [3, 40, 3000])
@pytest.mark.parametrize("func", FLAT)
def test_a_right_zero_passes_at_the_cost_of_any_other(func: Callable[..., Any], n: int, dtype: torch.dtype) -> None:
    report = gradproof.check(func, point(n, dtype), modes="reverse")
    assert report.verdict is Verdict.PASS, str(report)
    assert report.cost.vjps <= 12
    if not (func is torch.sign and n == 3000):  # so many numbers are near a jump by chance
        assert report.cost.evaluations <= 12


@pytest.mark.parametrize("n", [3, 40, 3000])
def test_the_certificate_of_a_zero_is_kept(n: int) -> None:
    x = point(n, torch.float64)
    right = gradproof.check(zero, x, modes="reverse")
    assert right.certificate is not None
    (_, seen), *_ = right.certificate.smallest
    claimed = torch.zeros_like(x)
    claimed[n // 2] = 1.5 * seen
    report = gradproof.check(lambda x: Claims.apply(x, claimed), x, modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)
    assert report.findings[0].input_element == (n // 2,)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n", [3, 40, 3000])
def test_a_wrong_gradient_of_a_flat_function_is_found(n: int, dtype: torch.dtype) -> None:
    x = point(n, dtype)
    report = gradproof.check(lambda x: Claims.apply(x, torch.full_like(x, 0.01)), x, modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)


def test_zeros_beside_round_off_hide_nothing() -> None:
    """The cosine of two numbers is 1: one gradient is zero, the other 1e-17."""
    x, y = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (-4.1, 2.5))
    assert (
        gradproof.check(lambda x, y: torch.nn.functional.cosine_similarity(x, y, dim=0), (x, y)).verdict is Verdict.PASS
    )


@pytest.mark.parametrize("seed", range(4))
def test_round_off_that_is_claimed_of_a_flat_function_is_no_claim(seed: int) -> None:
    """Two points are always correlated by one, or minus one: all that moves is round-off."""
    x = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    assert gradproof.check(torch.corrcoef, x, seed=seed).verdict is Verdict.PASS
    lost = gradproof.check(lambda x: torch.corrcoef(x) + 1e-8 * (x.sum() - x.sum().detach()), x, seed=seed)
    assert lost.verdict is Verdict.FAIL
