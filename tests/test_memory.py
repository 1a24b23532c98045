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


SPARSE_SCRIPT = """
import resource, sys, warnings, torch, gradproof
warnings.simplefilter("ignore")

def peak():
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024

class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, sparse, vector):
        ctx.save_for_backward(sparse, vector)
        return sparse @ vector

    @staticmethod
    def backward(ctx, g):
        sparse, vector = ctx.saved_tensors
        rows, columns = sparse.crow_indices(), sparse.col_indices()
        values = g.repeat_interleave(rows.diff()) * vector[columns]
        values[values.numel() // 3] *= 1.001
        return torch.sparse_csr_tensor(rows, columns, values, sparse.shape), None

def matrix(size, each):
    columns = (torch.arange(each) * (size // each)).repeat(size)
    values = torch.rand(size * each, dtype=torch.float64) + 0.5
    return torch.sparse_csr_tensor(torch.arange(size + 1) * each, columns, values, (size, size)).requires_grad_()

gradproof.check(Product.apply, (matrix(8, 2), torch.ones(8, dtype=torch.float64)), masked=True)
sparse, vector = matrix(100_000, 10), torch.rand(100_000, dtype=torch.float64) + 0.5
before = peak()
report = gradproof.check(Product.apply, (sparse, vector), masked=True)
print((peak() - before) / (8 * sparse.values().numel()), report.verdict.name, *report.findings[0].input_element)
"""


def test_probes_find_one_wrong_value_of_a_million_and_never_densify_the_matrix() -> None:
    """Dense, it would take 80 GB."""
    done = subprocess.run([sys.executable, "-c", SPARSE_SCRIPT], capture_output=True, text=True, check=True)
    times, verdict, row, column = done.stdout.split()
    assert float(times) < 60
    assert (verdict, int(row), int(column)) == ("FAIL", 33_333, 3 * 10_000)
