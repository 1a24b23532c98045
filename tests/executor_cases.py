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
