"""The call under test: a function and its arguments, with the arrays in them found wherever they are nested.

What an array is, and whether it is to be differentiated, is for the framework to say: see `Arrays`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple, Protocol, Self, cast

_NO_CONTAINERS = (int, float, complex, bool, str, type(None), slice)


class Arrays(NamedTuple):
    """What a call has to know of a framework."""

    types: tuple[type, ...]
    """The types of its arrays."""
    needs_gradient: Callable[[Any], bool]
    """Whether a value is an array that is to be differentiated with respect to."""
    why_constant: Callable[[str, Any], str]
    """Why an array of a kind ("input", "parameter") is not, in words."""
    code_of: Callable[[Callable[..., Any]], Callable[..., Any]]
    """The function that holds the parameters of a callable: of a module, its forward."""


class Keeper(Protocol):
    """Undoes, after each call, what the call changed besides its outputs."""

    @property
    def draws(self) -> bool:
        """Whether the first call drew random numbers."""
        ...

    def put_back(self) -> None: ...


def flatten_outputs(output: Any, arrays: tuple[type, ...]) -> list[Any]:
    """What a function returned, as a flat list, whatever containers it is in."""
    if isinstance(output, arrays):
        return [output]
    if isinstance(output, Mapping):
        return [leaf for value in cast(Mapping[Any, Any], output).values() for leaf in flatten_outputs(value, arrays)]
    if isinstance(output, (tuple, list, set, deque)):
        return [leaf for value in cast(Iterable[Any], output) for leaf in flatten_outputs(value, arrays)]
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        fields = [getattr(output, field.name) for field in dataclasses.fields(output)]
        return [leaf for value in fields for leaf in flatten_outputs(value, arrays)]
    return [output]


class Call:
    """A function with its arguments, all of them also in one flat row. Nobody changes a call: there are copies."""

    def __init__(
        self, function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any], arrays: Arrays
    ) -> None:
        self.function, self.arrays = function, arrays
        self.arguments, self.keywords = tuple(arguments), dict(keywords)
        self._spec: Any = None
        self._keeper: Keeper | None = None
        self.flat: list[Any] = list(self.arguments)
        self.origins = list(range(len(self.arguments)))
        """For each flat value, the number of the argument it came with; keywords count on."""
        plain = (*arrays.types, *_NO_CONTAINERS)
        if self.keywords or not all(isinstance(value, plain) for value in self.arguments):
            self._nest()
        self._count = len(self.flat)
        self.chosen: frozenset[int] | None = None
        """The flat positions to differentiate with respect to; None: all that need a gradient."""

    def kind(self, position: int) -> str:
        """What a flat value is to the call."""
        return "input"

    def differentiable(self) -> list[int]:
        """The flat positions of the arrays under test."""
        positions = range(len(self.flat)) if self.chosen is None else sorted(self.chosen)
        needs_gradient, flat = self.arrays.needs_gradient, self.flat
        return [i for i in positions if needs_gradient(flat[i])]

    def _nest(self) -> None:
        whole = (*self.arguments, *self.keywords.values())
        self.origins = [i for i, value in enumerate(whole) for _ in self._flatten(value)[0]]
        for value in self._flatten(whole)[0]:
            if not isinstance(value, self.arrays.types) and self._holds_gradients(value):
                raise ValueError(
                    f"an input of type {type(value).__name__} holds arrays that need a gradient, but cannot be "
                    "taken apart and put together again: pass them in a tuple, list or dict"
                )
        self.flat, self._spec = self._flatten(whole)  # not the dictionary itself: its keys would be sorted

    def _holds_gradients(self, value: Any) -> bool:
        return any(map(self.arrays.needs_gradient, flatten_outputs(value, self.arrays.types)))

    @property
    def draws(self) -> bool:
        """Whether it was seen to draw random numbers; only of calls that are kept."""
        return self._keeper is not None and self._keeper.draws

    # copies

    def kept_by(self, keeper: Keeper) -> Self:
        """The same call, where a keeper undoes after each run what it changed."""
        return self._copy(_keeper=keeper)

    def choosing(self, positions: Set[int]) -> Self:
        """The same call, differentiated only with respect to these flat positions."""
        return self._copy(chosen=frozenset(positions))

    def replacing(self, replaced: Mapping[int, Any]) -> Self:
        """The same call with other values in some flat positions."""
        arguments, keywords = self._rebuilt(replaced)
        flat = [replaced.get(i, value) for i, value in enumerate(self.flat)]
        return self._copy(arguments=tuple(arguments), keywords=dict(keywords), flat=flat)

    def calling(self, function: Callable[..., Any]) -> Self:
        """The same call of another function."""
        return self._copy(function=function)

    def _copy(self, **changed: Any) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **changed)
        return copy

    # runs

    def __call__(self) -> Any:
        return self._run(self.function, self.arguments, self.keywords)

    def with_values(self, replaced: Mapping[int, Any]) -> Any:
        """Call it with some flat positions replaced."""
        return self._run(self.function, *self._rebuilt(replaced))

    def _run(self, function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        if self._keeper is None:
            return function(*arguments, **keywords)
        try:
            return function(*arguments, **keywords)
        finally:
            self._keeper.put_back()

    def _rebuilt(self, replaced: Mapping[int, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments and keywords with some flat positions replaced."""
        flat = [replaced.get(i, value) for i, value in enumerate(self.flat[: self._count])]
        if self._spec is None:
            return flat, {}
        values: Any = self._unflatten(self._spec, flat)
        count = len(self.arguments)
        return values[:count], dict(zip(self.keywords, values[count:], strict=True))

    # containers: a framework with trees of its own brings these three

    def _flatten(self, tree: Any) -> tuple[list[Any], Any]:
        """The values in nested containers, None among them, and how to put them together again."""
        leaves, spec = _trees().tree_flatten(tree, none_is_leaf=True)
        return leaves, spec

    def _unflatten(self, spec: Any, leaves: Sequence[Any]) -> Any:
        """The containers with these values."""
        return _trees().tree_unflatten(spec, leaves)

    def _places(self, spec: Any) -> list[Callable[[str], str]]:
        """For each value in a row of arguments: its name, from that of its argument (`state['h'][0]`)."""
        accessors: Any = _trees().treespec_accessors(spec)
        return [accessor[1:].codify if len(accessor) > 1 else str for accessor in accessors]

    # names

    def names(self) -> list[str]:
        """For each flat value, the name of its parameter, where Python knows it, and its place inside."""
        parameters = [*parameter_names(self.function, self.arrays)[: len(self.arguments)]]
        parameters += [""] * (len(self.arguments) - len(parameters))
        parameters += self.keywords
        names = [parameters[origin] for origin in self.origins[: self._count]]
        if self._spec is None:
            return names
        return [place(name) if name else "" for name, place in zip(names, self._places(self._spec), strict=True)]

    def label(self, position: int) -> str:
        """What reports call a flat value."""
        kind, name = self.kind(position), self.names()[position]
        if kind != "input":
            return f"{kind} `{name}`"
        return f"input {self.origins[position]}" + (f" `{name}`" if name else "")


def _trees() -> Any:
    """optree, which only calls with nested arguments or keywords need."""
    import optree

    return optree


def parameter_names(function: Callable[..., Any], arrays: Arrays) -> tuple[str, ...]:
    """The names of a function's positional parameters, or those that it has itself in `parameter_names`."""
    named = getattr(function, "parameter_names", None)
    if named is not None:
        return tuple(named)
    function = arrays.code_of(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return ()
    names = code.co_varnames[: code.co_argcount]
    return names[1:] if inspect.ismethod(function) else names
