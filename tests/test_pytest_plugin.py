"""The pytest plugin: the fixture, the reports of a run with and without workers, and torch's checkers redirected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples

from gradproof import Verdict
from gradproof.render.json import load_run
from gradproof.results import run as gradproof_run
from gradproof.testing.baseline import compared

PLUGIN = Path(__file__).parents[1] / "src"

WRONG = """
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return x * cotangent  # twice that would be right

def square(x):
    return Square.apply(x)

def point(n=3):
    return torch.linspace(0.5, 2.0, n, dtype=torch.float64).requires_grad_()
"""


class Run:
    """A pytest run in its own process, with the plugin of this source tree."""

    def __init__(self, directory: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        path = os.pathsep.join([str(PLUGIN), str(directory)])
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *_load(), *arguments]
        variables = {**os.environ, "PYTHONPATH": path, "COLUMNS": "250", **(environment or {})}
        variables.pop("PYTEST_XDIST_WORKER", None)
        done = subprocess.run(command, cwd=directory, env=variables, capture_output=True, text=True, check=False)
        self.code, self.output = done.returncode, done.stdout + done.stderr


def _load() -> tuple[str, ...]:
    """Name the plugin, unless the installed distribution does already."""
    from importlib.metadata import entry_points

    known = any(point.value == "gradproof_pytest" for point in entry_points(group="pytest11"))
    return () if known else ("-p", "gradproof_pytest")


def write(directory: Path, **modules: str) -> None:
    for name, text in modules.items():
        (directory / f"{name}.py").write_text(text, encoding="utf-8")


FIXTURE_TESTS = """
from wrong import *

def test_right(gradproof):
    assert gradproof(torch.sin, point()).ok

def test_options_are_passed(gradproof):
    assert gradproof(torch.sin, (point(),), strategy="entries", modes="reverse", seed=7).seed == 7

def test_wrong(gradproof):
    gradproof(square, point())
"""


def test_the_fixture_passes_and_fails_with_the_report(tmp_path: Path) -> None:
    write(tmp_path, wrong=WRONG, test_fixture=FIXTURE_TESTS)
    run = Run(tmp_path)
    assert run.code == 1
    assert "2 passed" in run.output or "1 failed, 2 passed" in run.output
    assert "FAIL: a derivative is wrong" in run.output
    assert "a factor 2 is missing" in run.output
    assert "def raise_for_failure" not in run.output
    assert ">       gradproof(square, point())" in run.output or "    gradproof(square, point())" in run.output


AUDIT_TESTS = """
from wrong import *

def test_right(gradproof_audit):
    assert gradproof_audit(lambda x: x.sin().sum(), point(), deep=True).complete

def test_wrong(gradproof_audit):
    gradproof_audit(lambda x: square(x.sin()).sum(), point())
"""


def test_the_fixture_for_audits_fails_with_the_operation(tmp_path: Path) -> None:
    write(tmp_path, wrong=WRONG, test_audits=AUDIT_TESTS)
    run = Run(tmp_path)
    assert run.code == 1
    assert "1 failed, 1 passed" in run.output
    assert "guilty    Square  (autograd.Function)" in run.output
    assert "def raise_for_failure" not in run.output


COLLECTED = """
import pytest
import gradproof as package
from gradproof import check
from torch.autograd import gradcheck
from wrong import *

@pytest.mark.parametrize("n", range(1, 6))
def test_right(gradproof, n):
    gradproof(torch.sin, point(n))

def test_plain_call():
    assert not check(square, point())
    assert package.check(torch.cos, point())

def test_nothing():
    pass

