"""Thirty-two more wrong backwards, of layers, losses, samplers and lookups: for the benchmark of causes.

As in `wrong_functions.py`: a maker takes a number of elements and a random generator, and lists which causes a reader
with the code at hand would accept. These were written after the causes were, to see what is said of unseen bugs.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from wrong_functions import Case, Maker, custom, matrix, normal

MORE_BUGS: dict[str, Maker] = {}


def bug(maker: Maker) -> Maker:
    MORE_BUGS[maker.__name__] = maker
    return maker


@bug
def rms_norm_term_forgotten(size: int, rng: torch.Generator) -> Case:
    def forward(x: Tensor) -> Tensor:
        return x / (x.square().mean(1, keepdim=True) + 1e-6).sqrt()

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g / (x.square().mean(1, keepdim=True) + 1e-6).sqrt()

    causes = (
        r"the term (`?x`?|the output)·\(a mean or a sum along axis 1\) were missing",
        r"of x·h\(x\) only the first factor is differentiated",  # h is 1 / the root of the mean square
    )
    return Case(custom(forward, backward), (normal(rng, *matrix(size)),), (0,), causes)


@bug
def instance_norm_mean_forgotten(size: int, rng: torch.Generator) -> Case:
    def forward(x: Tensor) -> Tensor:
        return functional.instance_norm(x[None], eps=1e-5)[0]

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        sigma = (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        return (g - y * (g * y).mean(1, keepdim=True)) / sigma

    causes = (r"same all along axis 1: as if a mean or a sum",)
    return Case(custom(forward, backward), (normal(rng, *matrix(size)),), (0,), causes)


@bug
def weight_norm_not_divided(size: int, rng: torch.Generator) -> Case:
    def forward(v: Tensor, scale: Tensor) -> Tensor:
        return v * (scale / v.norm(dim=1, keepdim=True))

    def backward(g: Tensor, y: Tensor, v: Tensor, scale: Tensor) -> Any:
        n = v.norm(dim=1, keepdim=True)
        inner = (g * v).sum(1, keepdim=True)
        return scale / n * (g - v * inner / n**2), inner

    rows, columns = matrix(size)
    inputs = normal(rng, rows, columns), normal(rng, rows, 1)
    return Case(custom(forward, backward), inputs, (1,), (r"norm",))


@bug
def depthwise_weight_of_first_image(size: int, rng: torch.Generator) -> Case:
    side = max(4, math.isqrt(size // 3))

    def forward(x: Tensor, w: Tensor) -> Tensor:
        return functional.conv2d(x, w, padding=1, groups=1)

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        dx = torch.nn.grad.conv2d_input(x.shape, w, g, padding=1)
        return dx, torch.nn.grad.conv2d_weight(x[:1], w.shape, g[:1], padding=1)

    inputs = normal(rng, 3, 1, side, side), normal(rng, 1, 1, 3, 3)
    return Case(custom(forward, backward), inputs, (1,), (r"counts only the first index of axis 0",))


@bug
def attention_scale_forgotten(size: int, rng: torch.Generator) -> Case:
    def forward(q: Tensor, k: Tensor) -> Tensor:
        return q @ k.T / math.sqrt(q.shape[1])

    def backward(g: Tensor, y: Tensor, q: Tensor, k: Tensor) -> Any:
        return g @ k, g.T @ q / math.sqrt(q.shape[1])

    rows, width = max(3, math.isqrt(size // 2)), 7 if size < 500 else 11
    inputs = normal(rng, rows, width), normal(rng, rows + 1, width)
    return Case(custom(forward, backward), inputs, (0,), (r"sqrt\((7|11)\)", r"constant factor"))


@bug
def mask_not_applied(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size)
    lower = torch.tril(torch.ones(rows, columns, dtype=torch.bool))

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g * x.cos()

    return Case(
        custom(lambda x: torch.where(lower, x.sin(), 0.0), backward),
        (normal(rng, rows, columns),),
        (0,),
        (r"a mask is not applied",),
    )


@bug
def gather_duplicates_lost(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size)
    index = torch.randint(0, columns, (rows, 2 * columns), generator=rng)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return torch.zeros_like(x).scatter(1, index, g)

    return Case(
        custom(lambda x: x.gather(1, index), backward),
        (normal(rng, rows, columns),),
        (0,),
        (r"an index that occurs more than once",),
    )


@bug
def cross_entropy_not_averaged(size: int, rng: torch.Generator) -> Case:
    rows, classes = matrix(size)
    target = torch.randint(0, classes, (rows,), generator=rng)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g * (x.softmax(1) - functional.one_hot(target, classes))

    return Case(
        custom(lambda x: functional.cross_entropy(x, target), backward),
        (normal(rng, rows, classes),),
        (0,),
        (rf"factor {rows}\b|≈ {rows} ×",),
    )


@bug
def ignored_targets_counted(size: int, rng: torch.Generator) -> Case:
    rows, classes = matrix(size)
    target = torch.randint(0, classes, (rows,), generator=rng)
    target[0] = -100

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        hot = functional.one_hot(target.clamp(min=0), classes)
        return g * (x.softmax(1) - hot) * (target >= 0)[:, None] / rows

    return Case(
        custom(lambda x: functional.cross_entropy(x, target), backward),
        (normal(rng, rows, classes),),
        (0,),
        (r"constant factor|\(n - 1\)/n",),
    )


@bug
def bce_weight_forgotten(size: int, rng: torch.Generator) -> Case:
    half = max(4, size // 2)
    target = torch.rand(half, generator=rng, dtype=torch.float64)

    def forward(x: Tensor, w: Tensor) -> Tensor:
        return w * functional.binary_cross_entropy_with_logits(x, target, reduction="none")

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        return g * (x.sigmoid() - target), g * y / w

    inputs = normal(rng, half), normal(rng, half)
    return Case(custom(forward, backward), inputs, (0,), (r"a factor `?\w+`?( \d+)? were missing|factor input 1",))


@bug
def kl_sign(size: int, rng: torch.Generator) -> Case:
    def forward(p: Tensor, q: Tensor) -> Tensor:
        return (p.exp() * (p - q)).sum(1)

    def backward(g: Tensor, y: Tensor, p: Tensor, q: Tensor) -> Any:
        g = g[:, None]
        return g * p.exp() * (p - q + 1), g * p.exp()

    rows, columns = matrix(size // 2)
    inputs = normal(rng, rows, columns), normal(rng, rows, columns)
    return Case(custom(forward, backward), inputs, (1,), (r"sign is wrong",))


@bug
def max_pool_spread(size: int, rng: torch.Generator) -> Case:
    rows = max(3, size // 4)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g[:, None].expand_as(x)

    # a mean in place of the maximum has no name among the causes; what may be said is that claims are alike
    return Case(
        custom(lambda x: x.amax(1), backward),
        (normal(rng, rows, 4),),
        (0,),
        (r"analytic is the same all along axis 1", r"a mask is not applied to the gradient"),
    )


@bug
def average_pool_not_divided(size: int, rng: torch.Generator) -> Case:
    rows = max(3, size // 4)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g.repeat_interleave(4, 1) * x.cos()

    return Case(
        custom(lambda x: functional.avg_pool1d(x.sin()[None], 4)[0], backward),
        (normal(rng, rows, 4),),
        (0,),
        (r"≈ 4 ×",),
    )


@bug
def gate_of_recurrent_cell(size: int, rng: torch.Generator) -> Case:
    def forward(a: Tensor, n: Tensor, h: Tensor) -> Tensor:
        return (1 - a.sigmoid()) * n + a.sigmoid() * h

    def backward(g: Tensor, y: Tensor, a: Tensor, n: Tensor, h: Tensor) -> Any:
        s = a.sigmoid()
        return g * s * (1 - s) * (h - n), g, g * s

    third = max(4, size // 3)
    inputs = normal(rng, third), normal(rng, third), normal(rng, third)
    causes = (r"factor \(1 - sigmoid", r"the term .*sigmoid\((`a`|input 0)\)·grad_output were missing")
    return Case(custom(forward, backward), inputs, (1,), causes)


@bug
def memory_of_recurrent_cell(size: int, rng: torch.Generator) -> Case:
    def forward(f: Tensor, c: Tensor, i: Tensor) -> Tensor:
        return f.sigmoid() * c + i

    def backward(g: Tensor, y: Tensor, f: Tensor, c: Tensor, i: Tensor) -> Any:
        s = f.sigmoid()
        return g * c * s * (1 - s), g * s, torch.zeros_like(i)

    third = max(4, size // 3)
    inputs = normal(rng, third), normal(rng, third), normal(rng, third)
    return Case(custom(forward, backward), inputs, (2,), (r"analytic is 0 .*lost",))


@bug
def fourier_not_scaled(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size // 2)

    def backward(g: Tensor, y: Tensor, z: Tensor) -> Any:
        return torch.fft.ifft(g)

    return Case(
        custom(torch.fft.fft, backward),
        (normal(rng, rows, columns, dtype=torch.complex128),),
        (0,),
        (r"1 / the size of axis 1|constant factor",),
    )


@bug
def complex_product_not_conjugated(size: int, rng: torch.Generator) -> Case:
    side = max(3, math.isqrt(size // 4))

    def backward(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        return g @ b.T, a.mH @ g

    inputs = normal(rng, side, side + 1, dtype=torch.complex128), normal(rng, side + 1, side, dtype=torch.complex128)
    return Case(custom(torch.matmul, backward), inputs, (0,), (r"conjugate",))


@bug
def cumulative_product_not_divided(size: int, rng: torch.Generator) -> Case:
    x = (torch.rand(*matrix(size), generator=rng, dtype=torch.float64) + 0.5).log().mul(0.1).exp().requires_grad_()

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return (g * y).flip(1).cumsum(1).flip(1)

    return Case(custom(lambda x: x.cumprod(1), backward), (x,), (0,), (r"`?x`? were a factor too many",))


@bug
def difference_without_its_end(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        dx = torch.zeros_like(x)
        dx[:, 1:] += g
        dx[:, 1:-1] -= g[:, 1:]
        return dx

    rows, columns = matrix(size)
    return Case(
        custom(lambda x: x.diff(dim=1), backward),
        (normal(rng, rows, columns),),
        (0,),
        (rf"wrong only at index 0 of {columns} \(the first\) along axis 1",),
    )


@bug
def nearest_upsampling(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g[::2]

    return Case(
        custom(lambda x: x.repeat_interleave(2, 0), backward),
        (normal(rng, max(6, size)),),
        (0,),
        (r"of several outputs that read one element, only one is counted", r"counts only"),
    )


@bug
def linear_interpolation_weights(size: int, rng: torch.Generator) -> Case:
    half = max(5, size // 2)
    t = torch.rand(half, generator=rng, dtype=torch.float64)

    def forward(a: Tensor, b: Tensor) -> Tensor:
        return a + t * (b - a)

    def backward(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        return g * t, g * (1 - t)

    inputs = normal(rng, half), normal(rng, half)
    return Case(custom(forward, backward), inputs, (0, 1), (r"are swapped",))


@bug
def permutation_not_inverted(size: int, rng: torch.Generator) -> Case:
    size = max(9, size)
    order = torch.randperm(size, generator=rng)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g[order] * 1.0

    return Case(
        custom(lambda x: x[order], backward), (normal(rng, size),), (0,), (r"analytic is the transpose of numeric",)
    )


@bug
def rotary_embedding_not_inverted(size: int, rng: torch.Generator) -> Case:
    rows = max(3, size // 8)
    angles = torch.rand(rows, 4, generator=rng, dtype=torch.float64) * 3

    def rotated(x: Tensor) -> Tensor:
        a, b = x[:, :4], x[:, 4:]
        return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], 1)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return rotated(g)

    causes = (r"analytic is the transpose of numeric",)
    return Case(custom(rotated, backward), (normal(rng, rows, 8),), (0,), causes)


@bug
def constant_matrix_not_transposed(size: int, rng: torch.Generator) -> Case:
    side = max(4, min(size, 700))
    weights = torch.randn(side, side, generator=rng, dtype=torch.float64) / side**0.5
    rows = max(1, size // side)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g @ weights.T

    causes = (r"analytic is the transpose of numeric",)
    return Case(custom(lambda x: x @ weights.T, backward), (normal(rng, rows, side),), (0,), causes)


@bug
def log_variance_without_half(size: int, rng: torch.Generator) -> Case:
    half = max(4, size // 2)
    eps = torch.randn(half, generator=rng, dtype=torch.float64)

    def backward(g: Tensor, y: Tensor, mu: Tensor, log_var: Tensor) -> Any:
        return g, g * eps * (0.5 * log_var).exp()

    inputs = normal(rng, half), normal(rng, half)
    return Case(
        custom(lambda mu, log_var: mu + eps * (0.5 * log_var).exp(), backward), inputs, (1,), (r"a factor 2 too many",)
    )


@bug
def temperature_forgotten(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return y * (g - (g * y).sum(1, keepdim=True))

    return Case(
        custom(lambda x: (x / 0.7).softmax(1), backward),
        (normal(rng, *matrix(size)),),
        (0,),
        (r"≈ 0\.7 × numeric: a constant factor",),
    )


@bug
def dropout_not_rescaled(size: int, rng: torch.Generator) -> Case:
    size = max(12, size)
    kept = torch.rand(size, generator=rng) > 0.5

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g * kept

    return Case(custom(lambda x: x * kept * 2, backward), (normal(rng, size),), (0,), (r"a factor 2 is missing",))


@bug
def bias_over_wrong_axis(size: int, rng: torch.Generator) -> Case:
    side = max(3, math.isqrt(size))

    def backward(g: Tensor, y: Tensor, x: Tensor, b: Tensor) -> Any:
        return g, g.sum(1)

    inputs = normal(rng, side, side), normal(rng, side)
    return Case(custom(lambda x, b: x + b, backward), inputs, (1,), (r"transposed \(axes 0 and 1 swapped\)",))


@bug
def deviation_over_n(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return (g / y)[:, None] * (x - x.mean(1, keepdim=True)) / columns

    return Case(
        custom(lambda x: x.std(1), backward),
        (normal(rng, rows, columns),),
        (0,),
        (rf"\(n - 1\)/n of the size of axis 1|a factor {columns - 1}/{columns}",),
    )


@bug
def huber_inside(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g * x.sign()

    # wrong where |x| < 1: what may be said is nothing, or that it is wrong among small outputs
    return Case(
        custom(lambda x: functional.huber_loss(x, torch.zeros_like(x), reduction="none"), backward),
        (normal(rng, max(16, size)),),
        (0,),
        (r"wrong only where the output is below a bound between 0\.[0-5]\d* and (0\.[5-9]\d*|1)",),
    )


@bug
def inverse_sign(size: int, rng: torch.Generator) -> Case:
    side = max(3, min(40, math.isqrt(size)))
    batch = max(1, size // side**2)
    x = (torch.randn(batch, side, side, generator=rng, dtype=torch.float64) / side + torch.eye(side)).requires_grad_()

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return y.mT @ g @ y.mT

    return Case(custom(torch.linalg.inv, backward), (x,), (0,), (r"sign is wrong",))


@bug
def batch_of_products_reversed(size: int, rng: torch.Generator) -> Case:
    side = max(2, round((size / 8) ** 0.5))

    def backward(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        return (g @ b.mT).flip(0), a.mT @ g

    inputs = normal(rng, 4, side, side + 1), normal(rng, 4, side + 1, side)
    return Case(custom(torch.matmul, backward), inputs, (0,), (r"flipped along axis 0",))
