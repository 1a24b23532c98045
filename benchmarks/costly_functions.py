"""Wrong backwards of functions that are hard to measure: kinks, few bits, round-off that hides a step, noise inside.

For the benchmark of what a failure costs. `HARD` has those that the limits hold for, but for kinks and short waves of
three inputs; `NOISY` those that they do not hold for where there are few inputs: functions that round inside, whose
noise is asked about first, and differences of a hundredth, which a solver's tolerance could explain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from wrong_functions import Case, Maker, custom, matrix, normal

HARD: dict[str, Maker] = {}
NOISY: dict[str, Maker] = {}


def hard(maker: Maker) -> Maker:
    HARD[maker.__name__] = maker
    return maker


def noisy(maker: Maker) -> Maker:
    NOISY[maker.__name__] = maker
    return maker


def _of(x: Tensor, forward: Callable[..., Any], backward: Callable[..., Any]) -> Case:
    return Case(custom(forward, backward), (x.detach().requires_grad_(),), (0,), ())


def with_zeros(rng: torch.Generator, size: int, every: int) -> Tensor:
    x = normal(rng, size).detach()
    x[::every] = 0.0
    return x


# kinks


@hard
def relu_mask_inverted(size: int, rng: torch.Generator) -> Case:
    return _of(normal(rng, size), torch.relu, lambda g, y, x: g * (x <= 0))


@hard
def relu_beyond_both_sides_at_zero(size: int, rng: torch.Generator) -> Case:
    return _of(with_zeros(rng, size, 2), torch.relu, lambda g, y, x: 1.5 * g * (x <= 0))


@hard
def absolute_value_at_zero(size: int, rng: torch.Generator) -> Case:
    return _of(with_zeros(rng, size, 3), torch.abs, lambda g, y, x: g * torch.where(x > 0, 1.0, 2.0))


@hard
def max_pool_of_first(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return torch.stack([g, torch.zeros_like(g)], 1).reshape(-1)

    return _of(normal(rng, max(4, size // 2 * 2)), lambda x: x.reshape(-1, 2).amax(1), backward)


@hard
def sort_not_undone(size: int, rng: torch.Generator) -> Case:
    return _of(normal(rng, size), lambda x: x.sort().values, lambda g, y, x: g * 1.0)


@hard
def jump_beside(size: int, rng: torch.Generator) -> Case:
    return _of(normal(rng, size), lambda x: (x > 0) * 2.0 + x, lambda g, y, x: 2 * g)


@hard
def tiny_elements(size: int, rng: torch.Generator) -> Case:
    x = normal(rng, size).detach()
    x[::2] *= 1e-8
    return _of(x, lambda x: x.abs() + x, lambda g, y, x: g * (x.sign() + 1.5))


# rows that are missing


@hard
def row_of_weights_missing(size: int, rng: torch.Generator) -> Case:
    rows = max(2, math.isqrt(size // 2))
    columns = max(1, size // 2 // rows)

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        dw = g.T @ x
        return g @ w, torch.cat([dw[:-1], torch.zeros_like(dw[-1:])])

    inputs = normal(rng, rows, columns), normal(rng, rows, columns)
    return Case(custom(lambda x, w: x @ w.T, backward), inputs, (1,), ())


@hard
def row_of_tall_weights_missing(size: int, rng: torch.Generator) -> Case:
    width, batch = 3, 2
    rows = max(2, (size - batch * width) // width)

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        dw = g.T @ x
        dw[rows // 2] = 0
        return g @ w, dw

    inputs = normal(rng, batch, width), normal(rng, rows, width)
    return Case(custom(lambda x, w: x @ w.T, backward), inputs, (1,), ())


@hard
def column_of_weights_missing(size: int, rng: torch.Generator) -> Case:
    rows = max(2, math.isqrt(size // 2))
    columns = max(2, size // 2 // rows)

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        dw = g.T @ x
        return g @ w, torch.cat([torch.zeros_like(dw[:, :1]), dw[:, 1:]], 1)

    inputs = normal(rng, rows, columns), normal(rng, rows, columns)
    return Case(custom(lambda x, w: x @ w.T, backward), inputs, (1,), ())


# round-off, few bits, waves


@hard
def large_constant(size: int, rng: torch.Generator) -> Case:
    return _of(normal(rng, size), lambda x: x.sin() + 1e6, lambda g, y, x: 1.1 * g * x.cos())


@hard
def large_constant_lone(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return torch.cat([(g * x.cos())[:-1], 1.1 * (g * x.cos())[-1:]])

    return _of(normal(rng, size), lambda x: x.sin() + 1e5, backward)


@hard
def large_constant_sum(size: int, rng: torch.Generator) -> Case:
    return _of(normal(rng, size), lambda x: x.sin().sum() + 1e5, lambda g, y, x: 1.1 * g * x.cos())


@hard
def short_waves(size: int, rng: torch.Generator) -> Case:
    return _of(normal(rng, size), lambda x: (1e5 * x).sin(), lambda g, y, x: 1.1e5 * g * (1e5 * x).cos())


@hard
def small_numbers(size: int, rng: torch.Generator) -> Case:
    x = torch.rand(size, generator=rng, dtype=torch.float64) * 1e-6
    return _of(x, torch.log, lambda g, y, x: 1.1 * g / x)


@hard
def no_number(size: int, rng: torch.Generator) -> Case:
    return _of(normal(rng, size), torch.sin, lambda g, y, x: g * math.nan)


def _in(dtype: torch.dtype) -> None:
    def factor(size: int, rng: torch.Generator) -> Case:
        return _of(normal(rng, size).to(dtype), torch.sin, lambda g, y, x: 1.5 * g * x.cos())

    def mask(size: int, rng: torch.Generator) -> Case:
        return _of(normal(rng, size).to(dtype), torch.relu, lambda g, y, x: g * (x <= 0))

    def term(size: int, rng: torch.Generator) -> Case:
        return _of(normal(rng, *matrix(size)).to(dtype), lambda x: x.softmax(1), lambda g, y, x: g * y)

    for maker in (factor, mask, term):
        HARD[f"{maker.__name__} in {str(dtype).removeprefix('torch.')}"] = maker


for _dtype in (torch.float32, torch.float16, torch.bfloat16):
    _in(_dtype)


# noise


@noisy
def float32_inside(size: int, rng: torch.Generator) -> Case:
    return _of(normal(rng, size), lambda x: x.float().sin().double(), lambda g, y, x: 1.2 * g * x.cos())


@noisy
def rounded_inside(size: int, rng: torch.Generator) -> Case:
    return _of(normal(rng, size), lambda x: (x * 1e4).round() / 1e4 * x, lambda g, y, x: g * x)


@noisy
def one_percent_of_a_sum(size: int, rng: torch.Generator) -> Case:
    return _of(normal(rng, size), lambda x: x.sin().sum(), lambda g, y, x: 1.009 * g * x.cos())
