"""Calls that workers can import, for test_workers.py: right and wrong, cheap and slow, that raise and that die."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

SECONDS = 0.004
"""Long enough for a call to be worth sending."""


class Slow(torch.autograd.Function):
    """sin(x) times the sum of x: neither vmap nor anybody else batches it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        time.sleep(SECONDS)
        ctx.save_for_backward(x)
        ctx.factor = factor
        return torch.sin(x) * x.sum()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
        time.sleep(SECONDS)
        (x,) = ctx.saved_tensors
        return g * torch.cos(x) * x.sum() + ctx.factor * (g * torch.sin(x)).sum(), None


def right(x: torch.Tensor) -> torch.Tensor:
    return Slow.apply(x, 1.0)


def wrong(x: torch.Tensor) -> torch.Tensor:
    return Slow.apply(x, 1.5)


def wrong_in_part(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([right(x[:-1]), wrong(x[-1:])])


def of_two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return right(x) * right(y)


def of_sizes(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Inputs whose gradients are of very different sizes."""
    time.sleep(5 * SECONDS)
    return 1e9 * right(x).sum() + right(y).sum() + 1e-7 * right(z).sum()


def kinked(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(right(x))


def drawing(x: torch.Tensor) -> torch.Tensor:
    return right(x) * torch.rand_like(x)


def summed(x: torch.Tensor) -> torch.Tensor:
    return right(x).sum()


def guarded(x: torch.Tensor) -> torch.Tensor:
    """Raises where a coarse step goes."""
    if (x.abs() > 1.0 + 1e-4).any():
        raise ValueError("outside of [-1, 1]")
    return right(x)


def numbers(count: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (right, (numbers(8),)),
    (wrong, (numbers(8),)),
    (wrong_in_part, (numbers(8),)),
    (of_two, (numbers(6), numbers(6, seed=1))),
    (kinked, (numbers(8) - 0.5,)),
    (drawing, (numbers(8),)),
    (summed, (numbers(12),)),
    (guarded, (torch.ones(6, dtype=torch.float64, requires_grad=True),)),
    (right, (numbers(8, torch.float32),)),
    (right, (numbers(6).to(torch.complex128).detach().requires_grad_(),)),
]
OPTIONS: list[dict[str, Any]] = [{"strategy": "entries"}, {"strategy": "probes"}, {"strategy": "entries", "order": 2}]


def dies_once(x: torch.Tensor, marker: str) -> torch.Tensor:
    """Ends the first worker that it runs in; `marker` is a file that says so."""
    if os.environ.get("GRADPROOF_TEST_MAIN") != str(os.getpid()) and not Path(marker).exists():
        Path(marker).touch()
        os._exit(1)
    return right(x)


def always_dies(x: torch.Tensor) -> torch.Tensor:
    """Ends every process but that of the test."""
    if os.environ.get("GRADPROOF_TEST_MAIN") != str(os.getpid()):
        os._exit(1)
    return right(x)


# models to audit


class Gelu(torch.autograd.Function):
    """x times the normal distribution function; a factor of `slope` in its derivative."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, slope: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x * torch.special.ndtr(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        density = torch.exp(-x * x / 2) / (2 * torch.pi) ** 0.5
        return g * (torch.special.ndtr(x) + ctx.slope * x * density), None


@torch.library.custom_op("gradproof_executors::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return 3.0 * x


def _tripled_backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
    return 3.0 * g


tripled.register_autograd(_tripled_backward)


class Audited(torch.nn.Module):
    """Attributes, methods, operators, dropout, batch norm, an embedding that declares, and two Functions by hand."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.slope = slope
        self.embedding = torch.nn.Embedding(6, 4, padding_idx=0)
        self.norm = torch.nn.BatchNorm1d(4)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids) * scale
        x = self.norm(x.mT).mT ** 2 + torch.ops.aten.sin(x)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = Gelu.apply(torch.nn.functional.dropout(x, 0.3), self.slope)
        return torch.log_softmax(self.linear(tripled(x))[..., :2], -1) / x.shape[-1]


def audited(slope: float, dtype: torch.dtype = torch.float64) -> tuple[Audited, tuple[torch.Tensor, torch.Tensor]]:
    model = Audited(slope).to(dtype)
    torch.nn.init.normal_(model.embedding.weight)
    return model, (torch.tensor([[0, 1, 2], [3, 0, 5]]), numbers(4, dtype))


class Ending(torch.autograd.Function):
    """Ends the first worker that it runs in, or every one."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, marker: str) -> torch.Tensor:
        elsewhere = os.environ.get("GRADPROOF_TEST_MAIN") != str(os.getpid())
        if elsewhere and not (marker and Path(marker).exists()):
            if marker:
                Path(marker).touch()
            os._exit(1)
        time.sleep(0.05)
        return 2 * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
        return 2 * g, None


def ending(x: torch.Tensor, marker: str) -> torch.Tensor:
    """Two of them: the first operation is checked by the audit's own process."""
    return Ending.apply(Ending.apply(x, marker)[:2], marker).sum()
