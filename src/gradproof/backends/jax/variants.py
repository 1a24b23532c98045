"""The same call with inputs of another dtype, or with gradients of some of them only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import tree_util

from gradproof.backends import Variation, Varied
from gradproof.backends.calls import parameter_names
from gradproof.backends.jax.arrays import is_complex, is_floating
from gradproof.backends.jax.calls import ARRAYS, JaxCall
from gradproof.core.capabilities import MemoryLayout


def dtype_of(name: str) -> Any:
    """The dtype of this name; None: there is none."""
    found = getattr(jnp, name, None)
    return jnp.dtype(found) if hasattr(found, "dtype") else None


def tested_labels(func: Callable[..., Any], arguments: Sequence[Any]) -> list[str]:
    """The inputs under test, as reports call them."""
    call = JaxCall(func, arguments, {})
    return [call.label(i) for i in call.differentiable()]


def memory_layouts(arguments: Sequence[Any]) -> frozenset[MemoryLayout]:
    """None: XLA arranges the memory of arrays."""
    return frozenset()


def vary(func: Callable[..., Any], arguments: Sequence[Any], variation: Variation) -> Varied:
    """The call in a variation. Inputs that need no gradient are handed over inside of a `Constant`."""
    call = JaxCall(func, arguments, {})
    tested = call.differentiable()
    chosen = tested if variation.gradients is None else [tested[k] for k in variation.gradients]
    replaced: dict[int, Any] = {}
    for i, value in enumerate(call.flat):
        if is_floating(value):
            array = jnp.asarray(value, _like(value, variation.dtype))
            replaced[i] = array if i in chosen else Constant(array)
    varied = call.replacing(replaced)
    elements = sum(call.flat[i].size for i in replaced)
    return Varied(varied.arguments, elements, _Unpacking if len(chosen) < len(replaced) else _as_it_is)


class Constant:
    """An array that is not to be differentiated; JAX has no flag for that."""

    def __init__(self, array: Any) -> None:
        self.array = array


class _Unpacking:
    """A function of arrays, some of which come inside of a `Constant`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__name__ = str(getattr(function, "__name__", type(function).__name__))
        self.parameter_names = parameter_names(function, ARRAYS)

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*tree_util.tree_map(_unpacked, arguments))


def _unpacked(value: Any) -> Any:
    return value.array if isinstance(value, Constant) else value


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _like(value: Any, dtype: Any) -> Any:
    """The dtype, or the complex one of its precision."""
    if dtype is None or not is_complex(value.dtype):
        return dtype or value.dtype
    return jnp.complex128 if jnp.finfo(dtype).bits == 64 else jnp.complex64
