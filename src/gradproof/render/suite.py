"""A suite as one page: a row for each case, sortable and filtered, whose details open on demand; and its live table."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from gradproof.render.html import asset, environment
from gradproof.render.text import printable
from gradproof.results.suite import WORDS, Row, changes, summary

_LATEST = 8
"""Cases that did not pass and are shown while the suite runs."""
_WITHOUT_SCRIPT = 300
"""Cases that are listed where scripts do not run."""
_DETAILS = 4_000_000
"""Characters of details that a page holds; beyond, the JSON file has them."""


def write_page(path: str | PathLike[str], rows: Sequence[Row], before: Mapping[str, Row] | None = None) -> None:
    """Write the page of a suite; `before` are the rows of an earlier run to compare with."""
    Path(path).write_text(page(rows, before), encoding="utf-8")


def page(rows: Sequence[Row], before: Mapping[str, Row] | None = None) -> str:
    """The page of a suite, the worst cases first."""
    ordered = sorted(rows, key=lambda row: (row.rank, row.case))
    changed = {} if before is None else changes(rows, before)
    columns = ["case", "status", "cause", *(["change"] if before is not None else []), "seconds", "evaluations", "vjps"]
    return environment().get_template("suite.html.j2").render(
        columns=columns,
        columns_json=_json(columns),
        cases_json=_json([*_data(ordered, None if before is None else changed)]),
        worst=[row for row in ordered if row.word != "PASS"][:_WITHOUT_SCRIPT],
        compared=before is not None,
        words=[word for word in WORDS if any(row.word == word for row in rows)],
        kinds=sorted({change.split()[0] for change in changed.values() if not change[0].isdigit()}),
        gone=sorted(set(before or {}) - {row.case for row in rows}),
        summary=summary(rows),
        seconds=sum(row.seconds for row in rows),
        style=asset("style.css"),
        script=asset("suite.js"),
    )  # fmt: skip


def _data(rows: Sequence[Row], changed: Mapping[str, str] | None) -> Iterator[list[Any]]:
    """A list for each case: its columns, and last its details, as long as there is room for them."""
    left = _DETAILS
    for row in rows:
        detail = row.detail if len(row.detail) <= left else ""
        left -= len(detail)
        change = [] if changed is None else [changed.get(row.case, "")]
        yield [row.case, row.word, row.cause, *change, round(row.seconds, 4), row.evaluations, row.vjps, detail]


def _json(value: Any) -> Any:
    """Data inside of a page: nothing in it ends the element that holds it."""
    from markupsafe import Markup

    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))


def watched(rows: Iterable[Row], total: int, done: Sequence[Row] = ()) -> Iterator[Row]:
    """Hand rows on, and show on a terminal how far the suite is; elsewhere, a line for each that does not pass."""
    from rich.console import Console

    console = Console(stderr=True)
    counts = {word: sum(row.word == word for row in done) for word in WORDS}
    if not console.is_terminal:
        for row in rows:
            if row.word != "PASS":
                console.print(printable(_line(row)), markup=False, highlight=False, soft_wrap=True)
            yield row
        return
    from rich.live import Live

    latest: list[Row] = []
    started = time.monotonic()
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        for number, row in enumerate(rows, 1):
            counts[row.word] += 1
            if row.word != "PASS":
                latest = [*latest, row][-_LATEST:]
            live.update(_table(counts, latest, number, total - len(done), time.monotonic() - started))
            yield row


def _table(counts: Mapping[str, int], latest: Sequence[Row], number: int, total: int, seconds: float) -> Any:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    left = seconds / number * (total - number)
    head = Text(f"{number} of {total} cases, {told}; about {left:.0f} s left")
    table = Table(box=None, show_header=bool(latest), pad_edge=False)
    for title in ("case", "", "cause"):
        table.add_column(title, overflow="ellipsis", no_wrap=True)
    for row in latest:
        table.add_row(printable(row.case), row.word, printable(row.cause))
    return Group(head, ProgressBar(total=total, completed=number, width=60), table)


def _line(row: Row) -> str:
    return f"{row.word} {row.case}" + (f": {row.cause}" if row.cause else "")
