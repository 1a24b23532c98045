"""The command line: what it checks, what it writes, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import report_samples as samples
from typer.testing import CliRunner

import gradproof
from gradproof import Finding, Report, Status
from gradproof.cli import app
from gradproof.examination import raised
from gradproof.names import option_form
from gradproof.render import html
from gradproof.render.json import load_run
from gradproof.targets import TargetError, find_cases

SOURCE = Path(__file__).parents[1]
MODULE = """
import torch
import helper

def point(n=3):
    return torch.linspace(0.5, 2.0, n, dtype=torch.float64).requires_grad_()

def case_right():
    return torch.sin, point()

def case_wrong():
    return (lambda x: x * x.detach()), (point(),)

def case_noisy():
    return torch.sin, point()

def case_many():
    for n in (1, 2):
        yield torch.cos, point(n)

case_constant = (torch.mul, (point(), 2.0))
with_keywords = (torch.softmax, point(), {"dim": 0})
NAMED = {"a": (torch.exp, point()), "b": case_right}
LIST = [(torch.exp, point()), case_wrong]
two_inputs = (lambda x, y: x * y.detach() + y, (point(), point()))
rounded = (lambda x: x.float().sin().double(), point())
no_case = 3
needs = lambda x: x
returns_function = lambda: torch.sin
bad_kwargs = (torch.sin, point(), 3)
nothing = []
no_gradient = (torch.sin, torch.ones(3))
raises = lambda: 1 / 0

class Holder:
    inside = (torch.exp, point())
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "some_cases.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "helper.py").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "some_cases", raising=False)
    return tmp_path / "some_cases.py"


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("case_right", ["case_right"]),
        ("case_constant", ["case_constant"]),
        ("with_keywords", ["with_keywords"]),
        ("case_many", ["case_many[0]", "case_many[1]"]),
        ("NAMED", ["NAMED[a]", "NAMED[b]"]),
        ("LIST", ["LIST[0]", "LIST[1]"]),
        ("Holder.inside", ["Holder.inside"]),
    ],
)
@pytest.mark.parametrize("as_file", [True, False])
def test_targets_are_found_in_files_and_modules(module: Path, target: str, names: list[str], as_file: bool) -> None:
    where = module if as_file else "some_cases"
    assert [case.name for case in find_cases(f"{where}:{target}")] == names


def test_without_a_target_every_case_is_collected(module: Path) -> None:
    names = [case.name for case in find_cases(str(module))]
    assert names == ["case_right", "case_wrong", "case_noisy", "case_many[0]", "case_many[1]", "case_constant"]


def test_the_path_is_as_before(module: Path) -> None:
    before = list(sys.path)
    find_cases(str(module))
    assert sys.path == before


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("some_cases:missing", "has no 'missing'"),
        ("some_cases:no_case", "expected (func, inputs), got int"),
        ("some_cases:needs", "callable without arguments"),
        ("some_cases:returns_function", "returned a function"),
        ("some_cases:bad_kwargs", "kwargs and options as dictionaries"),
        ("some_cases:nothing", "has no cases"),
        ("no_such_module:x", "no module 'no_such_module'"),
        ("no_such_file.py:x", "no file 'no_such_file.py'"),
        ("helper.py", "has no cases"),
        (":x", "neither a module nor a file"),
    ],
)
def test_what_is_no_target_is_refused_with_code_2(module: Path, target: str, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        find_cases(target)
    assert message in str(caught.value)
    done = run("check", target)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["some_cases:case_right"], 0),
        (["some_cases:case_wrong"], 1),
        (["some_cases:LIST"], 1),
        (["some_cases"], 1),
        (["some_cases:NAMED"], 0),
        (["some_cases:no_gradient"], 2),
        (["some_cases:case_right", "--strategy", "guess"], 2),
        (["some_cases:case_right", "--mode", "sideways"], 2),
        (["some_cases:case_right", "--seconds", "1e-9"], 3),
        (["some_cases:case_right", "--evaluations", "1"], 3),
        (["some_cases:case_right", "--evaluations", "1", "--seconds", "1"], 2),
        (["some_cases:case_right", "--order", "2"], 0),
        (["some_cases:case_right", "--order", "3"], 2),
        (["some_cases:two_inputs"], 1),
        (["some_cases:two_inputs", "--wrt", "0"], 0),
        (["some_cases:two_inputs", "--wrt", "y"], 1),
        (["some_cases:two_inputs", "--wrt", "z"], 2),
        (["some_cases:case_wrong", "--property", "mutation"], 0),
        (["some_cases:case_right", "--property", "beauty"], 2),
        (["some_cases:case_wrong", "--allow", "mutation"], 1),
        (["some_cases:case_wrong", "--allow", "jacobian"], 0),
        (["some_cases:case_right", "--allow", "beauty"], 2),
        (["some_cases:rounded"], 0),
        (["some_cases:rounded", "--precision", "float32"], 0),
        (["some_cases:rounded", "--precision", "1e-7"], 0),
        (["some_cases:rounded", "--precision", "float33"], 2),
        (["some_cases:case_right", "--no-such-option"], 2),
        ([], 2),
    ],
)
def test_exit_codes(module: Path, arguments: list[str], code: int) -> None:
    done = run("check", *arguments)
    assert done.exit_code == code, done.output


