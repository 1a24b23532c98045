"""The reports of a test run, by test; of all workers, if there are any."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gradproof.engine import observers
from gradproof.render.html import write_html
from gradproof.render.json import dump_run, load_run
from gradproof.results.report import Report
from gradproof.results.run import Checked, Run
from gradproof.testing.baseline import compared
from gradproof.testing.failures import properties_of

_KEY = "gradproof"
_OUTSIDE = "outside of tests"
# Names of tests listed in a line of the summary.
_NAMES = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options and the ini file ask for; paths are absolute or relative to where pytest was started."""

    html: str = ""
    json: str = ""
    baseline: str = ""
    patch: bool = False
    compare: bool = False

    @property
    def reports(self) -> bool:
        """Whether the reports themselves are needed; patched calls make none otherwise."""
        return bool(self.html or self.json or self.baseline)


@dataclass(slots=True)
class Record:
    """One report, and what becomes known of it later."""

    test: str
    report: Report
    torch: str = ""
    torch_seconds: float = 0.0


class Recorder:
    """Listens to every report while tests run, and writes what was asked for at the end."""

    def __init__(self, config: pytest.Config, wanted: Wanted) -> None:
        self._config, self._wanted = config, wanted
        self._baseline = load_run(Path(wanted.baseline).read_text(encoding="utf-8")) if wanted.baseline else None
        self._item: pytest.Item | None = None
        self._content: dict[str, bool] = {}
        """By test, whether it is content although a check failed: it passed, or is marked as one that fails."""
        self._records: list[Record] = []
        self._received: list[Checked] = []
        self.calls: list[Mapping[str, Any]] = []
        self._lost = 0
        self._errors: list[str] = []

    # while tests run

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        if self._wanted.reports:
            observers.append(self._observe)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._item = item
        try:
            return (yield)
        finally:
            self._item = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        made = yield
        content = made.outcome == "passed" or hasattr(made, "wasxfail")
        self._content[item.nodeid] = self._content.get(item.nodeid, True) and content
        return made

    @property
    def _test(self) -> str:
        return _OUTSIDE if self._item is None else self._item.nodeid

    def _observe(self, report: Report) -> None:
        if not report and self._item is not None:  # in the files of a run, the test is what one repeats
            report = dataclasses.replace(report, repeat=f"pytest {shlex.quote(self._from_here(self._item))}")
        self._records.append(Record(self._test, report))
        if self._item is not None:
            self._item.user_properties += properties_of(report)

    def _from_here(self, item: pytest.Item) -> str:
        """The name of a test, relative to where pytest was started."""
        _, colons, inside = item.nodeid.partition("::")
        path = item.path
        with contextlib.suppress(ValueError):  # it is elsewhere
            path = path.relative_to(self._config.invocation_params.dir)
        return f"{path.as_posix()}{colons}{inside}"

    @contextmanager
    def one_call(self) -> Generator[list[Record]]:
        """The list that is given has, at the end, the records that were made meanwhile."""
        made: list[Record] = []
        before = len(self._records)
        yield made
        made += self._records[before:]

    def note(self, call: Mapping[str, Any]) -> None:
        """Remember a call of a patched function."""
        self.calls.append({"test": self._test, **call})

    # at the end

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist has finished and sends what it has."""
        sent = getattr(node, "workeroutput", {}).get(_KEY)
        if sent is None:
            self._lost += 1
            return
        run = load_run(sent)
        self.calls += run.comparisons
        self._received += run.checks

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._observe in observers:
            observers.remove(self._observe)
        output: dict[str, Any] | None = self._config.__dict__.get("workeroutput")
        if output is not None:
            output[_KEY] = dump_run(self.run)
        elif not self._write() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR  # a file that was asked for is not there

    @property
    def run(self) -> Run:
        """Everything in the order of the tests' names: the same with workers and without."""
        own = [
            Checked(each.test, each.report, self._content.get(each.test, False), each.torch, each.torch_seconds)
            for each in self._records
        ]
        checks = sorted([*own, *self._received], key=lambda each: each.name)
        return Run(tuple(checks), comparisons=tuple(sorted(self.calls, key=lambda call: str(call["test"]))))

    def _write(self) -> bool:
        """Whether every file was written. One that was not must not cost what pytest still has to say."""
        run = self.run
        if path := self._wanted.json:
            self._attempt(path, lambda target: target.write_text(dump_run(run), encoding="utf-8"))
        if path := self._wanted.html:
            self._attempt(path, lambda target: write_html(target, run))
        return not self._errors

    def _attempt(self, path: str, write: Callable[[Path], object]) -> None:
        try:
            target = Path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            write(target)
        except Exception as error:
            self._errors.append(f"{path} could not be written: {type(error).__name__}: {error}")

    # what the terminal shows

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = [*self._told_of_files(), *self._told_of_calls(), *self._told_of_baseline(), *self._errors]
        if self._lost:
            lines.append(f"{self._lost} workers crashed: their reports are lost")
        if lines:
            terminalreporter.section("gradproof")
            for line in lines:
                terminalreporter.line(line)

    def _told_of_files(self) -> Iterator[str]:
        checks = self.run.checks
        failed = sum(not each.report for each in checks)
        count = f"{len(checks)} checks, {failed} without a pass"
        for name, path in (("HTML report", self._wanted.html), ("JSON report", self._wanted.json)):
            if path and not any(error.startswith(path) for error in self._errors):
                yield f"{name} of {count}: {path}"
        content = list(dict.fromkeys(each.name for each in checks if each.word == "EXPECTED"))
        if content and self._wanted.reports:
            yield f"checks that failed in tests that are content with it: {_listed(content)}"

    def _told_of_calls(self) -> list[str]:
        compared_calls = [call for call in self.calls if call["torch"]]
        if not compared_calls:
            seconds = sum(call["gradproof_seconds"] for call in self.calls)
            said = f"{len(self.calls)} calls of torch.autograd's checkers ran through gradproof in {seconds:.2f} s"
            return [said] if self.calls or self._wanted.patch else []
        mine, theirs = (sum(call[f"{name}_seconds"] for call in compared_calls) for name in ("gradproof", "torch"))
        differ = [call for call in compared_calls if call["torch"] != call["gradproof"]]
        return [
            f"{len(compared_calls)} calls: torch {theirs:.2f} s, gradproof {mine:.2f} s; {len(differ)} verdicts differ",
            *map(_difference, differ),
        ]

    def _told_of_baseline(self) -> Iterator[str]:
        if self._baseline is not None:
            yield from compared(self._baseline, self.run).lines()


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"{', '.join(names[:_NAMES])}{more}"


def _difference(call: Mapping[str, Any]) -> str:
    return (
        f"  {call['test']} {call['function']}: torch {call['torch']} ({call['torch_seconds']:.3f} s), "
        f"gradproof {call['gradproof']} ({call['gradproof_seconds']:.3f} s)"
    )
