"""Wrong functions of 10^3 to 10^5 elements, made small by `gradproof.shrink`; their files are run with torch alone.

    python benchmarks/shrink.py [--no-pytest]

The files run in an interpreter of their own that cannot import gradproof: `-I`, with an import hook that refuses it.
Leaves with code 1 if an input keeps more than 4 elements or a file does not fail with the assertion that it is for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from shrink_functions import CASES

import gradproof

MOST = 4
# pytest, in an interpreter that sees neither PYTHONPATH nor gradproof and its plugin
RUN = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("gradproof", "gradproof_pytest"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refused())
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def main() -> int:
    small = 0
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'function':26}{'elements':>9}{'left':>6}{'largest input':>15}{'steps':>7}{'calls':>8}{'s':>7}  file")
        for number, (name, make) in enumerate(CASES.items()):
            func, inputs = make()
            start = time.perf_counter()
            result = gradproof.shrink(func, inputs)
            seconds = time.perf_counter() - start
            largest = max(each.numel() for each in result.inputs if isinstance(each, torch.Tensor))
            small += largest <= MOST
            result.write(Path(folder) / f"test_shrunk_{number}.py")
            written = "standalone" if result.standalone else result.reason
            print(
                f"{name:26}{result.elements_before:9}{result.elements:6}{largest:15}{len(result.steps):7}"
                f"{result.evaluations:8}{seconds:7.1f}  {written}",
                flush=True,
            )
        print(f"{small} of {len(CASES)} end with at most {MOST} elements an input")
        if "--no-pytest" in sys.argv:
            return int(small < len(CASES))
        good = failing(Path(folder))
    print(f"{good} of {len(CASES)} files fail under plain pytest with torch alone, by their assertion")
    return int(small < len(CASES) or good < len(CASES))


def failing(folder: Path) -> int:
    """How many files fail by their own assertion."""
    command = [sys.executable, "-I", "-c", RUN, "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    return len(re.findall(r"^E +AssertionError: the derivative along u is", done.stdout, re.MULTILINE))


if __name__ == "__main__":
    sys.exit(main())
