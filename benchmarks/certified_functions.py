"""The functions of `certificate.py`: right derivatives of many kinds, each at a point that a seed draws.

A case draws a function and its inputs. Most functions are plain torch, so that their derivative is torch's own. Where
they round inside, the derivative is that of the function without the rounding, or an implicit one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from solvers import ConjugateGradients, FixedPoint, Root
from torch.nn import functional

Tensor = torch.Tensor
Function = Callable[..., Any]
Drawn = tuple[Function, tuple[Tensor, ...]]

CASES: dict[str, Case] = {}


@dataclass(frozen=True)
class Case:
    """A function by its name, of one kind; how a seed draws it with its inputs; options `given` to the check."""

    name: str
    kind: str
    draw: Callable[[Source], Drawn]
    given: dict[str, Any]

    def at(self, seed: int) -> Drawn:
        function, inputs = self.draw(Source(seed))
        return function, tuple(x.detach().requires_grad_() for x in inputs)


class Source:
    """Random numbers of one seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=self.generator).to(dtype)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
        numbers = torch.rand(*shape, dtype=torch.float64, generator=self.generator)
        return (low + (high - low) * numbers).to(dtype)

    def shuffled(self, values: Tensor) -> Tensor:
        return values[torch.randperm(len(values), generator=self.generator)]


def case(name: str, kind: str, draw: Callable[[Source], Drawn], **given: Any) -> None:
    assert name not in CASES, name
    CASES[name] = Case(name, kind, draw, given)


def of_normal(name: str, kind: str, function: Function, *shapes: Any, **options: Any) -> None:
    """A function of standard normal numbers; a shape is a tuple or a number of elements."""
    sizes = [(shape,) if isinstance(shape, int) else shape for shape in shapes]
    case(name, kind, lambda s: (function, tuple(s.normal(*size, **options) for size in sizes)))


def of_uniform(name: str, kind: str, function: Function, shape: Any, low: float, high: float, **options: Any) -> None:
    size = (shape,) if isinstance(shape, int) else shape
    case(name, kind, lambda s: (function, (s.uniform(*size, low=low, high=high, **options),)))


def powers(low: float, high: float, n: int) -> Tensor:
    return torch.logspace(low, high, n, dtype=torch.float64)


def through(dtype: torch.dtype, function: Function) -> Function:
    """The function computed in another precision, as an autograd graph of casts."""

    def cast(*inputs: Tensor) -> Any:
        return function(*(x.to(dtype) for x in inputs)).to(inputs[0].dtype)

    return cast


def only(dtype: torch.dtype, function: Function) -> Function:
    """The function as a kernel that knows one precision."""

    def kernel(*inputs: Tensor) -> Any:
        if any(x.dtype is not dtype for x in inputs):
            raise TypeError(f"this kernel knows {dtype} only")
        return function(*inputs)

    return kernel


def attention(q: Tensor, k: Tensor, v: Tensor, inside: torch.dtype | None = None) -> Tensor:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return torch.softmax(scores, -1, dtype=inside).to(v.dtype) @ v


def rms_norm(x: Tensor, weight: Tensor, inside: torch.dtype = torch.float32) -> Tensor:
    wide = x.to(inside)
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def straight_through(x: Tensor, step: float) -> Tensor:
    """Rounded to multiples of the step, with the slope behind the stairs."""
    return x + (torch.round(x / step) * step - x).detach()


def mlp(activation: Function) -> Function:
    def run(x: Tensor, *weights: Tensor) -> Tensor:
        for k in range(0, len(weights) - 2, 2):
            x = activation(functional.linear(x, weights[k], weights[k + 1]))
        return functional.linear(x, *weights[-2:])

    return run


