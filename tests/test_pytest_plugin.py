"""The pytest plugin: the fixture, the reports of a run with and without workers, and torch's checkers redirected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradproof import Verdict
from gradproof.render.json import load_run

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

    def __init__(self, directory: Path, *arguments: str) -> None:
        path = os.pathsep.join([str(PLUGIN), str(directory)])
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *_load(), *arguments]
        environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
        environment.pop("PYTEST_XDIST_WORKER", None)
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
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
    reports = load_run((tmp_path / "run.json").read_text(encoding="utf-8"))
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


def seconds_to_import(module: str) -> tuple[float, set[str]]:
    """Processor time, which other work on the machine does not change, the best of three; and what is loaded then."""
    code = (
        "import pytest, sys, time\n"
        "started = time.process_time()\n"
        f"import {module}\n"
        "print(time.process_time() - started)\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    environment = {**os.environ, "PYTHONPATH": str(PLUGIN), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    runs = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    seconds, loaded = zip(*(run.stdout.splitlines() for run in runs), strict=True)
    return min(map(float, seconds)), set(loaded[0].split())


def test_loading_the_plugin_imports_neither_gradproof_nor_a_framework_and_is_quick() -> None:
    seconds, loaded = seconds_to_import("gradproof_pytest")
    assert not loaded & {"gradproof", "numpy", "torch", "jax", "rich"}
    assert seconds < 0.05


def test_importing_gradproof_is_quick() -> None:
    seconds, loaded = seconds_to_import("gradproof")
    assert "gradproof" in loaded
    assert seconds < 0.3
