"""A recipe: a Function of a released package, inputs for it, and what is expected of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

RIGHT = "right"
SURROGATE = "surrogate"  # the backward is, on purpose, not the derivative of the forward
MUTATION = "mutation by design"  # inputs, cotangents or saved tensors are consumed to save memory


@dataclass(frozen=True)
class Recipe:
    """`make()` returns the function and its inputs; packages are imported there.

    `expected` is one of the words above or the name of a page of docs/found. `options` go to `gradproof.check`.
    `why` says, in a few words, where the package itself declares a surrogate or a mutation.
    """

    name: str
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    expected: str = RIGHT
    why: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


def normal(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Normal random numbers that require a gradient; the worker sets the seed anew for each recipe."""
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def single(*shape: int) -> torch.Tensor:
    """The same in float32, which most kernels compute in."""
    return normal(*shape, dtype=torch.float32)


def between(low: float, high: float, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Uniform random numbers that require a gradient."""
    return (torch.rand(*shape, dtype=dtype) * (high - low) + low).requires_grad_()


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers without a gradient."""
    return tensor.detach()


def leaf(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers as a leaf that requires a gradient."""
    return tensor.detach().clone().requires_grad_()
