"""Whether a function that was compiled by `jax.jit` still refers to what it did when JAX traced it.

JAX keeps the trace for as long as the function lives, and what it derived of it: a global that a rule reads, or a rule
that is defined anew, may not be read again; nor what a list, a dictionary, an array of NumPy or an object holds that
the function reads. After such a change the function below `jax.jit` is checked, which is
traced anew, and a note says that what JAX keeps is older.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

import jax
import numpy as np

from gradproof.backends.jax.calls import JITTED, TRANSFORMED
from gradproof.backends.referred import referred

# How far functions are followed that refer to functions, and how many values are looked at.
_DEPTH, _MOST = 5, 256
# Of a container, so many things; of an array, what so many bytes hold.
_ITEMS, _LONG = 64, 2**20
# What a function of JAX holds of the user's: the function itself and its rules.
_PARTS = ("__wrapped__", "fun", "fwd", "bwd", "jvp")
_VALUES = (bool, int, float, complex, str, bytes, type(None))
# What an object holds for a rule to read.
_DATA = (bool, int, float, complex, str, bytes, dict, list, jax.Array, np.ndarray, np.generic, FunctionType)
# What refers to nothing.
_ENDS = (ModuleType, type, jax.Array, *_VALUES)

_known: weakref.WeakKeyDictionary[Any, dict[str, Callable[[], Any]]] = weakref.WeakKeyDictionary()


class Reading:
    """What a compiled function refers to while it is checked, and what of it changed since earlier checks."""

    def __init__(self, function: Any) -> None:
        self._function, self._now = function, _now(function)
        before = (_known.get(function) if _is_traced(function) else None) or {}
        pairs = ((name, before[name](), value) for name, value in self._now.items() if name in before)
        self.changed = tuple(name for name, old, value in pairs if not _is_same(old, value))
        """The names of what is another now than when JAX traced the function."""

    def close(self) -> None:
        """Remember what there is after the check: what the function wrote itself meanwhile is no change."""
        known, nothing = dict(_known[self._function]) if self.changed else {}, object()
        for name, value in _now(self._function).items():
            if not self.changed or not _is_same(self._now.get(name, nothing), value):
                known[name] = _reference(value)
        _known[self._function] = known


def _now(function: Any) -> dict[str, Any]:
    return dict(itertools.islice(_read(function, "", _DEPTH), _MOST))


def below_jit(function: Any) -> Any:
    """The function that was compiled: of that nothing is kept."""
    return function.__wrapped__


def _is_traced(function: Any) -> bool:
    """Whether JAX has anything of the function; where that cannot be asked, it may."""
    size = getattr(function, "_cache_size", None)
    return size is None or size() > 0


def _read(value: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Numbers, arrays and functions that a function refers to, or another one that it calls, with their names."""
    if name:
        yield name, value
    if isinstance(value, np.ndarray):
        yield f"{name}[...]", _content(cast(Any, value))
    elif depth and not isinstance(value, _ENDS):
        for inner, found in _held(value, name):
            yield from _read(found, inner, depth - 1)


def _held(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """What a function refers to or a container holds, with names."""
    if isinstance(value, TRANSFORMED):  # whatever its module is said to be: a rule for a function of JAX is the user's
        for part in _PARTS[:1] if isinstance(value, JITTED) else _PARTS:  # of others it has old copies
            held: Any = getattr(value, part, None)
            if callable(held):
                yield name if part == "__wrapped__" else f"{name}.{part}".removeprefix("."), held
    elif isinstance(value, dict | list):
        yield from ((f"{name}[{key!r}]", found) for key, found in _items(cast(Any, value)))
    elif isinstance(value, FunctionType | MethodType) and not _is_librarys(value):
        found = _around(value)
        yield from ((inner, each) for inner, each in found if each is not None and not isinstance(each, ModuleType))


def _around(function: FunctionType | MethodType) -> Iterator[tuple[str, Any]]:
    """What a function refers to, and of objects the attributes that its code names."""
    holders = list(referred(function))
    if isinstance(function, MethodType):
        holders.append(("self", function.__self__))
    attributes = frozenset(function.__code__.co_names)
    for name, found in holders:
        yield name, found
        if not (isinstance(found, _ENDS) or callable(found) or _is_librarys(type(found))):
            for inner in attributes:
                held: Any = inspect.getattr_static(found, inner, None)
                if isinstance(held, _DATA):  # and no method, nor what is computed when it is asked for
                    yield f"{name}.{inner}", held


def _items(value: dict[Any, Any] | list[Any]) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return itertools.islice(((key, found) for key, found in pairs if isinstance(key, int | str)), _ITEMS)


def _content(array: np.ndarray[Any, Any]) -> bytes | int:
    """What an array holds; of a long one, which it is."""
    return hashlib.blake2b(array.tobytes()).digest() if array.nbytes <= _LONG and array.dtype != object else id(array)


def _is_librarys(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] in ("jax", "numpy", "builtins")


def _reference(value: Any) -> Callable[[], Any]:
    """A value, without keeping it alive where that can be done."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _is_same(old: Any, new: Any) -> bool:
    return old is new or (isinstance(new, _VALUES) and type(old) is type(new) and bool(old == new))
