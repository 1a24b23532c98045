"""The command line: check, show, demo.

Exit codes: 0 every check passed, 1 a derivative is wrong, 2 the command was not understood, 3 inconclusive.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gradproof.api import check
from gradproof.render.html import overall, write_html
from gradproof.render.json import dump_run, load_run
from gradproof.render.terminal import show as show_report
from gradproof.render.text import printable, summary
from gradproof.results.report import Report, Verdict
from gradproof.targets import Case, TargetError, find_cases

EXIT_CODES = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 3}
_USAGE = 2

app = typer.Typer(
    help="Is this hand-written derivative right, and if not, which element is wrong?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Html = Annotated[Path | None, typer.Option("--html", help="Also write an HTML report.", dir_okay=False)]
Json = Annotated[str | None, typer.Option("--json", help="Also write JSON; - writes it to standard output, alone.")]


@app.command("check")
def check_command(
    target: Annotated[str, typer.Argument(help="module:target or file.py:target; without a target, every case_*.")],
    json: Json = None,
    html: Html = None,
    strategy: Annotated[str, typer.Option(help="auto, probes or entries.")] = "auto",
    modes: Annotated[list[str] | None, typer.Option("--mode", help="reverse or forward; may be repeated.")] = None,
    atol: Annotated[float | None, typer.Option(help="Absolute tolerance of an entry.")] = None,
    rtol: Annotated[float | None, typer.Option(help="Relative tolerance of an entry.")] = None,
    order: Annotated[int, typer.Option(help="2: the second derivative too.")] = 1,
    wrt: Annotated[list[str] | None, typer.Option(help="An input by name, pattern or number; may be repeated.")] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", help="What is checked; may be repeated.")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="A property whose findings are intended; may be repeated.")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="What it is computed in: a dtype, or a spacing.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Budget of each check.")] = None,
    evaluations: Annotated[int | None, typer.Option(help="Budget of each check, in place of --seconds.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the probes.")] = 0,
) -> None:
    """Check cases: (func, inputs), functions that return one, or collections of them."""
    if seconds is not None and evaluations is not None:
        _refuse("a check has one budget: give --seconds or --evaluations, not both")
    options: dict[str, Any] = {
        "strategy": strategy,
        "modes": modes or None,
        "atol": atol,
        "rtol": rtol,
        "order": order,
        "wrt": [int(each) if each.isdecimal() else each for each in wrt] if wrt else None,
        "properties": properties or None,
        "allow": allow or (),
        "precision": _number_or_name(precision),
        "seconds": seconds,
        "evaluations": evaluations,
        "seed": seed,
    }
    try:
        reports = [(case.name, _run(case, options)) for case in find_cases(target)]
    except TargetError as error:
        _refuse(str(error))
    _deliver(reports, json, html)


@app.command("show")
def show_command(
    path: Annotated[Path, typer.Argument(help="A JSON report.", exists=True, dir_okay=False)],
    json: Json = None,
    html: Html = None,
) -> None:
    """Show a report that was saved as JSON."""
    try:
        reports = load_run(path.read_text(encoding="utf-8"))
    except ValueError as error:
        _refuse(f"{path}: {error}")
    _deliver(reports, json, html)


@app.command("demo")
def demo_command(html: Html = Path("gradproof-demo.html")) -> None:
    """Find the wrong backward in a model of three operators."""
    try:
        from gradproof.demo import main
    except ImportError as error:
        _refuse(f"the demonstration needs {error.name}: pip install 'gradproof[torch]'")
    try:
        raise typer.Exit(main(html))
    except ImportError as error:
        _refuse(str(error))


def _number_or_name(precision: str | None) -> float | str | None:
    """A spacing if it is a number, else the name of a dtype."""
    try:
        return None if precision is None else float(precision)
    except ValueError:
        return precision


def _run(case: Case, options: dict[str, Any]) -> Report:
    try:
        return check(case.func, case.inputs, case.kwargs, **options)
    except (TypeError, ValueError) as error:  # check refuses a call that it cannot make sense of
        raise TargetError(f"{case.name}: {error}") from error


def _refuse(message: str) -> typing.NoReturn:
    typer.echo(f"error: {printable(message)}", err=True)
    raise typer.Exit(_USAGE)


def _deliver(reports: Sequence[tuple[str, Report]], json: str | None, html: Path | None) -> None:
    """Write what was asked for, print the rest, and leave with the code of the verdict."""
    if json == "-":
        sys.stdout.write(dump_run(reports))
    else:
        _print(reports)
        if json is not None:
            try:
                Path(json).write_text(dump_run(reports), encoding="utf-8")
            except OSError as error:
                _refuse(f"the report could not be written: {error}")
    if html is not None:
        try:
            write_html(html, reports)
        except (ImportError, OSError) as error:
            _refuse(str(error))
        typer.echo(f"HTML report: {html}", err=json == "-")
    raise typer.Exit(EXIT_CODES[overall([report for _, report in reports])])


def _print(reports: Sequence[tuple[str, Report]]) -> None:
    for name, report in reports:
        if len(reports) > 1:
            typer.echo(f"── {printable(name)}")
        show_report(report)
    if len(reports) > 1:
        typer.echo(f"\n{summary([report for _, report in reports])}")
