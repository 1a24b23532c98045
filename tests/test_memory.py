"""A check of a moderate size stays within its memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("resource")

SCRIPT = """
import resource, sys, torch
from gradproof.torch import gradcheck

def peak():
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024

x = torch.rand(8, dtype=torch.float64, requires_grad=True)
gradcheck(torch.sin, x)
before = peak()
x = torch.rand({size}, dtype=torch.float64, requires_grad=True)
assert gradcheck(torch.sin, x)
print(peak() - before)
"""


def test_six_thousand_elements_take_less_than_700_megabytes() -> None:
    """The two Jacobians alone would take 288 MB each."""
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(size=6000)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 700e6
