"""Executors for tests, and reports without their times, which are all that may differ."""

from __future__ import annotations

import re
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol


class Told(Protocol):
    """A report of any kind."""

    def to_json(self) -> str: ...


def told(report: Told) -> str:
    """All of a report but its times."""
    return re.sub(r'"seconds": [^,\n]*', "", report.to_json())


class Counting(ThreadPoolExecutor):
    """Two threads that note who works, and how much waits for them at most."""

    def __init__(self) -> None:
        super().__init__(2)
        self.workers: set[int] = set()
        self.most = 0
        self._sent: list[Future[Any]] = []

    def submit(self, fn: Any, /, *arguments: Any, **keywords: Any) -> Any:
        def counted() -> Any:
            self.workers.add(threading.get_ident())
            return fn(*arguments, **keywords)

        future = super().submit(counted)
        self._sent.append(future)
        self.most = max(self.most, sum(not each.done() for each in self._sent))
        return future
