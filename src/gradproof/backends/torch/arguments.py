"""The call under test: a function and its arguments, with the tensors in them found wherever they are nested."""

from __future__ import annotations

import dataclasses
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import optree
import torch

from gradproof.backends.torch.keeper import Keeper

_PLAIN = (torch.Tensor, int, float, complex, bool, str, type(None), slice)


def _is_plain(value: Any) -> bool:
    """Surely no container."""
    return isinstance(value, _PLAIN)


def _flatten(tree: Any) -> tuple[list[Any], Any]:
    leaves, spec = optree.tree_flatten(tree, none_is_leaf=True)
    return leaves, spec


def flatten_outputs(output: Any) -> list[Any]:
    """What a function returned, as a flat list, whatever containers it is in."""
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, Mapping):
        return [leaf for value in cast(Mapping[Any, Any], output).values() for leaf in flatten_outputs(value)]
    if isinstance(output, (tuple, list, set, deque)):
        return [leaf for value in cast(Iterable[Any], output) for leaf in flatten_outputs(value)]
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        fields = [getattr(output, field.name) for field in dataclasses.fields(output)]
        return [leaf for value in fields for leaf in flatten_outputs(value)]
    return [output]


class Call:
    """A function with its arguments; tensors in it can be replaced by position."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        self.function = function
        self.arguments, self.keywords = tuple(arguments), dict(keywords)
        self._spec: Any = None
        self.keeper: Keeper | None = None
        """Puts back, after each call, what it changed besides its outputs."""
        self.flat: list[Any] = list(self.arguments)
        self.origins = list(range(len(self.arguments)))
        """For each flat value, the number of the argument it came with; keywords count on."""
        if self.keywords or not all(map(_is_plain, self.arguments)):
            self._nest()
        self._count = len(self.flat)
        self.chosen: frozenset[int] | None = None
        """The flat positions to differentiate with respect to; None: all that require a gradient."""

    def kind(self, position: int) -> str:
        """What a flat value is to the call."""
        return "input"

    def differentiable(self) -> list[int]:
        """The flat positions of the tensors under test."""
        positions = range(len(self.flat)) if self.chosen is None else sorted(self.chosen)
        return [i for i in positions if _needs_gradient(self.flat[i])]

    def _nest(self) -> None:
        whole = (*self.arguments, *self.keywords.values())
        self.origins = [i for i, value in enumerate(whole) for _ in _flatten(value)[0]]
        for value in _flatten(whole)[0]:
            if not isinstance(value, torch.Tensor) and any(map(_needs_gradient, flatten_outputs(value))):
                raise ValueError(
                    f"an input of type {type(value).__name__} holds tensors that require a gradient, but cannot be "
                    "taken apart and put together again: pass them in a tuple, list or dict"
                )
        self.flat, self._spec = _flatten(whole)  # not the dictionary itself: its keys would be sorted

    def __call__(self) -> Any:
        return self._run(self.function, self.arguments, self.keywords)

    def with_values(self, replaced: Mapping[int, Any]) -> Any:
        """Call it with some flat positions replaced."""
        return self._run(self.function, *self._rebuilt(replaced))

    def _run(self, function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        if self.keeper is None:
            return function(*arguments, **keywords)
        try:
            return function(*arguments, **keywords)
        finally:
            self.keeper.put_back()

    def replace(self, position: int, value: Any) -> None:
        """Put another value in a flat position, for good."""
        arguments, keywords = self._rebuilt({position: value})
        self.arguments, self.keywords = tuple(arguments), dict(keywords)
        self.flat[position] = value

    def _rebuilt(self, replaced: Mapping[int, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments and keywords with some flat positions replaced."""
        flat = [replaced.get(i, value) for i, value in enumerate(self.flat[: self._count])]
        if self._spec is None:
            return flat, {}
        values: Any = optree.tree_unflatten(self._spec, flat)
        count = len(self.arguments)
        return values[:count], dict(zip(self.keywords, values[count:], strict=True))

    def names(self) -> list[str]:
        """For each flat value, the name of its parameter, where Python knows it, and its place inside."""
        parameters = [*parameter_names(self.function)[: len(self.arguments)]]
        parameters += [""] * (len(self.arguments) - len(parameters))
        parameters += self.keywords
        names = [parameters[origin] for origin in self.origins[: self._count]]
        if self._spec is None:
            return names
        accessors = optree.treespec_accessors(self._spec)
        return [_join(name, accessor[1:]) for name, accessor in zip(names, accessors, strict=True)]

    def label(self, position: int) -> str:
        """What reports call a flat value."""
        kind, name = self.kind(position), self.names()[position]
        if kind != "input":
            return f"{kind} `{name}`"
        return f"input {self.origins[position]}" + (f" `{name}`" if name else "")


def _needs_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _join(name: str, path: Any) -> str:
    """The name of a value inside an argument: `state['h'][0]`."""
    return path.codify(name) if path and name else name


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's positional parameters, or those that it has itself in `parameter_names`."""
    named = getattr(function, "parameter_names", None)
    if named is not None:
        return tuple(named)
    if isinstance(function, torch.nn.Module):
        function = function.forward
    code = getattr(function, "__code__", None)
    if code is None:
        return ()
    names = code.co_varnames[: code.co_argcount]
    return names[1:] if inspect.ismethod(function) else names
