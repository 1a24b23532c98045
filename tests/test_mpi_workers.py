"""`executor=` with the pool of mpi4py.futures, in a script as its users start it. Needs an MPI: `pip install mpich`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import re
import gradproof, gradproof.torch
from executor_cases import audited, numbers, of_two, right, wrong
from mpi4py.futures import MPIPoolExecutor


def told(report):
    return re.sub(r'"seconds": [^,\\n]*', "", report.to_json())


if __name__ == "__main__":
    sent = []

    class Counting(MPIPoolExecutor):
        def submit(self, function, /, *arguments, **keywords):
            sent.append(function.__name__)
            return super().submit(function, *arguments, **keywords)

    with Counting() as executor:
        both = numbers(6), numbers(6, seed=1)
        for func, inputs in ((right, (numbers(8),)), (wrong, (numbers(8),)), (of_two, both)):
            alone = gradproof.check(func, inputs, strategy="entries")
            with_workers = gradproof.check(func, inputs, strategy="entries", executor=executor)
            assert told(with_workers) == told(alone), func.__name__
        for slope in (1.0, 1.05):
            model, inputs = audited(slope)
            alone = gradproof.torch.audit(model, inputs, deep=True)
            with_workers = gradproof.torch.audit(model, inputs, deep=True, executor=executor)
            assert told(with_workers) == told(alone), slope
        assert sent.count("serve") >= 10, sent
        print("the same with", executor.num_workers, "workers")
"""


def mpiexec() -> str | None:
    """That of this environment first: its library is the one that mpi4py finds."""
    beside = Path(sys.prefix) / "bin" / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def has_mpi() -> bool:
    """Whether mpi4py finds a library."""
    if importlib.util.find_spec("mpi4py") is None:
        return False
    found = subprocess.run([sys.executable, "-c", "from mpi4py import MPI"], capture_output=True, check=False)
    return found.returncode == 0


@pytest.mark.skipif(mpiexec() is None, reason="there is no mpiexec: pip install mpich")
def test_mpi_gives_the_same_reports(tmp_path: Path) -> None:
    if not has_mpi():
        pytest.skip("mpi4py finds no MPI library: pip install mpi4py mpich")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    start = mpiexec()
    assert start is not None
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    done = subprocess.run(
        [start, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "the same with 2 workers" in done.stdout
