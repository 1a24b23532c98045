"""Small inputs beside outputs of order one: steps as short as the inputs see nothing, and longer ones everything."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom
from torch.nn import functional

from gradproof import Verdict, check
from gradproof.torch import gradcheck

Function = Callable[[torch.Tensor], torch.Tensor]

WEIGHT = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
BIAS = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
OF_ORDER_ONE: dict[str, Function] = {
    "exp": torch.exp,
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "sigmoid": torch.sigmoid,
    "linear": lambda x: functional.linear(x, WEIGHT, BIAS),
    "mse": lambda x: functional.mse_loss(x, torch.ones_like(x)),
    "x + 1": lambda x: x + 1,
    "cos(x + 1)": lambda x: torch.cos(x + 1),
    "cross_entropy": lambda x: functional.cross_entropy(x[None], torch.tensor([1])),
}
AS_SMALL_AS_THE_INPUT: dict[str, Function] = {
    "sin(1e12 x)": lambda x: torch.sin(1e12 * x),
    "1 / x": torch.reciprocal,
    "sqrt|x|": lambda x: x.abs().sqrt(),
    "1 + sqrt|x|": lambda x: 1 + x.abs().sqrt(),
    "log|x|": lambda x: x.abs().log(),
}
SIZES = (1e-7, 1e-9, 1e-10, 1e-12)


def small(size: float, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (size * torch.randn(5, generator=generator, dtype=torch.float64)).requires_grad_()


def lone(s: Any, g: torch.Tensor) -> torch.Tensor:
    return g * torch.tensor([1.0, 1.0, 1.5, 1.0, 1.0], dtype=g.dtype)


def spoiled(function: Function) -> Function:
    """The same, with one entry of its gradient half as large again."""
    identity = custom(torch.clone, lone)
    return lambda x: function(identity(x))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OF_ORDER_ONE)
def test_right_ones_pass_and_nothing_is_said(name: str, size: float) -> None:
    for seed in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert gradcheck(OF_ORDER_ONE[name], (small(size, seed),))
            assert gradcheck(OF_ORDER_ONE[name], (small(size, seed),), fast_mode=True)
        report = check(OF_ORDER_ONE[name], small(size, seed))
        assert report.verdict is Verdict.PASS, str(report)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OF_ORDER_ONE)
def test_wrong_ones_are_refused(name: str, size: float) -> None:
    for seed in range(4):
        function = spoiled(OF_ORDER_ONE[name])
        assert not gradcheck(function, (small(size, seed),), raise_exception=False)
        assert not gradcheck(function, (small(size, seed),), raise_exception=False, fast_mode=True)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["exp", "softmax", "x + 1", "cos(x + 1)", "linear"])
def test_a_lone_wrong_entry_fails_with_its_place(name: str, size: float) -> None:
    for seed in range(4):
        report = check(spoiled(OF_ORDER_ONE[name]), small(size, seed), modes="reverse", properties="jacobian")
        assert report.verdict is Verdict.FAIL, str(report)
        assert {finding.input_element for finding in report.findings} == {(2,)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", AS_SMALL_AS_THE_INPUT)
def test_what_varies_over_the_input_itself_is_judged_by_short_steps(name: str, size: float) -> None:
    for seed in range(2):
        function, x = AS_SMALL_AS_THE_INPUT[name], small(size, seed)
        assert gradcheck(function, (x,))
        assert check(function, x).verdict is Verdict.PASS
        assert not gradcheck(spoiled(function), (x,), raise_exception=False)
        report = check(spoiled(function), x, modes="reverse", properties="jacobian")
        assert report.verdict is Verdict.FAIL
        assert {finding.input_element for finding in report.findings} == {(2,)}


def test_a_kink_as_near_as_the_input_is_not_stepped_over() -> None:
    """Longer steps see half of the slope: neither that nor the whole is called wrong by them."""
    x = small(1e-12, 0).detach().abs().requires_grad_()
    assert check(lambda x: 1 + x.relu(), x).verdict is not Verdict.FAIL
    assert check(lambda x: 1 + (1.5 * x).relu() - 0.5 * x, x).verdict is not Verdict.FAIL


def test_a_certificate_is_that_of_the_steps_that_saw() -> None:
    report = check(torch.exp, small(1e-12, 0))
    assert report.certificate.smallest[0][1] < 1e-3
