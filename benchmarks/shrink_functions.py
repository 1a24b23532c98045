"""Functions of 10^3 to 10^5 elements with one mistake in their derivative each, for benchmarks/shrink.py.

Each is a mistake that authors make; `CASES` has the functions with their inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import Function

Case = tuple[Callable[..., Any], tuple[Any, ...]]


class LinearMeanBias(Function):
    """The gradient of the bias is a mean in place of a sum."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any) -> Any:
        ctx.save_for_backward(x, weight)
        return x @ weight.t() + bias

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.mean(0)


class LayerNormTerm(Function):
    """The term x * mean(g * x) is forgotten."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any) -> Any:
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        ctx.save_for_backward(centred * scale, scale, weight)
        return centred * scale * weight + bias

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        normal, scale, weight = ctx.saved_tensors
        inner = g * weight
        return (inner - inner.mean(-1, keepdim=True)) * scale, (g * normal).sum(0), g.sum(0)


class SoftmaxSaved(Function):
    """The input is saved where the output is meant."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.softmax(-1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True))


BLOCK = 64


class TailTile(Function):
    """Rows behind the last full block get no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: Any) -> Any:
        ctx.save_for_backward(x, scale)
        return x.tanh() * scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, scale = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        full = len(x) // BLOCK * BLOCK
        gradient[:full] = (g * scale * (1 - x.tanh().square()))[:full]
        return gradient, (g * x.tanh()).sum(0)


class GeluTerm(Function):
    """The derivative of the density is forgotten."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


class PlaneScale(Function):
    """The width is used for the height."""

    @staticmethod
    def forward(ctx: Any, plane: Any, shift: Any) -> Any:
        ctx.shape = plane.shape
        ctx.save_for_backward(plane)
        return plane * (1 + shift * plane.shape[0])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (plane,) = ctx.saved_tensors
        return None, (g * plane).sum() * ctx.shape[1]


def plane_scale(plane: Any, shift: Any) -> Any:
    return PlaneScale.apply(plane, shift)


class GatherOnce(Function):
    """Duplicates are lost: rows are put in place of added."""

    @staticmethod
    def forward(ctx: Any, table: Any, index: Any) -> Any:
        ctx.save_for_backward(index)
        ctx.rows = len(table)
        return table[index]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (index,) = ctx.saved_tensors
        gradient = g.new_zeros(ctx.rows, *g.shape[1:])
        gradient[index] = g
        return gradient, None


class WrongAxis(Function):
    """The sum runs over the wrong axis of a square."""

    @staticmethod
    def forward(ctx: Any, x: Any, bias: Any) -> Any:
        return x + bias

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, g.sum(1)


class CumsumForward(Function):
    """The sum of the gradient is not reversed."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.cumsum(-1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.cumsum(-1)


class ConvUnflipped(Function):
    """The kernel is not flipped in the gradient of the signal."""

    @staticmethod
    def forward(ctx: Any, signal: Any, kernel: Any) -> Any:
        ctx.save_for_backward(kernel)
        return torch.nn.functional.conv1d(signal[None, None], kernel[None, None], padding=len(kernel) // 2)[0, 0]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (kernel,) = ctx.saved_tensors
        return torch.nn.functional.conv1d(g[None, None], kernel[None, None], padding=len(kernel) // 2)[0, 0], None


def conv_unflipped(signal: Any, kernel: Any) -> Any:
    return ConvUnflipped.apply(signal, kernel)


class MatmulUntransposed(Function):
    """A transposition is forgotten, which squares do not refuse."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g @ b, a.t() @ g


class SquareHalf(Function):
    """The factor 2 is forgotten."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x


class VarianceCount(Function):
    """n in place of n - 1."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.var(-1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * g[..., None] * (x - x.mean(-1, keepdim=True)) / x.shape[-1]


class LogSumExpUnscaled(Function):
    """The gradient is not multiplied by the incoming one."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return 3 * x.logsumexp(-1).sum()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return x.softmax(-1)


class RmsNormTerm(Function):
    """The norm is taken for a constant."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        scale = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        ctx.save_for_backward(x, weight, scale)
        return x * scale * weight

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, scale = ctx.saved_tensors
        return g * weight * scale, (g * x * scale).sum(0)


class ComplexProduct(Function):
    """The factor is not conjugated."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * b, g * a.conj()


class Swapped(Function):
    """The gradients of two inputs are swapped."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return a * b.square()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return 2 * g * a * b, g * b.square()


