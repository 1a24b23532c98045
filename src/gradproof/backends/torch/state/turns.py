"""Checks in several threads take turns; in a thread that the function itself waits for, it is a check within a check.

The random generators, the level of dual numbers, the filters of warnings and the user's tensors belong to the whole
process. A check within a check is of the same thread, mostly, and has its turn already. If the function starts a thread
and joins it, a check in that thread would wait for the one outside, and that one for the thread, for ever. The stack of
the thread outside tells: as long as it joins this one, nothing happens there, and the check inside may go on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from types import FrameType

from gradproof.backends import at_work

# How often somebody who waits looks, and for how long the other may wait for a thread that cannot be told.
_LOOK, _PATIENCE = 0.05, 30.0
# The functions of the standard library in which a thread waits for others.
_WAITS = frozenset({Future.result.__code__, threading.Thread.join.__code__, threading.Condition.wait.__code__})


class Turns:
    """A lock that its owner may take again, and so may a thread that the owner joins meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._owner: int | None = None

    def take(self) -> bool:
        """Wait for the turn; whether it must be given back. It need not where it is that of a thread that joins us."""
        if getattr(at_work, "here", False):
            return False
        if not self._lock.acquire(blocking=False) and not self._wait():
            return False
        self._owner = threading.get_ident()
        return True

    def give_back(self) -> None:
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
            elif time.monotonic() - since > _PATIENCE:
                raise RuntimeError(
                    "this check waits for one in another thread, which has been waiting for a thread itself for "
                    f"{_PATIENCE:.0f} s: most likely for this one. Checks take turns, because much of their state "
                    "belongs to the whole process: run the inner check in the thread of the outer one, or join this "
                    "thread by its own join() or result()"
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
    if frame.f_code is threading.Thread.join.__code__:
        return frame.f_locals.get("self") is threading.current_thread()
    if frame.f_code is Future.result.__code__:
        awaited = frame.f_locals.get("self")
        return any(_works_on(own, awaited) for own in _frames(threading.get_ident()))
    return False


def _works_on(frame: FrameType, awaited: object) -> bool:
    """Whether a frame runs an item of an executor's work whose result is awaited."""
    return awaited is not None and getattr(frame.f_locals.get("self"), "future", None) is awaited
