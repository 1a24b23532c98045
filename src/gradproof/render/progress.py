"""How far a check has come, on a terminal, once it has taken a second.

Nothing is asked of the check: a thread reads the counts that it keeps anyway.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec

from gradproof.core.cost import Cost
from gradproof.render.text import printable

# Seconds before anything is shown, and between two looks at the counts.
_PATIENCE, _PAUSE = 1.0, 0.1
# Columns of a line that is written over.
_LINE = 78


def watching(cost: Cost, subject: str) -> AbstractContextManager[object]:
    """While inside, a bar on standard error if that is a terminal; its remaining time is known if the work is."""
    if getattr(_muted, "here", False) or not _on_terminal() or find_spec("rich") is None:
        return nullcontext()
    return _Watch(cost, subject)


_muted = threading.local()


@contextmanager
def silent() -> Generator[None]:
    """While inside, this thread shows no bars: it works for somebody else's terminal."""
    _muted.here = True
    try:
        yield
    finally:
        _muted.here = False


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]


class _Watch:
    def __init__(self, cost: Cost, subject: str) -> None:
        self._cost, self._subject = cost, subject
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gradproof progress", daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        if not self._over.wait(_PATIENCE):
            follow(self._cost, self._subject, lambda: self._over.wait(_PAUSE), _PATIENCE)


def follow(cost: Cost, subject: str, over: Callable[[], bool], elapsed: float = 0.0) -> None:
    """Show the counts of `cost` until `over`, which waits a moment between two looks; `elapsed` went by before."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("gradproof {task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f} calls", markup=False),
        TimeElapsedColumn(),
        TextColumn("elapsed, remaining"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(printable(subject), total=None)
        progress.tasks[0].start_time = progress.get_time() - elapsed
        while not over():
            known = cost.expected > cost.calls
            progress.update(task, completed=cost.calls, total=cost.expected if known else None)


class Steps:
    """A line on a terminal that says which of several checks is running; nothing elsewhere."""

    def __init__(self, subject: str) -> None:
        self._subject, self._shows = subject, _on_terminal()
        self._started, self._width = time.monotonic(), 0

    def __enter__(self) -> Steps:
        return self

    def at(self, number: int, total: int, what: str) -> None:
        """Check `number` of `total` begins."""
        if self._shows and time.monotonic() - self._started > _PATIENCE:
            self._write(f"gradproof {self._subject}: {number} of {total}, {what}")

    def __exit__(self, *_: object) -> None:
        if self._width:
            self._write("")

    def _write(self, text: str) -> None:
        line = printable(text)[:_LINE]
        sys.stderr.write(f"\r{line.ljust(self._width)}\r{line}")
        sys.stderr.flush()
        self._width = len(line)
