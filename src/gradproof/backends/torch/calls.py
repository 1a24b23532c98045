"""Calls of PyTorch functions: what a tensor is to them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gradproof.backends import calls
from gradproof.backends.calls import Arrays, Call

_TYPES = (torch.Tensor,)


def call_of(function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any] | None = None) -> Call:
    """The call of a PyTorch function."""
    return Call(function, arguments, keywords or {}, TENSORS)


def flatten_outputs(output: Any) -> list[Any]:
    """What a function returned, as a flat list, whatever containers it is in."""
    return [output] if isinstance(output, torch.Tensor) else calls.flatten_outputs(output, _TYPES)


def connected(output: Any) -> list[torch.Tensor]:
    """The tensors in an output that have a graph."""
    return [o for o in flatten_outputs(output) if isinstance(o, torch.Tensor) and o.requires_grad]


def is_floating(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds real or complex numbers, which can have a derivative."""
    return tensor.is_floating_point() or tensor.is_complex()


def needs_gradient(value: Any) -> bool:
    """Whether this is a tensor that requires a gradient."""
    return isinstance(value, torch.Tensor) and value.requires_grad


def _why_constant(kind: str, tensor: torch.Tensor) -> str:
    if kind == "parameter":
        return "frozen: requires_grad is False"
    if is_floating(tensor):
        return "requires_grad is False"
    return f"{str(tensor.dtype).removeprefix('torch.')}, not differentiable"


def _code_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of a module its forward; of the `apply` of an autograd Function its forward too, without the context."""
    if isinstance(function, torch.nn.Module):
        return function.forward
    owner = getattr(function, "__self__", None)
    if not (isinstance(owner, type) and issubclass(owner, torch.autograd.Function)):
        return function
    if getattr(function, "__name__", "") != "apply":
        return function
    forward = inspect.unwrap(owner.forward)
    without_context = owner.setup_context is not torch.autograd.Function.setup_context
    return forward if without_context else types.MethodType(forward, owner)  # a method's first name is left out


TENSORS = Arrays(_TYPES, needs_gradient, _why_constant, _code_of)
