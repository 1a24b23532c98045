"""What benchmarks share: a limit in seconds, and processes that each use one thread."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from types import FrameType
from typing import TypeVar

import torch

Job = TypeVar("Job")
Done = TypeVar("Done")


class TooLongError(BaseException):
    """A check used up its seconds. Not an Exception, so that the check does not take it for the function's own."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def quiet() -> None:
    """One thread; and no oneDNN, whose products in bfloat16 end the process on some machines."""
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False
    warnings.simplefilter("ignore")


def pool_of(jobs: int) -> ProcessPoolExecutor:
    """So many quiet processes."""
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=quiet)


def surveyed(run: Callable[[Job, bool], Done], work: Iterable[Job], jobs: int, reports: bool) -> Iterator[Done]:
    """What each job comes to, as it does; `reports`: with reports of what is not as wanted."""
    with pool_of(jobs) as pool:
        yield from (done.result() for done in as_completed([pool.submit(run, job, reports) for job in work]))
