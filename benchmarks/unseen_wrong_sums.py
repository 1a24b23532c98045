"""Wrong backwards of pools, complex numbers, few bits, masks, sums, second derivatives, for causes unseen."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from unseen_causes import TRUE_CAUSES
from unseen_wrong_layers import positive
from wrong_functions import Case, Maker, custom, matrix, normal

UNSEEN_SUMS: dict[str, Maker] = {}


def bug(maker: Maker) -> Maker:
    UNSEEN_SUMS[maker.__name__] = lambda size, rng: maker(size, rng)._replace(causes=TRUE_CAUSES[maker.__name__])
    return maker


# pools


@bug
def padding_counted_at_the_border(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size)

    def forward(x: Tensor) -> Tensor:
        return functional.avg_pool1d(x, 3, 1, 1, count_include_pad=False)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return functional.avg_pool1d(g, 3, 1, 1)

    return Case(custom(forward, backward), (normal(rng, rows, columns),), (0,), ())


@bug
def power_pool_without_sign(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return (g * y**-2)[:, None] * x**2

    return Case(custom(lambda x: x.abs().pow(3).sum(1).pow(1 / 3), backward), (normal(rng, *matrix(size)),), (0,), ())


@bug
def pool_over_height_only(size: int, rng: torch.Generator) -> Case:
    height = max(2, math.isqrt(size // 4))
    width = max(3, size // (4 * height))

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g[:, None, None] * torch.ones_like(x) / height

    return Case(custom(lambda x: x.mean((1, 2)), backward), (normal(rng, 4, height, width),), (0,), ())


@bug
def strided_odd_places_lost(size: int, rng: torch.Generator) -> Case:
    length = max(9, size // 2 * 2 + 1)

    def forward(x: Tensor, w: Tensor) -> Tensor:
        return functional.conv1d(x[None, None], w[None, None], stride=2)[0, 0]

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        dx = torch.nn.grad.conv1d_input((1, 1, length), w[None, None], g[None, None], stride=2)[0, 0]
        dx = torch.where(torch.arange(length) % 2 == 1, 0.0, dx)
        return dx, torch.nn.grad.conv1d_weight(x[None, None], (1, 1, 3), g[None, None], stride=2)[0, 0]

    return Case(custom(forward, backward), (normal(rng, length), normal(rng, 3)), (0,), ())


# complex numbers, few bits


@bug
def modulus_not_divided(size: int, rng: torch.Generator) -> Case:
    return Case(custom(torch.abs, lambda g, y, z: g * z), (normal(rng, size // 2, dtype=torch.complex128),), (0,), ())


@bug
def angle_not_divided(size: int, rng: torch.Generator) -> Case:
    return Case(
        custom(torch.angle, lambda g, y, z: 1j * g * z), (normal(rng, size // 2, dtype=torch.complex128),), (0,), ()
    )


@bug
def imaginary_part_for_real(size: int, rng: torch.Generator) -> Case:
    half = max(4, size // 3)

    def backward(g: Tensor, y: Tensor, z: Tensor, a: Tensor) -> Any:
        return g * a, (g * z.conj()).imag

    inputs = normal(rng, half, dtype=torch.complex128), normal(rng, half)
    return Case(custom(lambda z, a: z * a, backward), inputs, (1,), ())


@bug
def clipped_part_of_a_scale(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size)

    def backward(g: Tensor, y: Tensor, x: Tensor, s: Tensor) -> Any:
        inside = (x / s).abs() < 1
        return g * inside, torch.zeros_like(s)

    inputs = normal(rng, rows, columns), positive(rng, columns)
    return Case(custom(lambda x, s: (x / s).clamp(-1, 1) * s, backward), inputs, (1,), ())


@bug
def scale_of_channel_along_rows(size: int, rng: torch.Generator) -> Case:
    side = max(4, math.isqrt(size))

    def backward(g: Tensor, y: Tensor, x: Tensor, s: Tensor) -> Any:
        return g * s, (g * x).sum(1)

    inputs = normal(rng, side, side), positive(rng, side)
    return Case(custom(lambda x, s: x * s[:, None], backward), inputs, (0,), ())


# sums, masks, places


@bug
def shared_weight_averaged(size: int, rng: torch.Generator) -> Case:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        return torch.einsum("bij,jk->bik", x, w)

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        return torch.einsum("bik,jk->bij", g, w), torch.einsum("bij,bik->bjk", x, g).mean(0)

    rows = max(2, size // 20)
    return Case(custom(forward, backward), (normal(rng, 5, rows, 4), normal(rng, 4, 3)), (1,), ())


@bug
def third_factor_forgotten(size: int, rng: torch.Generator) -> Case:
    third = max(4, size // 3)

    def backward(g: Tensor, y: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Any:
        return g * b * c, g * a * c, g * b

    return Case(custom(lambda a, b, c: a * b * c, backward), tuple(normal(rng, third) for _ in "abc"), (2,), ())


@bug
def reflected_border_lost(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size)

    def forward(x: Tensor) -> Tensor:
        return functional.pad(x, (2, 2), mode="reflect")

    return Case(custom(forward, lambda g, y, x: g[:, 2:-2]), (normal(rng, rows, max(columns, 6)),), (0,), ())


@bug
def masked_mean_over_everything(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size)
    mask = (torch.rand(rows, columns, generator=rng) > 0.4).double()
    mask[:, 0] = 1

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g[:, None] * mask / columns

    forward = lambda x: (x * mask).sum(1) / mask.sum(1)  # noqa: E731
    return Case(custom(forward, backward), (normal(rng, rows, columns),), (0,), ())


@bug
def condition_inverted(size: int, rng: torch.Generator) -> Case:
    half = max(8, size // 2)
    condition = torch.rand(half, generator=rng) > 0.5

    def backward(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        return torch.where(condition, 0.0, g), torch.where(condition, g, 0.0)

    inputs = normal(rng, half), normal(rng, half)
    return Case(custom(lambda a, b: torch.where(condition, a, b), backward), inputs, (0, 1), ())


@bug
def length_mask_one_too_long(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size)
    length = torch.randint(1, columns, (rows, 1), generator=rng)
    place = torch.arange(columns)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g * x.cos() * (place <= length)

    forward = lambda x: x.sin() * (place < length)  # noqa: E731
    return Case(custom(forward, backward), (normal(rng, rows, columns),), (0,), ())


@bug
def rolled_the_same_way(size: int, rng: torch.Generator) -> Case:
    forward = lambda x: x.roll(2, 1)  # noqa: E731
    return Case(custom(forward, lambda g, y, x: g.roll(2, 1)), (normal(rng, *matrix(max(size, 30))),), (0,), ())


@bug
def weighted_mean_without_its_total(size: int, rng: torch.Generator) -> Case:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        return (x * w).sum(1) / w.sum(1)

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        g, total = g[:, None], w.sum(1, keepdim=True)
        return g * w / total, g * x / total

    rows, columns = matrix(size // 2)
    return Case(custom(forward, backward), (normal(rng, rows, columns), positive(rng, rows, columns)), (1,), ())


@bug
def log_sum_over_everything(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g[:, None] * x.reshape(-1).softmax(0).reshape(x.shape)

    return Case(custom(lambda x: x.logsumexp(1), backward), (normal(rng, *matrix(size)),), (0,), ())


@bug
def force_without_reaction(size: int, rng: torch.Generator) -> Case:
    points = max(6, size // 3)
    one = torch.randint(0, points, (2 * points,), generator=rng)
    two = (one + 1 + torch.randint(0, points - 1, (2 * points,), generator=rng)) % points

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return torch.zeros_like(x).index_add(0, one, 2 * g[:, None] * (x[one] - x[two]))

    forward = lambda x: (x[one] - x[two]).pow(2).sum(1)  # noqa: E731
    return Case(custom(forward, backward), (normal(rng, points, 3),), (0,), ())


@bug
def depth_of_projection_forgotten(size: int, rng: torch.Generator) -> Case:
    points = max(4, size // 3)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        z = x[:, 2:]
        return torch.cat([g / z, (-g * x[:, :2] / z**2)[:, :1]], 1)

    x = (normal(rng, points, 3).detach() + torch.tensor([0.0, 0, 6])).requires_grad_()
    return Case(custom(lambda x: x[:, :2] / x[:, 2:], backward), (x,), (0,), ())


@bug
def upper_quantile_lost(size: int, rng: torch.Generator) -> Case:
    rows, columns = max(4, size // 6), 6

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return torch.zeros_like(x).scatter_(1, x.argsort(1)[:, 2:3], 0.5 * g[:, None])

    return Case(custom(lambda x: x.quantile(0.5, 1), backward), (normal(rng, rows, columns),), (0,), ())


# second derivatives: the first is right


def _twice(first: Any, second: Any, forward: Any) -> Any:
    """forward(x), with backward first(x, g), whose own backward is second(v, x, g)."""

    class First(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, g: Tensor) -> Tensor:
            ctx.save_for_backward(x, g)
            return first(x, g)

        @staticmethod
        def backward(ctx: Any, v: Tensor) -> Any:
            return second(v, *ctx.saved_tensors)

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return First.apply(ctx.saved_tensors[0], g)

    return Function.apply


@bug
def second_derivative_of_a_cube(size: int, rng: torch.Generator) -> Case:
    function = _twice(lambda x, g: 3 * g * x**2, lambda v, x, g: (3 * v * g * x, 3 * v * x**2), lambda x: x**3)
    return Case(function, (normal(rng, size),), (0,), (), 2)


@bug
def second_derivative_lost(size: int, rng: torch.Generator) -> Case:
    function = _twice(lambda x, g: g * x.cos(), lambda v, x, g: (None, v * x.cos()), torch.sin)
    return Case(function, (normal(rng, size),), (0,), (), 2)


@bug
def second_derivative_for_the_cotangent(size: int, rng: torch.Generator) -> Case:
    function = _twice(lambda x, g: g * x.exp(), lambda v, x, g: (v * g * x.exp(), v), torch.exp)
    return Case(function, (normal(rng, size),), (0, 1), (), 2)