def test_patched():
    assert gradcheck(torch.exp, (point(),))
    assert not gradcheck(square, (point(),), raise_exception=False)
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_reports_of_a_run_are_collected(tmp_path: Path, workers: tuple[str, ...]) -> None:
    write(tmp_path, wrong=WRONG, test_collected=COLLECTED)
    out = ("--gradproof-html", "deep/run.html", "--gradproof-json", "run.json", "--gradproof-patch-torch")
    run = Run(tmp_path, *out, *workers)
    assert run.code == 0, run.output
    assert "HTML report of 9 checks, 2 without a pass: deep/run.html" in run.output
    reports = load_run((tmp_path / "run.json").read_text(encoding="utf-8")).reports
    names = [name for name, _ in reports]
    assert names == sorted(names)
    assert sum("test_right" in name for name in names) == 5
    of_plain = [report for name, report in reports if name.endswith("test_plain_call")]
    assert [(report.subject, report.verdict) for report in of_plain] == [
        ("square", Verdict.FAIL),
        ("cos", Verdict.PASS),
    ]
    of_patched = [report for name, report in reports if name.endswith("test_patched")]
    assert [report.verdict for report in of_patched] == [Verdict.PASS, Verdict.FAIL]
    assert of_patched[1].exhibits
    page = (tmp_path / "deep" / "run.html").read_text(encoding="utf-8")
    assert "test_collected.py::test_plain_call" in page


PATCHED = """
import functools
import sys
import torch
import torch.autograd
from torch.autograd import gradcheck
from torch.autograd import gradgradcheck as second
from torch.autograd.gradcheck import gradcheck as from_module, GradcheckError
import pytest
from wrong import point, square

partial = functools.partial(gradcheck, raise_exception=False)
held = {"checker": gradcheck}

def with_default(x, checker=gradcheck):
    return checker(torch.relu, (x,))

# at 0 relu has no derivative: torch's own checker fails, gradproof warns
ZERO = lambda: torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
pytestmark = pytest.mark.filterwarnings("ignore")

@pytest.mark.parametrize("call", [
    lambda x: gradcheck(torch.relu, (x,)),
    lambda x: from_module(torch.relu, (x,)),
    lambda x: torch.autograd.gradcheck(torch.relu, (x,)),
    lambda x: torch.autograd.gradcheck(func=torch.relu, inputs=(x,)),
    lambda x: sys.modules["torch.autograd.gradcheck"].gradcheck(torch.relu, x),
    lambda x: partial(torch.relu, x),
    lambda x: held["checker"](torch.relu, x),
    with_default,
    lambda x: from_early(torch.relu, x),
])
def test_every_way_of_importing(call):
    assert call(ZERO())

from early import check as from_early

def test_second_order():
    assert second(torch.sin, (point(),))

def test_the_exception_is_torchs_too():
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0") as caught:
        gradcheck(square, point())
    assert caught.value.findings

def test_the_signature_stays():
    import inspect
    assert "check_batched_grad" in inspect.signature(gradcheck).parameters
"""


def test_torchs_checkers_run_through_gradproof_however_they_were_imported(tmp_path: Path) -> None:
    early = "from torch.autograd import gradcheck as check\n"
    write(tmp_path, wrong=WRONG, early=early, conftest="import early\n", test_patched=PATCHED)
    run = Run(tmp_path, "--gradproof-patch-torch")
    assert run.code == 0, run.output
    assert "11 calls of torch.autograd's checkers ran through gradproof" in run.output
    without = Run(tmp_path)
    assert without.code == 1
    assert "failed" in without.output


