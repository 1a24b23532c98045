"""Every `autograd.Function.apply`, seen while it is called, whoever holds it and under whatever name.

No function mode sees `apply`, and most users bind it to a name when their module is imported (`fused = Fused.apply`):
to replace the attribute of the class would miss those. So the one function object behind all of them stays, and its
code is exchanged for a call of ours while somebody watches.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import function as _home

Apply = Callable[..., Any]
Watcher = Callable[[Apply, Any, tuple[Any, ...], dict[str, Any]], Any]
"""Called in place of `apply`: with the real one, the class of the Function, and the arguments."""

_NAME = "_gradproof_watched_apply"
_watchers = threading.local()
_lock = threading.Lock()
_entered = 0
_code: list[types.CodeType] = []


class _Template:
    """Its method has the free variables of the one that it stands in for: the class that `super()` needs."""

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        _ = __class__  # the cell
        return globals()["_gradproof_watched_apply"](cls, args, kwargs)  # the globals are torch's


@contextmanager
def watching(watcher: Watcher) -> Generator[None]:
    """While inside, calls of `apply` in this thread go to the watcher."""
    before = getattr(_watchers, "current", None)
    _watchers.current = watcher
    _exchange()
    try:
        yield
    finally:
        _put_back()
        _watchers.current = before


def _exchange() -> None:
    global _entered
    with _lock:
        _entered += 1
        if _entered > 1:
            return
        function: Any = torch.autograd.Function.apply.__func__  # pyright: ignore[reportFunctionMemberAccess]
        code: types.CodeType = function.__code__
        template: Any = _Template.apply
        template_code: types.CodeType = template.__func__.__code__
        if code.co_freevars != template_code.co_freevars:
            _entered -= 1
            raise RuntimeError("torch.autograd.Function.apply is not the function that this version of gradproof knows")
        real = types.FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)
        _home.__dict__[_NAME] = functools.partial(_redirected, real)
        _code.append(code)
        function.__code__ = template_code


def _put_back() -> None:
    global _entered
    with _lock:
        _entered -= 1
        if _entered == 0:
            function: Any = torch.autograd.Function.apply.__func__  # pyright: ignore[reportFunctionMemberAccess]
            function.__code__ = _code.pop()
            del _home.__dict__[_NAME]


def _redirected(real: Apply, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    watcher: Watcher | None = getattr(_watchers, "current", None)
    if watcher is None:  # another thread's
        return real(cls, *args, **kwargs)
    return watcher(real, cls, args, kwargs)
