"""Wrong backwards of norms, attention, losses and recurrent cells, written to try causes unseen."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from unseen_causes import TRUE_CAUSES
from wrong_functions import Case, Maker, custom, matrix, normal

UNSEEN_LAYERS: dict[str, Maker] = {}


def bug(maker: Maker) -> Maker:
    UNSEEN_LAYERS[maker.__name__] = lambda size, rng: maker(size, rng)._replace(causes=TRUE_CAUSES[maker.__name__])
    return maker


def positive(rng: torch.Generator, *shape: int) -> Tensor:
    return (torch.rand(*shape, generator=rng, dtype=torch.float64) + 0.5).requires_grad_()


# norms


@bug
def batch_norm_as_in_evaluation(size: int, rng: torch.Generator) -> Case:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt() * w

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        sigma = (x.var(0, unbiased=False) + 1e-5).sqrt()
        return g * w / sigma, (g * (x - x.mean(0)) / sigma).sum(0)

    rows, columns = matrix(size)
    inputs = normal(rng, rows, columns), normal(rng, columns)
    return Case(custom(forward, backward), inputs, (0,), ())


@bug
def norm_weight_of_raw_input(size: int, rng: torch.Generator) -> Case:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape[1:]) * w

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        sigma = (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        hat, gw = (x - x.mean(1, keepdim=True)) / sigma, g * w
        dx = (gw - gw.mean(1, keepdim=True) - hat * (gw * hat).mean(1, keepdim=True)) / sigma
        return dx, (g * x).sum(0)

    rows, columns = matrix(size)
    inputs = normal(rng, rows, columns), normal(rng, columns)
    return Case(custom(forward, backward), inputs, (1,), ())


@bug
def group_norm_by_channel(size: int, rng: torch.Generator) -> Case:
    length = max(3, size // 4)

    def forward(x: Tensor) -> Tensor:
        return functional.group_norm(x[None], 2)[0]

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        sigma = (x.reshape(2, -1).var(1, unbiased=False) + 1e-5).sqrt().repeat_interleave(2)[:, None]
        return (g - g.mean(1, keepdim=True) - y * (g * y).mean(1, keepdim=True)) / sigma

    return Case(custom(forward, backward), (normal(rng, 4, length),), (0,), ())


@bug
def epsilon_outside_the_root(size: int, rng: torch.Generator) -> Case:
    def forward(x: Tensor) -> Tensor:
        return x / (x.square().mean(1, keepdim=True) + 0.1).sqrt()

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        r = x.square().mean(1, keepdim=True).sqrt()
        return g / (r + 0.1) - x * (g * x).mean(1, keepdim=True) / (r + 0.1) ** 3

    return Case(custom(forward, backward), (normal(rng, *matrix(size)),), (0,), ())


@bug
def norm_squared_for_norm(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g[:, None] * x / (y * y)[:, None]

    return Case(custom(lambda x: x.norm(dim=1), backward), (normal(rng, *matrix(size)),), (0,), ())


# attention


def _attention(size: int, rng: torch.Generator) -> tuple[int, int, tuple[Tensor, ...]]:
    length = max(4, math.isqrt(size // 2))
    width = max(2, size // (3 * length))
    return length, width, tuple((normal(rng, length, width) / length**0.25).detach().requires_grad_() for _ in "qkv")


@bug
def causal_mask_forgotten(size: int, rng: torch.Generator) -> Case:
    length, width, inputs = _attention(size, rng)
    hidden = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)

    def weights(q: Tensor, k: Tensor) -> Tensor:
        return (q @ k.T / width**0.5).masked_fill(hidden, -math.inf).softmax(1)

    def backward(g: Tensor, y: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
        p, dp = weights(q, k), g @ v.T
        ds = p * (dp - (p * dp).sum(1, keepdim=True)) / width**0.5
        return ds @ k, ds.T @ q, (q @ k.T / width**0.5).softmax(1).T @ g

    return Case(custom(lambda q, k, v: weights(q, k) @ v, backward), inputs, (2,), ())


@bug
def attention_not_through_the_softmax(size: int, rng: torch.Generator) -> Case:
    _, width, inputs = _attention(size, rng)

    def backward(g: Tensor, y: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
        p, dp = (q @ k.T / width**0.5).softmax(1), g @ v.T
        ds = p * (dp - (g * y).sum(1, keepdim=True))
        return ds @ k / width**0.5, ds.T @ q, p.T @ g

    return Case(custom(lambda q, k, v: (q @ k.T / width**0.5).softmax(1) @ v, backward), inputs, (1,), ())


@bug
def keys_gradient_is_that_of_queries(size: int, rng: torch.Generator) -> Case:
    _, _, inputs = _attention(size, rng)

    def backward(g: Tensor, y: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
        p, dp = (q @ k.T).softmax(1), g @ v.T
        ds = p * (dp - (p * dp).sum(1, keepdim=True))
        return ds @ k, ds @ q, p.T @ g

    return Case(custom(lambda q, k, v: (q @ k.T).softmax(1) @ v, backward), inputs, (1,), ())


@bug
def attention_bias_averaged_over_heads(size: int, rng: torch.Generator) -> Case:
    length = max(3, math.isqrt(size // 4))

    def forward(s: Tensor, b: Tensor) -> Tensor:
        return (s + b).softmax(2)

    def backward(g: Tensor, y: Tensor, s: Tensor, b: Tensor) -> Any:
        ds = y * (g - (g * y).sum(2, keepdim=True))
        return ds, ds.mean(0)

    inputs = normal(rng, 3, length, length + 1), normal(rng, length, length + 1)
    return Case(custom(forward, backward), inputs, (1,), ())


# losses


@bug
def label_smoothing_forgotten(size: int, rng: torch.Generator) -> Case:
    rows, classes = matrix(size)
    target = torch.randint(0, classes, (rows,), generator=rng)

    def forward(x: Tensor) -> Tensor:
        return functional.cross_entropy(x, target, label_smoothing=0.1, reduction="none")

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g[:, None] * (x.softmax(1) - functional.one_hot(target, classes))

    return Case(custom(forward, backward), (normal(rng, rows, classes),), (0,), ())


@bug
def class_weights_averaged_by_count(size: int, rng: torch.Generator) -> Case:
    rows, classes = max(6, size // 4), 4
    target = torch.randint(0, classes, (rows,), generator=rng)
    w = torch.tensor([0.2, 1.0, 3.0, 0.7], dtype=torch.float64)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g * (x.softmax(1) - functional.one_hot(target, classes)) * w[target][:, None] / rows

    forward = lambda x: functional.cross_entropy(x, target, w)  # noqa: E731
    return Case(custom(forward, backward), (normal(rng, rows, classes),), (0,), ())


@bug
def cosine_projection_of_second_forgotten(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        na, nb = a.norm(dim=1, keepdim=True), b.norm(dim=1, keepdim=True)
        g, y = g[:, None], y[:, None]
        return g * (b / (na * nb) - y * a / na**2), g * a / (na * nb)

    rows, columns = matrix(size // 2)
    inputs = normal(rng, rows, columns), normal(rng, rows, columns)
    return Case(custom(lambda a, b: functional.cosine_similarity(a, b), backward), inputs, (1,), ())


@bug
def smooth_l1_not_divided_by_beta(size: int, rng: torch.Generator) -> Case:
    def forward(x: Tensor, t: Tensor) -> Tensor:
        return functional.smooth_l1_loss(x, t, beta=0.5, reduction="none")

    def backward(g: Tensor, y: Tensor, x: Tensor, t: Tensor) -> Any:
        d = x - t
        dx = g * torch.where(d.abs() < 0.5, d, d.sign())
        return dx, -g * torch.where(d.abs() < 0.5, d / 0.5, d.sign())

    half = max(8, size // 2)
    return Case(custom(forward, backward), (normal(rng, half), normal(rng, half)), (0,), ())


@bug
def margin_forgotten(size: int, rng: torch.Generator) -> Case:
    size = max(size, 16)
    label = torch.randint(0, 2, (size,), generator=rng) * 2.0 - 1

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return -g * label * (label * x < 0)

    return Case(custom(lambda x: (1 - label * x).clamp(min=0), backward), (normal(rng, size),), (0,), ())


@bug
def contrastive_second_half_forgotten(size: int, rng: torch.Generator) -> Case:
    side = max(4, math.isqrt(size))
    hot = torch.eye(side, dtype=torch.float64)

    def forward(s: Tensor) -> Tensor:
        return -(s.log_softmax(1).diagonal() + s.log_softmax(0).diagonal()).mean() / 2

    def backward(g: Tensor, y: Tensor, s: Tensor) -> Any:
        return g * (s.softmax(1) - hot) / (2 * side)

    return Case(custom(forward, backward), (normal(rng, side, side),), (0,), ())


@bug
def dice_denominator_constant(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size)
    target = (torch.rand(rows, columns, generator=rng) > 0.5).double()

    def backward(g: Tensor, y: Tensor, p: Tensor) -> Any:
        return -2 * g[:, None] * target / (p.sum(1, keepdim=True) + target.sum(1, keepdim=True))

    def forward(p: Tensor) -> Tensor:
        return 1 - 2 * (p * target).sum(1) / (p.sum(1) + target.sum(1))

    return Case(custom(forward, backward), (positive(rng, rows, columns),), (0,), ())


@bug
def poisson_target_forgotten(size: int, rng: torch.Generator) -> Case:
    half = max(5, size // 2)

    def backward(g: Tensor, y: Tensor, x: Tensor, t: Tensor) -> Any:
        return g * x.exp(), -g * x

    return Case(custom(lambda x, t: x.exp() - t * x, backward), (normal(rng, half), positive(rng, half)), (0,), ())


@bug
def mean_over_batch_only(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size)
    target = torch.randn(rows, columns, generator=rng, dtype=torch.float64)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return 2 * g * (x - target) / rows

    return Case(custom(lambda x: (x - target).pow(2).mean(), backward), (normal(rng, rows, columns),), (0,), ())


@bug
def gaussian_likelihood_without_its_log(size: int, rng: torch.Generator) -> Case:
    def forward(mu: Tensor, s: Tensor) -> Tensor:
        return 0.5 * (mu / s) ** 2 + s.log()

    def backward(g: Tensor, y: Tensor, mu: Tensor, s: Tensor) -> Any:
        return g * mu / s**2, -g * mu**2 / s**3

    half = max(5, size // 2)
    return Case(custom(forward, backward), (normal(rng, half), positive(rng, half)), (1,), ())


@bug
def triplet_margin_active_everywhere(size: int, rng: torch.Generator) -> Case:
    def forward(p: Tensor, n: Tensor) -> Tensor:
        return (p - n + 0.3).clamp(min=0)

    def backward(g: Tensor, y: Tensor, p: Tensor, n: Tensor) -> Any:
        return g * (y > 0), -g

    half = max(8, size // 2)
    return Case(custom(forward, backward), (normal(rng, half), normal(rng, half)), (1,), ())


# recurrent cells


@bug
def gru_reset_path_forgotten(size: int, rng: torch.Generator) -> Case:
    third = max(4, size // 3)

    def forward(r: Tensor, h: Tensor, a: Tensor) -> Tensor:
        return torch.tanh(a + r.sigmoid() * h) + h

    def backward(g: Tensor, y: Tensor, r: Tensor, h: Tensor, a: Tensor) -> Any:
        s, t = r.sigmoid(), torch.tanh(a + r.sigmoid() * h)
        dt = g * (1 - t * t)
        return dt * h * s * (1 - s), g, dt

    return Case(custom(forward, backward), tuple(normal(rng, third) for _ in "rha"), (1,), ())


@bug
def recurrence_truncated(size: int, rng: torch.Generator) -> Case:
    steps, width = 5, max(3, size // 5)

    def run(x: Tensor, w: Tensor) -> Tensor:
        h, states = torch.zeros(width, dtype=x.dtype), []
        for t in range(steps):
            h = torch.tanh(x[t] + w * h)
            states.append(h)
        return torch.stack(states)

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        da = g * (1 - y * y)
        with torch.enable_grad():
            w2 = w.detach().requires_grad_()
            (dw,) = torch.autograd.grad(run(x.detach(), w2), w2, g)
        return da, dw

    return Case(custom(run, backward), (normal(rng, steps, width), normal(rng, width)), (0,), ())


@bug
def cell_state_output_lost(size: int, rng: torch.Generator) -> Case:
    third = max(4, size // 3)

    class Cell(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, f: Tensor, c: Tensor, o: Tensor) -> Any:
            new = f.sigmoid() * c
            ctx.save_for_backward(f, c, o)
            return o.sigmoid() * new.tanh(), new

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Any:
            f, c, o = ctx.saved_tensors
            s, q, t = f.sigmoid(), o.sigmoid(), (f.sigmoid() * c).tanh()
            dc = grads[0] * q * (1 - t * t)
            return dc * c * s * (1 - s), dc * s, grads[0] * t * q * (1 - q)

    return Case(Cell.apply, tuple(normal(rng, third) for _ in "fco"), (0, 1), ())


@bug
def tanh_of_the_activation_twice(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor, b: Tensor) -> Any:
        return g * (1 - y.tanh() ** 2), (g * (1 - y * y)).sum(0)

    rows, columns = matrix(size)
    inputs = normal(rng, rows, columns), normal(rng, columns)
    return Case(custom(lambda x, b: (x + b).tanh(), backward), inputs, (0,), ())


@bug
def glu_halves_exchanged(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        a, b = x.chunk(2, 1)
        s = b.sigmoid()
        return torch.cat([g * a * s * (1 - s), g * s], 1)

    rows, columns = matrix(size // 2)
    return Case(custom(lambda x: functional.glu(x, 1), backward), (normal(rng, rows, 2 * columns),), (0,), ())
