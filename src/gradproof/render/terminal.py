"""The lines of a report in colour, where the terminal has any and rich is installed."""

from __future__ import annotations

import shutil
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
    """Print a report: in colour and folded to its width on a terminal, else as plain text."""
    stream = sys.stdout if file is None else file
    if not stream.isatty():
        stream.write(f"{plain(report)}\n")
    elif find_spec("rich") is None:
        stream.write(f"{plain(report, shutil.get_terminal_size().columns)}\n")
    else:
        from rich.console import Console

        console = Console(file=stream, highlight=False)
        console.print(coloured(report, console.width), soft_wrap=True)


def coloured(report: Report, columns: int | None = None) -> Text:
    """The lines of a report as rich shows them; without a number of columns, their text is that of `plain`."""
    from rich.text import Text

    told = lines(report, columns)
    rows = [Text.assemble(*((span.text, STYLES.get(span.style, "")) for span in line)) for line in told]
    for row in rows:
        row.rstrip()
    return Text("\n").join(rows)
