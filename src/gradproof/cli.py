"""The command line: check, suite, audit, show, demo.

Exit codes: 0 every check passed, 1 a derivative is wrong, 2 the command was not understood or left a case unchecked,
3 inconclusive, 4 a case raised an exception before it could be checked. Of several, the first of 1, 4, 2, 3 counts.
"""

from __future__ import annotations

import re
import sys
import traceback
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from gradproof import __version__
from gradproof.names import StrategyName, options_written
from gradproof.render.audit import show as show_audit
from gradproof.render.audit_json import is_audit, load_audit
from gradproof.render.html import require_html, write_html
from gradproof.render.json import dump_run, load_run
from gradproof.render.suite import watched, write_page
from gradproof.render.terminal import show as show_report
from gradproof.render.text import printable
from gradproof.results.audit import AuditReport
from gradproof.results.report import Verdict
from gradproof.results.run import Crash, Run
from gradproof.running import Refusal, run_cases, shrink_cases
from gradproof.targets import TargetError, crash_of, find_cases

EXIT_CODES = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 3}
_USAGE, _RAISED, _STOPPED = 2, 4, 130
# Exit codes, the worst last.
_WORST = (0, 3, _RAISED, 1)

app = typer.Typer(
    help="Is this hand-written derivative right, and if not, which element is wrong?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Html = Annotated[Path | None, typer.Option("--html", help="Also write an HTML report.", dir_okay=False)]
Json = Annotated[str | None, typer.Option("--json", help="Also write JSON; - writes it to standard output, alone.")]
OnlyWrong = Annotated[bool, typer.Option("--only-wrong", help="Print no reports that pass; files have all of them.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gradproof {__version__}")
        raise typer.Exit


@app.callback()
def main_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Is this hand-written derivative right, and if not, which element is wrong?"""


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
    only_wrong: OnlyWrong = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes that share the cases.")] = 1,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="Of each case that fails, write a test as small as the failure allows.")
    ] = False,
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
    _require_writable(html)
    try:
        outcome = run_cases(target, options, jobs)
    except TargetError as error:
        _refuse(str(error), error.__cause__)
    try:
        _deliver(outcome.run, json, html, only_wrong, outcome.refusals, stopped=outcome.stopped)
    finally:
        if shrink and not outcome.stopped:
            _shrink(target, outcome.run, options, to_stderr=json == "-")


@app.command("suite")
def suite_command(
    paths: Annotated[list[str], typer.Argument(help="Files, folders, or file.py:target; every case_* in them.")],
    results: Annotated[
        Path, typer.Option("--results", help="Lines of JSON, written as cases finish.", dir_okay=False)
    ] = Path("gradproof-suite.jsonl"),
    html: Html = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is not in --results yet.")] = False,
    baseline: Annotated[
        Path | None, typer.Option(help="The --results of an earlier run, to compare with.", exists=True, dir_okay=False)
    ] = None,
    workers: Annotated[int, typer.Option("--workers", "-w", min=1, help="Processes on this machine.")] = 1,
    scheduler: Annotated[str | None, typer.Option(help="The address of a Dask scheduler.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Budget of each check.")] = None,
    case_timeout: Annotated[
        float, typer.Option(help="Seconds after which a case counts as lost; needs --workers or --scheduler.")
    ] = 600.0,
    strategy: Annotated[str, typer.Option(help="auto, probes or entries.")] = "auto",
    order: Annotated[int, typer.Option(help="2: the second derivative too.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the probes.")] = 0,
) -> None:
    """Check thousands of cases, here or on workers; a run that was stopped goes on with --resume."""
    from gradproof.collecting import collect, collect_apart
    from gradproof.results.suite import Row, summary
    from gradproof.suites import Journal, Suite, dask, processes

    if not case_timeout > 0:
        _refuse(f"--case-timeout must be a number of seconds > 0, got {case_timeout:g}")
    if strategy not in get_args(StrategyName):
        _refuse(f"--strategy must be one of {', '.join(get_args(StrategyName))}, got {strategy}")
    if order not in (1, 2):
        _refuse(f"--order must be 1 or 2, got {order}")
    _require_writable(html)
    _require_folder(results, "--results")
    journal = Journal(results)
    options = {"strategy": strategy, "order": order, "seed": seed, "seconds": seconds}
    try:
        before = None if baseline is None else Journal(baseline).rows()
        done = journal.rows() if resume else {}
        cases = collect(paths) if workers == 1 and scheduler is None else collect_apart(paths)
    except (TargetError, ValueError) as error:
        _refuse(str(error), error.__cause__)
    if not resume:
        journal.begin()
    known = {case.name for case in cases}
    rows: list[Row] = [row for row in done.values() if row.case in known]
    suite = Suite([case for case in cases if case.name not in done], options, case_timeout)
    try:
        if scheduler is not None:
            found = suite.on(*dask(scheduler))
        else:
            found = suite.here() if workers == 1 else suite.on(processes(workers), workers)
    except (ImportError, OSError) as error:
        _refuse(f"--scheduler {scheduler}: {error}")
    stopped = False
    try:
        rows += watched(journal.write(found), len(cases), rows)
    except KeyboardInterrupt:
        stopped = True
        rows = [*journal.rows().values()]
    if html is not None:
        write_page(html, rows, before)
        typer.echo(f"HTML report: {html}")
    typer.echo(summary(rows) + (f"; stopped, {len(cases) - len(rows)} left: go on with --resume" if stopped else ""))
    words = {row.word for row in rows}
    codes = {"FAIL": 1, "RAISED": _RAISED, "REFUSED": _USAGE, "LOST": 3, "INCONCLUSIVE": 3}
    raise typer.Exit(_STOPPED if stopped else next((code for word, code in codes.items() if word in words), 0))


@app.command("audit")
def audit_command(
    target: Annotated[str, typer.Argument(help="module:target or file.py:target; without a target, every case_*.")],
    json: Json = None,
    html: Html = None,
    deep: Annotated[bool, typer.Option("--deep", help="Check every operation, also if the whole passes.")] = False,
    seconds: Annotated[float | None, typer.Option(help="Budget of each audit.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the probes.")] = 0,
) -> None:
    """Which operation of a model is wrong, and where does a NaN come from? Takes the same cases as check."""
    _require_writable(html)
    try:
        cases = find_cases(target)
        from gradproof.torch import audit
    except TargetError as error:
        _refuse(str(error))
    except ImportError as error:
        _refuse(f"an audit needs {error.name}: pip install 'gradproof[torch]'")
    if len(cases) > 1 and (json is not None or html is not None):
        _refuse(f"{target} has {len(cases)} cases: a file holds one audit, so name one of them")
    reports: list[tuple[str, AuditReport]] = []
    crashes: list[Crash] = []
    for case in cases:
        if isinstance(case, Crash):
            crashes.append(case)
            continue
        try:
            with options_written("--seconds"):  # which an audit calls budget=
                report = audit(case.func, case.inputs, case.kwargs, deep=deep, budget=seconds, seed=seed)
        except (TypeError, ValueError) as error:
            _refuse(f"{case.name}: {error}")
        except SystemExit as error:  # as any other exception of a case
            crashes.append(crash_of(case.name, error))
            continue
        reports.append((case.name, report))
    _deliver_audits(reports, json, html, crashes)


@app.command("show")
def show_command(
    path: Annotated[Path, typer.Argument(help="A JSON report.", exists=True, dir_okay=False)],
    json: Json = None,
    html: Html = None,
    only_wrong: OnlyWrong = False,
) -> None:
    """Show a report or an audit that was saved as JSON."""
    _require_writable(html)
    try:
        text = path.read_text(encoding="utf-8")
        if is_audit(text):
            audit = load_audit(text)
            _deliver_audits([(audit.subject, audit)], json, html)
        run = load_run(text)
    except ValueError as error:
        _refuse(f"{path}: {error}")
    _deliver(run, json, html, only_wrong)


@app.command("demo")
def demo_command(
    html: Html = Path("gradproof-demo.html"),
    backend: Annotated[str, typer.Option(help="torch, jax or numpy.")] = "torch",
) -> None:
    """Find the operation with a wrong derivative in a small model."""
    from gradproof.demo import BACKENDS, main

    if backend not in BACKENDS:
        _refuse(f"there is no demonstration for {backend!r}: choose from {', '.join(BACKENDS)}")
    try:
        raise typer.Exit(main(html, backend))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == backend:
            _refuse(f"the demonstration needs {backend}: pip install 'gradproof[{backend}]'")
        _refuse(str(error))
    except ImportError as error:
        _refuse(str(error))


def _shrink(target: str, run: Run, options: dict[str, Any], to_stderr: bool) -> None:
    """Write a test file into the current folder for each case that fails, and say what it came to."""
    failed = {each.name for each in run.checks if each.report.verdict is Verdict.FAIL}
    for name, result in shrink_cases(target, failed, options) if failed else ():
        if isinstance(result, BaseException):
            typer.echo(f"error: {printable(f'{name} was not shrunk: {result}')}", err=True)
            continue
        path = result.write(f"test_shrunk_{re.sub(r'[^0-9A-Za-z]+', '_', name).strip('_')}.py")
        sizes = f"{result.elements_before} elements became {result.elements}"
        remark = "" if result.standalone else f"; not standalone: {result.reason}"
        typer.echo(printable(f"shrunk: {name}: {sizes}: {path}{remark}"), err=to_stderr)


def _number_or_name(precision: str | None) -> float | str | None:
    """A spacing if it is a number, else the name of a dtype."""
    try:
        return None if precision is None else float(precision)
    except ValueError:
        return precision


def _require_writable(html: Path | None) -> None:
    """What a page needs is missed before the work, not after it."""
    if html is None:
        return
    _require_folder(html, "--html")
    try:
        require_html()
    except ImportError as error:
        _refuse(str(error))


def _require_folder(path: Path, option: str) -> None:
    if not path.parent.is_dir():
        _refuse(f"{option} {path}: there is no folder {str(path.parent)!r}")


def _refuse(message: str, cause: BaseException | None = None) -> typing.NoReturn:
    if cause is not None and not isinstance(cause, (ModuleNotFoundError, TypeError, ValueError)):
        for line in traceback.format_exception(cause):
            typer.echo(line, err=True, nl=False)
    typer.echo(f"error: {printable(message)}", err=True)
    raise typer.Exit(_USAGE)


def _deliver(
    run: Run,
    json: str | None,
    html: Path | None,
    only_wrong: bool,
    refusals: Sequence[Refusal] = (),
    *,
    stopped: bool = False,
) -> typing.NoReturn:
    """Write what was asked for, print the rest, and leave with the code of the verdict."""
    if json == "-":
        sys.stdout.write(dump_run(run))
    else:
        _print(run, only_wrong, len(refusals))
        if json is not None:
            try:
                Path(json).write_text(dump_run(run), encoding="utf-8")
            except OSError as error:
                _refuse(f"the report could not be written: {error}")
    for crash in run.crashes:
        _print_crash(crash)
    for why in dict.fromkeys(refusal.why for refusal in refusals):
        names = ", ".join(refusal.name for refusal in refusals if refusal.why == why)
        typer.echo(f"error: {printable(f'{names}: {why}')}", err=True)
    if html is not None:
        try:
            write_html(html, run)
        except OSError as error:
            _refuse(str(error))
        typer.echo(f"HTML report: {html}", err=json == "-")
    if stopped:
        typer.echo("stopped: not all cases were checked", err=True)
        raise typer.Exit(_STOPPED)
    raise typer.Exit(_exit_code(run, refusals))


def _exit_code(run: Run, refusals: Sequence[Refusal]) -> int:
    verdict = Run(run.checks).verdict if run.checks else Verdict.INCONCLUSIVE
    if verdict is Verdict.FAIL:
        return EXIT_CODES[verdict]
    return _RAISED if run.crashes else _USAGE if refusals else EXIT_CODES[verdict]


def _print_crash(crash: Crash) -> None:
    typer.echo(f"── {printable(crash.name)}: raised {crash.kind}, not checked", err=True)
    for line in crash.traceback.splitlines():
        typer.echo(printable(line), err=True)


def _print(run: Run, only_wrong: bool, refused: int = 0) -> None:
    several = len(run.checks) + len(run.crashes) + refused > 1
    for each in run.checks:
        if only_wrong and each.report:
            continue
        if several:
            typer.echo(f"── {printable(each.name)}")
        show_report(each.report)
    if several or (only_wrong and run.verdict):
        summary = run.summary_with(refused)
        typer.echo(f"\n{summary}" if not only_wrong or not run.verdict else summary)


def _deliver_audits(
    reports: Sequence[tuple[str, AuditReport]], json: str | None, html: Path | None, crashes: Sequence[Crash] = ()
) -> typing.NoReturn:
    """The same for audits; of several, all are printed."""
    for crash in crashes:
        _print_crash(crash)
    if not reports:
        raise typer.Exit(_RAISED)
    if json == "-":
        sys.stdout.write(reports[0][1].to_json())
    else:
        for name, report in reports:
            if len(reports) > 1:
                typer.echo(f"── {printable(name)}")
            show_audit(report)
    try:
        if json is not None and json != "-":
            Path(json).write_text(reports[0][1].to_json(), encoding="utf-8")
        if html is not None:
            reports[0][1].to_html(html)
            typer.echo(f"HTML report: {html}", err=json == "-")
    except (ImportError, OSError) as error:
        _refuse(f"the report could not be written: {error}")
    codes = [EXIT_CODES[report.verdict] for _, report in reports] + [_RAISED] * bool(crashes)
    raise typer.Exit(max(codes, key=_WORST.index))
