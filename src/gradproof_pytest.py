"""The pytest plugin of gradproof: fixtures, reports of a whole run, and torch's gradcheck run through gradproof.

It lives outside the package, so that loading it costs nothing: gradproof is imported when a test or an option asks for
it, torch only for `--gradproof-patch-torch`. What it does then is in `gradproof.testing`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradproof import Report
    from gradproof.results.audit import AuditReport
    from gradproof.testing import GradproofCheck

_PATHS = {
    "html": "write all gradproof reports of the run into an HTML file",
    "json": "write all gradproof reports of the run into a JSON file",
    "baseline": "compare with the JSON file of an earlier run: what is newly wrong, fixed, slower",
}
_SWITCHES = {
    "patch_torch": "run every call of torch.autograd.gradcheck and gradgradcheck through gradproof",
    "compare_torch": "the same, and run torch's own too: show where the verdicts differ, and both times",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gradproof", "checking derivatives")
    for name, text in _PATHS.items():
        group.addoption(f"--gradproof-{name}", metavar="PATH", help=text)
        parser.addini(f"gradproof_{name}", f"{text} (relative to the root directory)", default="")
    for name, text in _SWITCHES.items():
        group.addoption(f"--gradproof-{name.replace('_', '-')}", action="store_true", default=None, help=text)
        parser.addini(f"gradproof_{name}", text, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """What an option needs is missed here, before the first test: later it would cost what the tests have to say."""
    paths = {name: _path(config, name) for name in _PATHS}
    patch, compare = (_switch(config, name) for name in _SWITCHES)
    if not (patch or compare or any(paths.values())):
        return
    _require(paths, patches=patch or compare)
    from gradproof.testing.recorder import Recorder, Wanted

    try:
        recorder = Recorder(config, Wanted(**paths, patch=patch, compare=compare))
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"--gradproof-baseline: {paths['baseline']}: {error}") from error
    config.pluginmanager.register(recorder, _RECORDER)
    if (patch or compare) and not _is_controller(config):
        from gradproof.testing.torch_patch import TorchPatch

        config.pluginmanager.register(TorchPatch(recorder, compare), "gradproof-patch-torch")


_RECORDER = "gradproof-recorder"


def _path(config: pytest.Config, name: str) -> str:
    """The path that an option names, or else the ini file, which counts from the root directory."""
    given: str | None = config.getoption(f"--gradproof-{name}")
    told = str(config.getini(f"gradproof_{name}"))
    return given or (str(config.rootpath / told) if told else "")


def _switch(config: pytest.Config, name: str) -> bool:
    return bool(config.getoption(f"gradproof_{name}") or config.getini(f"gradproof_{name}"))


def _require(paths: Mapping[str, str], *, patches: bool) -> None:
    for name in ("html", "json"):
        path = Path(paths[name]) if paths[name] else None
        if path is not None and path.is_dir():
            raise pytest.UsageError(f"--gradproof-{name}: {path} is a folder: name a file in it")
        above = next((each for each in path.parents if each.exists()), None) if path is not None else None
        if above is not None and not above.is_dir():
            raise pytest.UsageError(f"--gradproof-{name}: {path} cannot be written: {above} is a file")
    if paths["html"]:
        from gradproof.render.html import require_html

        try:
            require_html()
        except ImportError as error:
            raise pytest.UsageError(f"--gradproof-html: {error}") from error
    if patches and find_spec("torch") is None:
        raise pytest.UsageError(
            "--gradproof-patch-torch and --gradproof-compare-torch need torch: pip install 'gradproof[torch]'"
        )


def _is_controller(config: pytest.Config) -> bool:
    """Whether the tests run in other processes."""
    is_worker = hasattr(config, "workerinput")
    return not is_worker and bool(getattr(config.option, "dist", "no") != "no" and config.option.tx)


@pytest.fixture
def gradproof(request: pytest.FixtureRequest) -> GradproofCheck:
    """`gradproof(func, inputs, ...)` is `gradproof.check`, and the test fails unless the verdict is PASS."""
    return _asserting(request)


@pytest.fixture
def gradproof_check(request: pytest.FixtureRequest) -> GradproofCheck:
    """The same under a name that leaves the module `gradproof` visible in the test."""
    return _asserting(request)


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


def _asserting(request: pytest.FixtureRequest) -> GradproofCheck:
    def check_and_assert(
        func: Callable[..., Any], inputs: Any, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Report:
        __tracebackhide__ = True
        from gradproof import check

        report = check(func, inputs, kwargs, **options)
        if not request.config.pluginmanager.has_plugin(_RECORDER):  # which does it for every report
            from gradproof.testing.failures import properties_of

            request.node.user_properties += properties_of(report)
        report.raise_for_failure()
        return report

    return check_and_assert


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The line of the short summary says function, place and cause; below an `assert` of a report stands the report."""
    made = yield
    if call.excinfo is not None and "gradproof" in sys.modules:
        from gradproof.testing.failures import explain

        explain(made.longrepr, call.excinfo)
    return made
