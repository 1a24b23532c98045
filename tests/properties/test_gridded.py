"""Outputs that something smooth moves between the lines of a grid inside, as the far tail of gelu."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from functions import custom
from torch.nn.functional import gelu

from gradproof import Verdict, check
from gradproof.torch import gradcheck

Tensor = torch.Tensor
Function = Callable[[Tensor], Tensor]

# functions whose cancellation leaves a grid, and a point each at which short steps stay between two of its lines
TAILS: dict[str, tuple[Function, float]] = {
    "gelu": (gelu, -7.426571578381763),
    "x * (1 + erf)": (lambda x: x * (1 + x.erf()), -5.2),
    "x * (1 - sigmoid)": (lambda x: x * (1 - x.sigmoid()), 28.0),
    "x * (1 + tanh)": (lambda x: x * (1 + x.tanh()), -14.0),
    "x * log(1 + exp)": (lambda x: x * (1 + x.exp()).log(), -28.0),
    "x * (1 - cos)": (lambda x: x * (1 - (1e-6 * x).cos()), 1.0),
    "1e-12 * x + (1 + tanh)": (lambda x: 1e-12 * x + (1 + x.tanh()), -14.0),
    "many times as large": (lambda x: 1e12 * x * (1 + x.tanh()), -14.0),
}
SPOILS: dict[str, Function] = {
    "1.5": lambda d: 1.5 * d,
    "sign": lambda d: -d,
    "lost": lambda d: 0 * d,
}


def at(point: float) -> Tensor:
    return torch.tensor(point, dtype=torch.float64, requires_grad=True)


def tails(seed: int) -> Tensor:
    drawn = torch.randn(30, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (drawn * 6 - 20).requires_grad_()


def spoiled(function: Function, spoil: Callable[[Tensor], Tensor]) -> Function:
    def backward(s: tuple[Tensor, ...], g: Tensor) -> Tensor:
        with torch.enable_grad():
            x = s[0].detach().requires_grad_()
            (slope,) = torch.autograd.grad(function(x).sum(), x)
        return g * spoil(slope)

    return custom(function, backward)


@pytest.mark.parametrize("name", TAILS)
def test_the_slope_behind_a_grid_is_right(name: str) -> None:
    function, point = TAILS[name]
    report = check(function, at(point))
    assert report.verdict is Verdict.PASS, str(report)
    assert gradcheck(function, (at(point),))
    assert gradcheck(function, (at(point),), fast_mode=True)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("seed", range(4))
def test_tails_of_many_elements_do_not_fail(approximate: str, seed: int) -> None:
    report = check(lambda x: gelu(x, approximate=approximate), tails(seed))
    assert report.verdict is not Verdict.FAIL, str(report)


@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("name", TAILS)
def test_another_slope_is_wrong(name: str, spoil: str) -> None:
    function, point = TAILS[name]
    report = check(spoiled(function, SPOILS[spoil]), at(point), modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)


def test_a_slope_that_is_a_fifth_too_large_is_measured_behind_the_grid() -> None:
    report = check(spoiled(gelu, lambda d: 1.2 * d), at(-7.0), modes="reverse")
    assert report.verdict is Verdict.FAIL
    entry = report.findings[0].entries[0]
    assert entry.analytic == pytest.approx(1.2 * entry.numeric, rel=0.05)


def test_the_slope_between_two_lines_is_not_that_of_the_function() -> None:
    """Phi alone, without x times the density: what short steps see."""
    between = custom(gelu, lambda s, g: g * torch.special.ndtr(s[0]))
    x = torch.linspace(-7.6, -2.0, 8, dtype=torch.float64).requires_grad_()
    assert check(between, x, modes="reverse").verdict is Verdict.FAIL


def test_one_that_is_wrong_among_tails_is_named() -> None:
    def backward(s: tuple[Tensor, ...], g: Tensor) -> Tensor:
        x = s[0]
        slope = torch.special.ndtr(x) + x * (-x * x / 2).exp() / (2 * torch.pi) ** 0.5
        return g * torch.where(torch.arange(len(x)) == 3, 1.5 * slope, slope)

    x = torch.linspace(-7.6, -6.2, 8, dtype=torch.float64).requires_grad_()
    report = check(custom(gelu, backward), x, modes="reverse")
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].entries[0].input.element == (3,)


@pytest.mark.parametrize("length", [1e-3, 1e-4, 1e-5])
def test_a_ripple_is_no_grid(length: float) -> None:
    """Its mean slope is what is claimed, by all longer steps."""
    wrong = custom(lambda x: x + 0.5 * length * (x / length).sin(), lambda s, g: g)
    assert check(wrong, at(0.7), modes="reverse").verdict is Verdict.FAIL
