"""A right custom Function, and wrong ones: each is right in eager mode and wrong in one way of running it."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from torch.autograd import Function


class Product(Function):
    """x sin(w): right in every way."""

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x * w.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        return grad * w.sin(), grad * x * w.cos()

    @staticmethod
    def jvp(ctx: Any, dx: Any, dw: Any) -> Any:
        x, w = ctx.saved_tensors
        return dx * w.sin() + x * w.cos() * dw

    @classmethod
    def vmap(cls, info: Any, in_dims: Any, x: Any, w: Any) -> Any:
        first = [t if dim is None else t.movedim(dim, 0) for t, dim in zip((x, w), in_dims, strict=True)]
        return cls.apply(*first), 0


class WrongVmap(Product):
    """Its vmap rule takes the batch of w to be along the first axis, wherever it is."""

    @classmethod
    def vmap(cls, info: Any, in_dims: Any, x: Any, w: Any) -> Any:
        if in_dims[0] is None:  # only w is batched: the first sample's is used for all
            return cls.apply(x.expand(info.batch_size, *x.shape), w.movedim(in_dims[1], 0)[:1].expand_as(w)), 0
        return super().vmap(info, in_dims, x, w)


class OldStyle(Function):
    """forward with ctx: torch.func needs setup_context."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * w.sin()

    backward = Product.backward


class WrongTwice(Product):
    """Its backward detaches what it saved: the second derivative lacks a term."""

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        return grad * w.detach().sin(), grad * x * w.cos()


class WrongForWeightAlone(Product):
    """The branch for a frozen x forgets a factor."""

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        if not ctx.needs_input_grad[0]:
            return None, grad * w.cos()
        return grad * w.sin(), grad * x * w.cos()


class WrongBesideFrozen(Function):
    """x w + b: with b frozen, the gradients of x and w change places."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, b: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * w + b

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        gradients = [grad * w, grad * x, grad]
        if not ctx.needs_input_grad[2]:
            gradients = [grad * x, grad * w, None]
        return tuple(gradients)


class WrongDtypeUnderAutocast(Product):
    """It takes the precision of autocast for float16."""

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        y = x * w.sin()
        return y.half() if torch.is_autocast_enabled("cpu") else y


class LossyUnderAutocast(Function):
    """Under autocast it saves what the backward needs in eight bits."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        small = torch.is_autocast_enabled("cpu")
        ctx.save_for_backward((x * 4).to(torch.int8).to(x.dtype) / 4 if small else x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * grad * x


class WrongCompiled(Function):
    """Its backward has a branch for the compiler, which forgets a factor."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x if torch.compiler.is_compiling() else 2 * grad * x


class WrongJvp(Product):
    """Its jvp forgets the second term, at the last element only."""

    @staticmethod
    def jvp(ctx: Any, dx: Any, dw: Any) -> Any:
        x, w = ctx.saved_tensors
        kept = torch.ones_like(x)
        kept[..., -1] = 0
        return dx * w.sin() + kept * x * w.cos() * dw


def draws_elsewhere(x: Any, w: Any) -> Any:
    """Its mask comes from Python's generator, which checkpointing does not put back: it recomputes another one."""
    mask = torch.tensor([random.random() for _ in range(x.numel())], dtype=x.dtype).reshape(x.shape)
    return (x * mask) * w.sin()


_seen: list[Any] = [torch.zeros(1)]


@torch.compiler.assume_constant_result
def _steps() -> int:
    return math.ceil(100 * float(_seen[0].max()))


def stale(x: Any) -> Any:
    """Compiled, it goes on adding the number of steps of an earlier call; a constant wherever it is differentiable."""
    _seen[0] = x.detach()
    return x * x + _steps()


@torch.library.custom_op("gradproof_regimes::scale_rows", mutates_args=())
def scale_rows(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@scale_rows.register_fake
def _(x: Any, factor: float) -> Any:
    return torch.empty_like(x)


scale_rows.register_autograd(
    lambda ctx, grad: (grad * ctx.factor, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
)


@torch.library.custom_op("gradproof_regimes::row_sums", mutates_args=())
def row_sums(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1)


@row_sums.register_fake
def _(x: Any) -> Any:
    return x.new_empty(x.shape[0], 1)  # a row too many: the operator drops the axis


row_sums.register_autograd(
    lambda ctx, grad: grad.reshape(-1, 1).expand(ctx.shape),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "shape", inputs[0].shape),
)


@torch.library.custom_op("gradproof_regimes::double_", mutates_args=())
def double_(x: torch.Tensor) -> torch.Tensor:
    """It says that it writes to nothing, and doubles its input."""
    x.mul_(2)
    return x.new_zeros(1)


@double_.register_fake
def _(x: Any) -> Any:
    return x.new_empty(1)


def hidden_write(x: Any) -> Any:
    """Compiled, the operator whose result nobody uses is left out, and what it writes with it."""
    scale = torch.full_like(x, 1.5)
    double_(scale)
    return x * scale