def test_a_failure_reads_from_the_first_line(module: Path) -> None:
    told = run("check", "some_cases:case_wrong").stdout.splitlines()
    assert told[0].startswith("FAIL")
    assert [line.split()[0] for line in told[1:5]] == ["wrong", "numeric", "analytic", "cause"]


def test_several_cases_have_names_and_a_summary(module: Path) -> None:
    told = run("check", "some_cases:LIST").stdout
    assert "── LIST[0]" in told
    assert told.rstrip().endswith("2 checks: 1 FAIL, 1 PASS")


def test_json_to_standard_output_is_alone(module: Path) -> None:
    done = run("check", "some_cases:LIST", "--json", "-", "--html", "out.html")
    assert done.exit_code == 1
    assert [name for name, _ in load_run(done.stdout).reports] == ["LIST[0]", "LIST[1]"]
    assert (module.parent / "out.html").exists()


def test_what_was_written_can_be_shown(module: Path) -> None:
    checked = run("check", "some_cases:LIST", "--json", "out.json")
    shown = run("show", "out.json", "--html", "out.html")
    assert shown.exit_code == checked.exit_code == 1
    assert shown.stdout == f"{checked.stdout}HTML report: out.html\n"
    assert "LIST[1]" in (module.parent / "out.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (samples.report(), 0),
        (samples.report(samples.wrong_jacobian()), 1),
        (samples.report(Finding(property="p", status=Status.INCONCLUSIVE, headline="m")), 3),
    ],
)
def test_a_single_report_can_be_shown(tmp_path: Path, report: Report, code: int) -> None:
    path = tmp_path / "report.json"
    path.write_text(report.to_json(), encoding="utf-8")
    shown = run("show", path)
    assert shown.exit_code == code
    assert shown.stdout == f"{report}\n"
    assert json.loads(run("show", path, "--json", "-").stdout)["schema"] == "gradproof.run/3"


def test_what_is_no_report_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("{}", encoding="utf-8")
    assert run("show", path).exit_code == 2
    assert "not a document of gradproof" in run("show", path).stderr
    assert run("show", tmp_path / "missing.json").exit_code == 2


def test_the_demonstration_names_the_operation_and_says_so_first(tmp_path: Path) -> None:
    done = run("demo", "--html", tmp_path / "deep" / "demo.html")
    assert done.exit_code == 0, done.output
    verdict, guilty, called, backward = done.stdout.splitlines()[:4]
    assert verdict.startswith("FAIL: Transformer")
    assert re.fullmatch(r"  guilty    layers\.[01]\.norm[12]\.RmsNorm  \(autograd\.Function\)", guilty)
    assert re.search(r"transformer\.py:\d+$", called)
    assert re.search(r"transformer\.py:\d+$", backward)
    assert "its 4 calls together 100 %" in done.stdout
    assert "wrong only at the last 2 of 6 indices along axis 2 of output 0" in done.stdout
    assert re.search(r"\nFOUND: layers\.[01]\.norm[12]\.RmsNorm is to blame\.", done.stdout)
    assert f"HTML report: {tmp_path / 'deep' / 'demo.html'}" in done.stdout
    assert (tmp_path / "deep" / "demo.html").stat().st_size > 10_000