def network(
    name: str, activation: Function, widths: tuple[int, ...], dtype: torch.dtype = torch.float64, kernel: bool = False
) -> None:
    """A multilayer perceptron on a batch of four; its weights are inputs."""

    def draw(s: Source) -> Drawn:
        inputs = [s.normal(4, widths[0], dtype=dtype)]
        for into, out in itertools.pairwise(widths):
            inputs += [(s.normal(out, into) / math.sqrt(into)).to(dtype), (0.1 * s.normal(out)).to(dtype)]
        function = mlp(activation)
        return (only(dtype, function) if kernel else function), tuple(inputs)

    case(name, "network", draw)


def convolutions(x: Tensor, first: Tensor, bias: Tensor, last: Tensor) -> Tensor:
    return functional.linear(
        functional.max_pool2d(functional.relu(functional.conv2d(x, first, bias)), 2).flatten(1), last
    )


def batch_normed(x: Tensor, weight: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return functional.relu(
        functional.batch_norm(functional.linear(x, weight), None, None, scale, shift, training=True)
    ).sum(1)


def transformer_layer(x: Tensor, mixed: Tensor, up: Tensor, down: Tensor) -> Tensor:
    width = x.shape[-1]
    x = x + attention(*(functional.layer_norm(x, (width,)) @ mixed).chunk(3, -1))
    return x + functional.gelu(functional.layer_norm(x, (width,)) @ up) @ down


def lstm_cell(x: Tensor, h: Tensor, c: Tensor, w: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = (x @ w + h @ u).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def half_zero(x: Tensor) -> Tensor:
    """Every other element exactly 0."""
    x = x.clone()
    x.view(-1)[::2] = 0
    return x


def plain() -> None:
    kind = "plain"
    of_normal("sin, 3", kind, torch.sin, 3)
    of_normal("sin, 300", kind, torch.sin, 300)
    of_normal("sin, 5000", kind, torch.sin, 5000)
    of_normal("matrix times matrix", kind, torch.matmul, (12, 20), (20, 9))
    of_normal("softmax", kind, lambda x: torch.softmax(x, -1), (10, 20))
    of_normal("logsumexp", kind, lambda x: torch.logsumexp(x, -1), (30, 30))
    of_normal("layer norm", kind, lambda x, w, b: functional.layer_norm(x, (16,), w, b), (8, 16), 16, 16)
    of_normal("convolution", kind, functional.conv2d, (2, 3, 8, 8), (4, 3, 3, 3), 4)
    of_normal("attention", kind, attention, (7, 8), (9, 8), (9, 5))
    of_normal("cumulative sum, 500", kind, lambda x: x.cumsum(0), 500)
    of_normal("pairwise distances", kind, torch.cdist, (12, 4), (9, 4))
    of_normal("real Fourier transform", kind, lambda x: torch.view_as_real(torch.fft.rfft(x)), 64)
    of_normal("three outputs", kind, lambda x, y: (x.sin() * y, y.exp().sum(), x @ y), 40, 40)
    of_normal(
        "cross-entropy", kind, lambda x: functional.cross_entropy(x, torch.arange(20) % 7, reduction="none"), (20, 7)
    )
    case("inverse", kind, lambda s: (torch.linalg.inv, (s.normal(6, 6) + 4 * torch.eye(6, dtype=torch.float64),)))
    case("log determinant", kind, lambda s: (torch.logdet, ((a := s.normal(8, 8)) @ a.T + torch.eye(8),)))
    case("eigenvalues", kind, lambda s: (lambda x: torch.linalg.eigvalsh(x + x.T), (s.normal(8, 8),)))
    case("matrix times vector", kind, lambda s: (s.normal(40, 60).mv, (s.normal(60),)))


def offsets() -> None:
    kind = "offset"
    of_normal("sin + 1e3", kind, lambda x: x.sin() + 1e3, 100)
    of_normal("sin + 1e6, 1000", kind, lambda x: x.sin() + 1e6, 1000)
    of_normal("square + 1e9", kind, lambda x: x**2 + 1e9, 50)
    of_normal("sum of squares + 1e6", kind, lambda x: (x**2).sum() + 1e6, 300)
    of_normal("sin and cos + 1e8", kind, lambda x: (x.sin(), x.cos() + 1e8), 80)
    of_normal("1 + 1e-9 exp", kind, lambda x: 1 + 1e-9 * x.exp(), 60)
    case("sin near 1e4", kind, lambda s: (lambda x: (x - 1e4).sin(), (1e4 + s.normal(200),)))
    of_normal("float32 sin + 100", kind, lambda x: x.sin() + 100, 100, dtype=torch.float32)


def scales() -> None:
    kind = "scales"
    of_normal("slopes 1e-9 to 1", kind, lambda x: x * powers(-9, 0, 100), 100)
    case("log of 1e-6 to 1e6", kind, lambda s: (torch.log, (s.shuffled(powers(-6, 6, 200)),)))
    of_normal("outputs 1e9 apart", kind, lambda x: (1e9 * x.sin(), x.cos()), 50)
    of_normal("weak beside large, summed", kind, lambda x, w: 1e6 * (x**2).sum() + w.sin().sum(), 50, 5)
    of_normal("weak beside large, each", kind, lambda x, w: 1e6 * x.sin() + w, 80, 80)
    of_normal("exp(5x), 2049", kind, lambda x: (5 * x).exp(), 2049)
    of_normal("reciprocal, 2000", kind, torch.reciprocal, 2000)
    of_uniform("log, 5000", kind, torch.log, 5000, 1e-4, 2.0)
    of_uniform("sqrt, 1000", kind, torch.sqrt, 1000, 1e-6, 1.0)
    case(
        "rows 1e-6 to 1e3",
        kind,
        lambda s: ((powers(-6, 3, 40)[:, None] * s.normal(40, 30)).mv, (s.normal(30),)),
    )
    of_normal("sharp softmax", kind, lambda x: torch.softmax(20 * x, -1), (8, 12))
    of_normal("cumulative product", kind, lambda x: x.cumprod(0), 30)
    of_normal("1e-20 sin", kind, lambda x: 1e-20 * x.sin(), 40)
    of_normal("1e20 sin", kind, lambda x: 1e20 * x.sin(), 40)
    case("inputs 1e-8 and 1", kind, lambda s: (lambda x, y: (x * 1e8).sin() * y, (1e-8 * s.normal(60), s.normal(60))))


def noise() -> None:
    kind = "noise inside"
    single, brain = torch.float32, torch.bfloat16
    of_normal("float32 inside, sin, 100", kind, through(single, torch.sin), 100)
    of_normal("float32 inside, sin, 2000", kind, through(single, torch.sin), 2000)
    of_normal("bfloat16 inside, sin, 50", kind, through(brain, torch.sin), 50)
    of_normal("float16 inside, gelu, 100", kind, through(torch.float16, functional.gelu), 100)
    of_normal("float32 inside, RMS norm", kind, rms_norm, (6, 32), 32)
    of_normal("float32 softmax in attention", kind, lambda *qkv: attention(*qkv, inside=single), (7, 8), (9, 8), (9, 5))
    of_normal("float32 inside, product", kind, through(single, torch.matmul), (10, 16), (16, 8))
    of_normal("bfloat16 inside, product", kind, through(brain, torch.matmul), (10, 16), (16, 8))
    of_normal("bfloat16 RMS norm, float32 inside", kind, rms_norm, (6, 32), 32, dtype=brain)
    of_normal("rounded to 1e-6, straight through", kind, lambda x: straight_through(x.sin(), 1e-6), 100)
    of_normal("rounded to 1e-4, straight through", kind, lambda x: straight_through(x.sin(), 1e-4), 1000)
    of_uniform("root by bisection to 1e-7", kind, lambda x: Root.apply(x, 1e-7), 12, 0.5, 2.0)

    def fixed_point(s: Source) -> Drawn:
        return lambda x, w: FixedPoint.apply(x, w, 1e-8), (s.normal(12), 0.1 * s.normal(12, 12))

    def gradients(s: Source) -> Drawn:
        a = s.normal(12, 12)
        return lambda m, b: ConjugateGradients.apply((m + m.T) / 2, b, 1e-7), (
            a @ a.T / 12 + torch.eye(12),
            s.normal(12),
        )

    # What these leave out is smooth where the number of steps stays the same, so their authors give tolerances.
    case("fixed point to 1e-8", kind, fixed_point, rtol=1e-4, atol=1e-6)
    case("conjugate gradients to 1e-7", kind, gradients, rtol=1e-4, atol=1e-5)


def low() -> None:
    single, brain, half = torch.float32, torch.bfloat16, torch.float16
    for dtype, kind in ((single, "float32"), (brain, "bfloat16"), (half, "float16")):
        of_normal(f"{kind} sin, 3", kind, torch.sin, 3, dtype=dtype)
        of_normal(f"{kind} sin, 1000", kind, torch.sin, 1000, dtype=dtype)
        of_normal(f"{kind} softmax", kind, lambda x: torch.softmax(x, -1), (6, 10), dtype=dtype)
        of_normal(f"{kind} product", kind, torch.matmul, (10, 16), (16, 8), dtype=dtype)
        of_normal(
            f"{kind} layer norm",
            kind,
            lambda x, w, b: functional.layer_norm(x, (16,), w, b),
            (8, 16),
            16,
            16,
            dtype=dtype,
        )
        of_normal(f"{kind} only, sin, 60", kind, only(dtype, torch.sin), 60, dtype=dtype)
    of_normal("bfloat16 sin, 4096", "bfloat16", torch.sin, 4096, dtype=brain)
    of_normal("bfloat16 product, 2400 inputs", "bfloat16", torch.matmul, (20, 40), (40, 40), dtype=brain)
    of_normal("float16 gelu, 3000", "float16", functional.gelu, 3000, dtype=half)
    of_normal("float32 exp, 2000", "float32", torch.exp, 2000, dtype=single)
    of_normal("float32 only, sin, 1000", "float32", only(single, torch.sin), 1000, dtype=single)
    of_normal("float32 only, product", "float32", only(single, torch.matmul), (10, 16), (16, 8), dtype=single)
    of_normal("bfloat16 sum of squares", "bfloat16", lambda x: (x * x).sum(), 200, dtype=brain)


def kinks() -> None:
    kind = "kinks"
    of_normal("relu, 100", kind, torch.relu, 100)
    of_normal("relu, 5000", kind, torch.relu, 5000)
    of_normal("relu summed, 2000", kind, lambda x: x.relu().sum(), 2000)
    of_normal("abs, 1000", kind, torch.abs, 1000)
    of_normal("clamp, 5000", kind, lambda x: x.clamp(-1, 1), 5000)
    of_normal("max pool", kind, lambda x: functional.max_pool2d(x, 2), (2, 3, 8, 8))
    of_normal("sort, 500", kind, lambda x: x.sort().values, 500)
    of_normal("median of rows", kind, lambda x: x.median(-1).values, (20, 9))
    of_normal("leaky relu of a product", kind, lambda x, w: functional.leaky_relu(x @ w), (12, 20), (20, 9))
    of_normal("smooth L1", kind, lambda x, y: functional.smooth_l1_loss(x, y), 80, 80)
    of_normal("convolution, relu, convolution", kind, convolve_twice, (1, 2, 8, 8), (3, 2, 3, 3), (2, 3, 3, 3))
    of_normal("float32 relu, 500", kind, torch.relu, 500, dtype=torch.float32)
    of_normal("bfloat16 relu, 200", kind, torch.relu, 200, dtype=torch.bfloat16)
    case("relu, half of 200 at 0", kind, lambda s: (torch.relu, (half_zero(s.normal(200)),)))
    case("abs summed, half of 600 at 0", kind, lambda s: (lambda x: x.abs().sum(), (half_zero(s.normal(600)),)))
    case("amax with ties", kind, lambda s: (lambda x: x.amax(-1), (s.uniform(20, 6, high=3).floor(),)))
    case(
        "max pool with ties",
        kind,
        lambda s: (lambda x: functional.max_pool2d(x, 2), (s.uniform(1, 2, 8, 8, high=3).floor(),)),
    )
    case("maximum with ties", kind, lambda s: (torch.maximum, ((x := s.normal(60)), x + half_zero(s.normal(60)))))


def sawteeth() -> None:
    kind = "sawteeth"
    of_normal("remainder of 0.001, 30", kind, lambda x: x % 1e-3, 30)
    of_normal("rounding error to 0.001, 20", kind, lambda x: x - (x * 1e3).round().detach() / 1e3, 20)
    of_normal("sin + remainder, summed", kind, lambda x: (x.sin() + 0.3 * (x % 1e-3)).sum(), 30)
    of_normal("remainders among sines", kind, lambda x: torch.where(torch.arange(40) % 2 == 0, x % 1e-3, x.sin()), 40)
    of_normal("square + remainder, 1", kind, lambda x: x**2 + 2e-3 * x * torch.floor(x / 9e-4) * 9e-4, 1)


def convolve_twice(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return functional.conv2d(functional.conv2d(x, first).relu(), second)


def tolerances() -> None:
    kind, given = "tolerances given", {"rtol": 1e-3, "atol": 1e-5}
    case("sin, 300, torch's tolerances", kind, lambda s: (torch.sin, (s.normal(300),)), **given)
    case("sin, 300, atol alone", kind, lambda s: (torch.sin, (s.normal(300),)), rtol=0.0, atol=1e-6)
    case("log, 2000, torch's tolerances", kind, lambda s: (torch.log, (s.uniform(2000, low=1e-3),)), **given)
    case(
        "product, torch's tolerances",
        kind,
        lambda s: (torch.matmul, (s.normal(12, 20), 1e3 * s.normal(20, 9))),
        **given,
    )
    case("relu, 1000, torch's tolerances", kind, lambda s: (torch.relu, (s.normal(1000),)), **given)


def networks() -> None:
    single = torch.float32
    network("tanh network, 8-16-4", torch.tanh, (8, 16, 4))
    network("relu network, 8-16-4", torch.relu, (8, 16, 4))
    network("leaky relu network, 20-40-40-5", functional.leaky_relu, (20, 40, 40, 5))
    network("float32 relu network, 8-16-4", torch.relu, (8, 16, 4), dtype=single)
    network("float32 gelu network, 20-40-5", functional.gelu, (20, 40, 5), dtype=single)
    network("float32 only, tanh network, 8-16-4", torch.tanh, (8, 16, 4), dtype=single, kernel=True)
    network("bfloat16 tanh network, 8-16-4", torch.tanh, (8, 16, 4), dtype=torch.bfloat16)
    shapes = (2, 1, 10, 10), (3, 1, 3, 3), 3, (5, 48)
    of_normal("convolution, relu, max pool, linear", "network", convolutions, *shapes)
    of_normal("float32 convolution, relu, max pool, linear", "network", convolutions, *shapes, dtype=single)
    of_normal("linear, batch norm, relu", "network", batch_normed, (10, 6), (12, 6), 12, 12)
    of_normal("LSTM cell", "network", lstm_cell, (3, 5), (3, 6), (3, 6), (5, 24), (6, 24))
    of_normal("transformer layer", "network", transformer_layer, (6, 8), (8, 24), (8, 16), (16, 8))
    of_normal(
        "float32 transformer layer", "network", transformer_layer, (6, 8), (8, 24), (8, 16), (16, 8), dtype=single
    )


for _fill in (plain, offsets, scales, noise, low, kinks, sawteeth, tolerances, networks):
    _fill()