COMPARED = """
import torch
from torch.autograd import gradcheck, gradgradcheck
from wrong import point, square
import pytest
pytestmark = pytest.mark.filterwarnings("ignore")

def test_agree():
    assert gradcheck(torch.sin, (point(),))
    assert gradgradcheck(torch.sin, (point(),))
    assert not gradcheck(square, (point(),), raise_exception=False)

def test_differ():
    assert gradcheck(torch.relu, torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True))

def test_torch_leaves_no_trace():
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    def refuses(x):
        if (x != 1).any():
            raise ValueError("moved")
        return x * 2
    state = torch.get_rng_state()
    with pytest.raises(ValueError, match="moved"):
        gradcheck(refuses, (x,))
    assert (x == 1).all()
    assert torch.equal(state, torch.get_rng_state())
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_verdicts_and_times_are_compared_with_torchs(tmp_path: Path, workers: tuple[str, ...]) -> None:
    write(tmp_path, wrong=WRONG, test_compared=COMPARED)
    run = Run(tmp_path, "--gradproof-compare-torch", "--gradproof-json", "run.json", *workers)
    assert run.code == 0, run.output
    assert "5 calls: torch " in run.output
    assert "1 verdicts differ" in run.output
    assert "test_compared.py::test_differ gradcheck: torch fail (" in run.output
    calls: list[dict[str, Any]] = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["comparisons"]
    words = [(call["function"], call["torch"], call["gradproof"]) for call in calls if call["test"].endswith("agree")]
    assert words == [("gradcheck", "pass", "pass"), ("gradgradcheck", "pass", "pass"), ("gradcheck", "fail", "fail")]
    assert all(call["torch_seconds"] > 0 and call["gradproof_seconds"] > 0 for call in calls)


def test_a_crashed_worker_is_told_of(tmp_path: Path) -> None:
    crash = "import os\ndef test_crash():\n    os._exit(3)\n"
    write(tmp_path, wrong=WRONG, test_crash=crash)
    run = Run(tmp_path, "-n", "1", "--gradproof-json", "run.json", "--max-worker-restart=0")
    assert run.code == 1
    assert "crashed: their reports are lost" in run.output


def test_a_path_that_is_a_folder_is_refused_before_the_first_test(tmp_path: Path) -> None:
    write(tmp_path, test_it="def test_it():\n    assert False, 'this ran'\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    for option in ("html", "json"):
        refused = Run(tmp_path, f"--gradproof-{option}", "folder")
        assert refused.code == pytest.ExitCode.USAGE_ERROR, refused.output
        assert f"--gradproof-{option}: folder is a folder" in refused.output
        below = Run(tmp_path, f"--gradproof-{option}", "file/report")
        assert below.code == pytest.ExitCode.USAGE_ERROR
        assert "file is a file" in below.output
        assert "this ran" not in refused.output + below.output


@pytest.mark.parametrize(
    ("module", "option", "extra"),
    [
        ("jinja2", "--gradproof-html=run.html", "gradproof[html]"),
        ("torch", "--gradproof-patch-torch", "gradproof[torch]"),
        ("torch", "--gradproof-compare-torch", "gradproof[torch]"),
    ],
)
def test_an_extra_that_is_missing_is_named_before_the_first_test(
    tmp_path: Path, module: str, option: str, extra: str
) -> None:
    write(tmp_path, test_it="def test_it():\n    assert False, 'this ran'\n", missing=MISSING)
    run = Run(tmp_path, "-p", "missing", option, environment={"MISSING": module})
    assert run.code == pytest.ExitCode.USAGE_ERROR, run.output
    assert extra in run.output
    assert "this ran" not in run.output


MISSING = """
import importlib.abc, os, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == os.environ["MISSING"]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

class Absent:
    pass

import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == os.environ["MISSING"] else real(name, *rest)
sys.meta_path.insert(0, Missing())
"""


def test_what_cannot_be_written_costs_no_failure(tmp_path: Path) -> None:
    """The path becomes a folder while the tests run: it is said, the code is not 0, and FAILURES is there."""
    vanish = """
import pathlib
def test_vanish():
    pathlib.Path("run.json").mkdir()

def test_fails():
    assert 1 == 2, "the reason"
"""
    write(tmp_path, test_written=vanish)
    run = Run(tmp_path, "--gradproof-json", "run.json", "--gradproof-html", "run.html")
    assert run.code == 1
    assert "FAILURES" in run.output
    assert "the reason" in run.output
    assert "run.json could not be written: IsADirectoryError" in run.output
    assert "HTML report of 0 checks" in run.output
    (tmp_path / "run.json").rmdir()
    only = Run(tmp_path, "--gradproof-json", "run.json", "-k", "vanish")
    assert only.code == pytest.ExitCode.INTERNAL_ERROR


ASSERTS = """
import gradproof
from wrong import *

