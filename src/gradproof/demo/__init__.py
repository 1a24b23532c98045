"""A model in which one hand-written operator has a wrong derivative: which, and where?

    gradproof demo
    gradproof demo --backend numpy

The mistake is planted in a norm. It is the kind a tiled kernel makes: a sum over the columns visits whole tiles of
four, and the last two of six columns are never added. The exit code is 0 if gradproof finds it. In PyTorch
the model is a small transformer, which is audited (`transformer.py`); elsewhere it is made of three operators, and each
is checked.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from gradproof.render.html import write_html
from gradproof.render.terminal import show
from gradproof.results.finding import Entry
from gradproof.results.report import Report

BACKENDS = ("torch", "jax", "numpy")
TILE = 4
COLUMNS = 6
TAIL = range(COLUMNS - COLUMNS % TILE, COLUMNS)


def _model(backend: str) -> Any:
    return importlib.import_module(f"gradproof.demo.{backend}_model")


def main(html: Path | None = None, backend: str = "torch") -> int:
    """Print what was found, write it to `html` if that can be written, and return 0 if the mistake was found."""
    if backend == "torch":
        return importlib.import_module("gradproof.demo.transformer").main(html)
    model = _model(backend)
    reports: dict[str, Report] = model.checked()
    show(reports["model"])
    say("\nEach operator on its own:")
    operators = {name: report for name, report in reports.items() if name != "model"}
    for name, report in operators.items():
        say(f"  {name:9} {report.verdict.name}  {about(report)}")
    wrong = [name for name, report in operators.items() if not report]
    found = wrong == ["rms_norm"] and not reports["model"] and all(map(in_tail, worst_entries(reports["rms_norm"])))
    say(f"\n{'FOUND' if found else 'NOT FOUND'}: the wrong {model.RULE} is in {', '.join(wrong) or 'no operator'}.")
    for name in wrong:
        say(f"  {reports[name].findings[0].hint}")
    if found:
        say(f"  Its sum visits whole tiles of {TILE} columns: columns {TAIL[0]} to {TAIL[-1]} are left over.")
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        write_html(html, list(reports.items()))
        say(f"\nHTML report: {html}")
    return 0 if found else 1


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def worst_entries(report: Report) -> tuple[Entry, ...]:
    return report.findings[0].entries if report.findings else ()


def in_tail(entry: Entry) -> bool:
    return entry.output.element[-1] in TAIL


def about(report: Report) -> str:
    entries = sum(finding.wrong for finding in report.findings)
    return f"{entries} of {report.entries} Jacobian entries differ" if entries else f"{report.entries} Jacobian entries"
