"""Objects that speak torch's protocol and are no tensors: the tensor that one of them holds is moved in its place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import is_tensor_like


def is_like(value: Any) -> bool:
    """Whether something has `__torch_function__` and is no tensor."""
    return not isinstance(value, torch.Tensor) and is_tensor_like(value)


def holding(func: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Callable[..., Any], Sequence[Any]]:
    """A function of the tensors that such arguments hold, and these; as they are, where nothing is to be moved.

    Whoever holds several tensors, or none, stays: which of them are its numbers cannot be told.
    """
    names = [
        _attribute(value) if is_like(value) and getattr(value, "requires_grad", False) else None for value in arguments
    ]
    if not any(names):
        return func, arguments

    @functools.wraps(func)
    def of_held(*given: Any) -> Any:
        wrapped = [
            value if name is None else _with(like, name, value)
            for like, name, value in zip(arguments, names, given, strict=True)
        ]
        return _released(func(*wrapped))

    held = [value if name is None else vars(value)[name] for value, name in zip(arguments, names, strict=True)]
    return of_held, held


def _attribute(like: Any) -> str | None:
    """The name of the one tensor that an object holds."""
    names = [name for name, value in getattr(like, "__dict__", {}).items() if isinstance(value, torch.Tensor)]
    return names[0] if len(names) == 1 else None


def _with(like: Any, name: str, tensor: torch.Tensor) -> Any:
    """The same object, holding another tensor. Neither its constructor nor its attributes' rules are asked."""
    other = object.__new__(type(like))
    other.__dict__.update({**vars(like), name: tensor})
    return other


def _released(outputs: Any) -> Any:
    """What a function returned, with the tensors that such objects hold."""
    if isinstance(outputs, (tuple, list)):
        return tuple([_released(each) for each in outputs])
    name = _attribute(outputs) if is_like(outputs) else None
    return outputs if name is None else vars(outputs)[name]
