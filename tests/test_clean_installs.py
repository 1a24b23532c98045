"""`pip install gradproof[jax]` and `gradproof[scipy]`, done in new virtual environments: no torch, nothing linked.

pip needs a package index for that. Where it reaches none, the tests are skipped, but not in CI, which sets
GRADPROOF_REQUIRE_INSTALLS. `test_without_torch.py` has more cases for an environment that needs no index.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REQUIRED = bool(os.environ.get("GRADPROOF_REQUIRE_INSTALLS"))
FRAMEWORKS = {"torch", "jax", "scipy", "optree", "rich", "typer", "jinja2", "autograd", "pytest"}

OF_JAX = """
import jax
import jax.numpy as jnp
from gradproof.jax import check_grads

def cube(factor):
    f = jax.custom_vjp(lambda x: x**3)
    f.defvjp(lambda x: (x**3, x), lambda x, g: (g * 3 * x**2 * factor,))
    return f

x = jnp.linspace(0.5, 1.5, 5)
assert gradproof.check(cube(1.0), x, order=2)
assert gradproof.check(jax.jit(lambda p: {"y": jnp.tanh(p["w"] @ p["x"])}), {"w": jnp.eye(3), "x": jnp.ones(3)})
check_grads(cube(1.0), (x,), order=1, modes=["rev"])
report = gradproof.check(cube(jnp.ones(5).at[3].set(1.5)), x)
assert report.findings[0].input_element == (3,), report
assert gradproof.Report.from_json(report.to_json()).verdict is gradproof.Verdict.FAIL
try:
    check_grads(cube(2.0), (x,), order=1, modes=["rev"])
except AssertionError as error:
    print(error)
"""

OF_SCIPY = """
import numpy as np
from scipy.optimize import minimize, rosen, rosen_der, rosen_hess
from scipy.sparse import csr_matrix
from gradproof.scipy import check_grad, check_problem

x = np.array([1.3, 0.7, 0.8])
assert gradproof.check(rosen, x, grad=rosen_der, hess=rosen_hess)
assert gradproof.check(lambda x: x[:2] * x[1:], x, jac=lambda x: csr_matrix([[x[1], x[0], 0], [0, x[2], x[1]]]))
assert check_grad(rosen, rosen_der, x) < 1e-9
assert check_problem(minimize, rosen, x, jac=rosen_der, hess=rosen_hess)
report = gradproof.check(rosen, x, grad=lambda x: rosen_der(x) * [1, 2, 1])
assert report.findings[0].input_element == (1,), report
assert not check_problem(minimize, rosen, x, jac=rosen_der, hess=lambda x: rosen_hess(x).T * [1, 1, 1.1])
print(report)
"""

CASES = {"jax": (OF_JAX, {"jax", "scipy"}, "Jacobian mismatch"), "scipy": (OF_SCIPY, {"scipy"}, "element 1 of grad")}


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as in a new shell: nothing of this environment is on its path."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=clean)


def installed(extra: str, home: Path) -> Path:
    """The interpreter of a new environment with gradproof, built and installed by pip with an extra."""
    made = run(sys.executable, "-m", "venv", home / "venv", cwd=home)
    assert made.returncode == 0, made.stderr
    python = home / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    done = run(*pip, f"{ROOT}[{extra}]", cwd=home)
    if done.returncode and not REQUIRED and "No matching distribution" in done.stderr:
        pytest.skip("pip reaches no package index")
    assert done.returncode == 0, done.stderr
    return python


@pytest.mark.parametrize("extra", CASES)
def test_an_extra_is_all_that_is_needed(extra: str, tmp_path: Path) -> None:
    code, there, told = CASES[extra]
    python = installed(extra, tmp_path)
    looked = f"""
import importlib.util, sys
import gradproof
names = {sorted(FRAMEWORKS)!r}
assert not set(names) & set(sys.modules), "import gradproof imported a framework"
print(*[name for name in names if importlib.util.find_spec(name)], gradproof.__file__)
"""
    found = run(python, "-I", "-c", looked, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    *names, place = found.stdout.split()
    assert set(names) == there
    assert Path(place).is_relative_to(tmp_path)
    done = run(python, "-I", "-c", f"import gradproof\n{code}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert told in done.stdout
