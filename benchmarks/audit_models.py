"""Twelve small models of different families, each with one operation written by hand that can be spoiled in five ways.

Used by `benchmarks/audit.py` and by the tests. Every model has one `Hand` layer, whose `Fused` is an autograd.Function
of an activation and a weight that is broadcast over it; some call it several times:

- `factor`: the gradient of the activation is 5 % too large,
- `broadcast`: the gradient of the weight is that of the first row instead of the sum over all,
- `stale`: the activation is kept on `ctx` itself, past torch's version counter, and overwritten after the call,
- `detached`: a branch beside the operation is detached,
- `last`: the gradient of the activation is zero at the last index.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

Tensor = torch.Tensor
BUGS = ("factor", "broadcast", "stale", "detached", "last")


class Fused(torch.autograd.Function):
    """y = formula(x, weight), with its derivative; some of which is spoiled afterwards."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, formula: Callable[..., Tensor], bug: str) -> Tensor:
        ctx.formula, ctx.bug = formula, bug
        if bug == "stale":
            ctx.x, ctx.weight = x, weight
        else:
            ctx.save_for_backward(x, weight)
        return formula(x.detach(), weight.detach())

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        x, weight = (ctx.x, ctx.weight) if ctx.bug == "stale" else ctx.saved_tensors
        with torch.enable_grad():
            rows = weight.detach().expand(x.shape[0], *weight.shape).clone().requires_grad_()
            x = x.detach().requires_grad_()
            spread = rows.reshape(rows.shape[0], *(1,) * (x.dim() - rows.dim()), *weight.shape)
            y = ctx.formula(x, spread)
        of_x, of_rows = torch.autograd.grad(y, (x, rows), cotangents[0])
        if ctx.bug == "factor":
            of_x = 1.05 * of_x
        elif ctx.bug == "last":
            of_x = of_x.clone()
            of_x[..., -1] = 0
        return of_x, of_rows[0] if ctx.bug == "broadcast" else of_rows.sum(0), None, None


class Decoy(torch.autograd.Function):
    """Another operation written by hand, beside the one that may be spoiled: it is right."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Tensor:
        return 2 * cotangents[0]


fused = Fused.apply  # as users do: bound when the module is imported


class Hand(nn.Module):
    """The layer written by hand."""

    def __init__(self, shape: tuple[int, ...], formula: Callable[..., Tensor], bug: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.5 + torch.rand(shape))
        self.formula, self.bug = formula, bug

    def forward(self, x: Tensor) -> Tensor:
        if self.bug in TRAPS:
            return TRAPS[self.bug].formula(x)
        if self.bug == "stale":
            buffer = x * 1.0
            y = fused(buffer, self.weight, self.formula, self.bug)
            with torch.no_grad():
                buffer.mul_(0.5)  # the next user of the buffer
            return Decoy.apply(y)
        y = fused(x, self.weight, self.formula, self.bug)
        branch = 0.3 * x * x
        return Decoy.apply(y) + (branch.detach() if self.bug == "detached" else branch)


class Trap(NamedTuple):
    """A value or a gradient that is no number: by which operation, in which phase, and where."""

    formula: Callable[[Tensor], Tensor]
    operation: str
    phase: str = "FORWARD"
    element: Callable[[tuple[int, ...]], tuple[int, ...]] = lambda shape: tuple(n - 1 for n in shape)
    reason: str = ""


def at_the_end(x: Tensor, value: float) -> Tensor:
    """The same with another number in the last element."""
    where = torch.zeros(x.shape, dtype=x.dtype)
    where.view(-1)[-1] = 1
    return x * (1 - where) + value * where


class Inverse(torch.autograd.Function):
    """1 / (x + 1), by hand; its backward divides by x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return 1 / (x + 1)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return -cotangents[0] * x / (x * (x + 1) ** 2)


def masked_row(x: Tensor) -> Tensor:
    mask = torch.zeros(x.shape, dtype=torch.bool)
    mask[-1] = True
    return torch.softmax(x.masked_fill(mask, -math.inf), -1)


def half_square(x: Tensor) -> Tensor:
    return at_the_end(x, 300.0).half().square().to(x.dtype)


def root_or_zero(x: Tensor) -> Tensor:
    z = at_the_end(x.abs() + 0.1, 0.0)
    return torch.where(z > 0, z.sqrt(), torch.zeros_like(z))


def log_or_zero(x: Tensor) -> Tensor:
    z = at_the_end(x.abs() + 0.1, 0.0)
    return torch.where(z > 0, z.log(), torch.zeros_like(z))


def unit_rows(x: Tensor) -> Tensor:
    rows = torch.cat([x[:-1], torch.zeros_like(x[-1:]) * x[-1:]])
    return rows / (rows.square().sum(-1, keepdim=True).sqrt() + 1e-3)


def first_of_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0] - 1, *(0 for _ in shape[1:]))