def test_the_demonstration_in_numpy(tmp_path: Path) -> None:
    done = run("demo", "--backend", "numpy", "--html", tmp_path / "demo.html")
    assert done.exit_code == 0, done.output
    assert "FOUND: the wrong vjp is in rms_norm." in done.stdout
    assert "the last 2 of 6 indices along axis 1 of output 0" in done.stdout
    assert "backward" not in done.stdout
    assert (tmp_path / "demo.html").stat().st_size > 10_000


def test_the_demonstration_in_jax(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    done = run("demo", "--backend", "jax", "--html", tmp_path / "demo.html")
    assert done.exit_code == 0, done.output
    assert "FOUND: the wrong bwd is in rms_norm." in done.stdout
    assert (tmp_path / "demo.html").stat().st_size > 10_000


def test_a_demonstration_that_there_is_none_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("demo", "--backend", "mlx")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: there is no demonstration for 'mlx': choose from torch, jax, numpy\n",
    )
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "gradproof.demo.transformer", raising=False)
    done = run("demo")
    assert done.exit_code == 2
    assert "the demonstration needs torch: pip install 'gradproof[torch]'" in done.stderr


NUMPY_CASES = """
import numpy as np
from scipy.optimize import rosen, rosen_der

X = np.array([1.3, 0.7, 0.8])

def case_right():
    return rosen, X, {}, {"grad": rosen_der, "bounds": [(0, 2)] * 3}

case_wrong = (rosen, X, {}, {"grad": lambda x: rosen_der(x) * [1, 1, 1.01]})
bad_options = (rosen, X, {}, 3)
unknown = (rosen, X, {}, {"gard": rosen_der})
"""


def test_cases_of_numpy_functions_carry_their_derivatives(tmp_path: Path) -> None:
    path = tmp_path / "numpy_cases.py"
    path.write_text(NUMPY_CASES, encoding="utf-8")
    assert run("check", f"{path}:case_right").exit_code == 0
    done = run("check", f"{path}:case_wrong", "--html", tmp_path / "report.html", "--json", tmp_path / "report.json")
    assert done.exit_code == 1
    assert "element 2 of grad" in done.stdout
    assert (tmp_path / "report.html").stat().st_size > 10_000
    ((_, report),) = load_run((tmp_path / "report.json").read_text(encoding="utf-8")).reports
    assert report.findings[0].input_element == (2,)
    assert "kwargs and options as dictionaries" in run("check", f"{path}:bad_options").stderr
    assert "unexpected keyword argument 'gard'" in run("check", f"{path}:unknown").stderr


