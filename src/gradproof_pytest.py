"""The pytest plugin of gradproof: a fixture, reports of a whole run, and torch's gradcheck run through gradproof.

It lives outside the package, so that loading it costs nothing: gradproof is imported when a test or an option asks for
it, torch only for `--gradproof-patch-torch`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import time
import types
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradproof import Report
    from gradproof.results.audit import AuditReport

_CHECKERS = ("gradcheck", "gradgradcheck")
_KEY = "gradproof"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gradproof", "checking derivatives")
    group.addoption("--gradproof-html", metavar="PATH", help="write all gradproof reports of the run into an HTML file")
    group.addoption("--gradproof-json", metavar="PATH", help="write all gradproof reports of the run into a JSON file")
    group.addoption(
        "--gradproof-patch-torch",
        action="store_true",
        help="run every call of torch.autograd.gradcheck and gradgradcheck through gradproof",
    )
    group.addoption(
        "--gradproof-compare-torch",
        action="store_true",
        help="the same, and run torch's own too: show where the verdicts differ, and both times",
    )


def pytest_configure(config: pytest.Config) -> None:
    compares = bool(config.getoption("--gradproof-compare-torch"))
    patches = compares or config.getoption("--gradproof-patch-torch")
    if patches or config.getoption("--gradproof-html") or config.getoption("--gradproof-json"):
        recorder = Recorder(config)
        config.pluginmanager.register(recorder, "gradproof-recorder")
        if patches and not _is_controller(config):
            config.pluginmanager.register(TorchPatch(recorder, compares), "gradproof-patch-torch")


@pytest.fixture
def gradproof() -> Callable[..., Report]:
    """`gradproof(func, inputs, ...)` is `gradproof.check`, and the test fails unless the verdict is PASS."""
    return _check_and_assert


@pytest.fixture
def gradproof_audit() -> Callable[..., AuditReport]:
    """`gradproof_audit(model, inputs, ...)` is `gradproof.torch.audit`, and the test fails unless it passes."""
    return _audit_and_assert


def _audit_and_assert(
    model: Callable[..., Any], inputs: Any, kwargs: Mapping[str, Any] | None = None, **options: Any
) -> AuditReport:
    __tracebackhide__ = True
    from gradproof.torch import audit

    report = audit(model, inputs, kwargs, **options)
    report.raise_for_failure()
    return report


def _check_and_assert(
    func: Callable[..., Any], inputs: Any, kwargs: Mapping[str, Any] | None = None, **options: Any
) -> Report:
    __tracebackhide__ = True
    from gradproof import check

    report = check(func, inputs, kwargs, **options)
    report.raise_for_failure()
    return report


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _is_controller(config: pytest.Config) -> bool:
    """Whether the tests run in other processes."""
    return not _is_worker(config) and bool(getattr(config.option, "dist", "no") != "no" and config.option.tx)


class Recorder:
    """The reports of a run, and what was compared with torch, by test; of all workers, if there are any."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._test = ""
        self.calls: list[dict[str, Any]] = []
        self.reports: list[tuple[str, Report]] = []
        self._lost = 0

    @property
    def _wants_reports(self) -> bool:
        return bool(self._config.getoption("--gradproof-html") or self._config.getoption("--gradproof-json"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        if self._wants_reports:
            from gradproof.engine import observers

            observers.append(self._observe)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._test = item.nodeid
        try:
            return (yield)
        finally:
            self._test = ""

    def _observe(self, report: Report) -> None:
        self.reports.append((self._test or "outside of tests", report))

    def note(self, call: Mapping[str, Any]) -> None:
        """Remember a call of a patched function."""
        self.calls.append({"test": self._test or "outside of tests", **call})

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist has finished and sends what it has."""
        sent = getattr(node, "workeroutput", {}).get(_KEY)
        if sent is None:
            self._lost += 1
            return
        from gradproof.render.json import load_run

        self.calls += sent["calls"]
        self.reports += load_run(sent["run"]) if sent["run"] else []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if self._wants_reports:
            from gradproof.engine import observers

            observers.remove(self._observe)
        if _is_worker(self._config):
            from gradproof.render.json import dump_run

            run = dump_run(self.reports) if self.reports else ""
            self._config.__dict__["workeroutput"][_KEY] = {"calls": self.calls, "run": run}
        else:
            self._write()

    def _write(self) -> None:
        """The files, in the order of the tests' names: the same with workers and without."""
        reports = sorted(self.reports, key=lambda named: named[0])
        calls = sorted(self.calls, key=lambda call: str(call["test"]))
        if path := self._config.getoption("--gradproof-json"):
            from gradproof.render.json import dump_run

            _parents(path).write_text(dump_run(reports, calls), encoding="utf-8")
        if path := self._config.getoption("--gradproof-html"):
            from gradproof.render.html import write_html

            write_html(_parents(path), reports)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = [*self._told_of_files(), *self._told_of_calls()]
        if self._lost:
            lines.append(f"{self._lost} workers crashed: their reports are lost")
        if lines:
            terminalreporter.section("gradproof")
            for line in lines:
                terminalreporter.line(line)

    def _told_of_files(self) -> list[str]:
        options = {"HTML report": "--gradproof-html", "JSON report": "--gradproof-json"}
        written = {name: self._config.getoption(option) for name, option in options.items()}
        failed = sum(not report for _, report in self.reports)
        count = f"{len(self.reports)} checks, {failed} without a pass"
        return [f"{name} of {count}: {path}" for name, path in written.items() if path]

    def _told_of_calls(self) -> list[str]:
        compared = [call for call in self.calls if call["torch"]]
        if not compared:
            seconds = sum(call["gradproof_seconds"] for call in self.calls)
            told = f"{len(self.calls)} calls of torch.autograd's checkers ran through gradproof in {seconds:.2f} s"
            return [told] if self.calls or self._config.getoption("--gradproof-patch-torch") else []
        mine, theirs = (sum(call[f"{name}_seconds"] for call in compared) for name in ("gradproof", "torch"))
        differ = [call for call in compared if call["torch"] != call["gradproof"]]
        return [
            f"{len(compared)} calls: torch {theirs:.2f} s, gradproof {mine:.2f} s; {len(differ)} verdicts differ",
            *map(_difference, differ),
        ]


def _difference(call: Mapping[str, Any]) -> str:
    return (
        f"  {call['test']} {call['function']}: torch {call['torch']} ({call['torch_seconds']:.3f} s), "
        f"gradproof {call['gradproof']} ({call['gradproof_seconds']:.3f} s)"
    )


def _parents(path: str) -> Path:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


class TorchPatch:
    """torch's checkers, changed from within: whoever holds them, under whatever name, calls gradproof.

    A test may have imported the function, wrapped it in a partial or made it a default argument before anybody could
    replace a module's attribute. So the function objects stay, and their code is exchanged.
    """

    def __init__(self, recorder: Recorder, compares: bool) -> None:
        self._recorder, self._compares = recorder, compares
        self._patched: list[tuple[types.FunctionType, types.CodeType]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        theirs = importlib.import_module("torch.autograd.gradcheck")
        mine = importlib.import_module("gradproof.torch")
        originals = _copies(theirs)
        redirects = {name: functools.partial(self._run, getattr(mine, name), originals[name]) for name in _CHECKERS}
        theirs.__dict__["_gradproof_redirects"] = redirects
        for name, template in zip(_CHECKERS, (_gradcheck, _gradgradcheck), strict=True):
            function: Any = getattr(theirs, name)
            self._patched.append((function, function.__code__))
            function.__signature__ = inspect.signature(function)
            function.__code__ = template.__code__

    def pytest_unconfigure(self) -> None:
        for function, code in self._patched:
            function.__code__ = code
            del function.__signature__  # pyright: ignore[reportFunctionMemberAccess]
        self._patched.clear()

    def _run(self, mine: Callable[..., bool], theirs: Callable[..., bool], *args: Any, **kwargs: Any) -> bool:
        __tracebackhide__ = True
        outcome = _outcome(mine, *args, **kwargs)
        other = _without_traces(theirs, *args, **kwargs) if self._compares else None
        self._recorder.note(
            {
                "function": mine.__name__,
                "torch": other.word if other else "",
                "torch_seconds": other.seconds if other else 0.0,
                "gradproof": outcome.word,
                "gradproof_seconds": outcome.seconds,
            }
        )
        return outcome.deliver()


def _gradcheck(*args: Any, **kwargs: Any) -> bool:
    __tracebackhide__ = True
    return globals()["_gradproof_redirects"]["gradcheck"](*args, **kwargs)  # the globals are torch's


def _gradgradcheck(*args: Any, **kwargs: Any) -> bool:
    __tracebackhide__ = True
    return globals()["_gradproof_redirects"]["gradgradcheck"](*args, **kwargs)


def _copies(module: types.ModuleType) -> dict[str, Callable[..., bool]]:
    """The checkers as they were, in a namespace in which they call each other, not gradproof."""
    namespace = dict(vars(module))
    for name in _CHECKERS:
        function = getattr(module, name)
        copy = types.FunctionType(function.__code__, namespace, name, function.__defaults__)
        copy.__kwdefaults__ = function.__kwdefaults__
        namespace[name] = copy
    return {name: namespace[name] for name in _CHECKERS}


class _Outcome:
    """What a checker did: returned, or raised, in how many seconds."""

    def __init__(self, value: bool, error: Exception | None, seconds: float) -> None:
        self._value, self._error, self.seconds = value, error, seconds

    @property
    def word(self) -> str:
        if self._error is None:
            return "pass" if self._value else "fail"
        wrong = importlib.import_module("torch.autograd.gradcheck").GradcheckError
        return "fail" if isinstance(self._error, wrong) else f"raises {type(self._error).__name__}"

    def deliver(self) -> bool:
        __tracebackhide__ = True
        if self._error is not None:
            raise self._error
        return self._value


def _outcome(checker: Callable[..., bool], *args: Any, **kwargs: Any) -> _Outcome:
    started = time.perf_counter()
    try:
        value, error = checker(*args, **kwargs), None
    except Exception as raised:
        value, error = False, raised
    return _Outcome(value, error, time.perf_counter() - started)


def _without_traces(checker: Callable[..., bool], *args: Any, **kwargs: Any) -> _Outcome:
    """torch's own, with what it would leave changed put back: random states, and inputs if the function raises."""
    import warnings

    import torch

    from gradproof.backends import as_arguments
    from gradproof.backends.torch.state import preserved

    arguments = as_arguments(args[1] if len(args) > 1 else kwargs.get("inputs", ()))
    dense = [x for x in arguments if isinstance(x, torch.Tensor) and x.layout is torch.strided]
    values = [x.detach().clone() for x in dense]
    with preserved([]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = _outcome(checker, *args, **kwargs)
        for tensor, value in zip(dense, values, strict=True):
            if not torch.equal(tensor, value) and not torch.isnan(value).any():
                tensor.detach().copy_(value)
    return outcome