def start(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(0 for _ in shape)


TRAPS: dict[str, Trap] = {
    "log of zero": Trap(lambda x: at_the_end(x.abs() + 0.1, 0.0).log(), "log", reason="logarithm of zero"),
    "division by zero": Trap(lambda x: x / at_the_end(x, 0.0), "div", reason="division by zero"),
    "root below zero": Trap(lambda x: at_the_end(x.abs(), -1e-6).sqrt(), "sqrt", reason="root of a negative number"),
    "masked row": Trap(masked_row, "softmax", element=first_of_last, reason="masked row"),
    "exponential": Trap(lambda x: at_the_end(x, 1e4).exp(), "exp", reason="overflow of an exponential"),
    "half": Trap(half_square, "square", reason="overflow in half"),
    "power below zero": Trap(lambda x: at_the_end(x.abs(), -0.5) ** 0.5, "pow", reason="power of a negative number"),
    "arc cosine": Trap(lambda x: at_the_end(x.tanh(), 1.001).acos(), "acos", reason="outside of the domain"),
    "deviation of one": Trap(lambda x: x + x[:1].std(0), "std", element=start, reason="spread of one"),
    "infinity minus infinity": Trap(
        lambda x: at_the_end(x, 1e4).exp() - at_the_end(x, 1e4).exp(), "exp", reason="overflow of an exponential"
    ),
    "root in where": Trap(root_or_zero, "sqrt", "BACKWARD", reason="branch not taken"),
    "log in where": Trap(log_or_zero, "log", "BACKWARD", reason="branch not taken"),
    "root at zero": Trap(
        lambda x: at_the_end(x.abs() + 0.1, 0.0).sqrt(), "sqrt", "BACKWARD", reason="infinite derivative of a root"
    ),
    "arc cosine at one": Trap(
        lambda x: at_the_end(x.tanh(), -1.0).acos(),
        "acos",
        "BACKWARD",
        reason="infinite derivative at the end of the domain",
    ),
    "length of nothing": Trap(
        unit_rows, "sqrt", "BACKWARD", lambda s: (s[0] - 1, *(0 for _ in s[1:])), reason="branch not taken"
    ),
    "function by hand": Trap(lambda x: Inverse.apply(at_the_end(x, 0.0)), "Inverse", "BACKWARD"),
}
"""Origins of values that are no numbers, to be planted in place of the operation written by hand."""


class Residual(nn.Module):
    """x + inner(x)."""

    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.inner(x))


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-3) * weight


def mlp(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    hand = Hand((8,), lambda x, w: functional.gelu(x * w), bug)
    return nn.Sequential(nn.Linear(6, 8), hand, nn.Linear(8, 4)), (torch.randn(5, 6),)


def cnn(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    hand = Hand((4, 1, 1), lambda x, w: functional.silu(x * w), bug)
    layers = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), hand, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    return nn.Sequential(*layers), (torch.randn(3, 2, 6, 6),)


def resnet(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    hand = Hand((4, 1, 1), lambda x, w: x * torch.sigmoid(w * x), bug)
    block = Residual(nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), hand, nn.Conv2d(4, 4, 3, padding=1))
    return nn.Sequential(nn.Conv2d(2, 4, 1), block, nn.AdaptiveAvgPool2d(1), nn.Flatten()), (torch.randn(3, 2, 5, 5),)


class Encoder(nn.Module):
    def __init__(self, bug: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu") for _ in range(2)
        )
        self.norm = Hand((8,), rms_norm, bug)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(self.norm(x))
        return x


def encoder(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Encoder(bug), (torch.randn(2, 5, 8),)


class Decoder(nn.Module):
    def __init__(self, bug: str) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True, dropout=0.1)
        self.scale = Hand((8,), lambda x, w: x * torch.tanh(w), bug)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        mask = torch.full((x.shape[1],) * 2, -math.inf, dtype=x.dtype).triu(1)
        return self.layer(self.scale(x), memory, tgt_mask=mask)


def decoder(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Decoder(bug), (torch.randn(2, 4, 8), torch.randn(2, 5, 8))


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module], formula: Callable[..., Tensor], bug: str) -> None:
        super().__init__()
        self.cell, self.gate, self.head = kind(4, 6, batch_first=True), Hand((6,), formula, bug), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden, _ = self.cell(x)
        return self.head(self.gate(hidden)).mean(1)