def test_call():
    assert gradproof.check(square, point())

def test_variable():
    report = gradproof.check(square, point())
    assert report.ok, report

def test_attribute():
    report = gradproof.check(square, point())
    assert report.verdict is gradproof.Verdict.PASS

def test_fixture(gradproof_check):
    assert gradproof.__name__ == "gradproof"
    gradproof_check(square, point())

def test_unrelated():
    report = gradproof.check(square, point())
    assert 1 == 2

def test_gradcheck():
    from gradproof.torch import gradcheck
    gradcheck(square, (point(),))

def test_sweep():
    assert gradproof.sweep(lambda n: point(n), square, shapes=[2, 3], strides="contiguous")
"""


def test_a_failed_assert_of_a_report_shows_the_report_and_the_summary_says_where_and_why(tmp_path: Path) -> None:
    write(tmp_path, wrong=WRONG, test_asserts=ASSERTS)
    run = Run(tmp_path)
    lines = {
        line.split()[1].rpartition("::")[2]: line for line in run.output.splitlines() if line.startswith("FAILED ")
    }
    for name in ("test_call", "test_variable", "test_fixture", "test_gradcheck"):
        assert " - square, output 0[" in lines[name], lines[name]
        assert "] / x[" in lines[name], lines[name]
        assert "a factor 2 is missing" in lines[name], lines[name]
    assert "assert 1 == 2" in lines["test_unrelated"]
    assert " - square, 2 cases" in lines["test_sweep"]
    sections = dict(zip(lines, run.output.split("\n____")[1:], strict=False))
    for name in ("test_call", "test_variable", "test_fixture"):
        assert "FAIL: a derivative is wrong, or cannot be computed" in sections[name], name
        assert "would notice" in sections[name], name
    assert "would notice" not in sections["test_unrelated"]


FRAMES = """
import torch
from torch.autograd import gradcheck
from wrong import *

def test_wrong():
    gradcheck(square, (point(),))

def guarded(x):
    raise ZeroDivisionError("inside the user's function")

def test_raises():
    gradcheck(guarded, (point(),))
"""


def test_patched_calls_show_the_test_and_not_gradproof(tmp_path: Path) -> None:
    write(tmp_path, wrong=WRONG, test_frames=FRAMES)
    run = Run(tmp_path, "--gradproof-patch-torch", "--tb=long")
    assert run.code == 1
    assert "    gradcheck(square, (point(),))" in run.output
    assert 'raise ZeroDivisionError("inside the user\'s function")' in run.output
    for ours in ("torch_patch.py", "gradproof/torch.py", "engine.py", "_gradproof_redirects", "session.py"):
        assert ours not in run.output, ours


JUNIT = """
from wrong import *

def test_right(gradproof):
    gradproof(torch.sin, point())

def test_wrong(gradproof):
    gradproof(square, point())
"""


@pytest.mark.parametrize("more", [(), ("--gradproof-json", "run.json"), ("-n", "1")])
def test_junit_files_have_the_verdict_and_the_finding(tmp_path: Path, more: tuple[str, ...]) -> None:
    from xml.etree import ElementTree

    write(tmp_path, wrong=WRONG, test_junit=JUNIT)
    run = Run(tmp_path, "--junitxml", "junit.xml", *more)
    assert run.code == 1
    found = {
        case.get("name"): [(each.get("name"), each.get("value")) for each in case.iter("property")]
        for case in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    }
    assert found["test_right"][:2] == [("gradproof_function", "sin"), ("gradproof_verdict", "PASS")]
    assert [name for name, _ in found["test_wrong"]] == [
        "gradproof_function", "gradproof_verdict", "gradproof_evaluations", "gradproof_seconds", "gradproof_finding",
    ]  # fmt: skip
    assert "a factor 2 is missing" in str(found["test_wrong"][4][1])


def test_the_ini_file_says_what_the_options_say(tmp_path: Path) -> None:
    ini = "[pytest]\ngradproof_json = deep/run.json\ngradproof_compare_torch = true\n"
    (tmp_path / "pytest.ini").write_text(ini, encoding="utf-8")
    (tmp_path / "tests").mkdir()
    write(tmp_path / "tests", wrong=WRONG, test_compared=COMPARED)
    run = Run(tmp_path, "-k", "agree")
    assert run.code == 0, run.output
    assert "3 calls: torch " in run.output
    assert (tmp_path / "deep" / "run.json").exists()
    other = Run(tmp_path, "-k", "agree", "--gradproof-json", "other.json")
    assert (tmp_path / "other.json").exists(), other.output


EXPECTING = """
import pytest
import gradproof as package
from wrong import *

