"""Calls of JAX functions: their pytrees as a flat row of values, with names from the paths.

A module that is itself a pytree of arrays (of equinox, say) has parameters: its arrays, behind the arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from types import MethodType
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import tree_util
from jax.core import Tracer

from gradproof.backends.calls import Arrays, Call
from gradproof.backends.jax.arrays import TYPES, is_floating, is_key

JITTED: type = type(jax.jit(lambda: None))
"""The type of what `jax.jit` makes."""
TRANSFORMED = (jax.custom_vjp, jax.custom_jvp, JITTED)
"""The types of what JAX makes of a function: such a function is JAX's whatever it is called with."""


_PLAIN = (bool, int, float, complex, str, type(None))
"""The types of values that are known by how they are written."""


def is_none(value: Any) -> bool:
    return value is None


def recognises(values: Sequence[Any]) -> bool:
    """Whether there is an array of JAX among these values, nested as it may be, or the first is a function of JAX."""
    if any(isinstance(value, TRANSFORMED) for value in values[:1]):
        return True
    return any(isinstance(leaf, jax.Array) for leaf in tree_util.tree_leaves(list(values)))


def _why_constant(kind: str, value: Any) -> str:
    if is_key(value):
        return "a PRNG key, not differentiable"
    return f"{value.dtype}, not differentiable"


def _code_of(function: Callable[..., Any]) -> Callable[..., Any]:
    unwrapped = inspect.unwrap(function)
    if inspect.ismethod(function) and not inspect.ismethod(unwrapped):
        unwrapped = MethodType(unwrapped, function.__self__)  # the first parameter is taken
    return unwrapped if hasattr(unwrapped, "__code__") else getattr(unwrapped, "__call__", unwrapped)  # noqa: B004


ARRAYS = Arrays(TYPES, is_floating, _why_constant, _code_of)


class JaxCall(Call):
    """A function with its arguments. None is a value like any other, so that its place has a name."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        super().__init__(function, arguments, keywords, ARRAYS)
        if any(isinstance(value, Tracer) for value in self.flat):
            raise TypeError(
                "gradproof was called with tracers, from within jit, vmap or grad: call it outside, with arrays"
            )
        self._own: Any = None
        self._own_names: list[str] = []
        if _is_module(function):
            paths, self._own = tree_util.tree_flatten_with_path(function)
            self._own_names = [tree_util.keystr(path).removeprefix(".") for path, _ in paths]
            self.origins = [*self.origins, *range(self._count, self._count + len(paths))]
            self.flat = [*self.flat, *(value for _, value in paths)]
        tested = set(self.differentiable())
        floating = [i for i, value in enumerate(self.flat) if is_floating(value)]
        self._kept = [i for i in floating if i not in tested]

    def kind(self, position: int) -> str:
        if position < self._count:
            return "input"
        return "parameter" if is_floating(self.flat[position]) else "buffer"

    def names(self) -> list[str]:
        return [*super().names(), *self._own_names]

    def choosing(self, positions: Set[int]) -> Self:
        """The same call, differentiated only with respect to these flat positions."""
        chosen = super().choosing(positions)
        tested = set(chosen.differentiable())
        chosen._kept = [i for i, value in enumerate(chosen.flat) if is_floating(value) and i not in tested]
        return chosen

    # for a trace that outlives the check

    def key(self) -> Hashable:
        """What a trace of the call rests on, besides the arrays that are handed over; None: it may be anything.

        JAX itself keeps the trace of a function that was compiled by `jax.jit`, whatever the function reads besides.
        """
        handed = {*self.differentiable(), *self._kept}
        rest = [value for i, value in enumerate(self.flat) if i not in handed]
        if not isinstance(self.function, JITTED) or not all(isinstance(value, _PLAIN) for value in rest):
            return None
        there = tuple(i in handed for i in range(len(self.flat))), tuple(self.differentiable())
        told = tuple((type(value), repr(value)) for value in rest)
        return self.function, self._spec, len(self.arguments), tuple(self.keywords), there, told

    @property
    def is_compiled(self) -> bool:
        """Whether the user has compiled the function, and nothing but its arguments is told to it."""
        return self.key() is not None

    def bare(self) -> Self:
        """The same call, to be traced at any time: it holds no memory of arrays, and nobody's generators."""
        handed = {*self.differentiable(), *self._kept}
        flat = [_hollow(value) if i in handed else value for i, value in enumerate(self.flat)]
        arguments, keywords = (None,) * len(self.arguments), dict.fromkeys(self.keywords)
        return self._copy(flat=flat, arguments=arguments, keywords=keywords, _keeper=None)

    # as a function of its floating-point arrays

    @property
    def constants(self) -> tuple[Any, ...]:
        """The arrays of numbers that are not under test."""
        return tuple(self.flat[i] for i in self._kept)

    def traced(self, moved: Sequence[Any], constants: Sequence[Any]) -> Any:
        """What the function returns, with these in place of the arrays under test and of the constants."""
        tested = zip(self.differentiable(), moved, strict=True)
        return self.with_values({**dict(tested), **dict(zip(self._kept, constants, strict=True))})

    def arguments_with(self, moved: Sequence[Any], constants: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments, with these in place of the arrays under test and of the constants."""
        tested = zip(self.differentiable(), moved, strict=True)
        return tuple(self._rebuilt({**dict(tested), **dict(zip(self._kept, constants, strict=True))})[0])

    def plain(self, moved: Sequence[Any], constants: Sequence[Any]) -> Any:
        """The same outside of a trace. All arrays are copies: the function may donate their memory."""
        replaced = {i: value for i, value in enumerate(self.flat) if isinstance(value, jax.Array)}
        replaced.update(zip(self.differentiable(), moved, strict=True))
        replaced.update(zip(self._kept, constants, strict=True))
        return self.with_values({i: _copied(value) for i, value in replaced.items()})

    def with_values(self, replaced: Mapping[int, Any]) -> Any:
        arguments, keywords = self._rebuilt(replaced)
        function = self.function
        if self._own is not None:
            leaves = [replaced.get(i, value) for i, value in enumerate(self.flat) if i >= self._count]
            function = tree_util.tree_unflatten(self._own, leaves)
        return self._run(function, arguments, keywords)

    # pytrees

    def _flatten(self, tree: Any) -> tuple[list[Any], Any]:
        return tree_util.tree_flatten(tree, is_leaf=is_none)

    def _unflatten(self, spec: Any, leaves: Sequence[Any]) -> Any:
        return tree_util.tree_unflatten(spec, leaves)

    def _places(self, spec: Any) -> list[Callable[[str], str]]:
        paths, _ = tree_util.tree_flatten_with_path(tree_util.tree_unflatten(spec, range(spec.num_leaves)))
        return [_Place(tree_util.keystr(path[1:])) for path, _ in paths]


class _Place:
    """Puts the path inside an argument behind the argument's name."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, name: str) -> str:
        return f"{name}{self._path}"


def _is_module(function: Any) -> bool:
    """Whether a callable is itself a pytree that holds arrays of numbers."""
    if tree_util.all_leaves([function]):
        return False
    return any(map(is_floating, tree_util.tree_leaves(function)))


def _hollow(value: Any) -> Any:
    """An array of the same shape and dtype that takes no memory."""
    return np.broadcast_to(np.zeros((), value.dtype), value.shape)


def _copied(value: Any) -> Any:
    """A copy as an array of JAX's own; a tracer as it is."""
    return value if isinstance(value, Tracer) else value.copy() if is_key(value) else jnp.array(value)