class RolledTooFar(Function):
    """The gradient is shifted by one too many."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.roll(3, 0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.roll(-4, 0)


class SiluTerm(Function):
    """The second term is forgotten, in float32."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x.sigmoid()


class SegmentFirst(Function):
    """Only the first element of each segment gets a gradient; the number of segments is an argument."""

    @staticmethod
    def forward(ctx: Any, x: Any, segment: Any, count: int) -> Any:
        ctx.save_for_backward(segment)
        ctx.shape = x.shape
        return x.new_zeros(count, x.shape[1]).index_add(0, segment, x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (segment,) = ctx.saved_tensors
        first = torch.ones_like(segment, dtype=torch.bool)
        first[1:] = segment[1:] != segment[:-1]
        return g[segment] * first[:, None], None, None


class GluHalves(Function):
    """The gradients of the halves are in the wrong order."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: Any) -> Any:
        ctx.save_for_backward(x, scale)
        value, gate = x.chunk(2, -1)
        return value * gate.sigmoid() * scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, scale = ctx.saved_tensors
        value, gate = x.chunk(2, -1)
        gated = gate.sigmoid()
        to_value, to_gate = g * scale * gated, g * scale * value * gated * (1 - gated)
        return torch.cat([to_gate, to_value], -1), (g * value * gated).sum(0)


class TangentFactor(Function):
    """The jvp has a factor that the function has not."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x.cos()

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * tangent * x.cos()


def half_detached(x: Any, y: Any) -> Any:
    return (x * y.detach()).sum(-1) + y.sum(-1)


def _numbers(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()


def _indices(count: int, below: int) -> torch.Tensor:
    return torch.randint(below, (count,), generator=torch.Generator().manual_seed(count))


CASES: dict[str, Callable[[], Case]] = {
    "bias: mean for sum": lambda: (LinearMeanBias.apply, (_numbers(64, 100), _numbers(80, 100), _numbers(80))),
    "layer norm: a term": lambda: (LayerNormTerm.apply, (_numbers(64, 512), _numbers(512), _numbers(512))),
    "softmax: saved input": lambda: (SoftmaxSaved.apply, (_numbers(100, 100),)),
    "tail tile": lambda: (TailTile.apply, (_numbers(130, 40), _numbers(40))),
    "gelu: a term": lambda: (GeluTerm.apply, (_numbers(100, 1000),)),
    "height and width": lambda: (plane_scale, (_numbers(30, 40).detach(), _numbers())),
    "gather: duplicates": lambda: (GatherOnce.apply, (_numbers(200, 30), _indices(300, 200))),
    "wrong axis": lambda: (WrongAxis.apply, (_numbers(100, 100), _numbers(100))),
    "cumsum not reversed": lambda: (CumsumForward.apply, (_numbers(20, 100),)),
    "kernel not flipped": lambda: (conv_unflipped, (_numbers(5000), _numbers(5).detach())),
    "not transposed": lambda: (MatmulUntransposed.apply, (_numbers(50, 50), _numbers(50, 50))),
    "factor 2": lambda: (SquareHalf.apply, (_numbers(316, 317),)),
    "variance: n for n - 1": lambda: (VarianceCount.apply, (_numbers(30, 50),)),
    "not times the incoming": lambda: (LogSumExpUnscaled.apply, (_numbers(50, 60),)),
    "rms norm: a term": lambda: (RmsNormTerm.apply, (_numbers(32, 256), _numbers(256))),
    "not conjugated": lambda: (
        ComplexProduct.apply,
        (_numbers(40, 30, dtype=torch.complex128), _numbers(40, 30, dtype=torch.complex128)),
    ),
    "swapped gradients": lambda: (Swapped.apply, (_numbers(60, 70), _numbers(60, 70))),
    "shifted by one": lambda: (RolledTooFar.apply, (_numbers(2000),)),
    "silu: a term, float32": lambda: (SiluTerm.apply, (_numbers(50, 64, dtype=torch.float32),)),
    "first of a segment": lambda: (SegmentFirst.apply, (_numbers(400, 8), _indices(400, 60).sort().values, 60)),
    "glu: halves": lambda: (GluHalves.apply, (_numbers(50, 128), _numbers(64))),
    "jvp: a factor": lambda: (TangentFactor.apply, (_numbers(40, 50),)),
    "detached": lambda: (half_detached, (_numbers(100, 30), _numbers(100, 30))),
}