def test_content():
    assert not package.check(square, point())

@pytest.mark.xfail(strict=True)
def test_known(gradproof):
    gradproof(square, point())

def test_fails(gradproof):
    gradproof(square, point())

def test_right(gradproof):
    gradproof(torch.sin, point())
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_failure_that_its_test_expects_is_not_one_of_the_run(tmp_path: Path, workers: tuple[str, ...]) -> None:
    write(tmp_path, wrong=WRONG, test_expecting=EXPECTING)
    run = Run(tmp_path, "--gradproof-json", "run.json", "--gradproof-html", "run.html", *workers)
    assert run.code == 1
    made = load_run((tmp_path / "run.json").read_text(encoding="utf-8"))
    words = {each.name.rpartition("::")[2]: each.word for each in made.checks}
    assert words == {"test_content": "EXPECTED", "test_known": "EXPECTED", "test_fails": "FAIL", "test_right": "PASS"}
    assert "4 checks: 1 FAIL, 2 expected to FAIL, 1 PASS" in (tmp_path / "run.html").read_text(encoding="utf-8")
    told = "checks that failed in tests that are content with it: "
    assert f"{told}test_expecting.py::test_content, test_expecting.py::test_known" in run.output


def test_torchs_verdict_is_with_the_check_that_it_is_about(tmp_path: Path) -> None:
    write(tmp_path, wrong=WRONG, test_compared=COMPARED)
    run = Run(tmp_path, "--gradproof-compare-torch", "--gradproof-json", "run.json", "--gradproof-html", "run.html")
    made = load_run((tmp_path / "run.json").read_text(encoding="utf-8"))
    words = [(each.report.verdict.name, each.torch) for each in made.checks if each.name.endswith("agree")]
    assert words == [("PASS", "pass"), ("PASS", "pass"), ("FAIL", "fail")], run.output
    assert [each.torch for each in made.checks if each.name.endswith("differ")] == ["fail"]
    assert all(each.torch_seconds > 0 for each in made.checks if each.torch)
    assert "torch&#39;s verdict" in (tmp_path / "run.html").read_text(encoding="utf-8")


BASELINE = """
import os
from wrong import *

late = os.environ.get("LATE")

def test_breaks(gradproof):
    gradproof(square if late else torch.sin, point())

def test_is_fixed(gradproof):
    named = torch.sin if late else square
    def same(x):
        return named(x)
    gradproof(same, point())

def test_is_slower(gradproof):
    gradproof(torch.cos, point(), strategy="entries" if late else "probes", seed=1)

def test_stays(gradproof):
    gradproof(torch.exp, point())
"""


def test_a_run_is_compared_with_an_earlier_one(tmp_path: Path) -> None:
    write(tmp_path, wrong=WRONG, test_baseline=BASELINE)
    Run(tmp_path, "--gradproof-json", "old.json")
    late = Run(tmp_path, "--gradproof-baseline", "old.json", environment={"LATE": "1"})
    assert late.code == 1
    assert "baseline: 3 checks in both runs, 1 new, 1 no longer there" in late.output
    assert "newly wrong: test_baseline.py::test_breaks: FAIL: square, output 0[" in late.output
    assert "fixed: test_baseline.py::test_is_fixed: same" in late.output
    same = Run(tmp_path, "--gradproof-baseline", "old.json", "-n", "1")
    assert "baseline: 4 checks in both runs, 0 new, 0 no longer there" in same.output
    assert "newly wrong" not in same.output.replace("nothing is newly wrong", "")
    assert "fixed: " not in same.output


