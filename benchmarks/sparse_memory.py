"""Probes on a large sparse matrix: time, and how much memory they take besides it.

    python benchmarks/sparse_memory.py
    python benchmarks/sparse_memory.py --size 10000 --stored 100000

A CSR matrix of size x size elements, of which `stored` have a value, is multiplied with a vector by a
`torch.autograd.Function` whose gradient is a CSR matrix too: once right, once with the derivative of one stored value
off by one part in a thousand. Both are checked with masked=True. Memory is the rise of the peak resident size of a
process that does nothing but the check, after a small one has loaded what it needs.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

import gradproof


def matrix(size: int, stored: int) -> torch.Tensor:
    """Random values, the same number in each row, at evenly spaced columns that start at a random one."""
    generator = torch.Generator().manual_seed(0)
    each = stored // size
    start = torch.randint(size, (size, 1), generator=generator)
    columns = ((start + torch.arange(each) * (size // each)) % size).sort(dim=1).values
    values = torch.rand(size * each, generator=generator, dtype=torch.float64) + 0.5
    rows = torch.arange(size + 1) * each
    return torch.sparse_csr_tensor(rows, columns.reshape(-1), values, (size, size)).requires_grad_()


def product(vector: torch.Tensor, wrong: int | None) -> Callable[..., Any]:
    """The product of a CSR matrix with a vector; the derivative for one stored value may be wrong."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, sparse: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(sparse)
            return sparse @ vector

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> torch.Tensor:
            (sparse,) = ctx.saved_tensors
            rows, columns = sparse.crow_indices(), sparse.col_indices()
            values = cotangents[0].repeat_interleave(rows.diff()) * vector[columns]
            if wrong is not None:
                values[wrong] *= 1.001
            return torch.sparse_csr_tensor(rows, columns, values, sparse.shape)

    return Product.apply


def peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 2**10


def check_here(size: int, stored: int, wrong: int | None) -> dict[str, Any]:
    """One check in this process, and what it cost."""
    small = product(torch.ones(8, dtype=torch.float64), 3)
    gradproof.check(small, matrix(8, 16), masked=True)
    sparse = matrix(size, stored)
    function = product(torch.rand(size, dtype=torch.float64) + 0.5, wrong)
    function(sparse)
    before, started = peak_bytes(), time.perf_counter()
    report = gradproof.check(function, sparse, masked=True)
    took, rise = time.perf_counter() - started, peak_bytes() - before
    found = report.findings[0].input_element if report.findings else None
    return {
        "verdict": report.verdict.name,
        "found": found,
        "planted": None if wrong is None else element(sparse, wrong),
        "seconds": took,
        "times_values": rise / (8 * sparse.values().numel()),
        "evaluations": report.cost.evaluations,
        "vjps": report.cost.vjps,
    }


def element(sparse: torch.Tensor, stored: int) -> tuple[int, int]:
    row = int(torch.searchsorted(sparse.crow_indices(), stored, right=True)) - 1
    return row, int(sparse.col_indices()[stored])


def check_apart(arguments: argparse.Namespace, wrong: int | None) -> dict[str, Any]:
    command = [sys.executable, __file__, "--size", str(arguments.size), "--stored", str(arguments.stored), "--here"]
    command += [] if wrong is None else ["--wrong", str(wrong)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description="probes on a large CSR matrix")
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--stored", type=int, default=1_000_000)
    parser.add_argument("--wrong", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse")
    torch.set_num_threads(1)
    if arguments.here:
        print(json.dumps(check_here(arguments.size, arguments.stored, arguments.wrong)))
        return
    print(
        "| derivative | verdict | planted at | found at | peak memory / stored values | seconds | evaluations | vjps |"
    )
    print("|---|---|---|---|--:|--:|--:|--:|")
    for name, wrong in (("right", None), ("one of the stored values off by 0.1 %", arguments.stored * 5 // 7)):
        row = check_apart(arguments, wrong)
        print(
            f"| {name} | {row['verdict']} | {row['planted'] or '-'} | {row['found'] or '-'} "
            f"| {row['times_values']:.1f} | {row['seconds']:.1f} | {row['evaluations']} | {row['vjps']} |"
        )


if __name__ == "__main__":
    main()
