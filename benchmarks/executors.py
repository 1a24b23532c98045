"""What workers gain, and what they cost.

    python benchmarks/executors.py

Every entry of a function of 64 numbers that nothing batches, of about 50 ms and of about 1 ms a call, computed here and
on two workers: a Dask cluster on this machine, and a process pool. The function is computed by NumPy in one thread, so
that two workers need two cores. Of each the best wall time of some checks is taken, alone and on workers in turn, so
that other jobs on the machine meet both.

- faster: the time alone divided by that on two workers. 2 is all that two workers can give.
- overhead: the time on two workers divided by that alone, less 1. Below zero, workers are a gain; what is sent in
  batches that are too small, or not worth it, would show as more than 30 %.
- over half: the time on two workers divided by half of the time alone, less 1. What sending costs, and what is not
  shared, because it is done here.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

import gradproof

COLUMNS = 64


class Heavy(torch.autograd.Function):
    """sin(x), after some work."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, rounds: int) -> torch.Tensor:
        ctx.save_for_backward(x)
        work = np.linspace(0.0, 1.0, 2000)
        for _ in range(rounds):
            work = np.sin(work)
        return torch.sin(x) + 0.0 * float(work[0])

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return g * torch.cos(x), None


def heavy(x: torch.Tensor, rounds: int) -> torch.Tensor:
    return Heavy.apply(x, rounds) * x.sum()


def rounds_for(seconds: float) -> int:
    """How many rounds of work take so long here."""
    x = torch.rand(COLUMNS, dtype=torch.float64)
    started = time.perf_counter()
    heavy(x, 200)
    return max(1, round(200 * seconds / (time.perf_counter() - started)))


def seconds_of(rounds: int, executor: Executor | None) -> float:
    """The wall time of one check."""
    x = torch.rand(COLUMNS, dtype=torch.float64, requires_grad=True)
    started = time.perf_counter()
    report = gradproof.check(
        heavy, (x, rounds), strategy="entries", properties=("jacobian",), modes="reverse", executor=executor
    )
    taken = time.perf_counter() - started
    assert report, report
    return taken


@contextmanager
def dask() -> Iterator[Executor]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        yield client.get_executor()


@contextmanager
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


def main() -> None:
    torch.set_num_threads(1)
    print("| workers | function | alone s | two workers s | faster | overhead | over half |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for name, made in (("Dask", dask), ("process pool", processes)):
        with made() as executor:
            for label, seconds, repeats in (("50 ms", 0.05, 2), ("1 ms", 0.001, 9)):
                rounds = rounds_for(seconds)
                seconds_of(rounds, executor)  # workers import what they need
                times = [(seconds_of(rounds, None), seconds_of(rounds, executor)) for _ in range(repeats)]
                alone, on_workers = (min(column) for column in zip(*times, strict=True))
                print(
                    f"| {name} | {label} | {alone:.3f} | {on_workers:.3f} | {alone / on_workers:.2f} | "
                    f"{on_workers / alone - 1:.0%} | {on_workers / (alone / 2) - 1:.0%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
