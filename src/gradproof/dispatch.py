"""Work sent to somebody else's workers: what can be sent, to how many, and what becomes of it when one is lost.

`executor=` takes any `concurrent.futures.Executor`; nothing here knows what the work is.
"""

from __future__ import annotations

import importlib
import math
import os
import pickle
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

WORTH = 0.05
"""Seconds of work below which nothing is sent: sending a chunk takes some milliseconds."""
_CHUNK = 0.1
"""Seconds that a chunk should take, where there is enough to do."""
_PATIENCE, _LATE = 60.0, 20.0
"""A chunk is lost after so many seconds, or so many times as long as it should take, whichever is more."""


class UnsendableError(TypeError):
    """Something cannot be sent to a worker."""


class LostError(RuntimeError):
    """No worker lived to give an answer, or none takes work any more."""


def require_executor(executor: Any) -> None:
    """Refuse what cannot take work."""
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor must be a concurrent.futures.Executor, got {type(executor).__name__}")


def shares_memory(executor: Executor) -> bool:
    """Whether its workers are threads of this process: they see its objects, and its random generators."""
    return isinstance(executor, ThreadPoolExecutor)


class Dispatcher:
    """Hands chunks of work to an executor and waits for what comes back."""

    def __init__(self, executor: Executor) -> None:
        self._executor, self.workers = executor, _count(executor)
        self.lost = ""
        """Why no more work is sent."""

    def length(self, seconds: float, count: int) -> int:
        """How many of `count` pieces of work, which take so long each, make a chunk."""
        share = math.ceil(count / (2 * self.workers))
        return max(1, min(share, math.ceil(_CHUNK / max(seconds, 1e-9))))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Send a chunk; raises `LostError` where the executor takes none."""
        if self.lost:
            raise LostError(self.lost)
        try:
            return self._executor.submit(function, *arguments)
        except RuntimeError as error:  # a pool that broke, or was shut down
            raise self.give_up(error, "The executor takes no more work") from error

    def wait(self, future: Future[Any], seconds: float) -> Any:
        """What a chunk of so many seconds came to; raises whatever came in between."""
        return future.result(max(_PATIENCE, _LATE * seconds))

    def give_up(self, error: BaseException, lost: str) -> LostError:
        """Send nothing any more."""
        told = f"{type(error).__name__}: {error}".strip().rstrip(":")
        self.lost = f"{lost} ({told})"
        return LostError(self.lost)


def _count(executor: Executor) -> int:
    """How many workers it has: pools say so, a Dask client asks its cluster how many threads there are."""
    known: Any = getattr(executor, "_max_workers", None) or getattr(executor, "num_workers", None)
    client: Any = getattr(executor, "_client", None)
    if known is None and client is not None:
        known = _threads_of(client)
    return int(known or os.cpu_count() or 1)


_known: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def _threads_of(client: Any) -> int:
    """Asked once: it takes a message there and back."""
    if client not in _known:
        _known[client] = sum(client.nthreads().values())
    return _known[client]


# what can be sent


def pickler() -> Callable[[Any], bytes]:
    """cloudpickle's `dumps`, which sends lambdas and closures too, or else pickle's."""
    try:
        found: Any = importlib.import_module("cloudpickle")
    except ImportError:
        return pickle.dumps
    return found.dumps


def packed(value: Any, parts: Callable[[], Sequence[tuple[str, Any]]]) -> bytes:
    """A value as bytes. `UnsendableError` names which of its `parts` cannot be sent."""
    dumps = pickler()
    try:
        return dumps(value)
    except Exception as error:
        what, why = _offender(parts(), dumps, error)
        raise UnsendableError(
            f"{what} cannot be sent to a worker ({type(why).__name__}: {why}). Define it at the top of a module, make "
            "what it refers to picklable, or install cloudpickle, which sends lambdas and closures too"
        ) from error


def _offender(
    parts: Sequence[tuple[str, Any]], dumps: Callable[[Any], bytes], error: Exception
) -> tuple[str, Exception]:
    """The smallest part that cannot be sent, in words."""
    for words, value in parts:
        why = _fails(dumps, value)
        if why is None:
            continue
        inside = [(name, each) for name, each in _referred(value) if _fails(dumps, each) is not None]
        for name, each in inside[:1]:
            return f"{words} refers to `{name}` ({type(each).__name__}), which", _fails(dumps, each) or why
        return words, why
    return "the call", error


def _fails(dumps: Callable[[Any], bytes], value: Any) -> Exception | None:
    try:
        dumps(value)
    except Exception as error:
        return error
    return None


def _referred(value: Any) -> Sequence[tuple[str, Any]]:
    """What a function reads from around itself, or an object or a class holds."""
    code = getattr(value, "__code__", None)
    if code is None:
        return [*getattr(value, "__dict__", {}).items()]
    cells = zip(code.co_freevars, value.__closure__ or (), strict=False)
    around = [(name, value.__globals__[name]) for name in code.co_names if name in value.__globals__]
    return [*((name, cell.cell_contents) for name, cell in cells), *around]


def picklable(error: Exception) -> Exception:
    """An exception that can be sent back: itself, or its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
