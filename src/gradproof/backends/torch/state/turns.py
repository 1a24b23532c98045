"""Checks in several threads take turns; in a thread that the function itself waits for, it is a check within a check.

The random generators, the level of dual numbers, the filters of warnings and the user's tensors belong to the whole
process. A check within a check is of the same thread, mostly, and has its turn already. If the function starts a thread
and waits for it, a check in that thread would wait for the one outside, and that one for the thread, for ever. The
stack of the thread outside tells: as long as it waits for this one, nothing happens there, and the check inside may go
on. `join()` and futures say whom they wait for. Events, queues and event loops do not; there, a thread that was started
during the turn is taken for the one that is waited for.
"""

from __future__ import annotations

import concurrent.futures
import selectors
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from types import CodeType, FrameType

from gradproof.backends import at_work

# How often somebody who waits looks, and for how long the other may wait for a thread that cannot be told.
_LOOK, _PATIENCE = 0.05, 30.0
# The functions of the standard library in which a thread waits for one, or for several, of futures.
_JOIN, _RESULT = threading.Thread.join.__code__, Future.result.__code__
_SEVERAL: frozenset[CodeType] = frozenset({concurrent.futures.wait.__code__, concurrent.futures.as_completed.__code__})
# The same, where it does not show for whom.
_WAITS = frozenset({_JOIN, _RESULT, threading.Condition.wait.__code__, selectors.DefaultSelector.select.__code__})
# Modules of the standard library that lie between a wait and whoever asked for it.
_WAITING_MODULES = (threading.__name__, "concurrent", "queue", "asyncio", selectors.__name__)


class Turns:
    """A lock that its owner may take again, and so may a thread that the owner waits for meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._owner: int | None = None
        self._older: list[threading.Thread] = []

    def take(self) -> bool:
        """Wait for the turn; whether it must be given back. It need not where it is that of a thread that awaits us."""
        if getattr(at_work, "here", False):
            return False
        if not self._lock.acquire(blocking=False) and not self._wait():
            return False
        if not self._depth:
            self._owner, self._older = threading.get_ident(), threading.enumerate()
        self._depth += 1
        return True

    def give_back(self) -> None:
        self._depth -= 1
        self._lock.release()

    def _wait(self) -> bool:
        """Whether the lock was taken; False: its owner waits for this thread."""
        since, before = time.monotonic(), None
        while not self._lock.acquire(timeout=_LOOK):
            frames = list(_frames(self._owner))
            if any(_waits_for_us(frame) for frame in frames):
                return False
            waiting = [(id(frame), frame.f_lasti) for frame in frames if frame.f_code in _WAITS]
            if not waiting or waiting != before:
                since, before = time.monotonic(), waiting
            elif _is_the_users(frames) and threading.current_thread() not in self._older:
                return False
            elif time.monotonic() - since > _PATIENCE:
                raise RuntimeError(
                    "this check waits for one in another thread, which has been waiting for a thread itself for "
                    f"{_PATIENCE:.0f} s: most likely for this one. Checks take turns, because much of their state "
                    "belongs to the whole process: run the inner check in the thread of the outer one, or wait for "
                    "this thread by its own join() or result()"
                )
        return True


def _frames(thread: int | None) -> Iterator[FrameType]:
    """The stack of a thread, the innermost frame first."""
    frame = sys._current_frames().get(thread or 0)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        yield frame
        frame = frame.f_back


def _waits_for_us(frame: FrameType) -> bool:
    """Whether a frame joins this thread, or waits for the result of what this thread was given to do."""
    if frame.f_code is _JOIN:
        return frame.f_locals.get("self") is threading.current_thread()
    awaited: list[object] = []
    if frame.f_code is _RESULT:
        awaited = [frame.f_locals.get("self")]
    elif frame.f_code in _SEVERAL:
        awaited = [*frame.f_locals.get("fs", ())]
    return bool(awaited) and any(_works_on(own, awaited) for own in _frames(threading.get_ident()))


def _works_on(frame: FrameType, awaited: Iterable[object]) -> bool:
    """Whether a frame runs an item of an executor's work whose result is awaited."""
    future = getattr(frame.f_locals.get("self"), "future", None)
    return future is not None and any(each is future for each in awaited)


def _is_the_users(frames: Iterable[FrameType]) -> bool:
    """Whether it is the function under test that waits: a check itself waits for executors."""
    modules = (str(frame.f_globals.get("__name__", "")) for frame in frames)
    first = next((name for name in modules if name.partition(".")[0] not in _WAITING_MODULES), "")
    return first.partition(".")[0] != __name__.partition(".")[0]
