"""gradproof on a machine with NumPy and SciPy alone: a virtual environment that has nothing else.

The environment links the two packages of this one, so that it needs no network and these tests are never skipped.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def link(distribution: str, target: Path) -> None:
    """Make an installed distribution importable from another directory."""
    found = importlib.metadata.distribution(distribution)
    files = found.files or []
    tops = {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        place = Path(str(found.locate_file(top)))
        if not (target / top).exists():
            (target / top).symlink_to(place, target_is_directory=place.is_dir())


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with NumPy, SciPy and gradproof."""
    home = tmp_path_factory.mktemp("clean")
    venv.EnvBuilder(with_pip=False, symlinks=True).create(home)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = home / "lib" / version / "site-packages"
    for distribution in ("numpy", "scipy"):
        link(distribution, packages)
    (packages / "gradproof.pth").write_text(f"{ROOT / 'src'}\n", encoding="utf-8")
    metadata = packages / "gradproof-0.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: gradproof\nVersion: 0.0\n", encoding="utf-8")
    return home / "bin" / "python"


def run(python: Path, code: str) -> str:
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False, cwd=python.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_environment_has_no_framework(python: Path) -> None:
    for name in ("torch", "jax", "optree", "rich", "typer", "jinja2", "autograd"):
        code = f"try:\n    import {name}\nexcept ImportError:\n    print('none')"
        assert run(python, code) == "none\n", name


def test_a_numpy_function_is_checked(python: Path) -> None:
    code = """
import sys
import numpy as np
import gradproof
from scipy.optimize import rosen, rosen_der, rosen_hess
x = np.array([1.3, 0.7, 0.8])
assert gradproof.check(rosen, x, grad=rosen_der, hess=rosen_hess)
report = gradproof.check(rosen, x, grad=lambda x: rosen_der(x) * [1, 2, 1])
assert report.findings[0].input_element == (1,)
assert gradproof.Report.from_json(report.to_json()).verdict is gradproof.Verdict.FAIL
print(report)
"""
    assert "element 1 of grad" in run(python, code)


def test_problems_of_scipy_are_checked(python: Path) -> None:
    code = """
from scipy.optimize import minimize, rosen, rosen_der, rosen_hess, NonlinearConstraint
from gradproof.scipy import check_grad, check_problem
disc = NonlinearConstraint(lambda x: x @ x, 0, 1, jac=lambda x: 2 * x, hess=lambda x, v: [[3 * v[0], 0], [0, 2 * v[0]]])
report = check_problem(minimize, rosen, [0.5, 0.2], jac=rosen_der, hess=rosen_hess, constraints=disc)
assert check_grad(rosen, rosen_der, [0.5, 0.2]) < 1e-9
print(report.failures[0].name)
"""
    assert run(python, code) == "constraints[0].hess at x0\n"


def test_the_backend_conforms_there_too(python: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from adapters.numpy_adapter import ADAPTER
from gradproof.testing import conformance
cases = conformance(ADAPTER)
for case in cases:
    case()
print(len(cases) > 20, "torch" in sys.modules)
"""
    assert run(python, code) == "True False\n"


def test_the_demonstration_needs_no_extra(python: Path) -> None:
    told = run(python, "from gradproof.demo import main; raise SystemExit(main(None, 'numpy'))")
    assert "FOUND: the wrong vjp is in rms_norm." in told


def test_what_needs_torch_says_so(python: Path) -> None:
    code = """
import gradproof
try:
    gradproof.check(abs, 3.0)
except TypeError as error:
    print(error)
"""
    assert "or with a function of NumPy arrays its derivative" in run(python, code)