@pytest.mark.parametrize(("text", "message"), [(None, "No such file"), ("{}", "not a document of gradproof")])
def test_a_baseline_that_is_none_is_refused_before_the_first_test(
    tmp_path: Path, text: str | None, message: str
) -> None:
    write(tmp_path, test_it="def test_it():\n    assert False, 'this ran'\n")
    if text is not None:
        (tmp_path / "old.json").write_text(text, encoding="utf-8")
    run = Run(tmp_path, "--gradproof-baseline", "old.json")
    assert run.code == pytest.ExitCode.USAGE_ERROR
    assert message in run.output
    assert "this ran" not in run.output


def test_slower_is_told_by_evaluations_and_by_time() -> None:
    def run(evaluations: int, seconds: float, *findings: Any) -> gradproof_run.Run:
        cost = samples.Spent(evaluations, 1, 0, seconds)
        return gradproof_run.Run((gradproof_run.Checked("t", samples.report(*findings, cost=cost)),))

    assert compared(run(10, 0.1), run(20, 0.1)).slower
    assert compared(run(10, 0.1), run(10, 1.5)).slower
    assert "nothing is newly wrong, fixed or slower" in [*compared(run(10, 0.1), run(10, 0.2)).lines()][1]
    assert "10 to 20 evaluations" in [*compared(run(10, 0.1), run(20, 0.1)).lines()][1]
    assert not compared(run(10, 0.1), run(11, 0.25)).slower
    assert not compared(run(10, 0.1), run(100, 0.1, samples.wrong_jacobian())).slower, "a failure costs more"


def test_the_type_of_the_fixture_is_exported() -> None:
    import inspect

    import gradproof_pytest
    from gradproof.testing import GradproofCheck

    asked = inspect.signature(GradproofCheck.__call__).parameters
    assert [*asked][1:] == [*inspect.signature(gradproof_pytest._asserting(None)).parameters]  # type: ignore[arg-type]


def loaded_with(module: str) -> set[str]:
    """The packages that an import loads which pytest has not loaded already."""
    code = (
        "import pytest, sys\n"
        "before = {*sys.modules}\n"
        f"import {module}\n"
        "print(*{name.partition('.')[0] for name in {*sys.modules} - before})"
    )
    environment = {**os.environ, "PYTHONPATH": str(PLUGIN)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return {*run.stdout.split()}


def test_loading_the_plugin_imports_nothing_but_what_pytest_has() -> None:
    loaded = loaded_with("gradproof_pytest")
    assert "gradproof_pytest" in loaded
    assert loaded <= {"gradproof_pytest", *sys.stdlib_module_names}


def test_importing_gradproof_imports_numpy_and_no_other_package() -> None:
    loaded = loaded_with("gradproof")
    assert {"gradproof", "numpy"} <= loaded
    assert {name for name in loaded - {"gradproof", "numpy"} - sys.stdlib_module_names if name[0] != "_"} == set()


def test_reports_of_a_run_say_the_test_that_repeats_them(tmp_path: Path) -> None:
    write(tmp_path, wrong=WRONG)
    text = "from wrong import *\nfrom gradproof.torch import gradcheck\n"
    text += "def test_wrong():\n    assert gradcheck(square, (point(),))\n"
    write(tmp_path, test_it=text + "def test_right():\n    assert gradcheck(torch.sin, (point(),))\n")
    Run(tmp_path, "--gradproof-json", "run.json")
    checks = load_run((tmp_path / "run.json").read_text(encoding="utf-8")).checks
    assert {each.name.rpartition("::")[2]: each.report.repeat for each in checks} == {
        "test_wrong": "pytest test_it.py::test_wrong",  # from where pytest was started
        "test_right": "",
    }
