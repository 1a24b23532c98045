"""Forward mode is asked only where it is there; where it is not, the report says so."""

from __future__ import annotations

from typing import Any

import torch
from functions import numbers

from gradproof import Verdict, check
from gradproof.core.problem import Mode


class NoTangents(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * ctx.saved_tensors[0].cos()


class RaisingTangents(NoTangents):
    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError("not today")


def test_a_function_with_a_forward_rule_is_asked_both_ways() -> None:
    report = check(torch.sin, numbers(3))
    assert report.modes == (Mode.REVERSE, Mode.FORWARD)
    assert report.not_covered == ()


def test_an_operator_without_a_forward_rule_is_asked_in_reverse() -> None:
    report = check(NoTangents.apply, numbers(3))
    assert report.verdict is Verdict.PASS
    assert report.modes == (Mode.REVERSE,)
    assert report.not_covered[0].startswith("forward mode (")


def test_inputs_that_are_read_by_closure_carry_no_tangents() -> None:
    module, x = torch.nn.Linear(4, 2).double(), numbers(3, 4)
    report = check(lambda *parameters: module(x), tuple(module.parameters()))
    assert report.verdict is Verdict.PASS
    assert "no tangent reaches the outputs" in report.not_covered[0]


def test_a_function_may_take_gradients_itself() -> None:
    def force(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)[0]

    report = check(force, numbers(3))
    assert report.verdict is Verdict.PASS
    assert report.modes == (Mode.REVERSE, Mode.FORWARD)


def test_a_jvp_that_raises_is_reported() -> None:
    report = check(RaisingTangents.apply, numbers(3))
    assert report.verdict is Verdict.FAIL
    assert isinstance(report.findings[0].cause, ArithmeticError)


def test_a_scripted_module_is_asked_in_reverse() -> None:
    report = check(torch.jit.script(torch.nn.Linear(4, 2).double()), numbers(3, 4))
    assert report.verdict is Verdict.PASS
    assert report.modes == (Mode.REVERSE,)
