"""Thirteen more wrong backwards, which were written to try causes that had not seen them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from wrong_functions import Case, Maker, custom, matrix, normal

OTHER_BUGS: dict[str, Maker] = {}


def bug(maker: Maker) -> Maker:
    OTHER_BUGS[maker.__name__] = maker
    return maker


# what is added up


@bug
def shared_heads_of_first_query(size: int, rng: torch.Generator) -> Case:
    def forward(q: Tensor, k: Tensor) -> Tensor:
        return q @ k.repeat_interleave(2, 0).transpose(1, 2)

    def backward(g: Tensor, y: Tensor, q: Tensor, k: Tensor) -> Any:
        return g @ k.repeat_interleave(2, 0), (g.transpose(1, 2) @ q)[::2]

    length = max(3, math.isqrt(size // 8))
    width = max(2, size // (8 * length))
    inputs = normal(rng, 4, length, width), normal(rng, 2, length, width)
    return Case(custom(forward, backward), inputs, (1,), (r"counts only the first of every 2 indices of axis 0",))


@bug
def overlapping_windows_overwritten(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        dx = torch.zeros_like(x)
        for k in range(3):
            dx[k : k + 2 * len(g) - 1 : 2] = g / 3
        return dx

    inputs = (normal(rng, max(9, size // 2 * 2 + 1)),)
    return Case(custom(lambda x: x.unfold(0, 3, 2).mean(1), backward), inputs, (0,), (r"windows that overlap",))


@bug
def scatter_mean_not_divided(size: int, rng: torch.Generator) -> Case:
    rows, width = max(6, size // 6), 4
    index = torch.randint(rows // 2, (rows,), generator=rng)
    index[:5] = torch.tensor([0, 0, 0, 1, 1])
    count = torch.bincount(index, minlength=rows // 2).clamp(min=1).double()[:, None]

    def forward(x: Tensor) -> Tensor:
        return torch.zeros(rows // 2, width, dtype=x.dtype).index_add(0, index, x) / count

    patterns = (r"a count that is not divided by", r"in place of a mean")
    return Case(custom(forward, lambda g, y, x: g[index]), (normal(rng, rows, width),), (0,), patterns)


@bug
def log_softmax_sum_forgotten(size: int, rng: torch.Generator) -> Case:
    patterns = (r"what it gives to the others along axis 1 is missing",)
    inputs = (normal(rng, *matrix(size)),)
    return Case(custom(lambda x: x.log_softmax(1), lambda g, y, x: g - y.exp() * g), inputs, (0,), patterns)


@bug
def log_sum_not_reversed(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return x.exp() * torch.cumsum(g * (-y).exp(), 0)

    inputs = (normal(rng, min(size, 2_000)),)
    return Case(custom(lambda x: torch.logcumsumexp(x, 0), backward), inputs, (0,), (r"the other way round",))


# places


@bug
def smallest_for_largest(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return torch.zeros_like(x).scatter_(1, x.argmin(1, keepdim=True), g[:, None])

    inputs = (normal(rng, *matrix(size)),)
    return Case(custom(lambda x: x.amax(1), backward), inputs, (0,), (r"right numbers at other places",))


@bug
def pixel_shuffle_viewed(size: int, rng: torch.Generator) -> Case:
    height = max(2, math.isqrt(size // 4))
    function = custom(lambda x: functional.pixel_shuffle(x[None], 2)[0], lambda g, y, x: g.reshape(x.shape))
    inputs = (normal(rng, 4, height, max(3, size // (4 * height))),)
    return Case(function, inputs, (0,), (r"right numbers at other places",))


@bug
def gates_in_another_order(size: int, rng: torch.Generator) -> Case:
    def gates(z: Tensor) -> tuple[Tensor, ...]:
        i, f, g, o = z.chunk(4, 1)
        return i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()

    def forward(z: Tensor, c: Tensor) -> Tensor:
        i, f, g, o = gates(z)
        return o * torch.tanh(f * c + i * g)

    def backward(v: Tensor, y: Tensor, z: Tensor, c: Tensor) -> Any:
        i, f, g, o = gates(z)
        t = torch.tanh(f * c + i * g)
        dc = v * o * (1 - t * t)
        parts = dc * g * i * (1 - i), dc * c * f * (1 - f), v * t * o * (1 - o), dc * i * (1 - g * g)
        return torch.cat(parts, 1), dc * f

    width = max(2, math.isqrt(size // 4))
    rows = max(3, size // (4 * width))
    inputs = normal(rng, rows, 4 * width), normal(rng, rows, width)
    return Case(custom(forward, backward), inputs, (0,), (r"right numbers at other places", r"indices along axis 1"))


# axes, terms and factors


@bug
def normalised_along_other_axis(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return (g - y * (g * y).sum(0, keepdim=True)) / x.norm(dim=1, keepdim=True)

    function = custom(lambda x: x / x.norm(dim=1, keepdim=True), backward)
    return Case(function, (normal(rng, *matrix(size)),), (0,), (r"a reduction over the wrong axis",))


@bug
def attention_term_along_other_axis(size: int, rng: torch.Generator) -> Case:
    length = max(4, math.isqrt(size // 2))
    width = max(2, size // (3 * length))

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.T / width**0.5, 1) @ v

    def backward(g: Tensor, y: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
        p, dp = torch.softmax(q @ k.T / width**0.5, 1), g @ v.T
        ds = p * (dp - (p * dp).sum(0, keepdim=True)) / width**0.5
        return ds @ k, ds.T @ q, p.T @ g

    inputs = tuple((normal(rng, length, width) / length**0.25).detach().requires_grad_() for _ in range(3))
    return Case(custom(forward, backward), inputs, (0, 1), (r"a reduction over the wrong axis",))


@bug
def negative_of_triplet_forgotten(size: int, rng: torch.Generator) -> Case:
    def forward(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
        return (a - p).pow(2).sum(1) - (a - n).pow(2).sum(1)

    def backward(g: Tensor, y: Tensor, a: Tensor, p: Tensor, n: Tensor) -> Any:
        g = 2 * g[:, None]
        return g * (a - p), -g * (a - p), g * (a - n)

    inputs = tuple(normal(rng, max(3, size // 9), 3) for _ in range(3))
    return Case(custom(forward, backward), inputs, (0,), (r"as if the term \(-2·x \+ 2·input 2\)",))


@bug
def weight_of_norm_forgotten(size: int, rng: torch.Generator) -> Case:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        return x / (x.pow(2).mean(1, keepdim=True) + 1e-6).sqrt() * w

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        size = (x.pow(2).mean(1, keepdim=True) + 1e-6).sqrt()
        hat = x / size
        return (g - hat * (g * hat).mean(1, keepdim=True)) / size, (g * hat).sum(0)

    rows, columns = matrix(size)
    inputs = normal(rng, rows, columns), normal(rng, columns)
    return Case(custom(forward, backward), inputs, (0,), (r"right if input 1 is all ones",))


@bug
def focal_modulation_forgotten(size: int, rng: torch.Generator) -> Case:
    """No cause is named for this one: what is missing is a product of three functions of x."""

    def forward(x: Tensor) -> Tensor:
        p = x.sigmoid()
        return -((1 - p) ** 2 * p.log())

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return -g * (1 - x.sigmoid()) ** 3

    return Case(custom(forward, backward), (normal(rng, size),), (0,), (r"as if the term",))
