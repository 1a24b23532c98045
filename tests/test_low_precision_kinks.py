"""Layers with many kinks, in one low precision only: kinks are not taken for noise, and one wrong input is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import gradproof
from gradproof import Status, Verdict

HALF, BRAIN = torch.float16, torch.bfloat16
INPUTS = ("x", "w", "b", "u")


def layer(dtype: torch.dtype, wrong: str = "", factor: float = 1.0) -> Callable[..., Any]:
    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any, b: Any, u: Any) -> Any:
            if x.dtype is not dtype:
                raise TypeError(f"a kernel for {dtype} only")
            ctx.save_for_backward(x, w, b, u)
            return torch.relu(x @ w.t() + b) @ u

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            (g,) = grads
            x, w, b, u = ctx.saved_tensors
            before = x @ w.t() + b
            h = (g @ u.t()) * (before > 0)
            gradients = h @ w, h.t() @ x, h.sum(0), torch.relu(before).t() @ g
            return tuple(factor * each if name == wrong else each for name, each in zip(INPUTS, gradients, strict=True))

    return Layer.apply


def drawn(seed: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    shapes = (4, 6), (8, 6), (8,), (8, 3)
    return tuple((torch.randn(*each, generator=generator) * 0.5).to(dtype).requires_grad_() for each in shapes)


@pytest.fixture(autouse=True)
def _without_mkldnn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)  # its bfloat16 products kill some processes


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 6, 7, 8, 9])
def test_a_right_layer_passes(seed: int) -> None:
    report = gradproof.check(layer(HALF), drawn(seed, HALF))
    assert report.verdict is Verdict.PASS, str(report)
    assert not any("bits inside" in note for note in report.notes), str(report)


@pytest.mark.parametrize("seed", [1, 3, 7, 8, 9])
@pytest.mark.parametrize("factor", [0.0, 1.3])
@pytest.mark.parametrize("wrong", INPUTS)
def test_a_wrong_gradient_of_a_whole_input_fails_and_no_other_is_accused(wrong: str, factor: float, seed: int) -> None:
    report = gradproof.check(layer(HALF, wrong, factor), drawn(seed, HALF))
    accused = {finding.input for finding in report.findings if finding.status is Status.WRONG}
    assert report.verdict is Verdict.FAIL, str(report)
    assert accused == {INPUTS.index(wrong)}, str(report)
    assert "staircase" not in str(report)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 10])
def test_in_bfloat16_a_lost_weight_accuses_no_other_input(seed: int) -> None:
    report = gradproof.check(layer(BRAIN, "w", 0.0), drawn(seed, BRAIN))
    accused = {finding.input for finding in report.findings if finding.status is Status.WRONG}
    assert (report.verdict, accused) == (Verdict.FAIL, {1}), str(report)


def rounded_inside(to: torch.dtype) -> Callable[..., Any]:
    """A product of numbers that are rounded to fewer bits, with the derivative of that without; and one that is not."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any, b: Any) -> Any:
            if x.dtype is not HALF:
                raise TypeError("a kernel for half precision only")
            ctx.save_for_backward(x, w)
            return (x.to(to).float() @ w.to(to).float().t()).half() + b

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            (g,) = grads
            x, w = ctx.saved_tensors
            return g @ w, g.t() @ x, g.sum(0)

    return Product.apply


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_steps_of_fewer_bits_inside_are_noise_as_before_beside_an_input_that_has_none(seed: int) -> None:
    x, w, b, _ = drawn(seed, HALF)
    report = gradproof.check(rounded_inside(torch.float8_e4m3fn), (x, w, b))
    assert report.verdict is Verdict.PASS, str(report)
    assert any("bits inside" in note for note in report.notes), str(report)
