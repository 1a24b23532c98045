"""Whether a function that was compiled by `jax.jit` still refers to what it did when JAX traced it.

JAX keeps the trace for as long as the function lives, and what it derived of it: a global that a rule reads, or a rule
that is defined anew, may not be read again. After such a change the function below `jax.jit` is checked, which is
traced anew, and a note says that what JAX keeps is older.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import jax

from gradproof.backends.jax.calls import TRANSFORMED
from gradproof.backends.referred import referred

# How far functions are followed that refer to functions, and how many values are looked at.
_DEPTH, _MOST = 4, 256
# What a function of JAX holds of the user's: the function itself and its rules.
_PARTS = ("__wrapped__", "fun", "fwd", "bwd", "jvp")
_VALUES = (bool, int, float, complex, str, bytes, type(None))
# What refers to nothing.
_ENDS = (ModuleType, type, jax.Array, *_VALUES)

_known: weakref.WeakKeyDictionary[Any, dict[str, Callable[[], Any]]] = weakref.WeakKeyDictionary()


def changed_since(function: Any) -> tuple[str, ...]:
    """The names of what a compiled function refers to and that is another since the first check of its trace."""
    now = dict(itertools.islice(_read(function, "", _DEPTH), _MOST))
    before = _known.get(function)
    if before is None or not _is_traced(function):
        _known[function] = {name: _reference(value) for name, value in now.items()}
        return ()
    pairs = ((name, before[name](), value) for name, value in now.items() if name in before)
    return tuple(name for name, old, value in pairs if not _is_same(old, value))


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
    if not depth or isinstance(value, _ENDS) or _is_librarys(value):
        return
    for part in _PARTS if isinstance(value, TRANSFORMED) else ():
        held: Any = getattr(value, part, None)
        if callable(held):
            yield from _read(held, f"{name}.{part}" if name and part != "__wrapped__" else name, depth - 1)
    if isinstance(value, FunctionType):
        for inner, found in referred(value):
            if found is not None and not isinstance(found, ModuleType):
                yield from _read(found, inner, depth - 1)


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
