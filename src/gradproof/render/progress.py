"""How far a check has come, on a terminal, once it has taken a second.

Nothing is asked of the check: a thread reads the counts that it keeps anyway.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec

from gradproof.core.cost import Cost
from gradproof.render.text import printable

# Seconds before anything is shown, and between two looks at the counts.
_PATIENCE, _PAUSE = 1.0, 0.1


def watching(cost: Cost, subject: str) -> AbstractContextManager[object]:
    """While inside, a bar on standard error if that is a terminal; its remaining time is known if the work is."""
    if not _on_terminal() or find_spec("rich") is None:
        return nullcontext()
    return _Watch(cost, subject)


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