def lstm(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Recurrent(nn.LSTM, lambda x, w: torch.sigmoid(x + w) * x, bug), (torch.randn(3, 5, 4),)


def gru(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Recurrent(nn.GRU, lambda x, w: torch.tanh(w * x), bug), (torch.randn(3, 5, 4),)


class Messages(nn.Module):
    """Two rounds of messages along the edges of a graph."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.message, self.update = Hand((5,), lambda x, w: functional.softplus(x * w), bug), nn.Linear(5, 5)

    def forward(self, nodes: Tensor, source: Tensor, target: Tensor) -> Tensor:
        for _ in range(2):
            messages = self.message(nodes[source])
            gathered = torch.zeros_like(nodes).index_add(0, target, messages)
            nodes = torch.tanh(self.update(nodes + gathered))
        return nodes.sum()


def graph(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    source, target = torch.randint(0, 6, (2, 11))
    return Messages(bug), (torch.randn(6, 5), source, target)


class Flow(nn.Module):
    """Affine couplings, and the negative log likelihood."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6)) for _ in range(3))
        self.scale = Hand((3,), lambda x, w: torch.tanh(x) * w, bug)

    def forward(self, x: Tensor) -> Tensor:
        likelihood = x.new_zeros(len(x))
        for net in self.nets:
            a, b = x.chunk(2, -1)
            log_scale, shift = net(a).chunk(2, -1)
            log_scale = self.scale(log_scale)
            x = torch.cat([b * log_scale.exp() + shift, a], -1)
            likelihood = likelihood + log_scale.sum(-1)
        return (0.5 * x.square().sum(-1) - likelihood).mean()


def flow(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Flow(bug), (torch.randn(5, 6),)


class Solver(nn.Module):
    """Four steps of Runge and Kutta."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.inner, self.field = nn.Linear(4, 4), Hand((4,), lambda x, w: torch.sin(w * x), bug)

    def slope(self, x: Tensor) -> Tensor:
        return self.inner(self.field(x))

    def forward(self, x: Tensor) -> Tensor:
        step = 0.1
        for _ in range(4):
            first = self.slope(x)
            second = self.slope(x + 0.5 * step * first)
            x = x + step * second
        return x


def ode(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Solver(bug), (torch.randn(3, 4),)


class Attention(nn.Module):
    """Attention with a fused softmax that has a temperature for each key."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.project, self.softmax = nn.Linear(6, 18), Hand((5,), lambda x, w: torch.softmax(x * w, -1), bug)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x).chunk(3, -1)
        return self.softmax(query @ key.mT / math.sqrt(6)) @ value


def attention(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Attention(bug), (torch.randn(2, 5, 6),)


class ComplexNet(nn.Module):
    """A spectrum, filtered by hand with a phase for each frequency, and back."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.real, self.imaginary = nn.Linear(8, 5), nn.Linear(8, 5)
        self.phase = Hand((5,), lambda x, w: x * torch.polar(torch.ones_like(w), w), bug)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = self.phase(torch.complex(self.real(x), self.imaginary(x)))
        return torch.fft.irfft(spectrum * spectrum.conj(), n=8) + torch.fft.irfft(spectrum, n=8)


def complex_net(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return ComplexNet(bug), (torch.randn(3, 8),)


class Tied(nn.Module):
    """A language model whose output weights are its embedding."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.embedding, self.inner = nn.Embedding(11, 6), nn.Linear(6, 6)
        self.scale = Hand((6,), lambda x, w: x * w.exp(), bug)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = torch.tanh(self.inner(self.scale(self.embedding(tokens[:, :-1]))))
        logits = hidden @ self.embedding.weight.T
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def tied(bug: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Tied(bug), (torch.randint(0, 11, (3, 6)),)


MODELS: dict[str, Callable[[str], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "mlp": mlp,
    "cnn with batch norm": cnn,
    "resnet block": resnet,
    "transformer encoder": encoder,
    "transformer decoder": decoder,
    "lstm": lstm,
    "gru": gru,
    "message passing": graph,
    "normalising flow": flow,
    "ode solver": ode,
    "fused attention": attention,
    "complex network": complex_net,
    "tied embedding": tied,
}


def build(name: str, bug: str, dtype: torch.dtype, seed: int = 0) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A model with its inputs; without a bug where that is empty."""
    torch.manual_seed(seed)
    model, inputs = MODELS[name](bug)
    cast = tuple(x.to(dtype).requires_grad_() if x.is_floating_point() else x for x in inputs)
    return model.to(dtype), cast


def trapped(name: str) -> str:
    """The model in which an origin is planted; the real ones in turn."""
    real = [model for model in MODELS if model != "complex network"]
    return real[[*TRAPS].index(name) % len(real)]


def is_origin(report: Any, name: str) -> bool:
    """Whether the operation, the element and the reason of a planted origin are named."""
    trap = TRAPS[name]
    for origin in report.origins:
        operation = report.operations[origin.operation]
        shape = torch.Size(eval(operation.outputs[0].partition("[")[2].rstrip("]") + ","))
        if origin.phase.name == trap.phase:
            named = operation.name == trap.operation and origin.element == trap.element(tuple(shape))
            return named and origin.reason == trap.reason
    return False


def is_named(report: Any, bug: str) -> bool:
    """Whether the operation that is to blame is ranked first."""
    guilty = report.guilty
    return guilty is not None and guilty.name == ("detach" if bug == "detached" else "Fused")