@pytest.mark.parametrize(("command", "begins"), [(["check", "some_cases:case_wrong"], ""), (["demo"], "FAIL")])
def test_without_the_extra_it_says_what_to_install(
    module: Path, command: list[str], begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check says so before the work; the demonstration shows its text all the same."""
    html.environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = run(*command, "--html", "out.html")
    assert done.exit_code == 2
    assert "gradproof[html]" in done.stderr
    assert done.stdout.startswith(begins)
    assert bool(done.stdout) is bool(begins)


RAISING = """
import torch

def point(n=3):
    return torch.linspace(0.5, 2.0, n, dtype=torch.float64).requires_grad_()

def case_first():
    return torch.sin, point()

def case_unmakeable():
    return torch.sin, {"key": point()}["other key"]

def case_generator():
    yield torch.cos, point()
    raise RuntimeError("the second cannot be made")

def case_refused():
    return torch.sin, torch.ones(3)

def case_last():
    return torch.exp, point()

wrong_too = [case_unmakeable, ((lambda x: x * x.detach()), point())]
refused_too = [case_refused, case_first]
"""


@pytest.fixture
def raising(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "raising.py"
    path.write_text(RAISING, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "raising", raising=False)
    return path


def test_an_exception_in_the_function_names_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bad_cases.py"
    lines = ["import torch", "", "def bad(x):", "    raise ValueError('inside')", ""]
    path.write_text("\n".join([*lines, "case_bad = bad, torch.ones(2, requires_grad=True)"]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = run("check", path)
    assert done.exit_code == 1, done.output
    assert f"raised at line 4 of {path}, in bad" in "".join(done.stdout.split("\n"))


def test_an_exception_in_a_backward_of_a_package_names_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where torch lies in another environment than the package: a line of torch's own would help nobody."""
    package = tmp_path / "site-packages" / "kernels.py"
    package.parent.mkdir()
    package.write_text("def refuse(g):\n    raise ValueError('inside')\n", encoding="utf-8")
    name = "another/environment/site-packages/framework.py"
    code = "def call(refuse):\n    refuse(1)\n"
    scope: dict[str, Any] = {}
    exec(compile(package.read_text(encoding="utf-8"), str(package), "exec"), scope)
    exec(compile(code, name, "exec"), scope)
    monkeypatch.setattr("gradproof.examination._INSTALLED", (str(package.parent),))
    with pytest.raises(ValueError, match="inside") as caught:
        scope["call"](scope["refuse"])
    assert caught.value.__traceback__ is not None
    finding = raised("jacobian", caught.value.with_traceback(caught.value.__traceback__.tb_next))
    assert finding.hint == f"raised at line 2 of {package}, in refuse"


@pytest.mark.parametrize("option", ["--evaluations", "--seconds"])
def test_a_message_names_the_option_of_the_command_line(raising: Path, option: str) -> None:
    done = run("check", f"{raising}:case_first", option, "1" if option == "--evaluations" else "1e-9")
    assert done.exit_code == 3, done.output
    assert f"raise {option}, or check fewer inputs" in done.stdout


@pytest.mark.parametrize("jobs", [(), ("--jobs", "2")])
def test_a_case_that_raises_has_a_traceback_and_a_code_and_the_others_run(raising: Path, jobs: tuple[str, ...]) -> None:
    done = run("check", raising, *jobs)
    assert done.exit_code == 4, done.output
    assert [line for line in done.stdout.splitlines() if line.startswith("── ")] == [
        "── case_first", "── case_generator[0]", "── case_last",
    ]  # fmt: skip
    assert done.stdout.rstrip().endswith("6 checks: 2 raised an exception, 3 PASS, 1 refused")
    assert "── case_unmakeable: raised KeyError, not checked" in done.stderr
    assert """return torch.sin, {"key": point()}["other key"]""" in done.stderr
    assert "RuntimeError: the second cannot be made" in done.stderr
    assert "targets.py" not in done.stderr, "frames of gradproof are of no use to the reader"
    assert "error: case_refused: " in done.stderr


@pytest.mark.parametrize(("target", "code"), [("wrong_too", 1), ("refused_too", 2), ("case_unmakeable", 4)])
def test_of_several_outcomes_the_worst_gives_the_exit_code(raising: Path, target: str, code: int) -> None:
    assert run("check", f"{raising}:{target}").exit_code == code


def test_cases_that_raise_are_in_the_files(raising: Path) -> None:
    run("check", raising, "--json", "out.json", "--html", "out.html")
    made = load_run((raising.parent / "out.json").read_text(encoding="utf-8"))
    assert [(crash.name, crash.kind) for crash in made.crashes] == [
        ("case_unmakeable", "KeyError"),
        ("case_generator[1]", "RuntimeError"),
    ]
    page = (raising.parent / "out.html").read_text(encoding="utf-8")
    assert "the second cannot be made" in page
    shown = run("show", "out.json")
    assert shown.exit_code == 4
    assert "RuntimeError: the second cannot be made" in shown.stderr


def test_a_module_that_raises_shows_where(tmp_path: Path) -> None:
    path = tmp_path / "broken_module.py"
    path.write_text("value = {}['missing']\n", encoding="utf-8")
    done = run("check", path)
    assert done.exit_code == 2
    assert "value = {}['missing']" in done.stderr
    assert "could not be run: KeyError" in done.stderr


def test_several_processes_find_what_one_finds(module: Path) -> None:
    alone, together = run("check", "some_cases.py"), run("check", "some_cases.py", "--jobs", "2")
    assert alone.exit_code == together.exit_code == 1
    without_times = [re.sub(r"\d+\.\d{3} s", "", text.stdout) for text in (alone, together)]
    assert without_times[0] == without_times[1]


ENDING = """
import os, time, torch

def slow(x):
    open(f"reached-{os.getpid()}", "w").close()
    time.sleep(60)
    return x

def ends(x):
    os._exit(9)

def point():
    return torch.ones(2, dtype=torch.float64, requires_grad=True)

FAST = [(torch.sin, point()), (torch.exp, point()), (torch.cos, point()), (torch.tanh, point())]
SLOW = [*FAST, (slow, point()), (slow, point())]
LOST = [*FAST[:2], (ends, point()), *FAST[2:], (torch.sin, point())]
"""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_leaves_a_partial_report_at_once(tmp_path: Path, jobs: str) -> None:
    (tmp_path / "ending.py").write_text(ENDING, encoding="utf-8")
    command = [sys.executable, "-m", "gradproof", "check", "ending.py:SLOW", "--jobs", jobs, "--json", "out.json"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len([*tmp_path.glob("reached-*")]) < int(jobs) and process.poll() is None:
        time.sleep(0.1)
    time.sleep(1.0)  # the first four are done; the others take a minute each
    process.send_signal(signal.SIGINT)
    since = time.monotonic()
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - since < 3.0
    assert process.returncode == 130, errors
    assert "stopped: not all cases were checked" in errors
    assert "Traceback" not in errors
    made = load_run((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [each.name for each in made.checks] == [f"SLOW[{k}]" for k in range(4)]


def test_a_case_that_ends_its_process_takes_no_other_along(tmp_path: Path) -> None:
    (tmp_path / "ending.py").write_text(ENDING, encoding="utf-8")
    done = subprocess_run("-m", "gradproof", "check", "ending.py:LOST", "--jobs", "2", cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    assert "6 checks: 1 raised an exception, 5 PASS" in done.stdout
    assert "LOST[2]: raised BrokenProcessPool" in done.stderr


def test_only_wrong_prints_what_does_not_pass(module: Path) -> None:
    done = run("check", "some_cases:LIST", "--only-wrong", "--json", "out.json")
    assert "LIST[0]" not in done.stdout
    assert "── LIST[1]" in done.stdout
    assert done.stdout.rstrip().endswith("2 checks: 1 FAIL, 1 PASS")
    shown = run("show", "out.json", "--only-wrong")
    assert shown.stdout == done.stdout
    assert run("check", "some_cases:NAMED", "--only-wrong").stdout == "2 checks: 2 PASS\n"


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert run("--version").stdout == f"gradproof {gradproof.__version__}\n"
    assert gradproof.__version__ == version("gradproof")


def subprocess_run(*arguments: str, **options: Any) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "src"), "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, **options
    )


def test_it_runs_as_a_module_on_the_examples(tmp_path: Path) -> None:
    done = subprocess_run("-m", "gradproof", "check", str(SOURCE / "examples" / "cases.py"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("3 checks: 3 PASS")


def test_without_typer_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None\nfrom gradproof.__main__ import main\nmain()"
    done = subprocess_run("-c", code)
    assert done.returncode == 2
    assert "gradproof[cli]" in done.stderr


def test_the_shell_is_completed() -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "src"), "_GRADPROOF_COMPLETE": "complete_bash"}
    environment |= {"COMP_WORDS": "gradproof sh", "COMP_CWORD": "1"}
    code = "from gradproof.cli import app; app(prog_name='gradproof')"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["show"]
    assert "--install-completion" in run("--help").stdout


AUDITS = """
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, cotangent):
        return ctx.saved_tensors[0] * cotangent

def point(n=3):
    return torch.linspace(0.5, 2.0, n, dtype=torch.float64).requires_grad_()

def case_wrong():
    return (lambda x: Square.apply(x.sin()).sum()), point()

def case_right():
    return (lambda x: x.sin().sum()), point()

refused = (3, point())
"""


@pytest.fixture
def audits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "some_audits.py").write_text(AUDITS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_audit_names_the_operation_and_exits_with_its_verdict(audits: Path) -> None:
    done = run("audit", "some_audits.py:case_wrong", "--json", "audit.json", "--html", "audit.html")
    assert done.exit_code == 1, done.output
    assert "guilty    Square  (autograd.Function)" in done.stdout
    assert "gradproof.audit/1" in (audits / "audit.json").read_text(encoding="utf-8")
    assert (audits / "audit.html").stat().st_size > 5_000
    shown = run("show", "audit.json")
    assert (shown.exit_code, shown.stdout) == (1, done.stdout.replace("HTML report: audit.html\n", ""))
    assert run("audit", "some_audits.py:case_right", "--deep").exit_code == 0


def test_words_of_the_command_line_stay_there(audits: Path) -> None:
    assert run("audit", "some_audits.py:case_right", "--seconds", "60").exit_code == 0
    assert run("check", "some_audits.py:case_right", "--seconds", "60").exit_code == 0
    assert option_form.get().format("seconds") == "seconds="


def test_several_audits_are_printed_and_the_worst_decides(audits: Path) -> None:
    done = run("audit", "some_audits.py")
    assert done.exit_code == 1
    assert "── case_right" in done.stdout
    assert run("audit", "some_audits.py", "--json", "-").exit_code == 2
    alone = run("audit", "some_audits.py:case_wrong", "--json", "-")
    assert json.loads(alone.stdout)["verdict"] == "FAIL"


def test_an_audit_of_nothing_is_refused(audits: Path) -> None:
    assert run("audit", "some_audits.py:missing").exit_code == 2
    assert run("audit", "some_audits.py:refused").exit_code == 2


def test_shrink_writes_a_test_of_what_fails(module: Path) -> None:
    done = run("check", "some_cases:LIST", "--shrink")
    assert done.exit_code == 1, done.output
    assert done.output.splitlines()[-1] == "shrunk: LIST[1]: 3 elements became 1: test_shrunk_LIST_1.py"
    assert "repeat: gradproof check some_cases:LIST --seed 0" in done.output
    (written,) = module.parent.glob("test_*.py")
    assert "torch.autograd.grad" in written.read_text(encoding="utf-8")
    assert "gradproof" not in written.read_text(encoding="utf-8")


def test_shrink_writes_nothing_of_what_passes(module: Path) -> None:
    assert run("check", "some_cases:case_right", "--shrink").exit_code == 0
    assert not [*module.parent.glob("test_*.py")]


EXITS = """
import sys
import numpy as np


def leave(x):
    sys.exit(0)


def case_exits():
    sys.exit(0)


def case_leaves():
    return leave, np.ones(2), {}, {"grad": lambda x: x}


def case_right():
    return (lambda x: (x**2).sum()), np.ones(2), {}, {"grad": lambda x: 2 * x}
"""


@pytest.mark.parametrize("command", [["check"], ["suite"], ["suite", "--workers", "2"]], ids=" ".join)
def test_a_case_that_exits_is_one_that_raises(command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "exits.py"
    path.write_text(EXITS)
    results = tmp_path / "rows.jsonl"
    further = ["--results", results] if command[0] == "suite" else []
    result = run(*command, path, *further)
    assert result.exit_code == 4, result.output
    if further:
        rows = [json.loads(line) for line in results.read_text().splitlines()[1:]]
        found = {row["case"].rpartition("::case_")[2]: row["word"] for row in rows}
        assert found == {"exits": "RAISED", "leaves": "RAISED", "right": "PASS"}
    else:
        assert "PASS" in result.output
        assert "SystemExit" in result.output


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.json"
    path.write_bytes(bytes(range(256)))
    result = run("show", path)
    assert result.exit_code == 2
    assert "binary.json" in result.output


@pytest.mark.parametrize("content", [b"garbage", b"garbage\n", b"[1]\n", bytes(range(256))])
@pytest.mark.parametrize("option", ["--resume", "--baseline"])
def test_a_suite_refuses_a_file_of_something_else(option: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "cases.py").write_text(EXITS)
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(content)
    given = (
        ["--resume", "--results", rows] if option == "--resume" else ["--baseline", rows, "--results", tmp_path / "o"]
    )
    result = run("suite", tmp_path / "cases.py", *given)
    assert result.exit_code == 2
    assert "rows.jsonl" in result.output
    assert rows.read_bytes() == content


@pytest.mark.parametrize(
    ("options", "sentence"),
    [(["--html", "{}/missing/page.html"], "there is no folder"), (["--case-timeout=-1"], "--case-timeout")],
)
def test_a_suite_refuses_before_the_work(options: list[str], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "cases.py").write_text(EXITS)
    results = tmp_path / "rows.jsonl"
    result = run("suite", tmp_path / "cases.py", "--results", results, *(each.format(tmp_path) for each in options))
    assert result.exit_code == 2
    assert sentence in result.output
    assert not results.exists()


def test_an_executor_must_be_one() -> None:
    with pytest.raises(TypeError, match=r"executor must be a concurrent\.futures\.Executor, got int"):
        gradproof.check(lambda x: x, np.ones(2), jac=np.eye(2), executor=cast(Any, 2))


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_no_case_does_not_keep_others_from_being_checked(module: Path, jobs: int) -> None:
    path = module.parent / "among.py"
    path.write_text(
        "import torch\nx = torch.ones(2, dtype=torch.float64, requires_grad=True)\n"
        "case_bad = 3\ncase_several = [(torch.sin, x), 'odd', (torch.cos, x)]\n"
    )
    done = run("check", str(path), "--jobs", str(jobs))
    assert done.exit_code == 2
    assert "case_several[0]" in done.output
    assert "case_several[2]" in done.output
    assert "case_bad: this is no case: expected (func, inputs), got int" in done.output
    assert done.stdout.rstrip().endswith("4 checks: 2 PASS, 2 refused")
    path.write_text("case_bad = 3\n")
    alone = run("check", str(path))
    assert (alone.exit_code, "is no case" in alone.output) == (2, True)


@pytest.mark.parametrize("case", ["('sin', (x,))", "(None, (x,))", "x", "[x]", "(x, (x,))"])
def test_what_is_no_case_and_holds_a_tensor_is_refused_and_the_others_are_checked(module: Path, case: str) -> None:
    path = module.parent / "malformed.py"
    path.write_text(
        "import torch\nx = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)\n"
        f"case_bad = {case}\ncase_good = torch.sin, (x,)\n"
    )
    done = run("check", str(path))
    assert done.exit_code == 2, done.output
    assert "this is no case: expected (func, inputs), got" in done.output
    assert done.stdout.rstrip().endswith("2 checks: 1 PASS, 1 refused")


def test_a_collection_that_cannot_be_gone_through_is_a_case_that_raises(module: Path) -> None:
    path = module.parent / "raising.py"
    path.write_text(
        "import torch\nx = torch.ones(2, dtype=torch.float64, requires_grad=True)\n"
        "class Cases:\n    def __iter__(self):\n        raise KeyError('today')\n"
        "case_bad = Cases()\ncase_good = torch.sin, (x,)\n"
    )
    done = run("check", str(path))
    assert done.exit_code == 4
    assert "KeyError" in done.output
    assert "1 PASS" in done.stdout
