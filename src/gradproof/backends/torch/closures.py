"""What a function reads from around itself: tensors that need a gradient and are no arguments are not covered.

Which there are, the graph of the outputs says: it ends in every tensor that a gradient would reach. What they are
called is looked up where the function finds them: its closure, its globals, the object that it is a method of, and the
functions that it refers to in turn.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch

from gradproof.backends import referred as around

# How far functions are followed that refer to functions.
_DEPTH = 4


def referred(function: Any) -> Iterator[tuple[str, Any]]:
    """The values that a Python function reads from around itself, with their names; not what `Function.apply` does."""
    plain = getattr(function, "__func__", function)
    if getattr(plain, "__module__", None) != torch.autograd.function.__name__:
        yield from around.referred(plain)


def uncovered(
    function: Callable[..., Any], outputs: Sequence[torch.Tensor], known: Sequence[torch.Tensor]
) -> tuple[str, ...]:
    """The tensors that a gradient of the outputs would reach, and that are not known, in words."""
    others = [tensor for tensor in ends_of(outputs, known) if not any(tensor is each for each in known)]
    names = names_around(function) if others else {}
    return tuple(f"{_label(tensor, names.get(id(tensor)))} (only a closure reaches it)" for tensor in others)


def names_around(function: Callable[..., Any]) -> dict[int, str]:
    """What a function calls the tensors that it reads from around itself, by their id."""
    return {id(tensor): name for name, tensor in reversed([*_named(function, "", _DEPTH)])}


def _label(tensor: torch.Tensor, name: str | None) -> str:
    kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "tensor"
    return f"a {kind} of shape {tuple(tensor.shape)}" if name is None else f"{kind} `{name}`"


def ends_of(outputs: Sequence[torch.Tensor], known: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors in which the graph of the outputs ends. What is known may have a history; it is not followed."""
    seen: set[Any] = {tensor.grad_fn for tensor in known if tensor.grad_fn is not None}
    waiting = [tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None and tensor.grad_fn not in seen]
    found: dict[int, torch.Tensor] = {}
    while waiting:
        node: Any = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            found[id(variable)] = variable
        waiting += [following for following, _ in node.next_functions if following is not None]
    return [*found.values()]


def _named(value: Any, name: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that a value is or holds, with names as one would write them."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, torch.nn.Module):
        yield from ((f"{name}.{inner}" if name else inner, part) for inner, part in value.named_parameters())
    elif depth:
        for inner, part in _parts(value, name, whole=depth == _DEPTH):
            yield from _named(part, inner, depth - 1)


def _parts(value: Any, name: str, *, whole: bool) -> Iterator[tuple[str, Any]]:
    """What a function refers to, and what containers hold; of the function under test also what its object holds."""
    if isinstance(value, functools.partial):
        yield from (("", part) for part in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, types.FunctionType | types.MethodType):
        yield from _attributes(getattr(value, "__self__", None))
        yield from referred(value)
    elif isinstance(value, list | tuple):
        yield from ((f"{name}[{k}]", part) for k, part in enumerate(cast(Sequence[Any], value)))
    elif isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", part) for key, part in cast(dict[Any, Any], value).items())
    elif whole:  # an object that can be called
        yield from _attributes(value)


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(owner, torch.nn.Module):
        yield "", owner
    elif not isinstance(owner, type | types.ModuleType):
        yield from ((f"self.{name}", part) for name, part in getattr(owner, "__dict__", {}).items())
