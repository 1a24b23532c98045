"""The model of the demonstration in PyTorch: operators are autograd.Functions, and the mistake is in a backward."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from gradproof.api import check
from gradproof.results.report import Report

RULE = "backward"
TILE, COLUMNS = 4, 6


class RmsNorm(torch.autograd.Function):
    """Each row divided by its root mean square, times a gain for each column."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        scale = x.square().mean(-1, keepdim=True).rsqrt()
        ctx.save_for_backward(x, gain, scale)
        return x * scale * gain

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, gain, scale = ctx.saved_tensors
        straight = cotangent * gain
        products = straight * x
        whole = products.shape[-1] - products.shape[-1] % TILE
        through_mean = products[..., :whole].sum(-1, keepdim=True)  # the planted mistake: the tail is missing
        of_x = scale * (straight - x * scale.square() * through_mean / x.shape[-1])
        return of_x, (cotangent * x * scale).sum(0)


class Linear(torch.autograd.Function):
    """A matrix product and a bias in one step."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, weight = ctx.saved_tensors
        return cotangent @ weight, cotangent.t() @ x, cotangent.sum(0)


class Gelu(torch.autograd.Function):
    """x times the normal distribution function of x."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        below = torch.special.ndtr(x)
        ctx.save_for_backward(x, below)
        return x * below

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
        x, below = ctx.saved_tensors
        density = torch.exp(-0.5 * x.square()) / math.sqrt(2 * math.pi)
        return cotangent * (below + x * density)


# Plain functions: their parameters' names appear in the reports.


def rms_norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return RmsNorm.apply(x, gain)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return Linear.apply(x, weight, bias)


def gelu(x: torch.Tensor) -> torch.Tensor:
    return Gelu.apply(x)


def model(x: torch.Tensor, gain: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return gelu(linear(rms_norm(x, gain), weight, bias))


def checked() -> dict[str, Report]:
    """The reports of the whole model and of each operator on its own."""
    generator = torch.Generator().manual_seed(0)
    x, gain, weight, bias, hidden = (
        torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()
        for shape in ((2, COLUMNS), (COLUMNS,), (3, COLUMNS), (3,), (2, 3))
    )
    calls: list[tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = [
        (model, (x, gain, weight, bias)),
        (rms_norm, (x, gain)),
        (linear, (x, weight, bias)),
        (gelu, (hidden,)),
    ]
    return {function.__name__: check(function, inputs) for function, inputs in calls}
