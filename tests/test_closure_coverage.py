"""What only a closure reaches is listed as not covered; empty inputs are no pass."""

from __future__ import annotations

import functools

import pytest
import torch
from functions import numbers
from torch import nn

from gradproof import check
from gradproof.core.problem import NothingToCheckError
from gradproof.torch import gradcheck

MODEL = nn.Linear(3, 2).double()
REASON = " (only a closure reaches it)"


def names(*inside: str) -> set[str]:
    return {f"parameter `{name}`{REASON}" for name in inside}


def through_a_helper(x: torch.Tensor) -> torch.Tensor:
    return MODEL(x)


class Owner:
    def __init__(self) -> None:
        self.net = nn.Linear(3, 1).double()

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x).sum()


def test_parameters_of_a_module_in_a_closure_are_listed_by_name() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh()).double()
    x = numbers(3)
    assert set(check(lambda x: model(x), x).not_covered) == names("model.0.weight", "model.0.bias")
    assert set(check(lambda x: through_a_helper(x), x).not_covered) == names("MODEL.weight", "MODEL.bias")
    assert set(check(Owner().loss, x).not_covered) == names("self.net.weight", "self.net.bias")
    assert set(check(functools.partial(lambda m, x: m(x), MODEL), x).not_covered) == names("weight", "bias")


def test_a_tensor_in_a_closure_is_listed_and_a_constant_is_not() -> None:
    w, constant, x = numbers(3), numbers(3).detach(), numbers(3)
    assert check(lambda x: x * w * constant, x).not_covered == (f"tensor `w`{REASON}",)


def test_what_is_covered_or_not_reached_is_not_listed() -> None:
    x = numbers(3)
    assert not check(MODEL, x).not_covered
    assert not check(
        lambda x: MODEL(x.detach()).detach().sum() + x.sin(), x, modes="reverse", rtol=1.0, atol=9.0
    ).not_covered
    history = numbers(3)
    assert not check(torch.sin, history * 2).not_covered


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_an_empty_input_is_no_pass(shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    for function in (torch.sin, torch.sum):
        with pytest.raises(NothingToCheckError, match="have no elements"):
            check(function, x)
    assert gradcheck(torch.sin, x)  # as torch does


def test_an_empty_output_is_no_pass() -> None:
    with pytest.raises(NothingToCheckError, match="the outputs have no elements"):
        check(lambda x: x[:0], numbers(3))


def test_no_inputs_are_an_error() -> None:
    w = numbers(3)
    with pytest.raises((TypeError, ValueError)):
        check(lambda: w.sin(), ())


def test_an_empty_input_beside_others_is_not_covered() -> None:
    empty = torch.zeros(0, dtype=torch.float64, requires_grad=True)
    report = check(lambda a, b: a.sum() + b.sin(), (empty, numbers(3)))
    assert report.ok
    assert report.not_covered == ("input 0 `a` (it has no elements)",)
    assert report.covered == ("input 1 `b`",)
