"""The lines of a report in colour, where the terminal has any and rich is installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from gradproof.render.text import lines, plain
from gradproof.results.report import Report

if TYPE_CHECKING:
    from rich.text import Text

STYLES = {
    "PASS": "bold green",
    "FAIL": "bold red",
    "INCONCLUSIVE": "bold yellow",
    "RIGHT": "green",
    "KINK": "cyan",
    "NOT SETTLED": "yellow",
    "WRONG": "bold red",
    "RAISED": "bold red",
    "place": "bold",
    "numeric": "green",
    "analytic": "red",
    "cause": "bold yellow",
    "label": "dim",
    "quiet": "dim",
}


def show(report: Report, file: TextIO | None = None) -> None:
    """Print a report: in colour on a terminal, else as plain text."""
    stream = sys.stdout if file is None else file
    if stream.isatty() and find_spec("rich") is not None:
        from rich.console import Console

        Console(file=stream, highlight=False).print(coloured(report), soft_wrap=True)
    else:
        stream.write(f"{plain(report)}\n")


def coloured(report: Report) -> Text:
    """The lines of a report as rich shows them; their text is `str(report)`."""
    from rich.text import Text

    rows = [Text.assemble(*((span.text, STYLES.get(span.style, "")) for span in line)) for line in lines(report)]
    for row in rows:
        row.rstrip()
    return Text("\n").join(rows)
