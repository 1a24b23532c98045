"""gradproof.torch.gradcheck against the slow mode of torch.autograd.gradcheck, side by side.

    make bench
    python benchmarks/slow_mode.py --json numbers.json

Both get the same function and the same inputs, in float64, with torch on one thread. A time is the best of several
repeats, the two taking turns, after one check each to warm up. Function calls and backward runs are counted in a
check of their own: a vmapped call, and a vmapped backward, counts once. Memory is the rise of the peak resident size
of a process that does nothing but the check.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

import gradproof.torch

CHECKERS: dict[str, Callable[..., bool]] = {"torch": torch.autograd.gradcheck, "gradproof": gradproof.torch.gradcheck}
# Repeats end when this many seconds are spent on a case, but not before the fewest and not after the most.
SECONDS, FEWEST, MOST = 4.0, 3, 400
MEMORY_ELEMENTS = 6000


class PlainSin(torch.autograd.Function):
    """sin as people write it: forward and backward, no rule for vmap."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return cotangent * x.cos()


@dataclass(frozen=True)
class Case:
    """A function and the shapes of its inputs."""

    name: str
    function: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]

    def inputs(self) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(0)
        return tuple(
            torch.rand(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in self.shapes
        )


@dataclass(frozen=True)
class Row:
    """What one case gave; the dictionaries have one value for each checker."""

    case: str
    inputs: int
    outputs: int
    milliseconds: dict[str, float]
    repeats: int
    calls: dict[str, int]
    backwards: dict[str, int]

    @property
    def ratio(self) -> float:
        return self.milliseconds["torch"] / self.milliseconds["gradproof"]


def batched_cases() -> Iterator[Case]:
    """256 and 1024 input elements in all, of functions that vmap understands."""
    yield Case("sin", torch.sin, ((256,),))
    yield Case("softmax", softmax, ((16, 16),))
    yield Case("matmul", torch.matmul, ((16, 8), (8, 16)))
    yield Case("conv2d", torch.nn.functional.conv2d, ((1, 4, 3, 9), (4, 4, 3, 3), (4,)))
    yield Case("conv2d, more outputs", torch.nn.functional.conv2d, ((1, 2, 9, 10), (4, 2, 3, 3), (4,)))
    yield Case("sin", torch.sin, ((1024,),))
    yield Case("softmax", softmax, ((32, 32),))
    yield Case("matmul", torch.matmul, ((32, 16), (16, 32)))
    yield Case("conv2d", torch.nn.functional.conv2d, ((1, 12, 7, 7), (4, 12, 3, 3), (4,)))
    yield Case("conv2d, more outputs", torch.nn.functional.conv2d, ((1, 8, 5, 11), (8, 8, 3, 3), (8,)))


def plain_cases() -> Iterator[Case]:
    """A custom Function that only a loop can run."""
    for n in (1, 2, 3, 10, 30, 100, 300, 1000):
        yield Case("custom sin", PlainSin.apply, ((n,),))


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


def measure(case: Case) -> Row:
    inputs = case.inputs()
    counts = {name: count(checker, case) for name, checker in CHECKERS.items()}
    best = dict.fromkeys(CHECKERS, math.inf)
    repeats, started = 0, time.perf_counter()
    while repeats < FEWEST or (repeats < MOST and time.perf_counter() - started < SECONDS):
        for name, checker in CHECKERS.items():
            best[name] = min(best[name], seconds(checker, case.function, inputs))
        repeats += 1
    return Row(
        case=case.name,
        inputs=sum(x.numel() for x in inputs),
        outputs=case.function(*inputs).numel(),
        milliseconds={name: 1e3 * value for name, value in best.items()},
        repeats=repeats,
        calls={name: calls for name, (calls, _) in counts.items()},
        backwards={name: backwards for name, (_, backwards) in counts.items()},
    )


def seconds(checker: Callable[..., bool], function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> float:
    started = time.perf_counter()
    checker(function, inputs)
    return time.perf_counter() - started


class CountingEngine:
    """Stands in for the autograd engine and counts its runs: a hook of the output would be code of the user's."""

    def __init__(self, engine: Any) -> None:
        self._engine, self.runs = engine, 0

    def run_backward(self, *arguments: Any, **options: Any) -> Any:
        self.runs += 1
        return self._engine.run_backward(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


ENGINE = CountingEngine(torch.autograd.Variable._execution_engine)


def count(checker: Callable[..., bool], case: Case) -> tuple[int, int]:
    """Calls of the function, and runs of the autograd engine, in one check; the one before it warms up."""
    checker(case.function, case.inputs())
    calls, before = 0, ENGINE.runs

    def counted(*inputs: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return case.function(*inputs)

    checker(counted, case.inputs())
    return calls, ENGINE.runs - before


def table(rows: list[Row]) -> str:
    head = (
        "| case | input elements | output elements | torch ms | gradproof ms | ratio "
        "| function calls, torch / gradproof | backward runs, torch / gradproof |"
    )
    lines = [head, "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        times = " | ".join(f"{row.milliseconds[name]:.3g}" for name in CHECKERS)
        calls, backwards = (" / ".join(str(of[name]) for name in CHECKERS) for of in (row.calls, row.backwards))
        lines.append(
            f"| {row.case} | {row.inputs} | {row.outputs} | {times} | {row.ratio:.2f} | {calls} | {backwards} |"
        )
    return "\n".join(lines)


def peak_mebibytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def memory_here(name: str) -> dict[str, float]:
    """The rise of this process's peak during one check, after a small one has loaded what it needs."""
    checker = CHECKERS[name]
    checker(torch.sin, torch.rand(30, dtype=torch.float64).requires_grad_())
    x = torch.rand(MEMORY_ELEMENTS, dtype=torch.float64).requires_grad_()
    before = peak_mebibytes()
    took = seconds(checker, torch.sin, (x,))
    return {"mebibytes": peak_mebibytes() - before, "seconds": took}


def memory_apart(name: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--memory-of", name]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def memory_table(found: dict[str, dict[str, float]]) -> str:
    one_jacobian = MEMORY_ELEMENTS**2 * 8 / 2**20
    lines = ["| checker | peak extra memory, MiB | in Jacobians of 8-byte numbers | seconds |", "|---|--:|--:|--:|"]
    for name, row in found.items():
        share = row["mebibytes"] / one_jacobian
        lines.append(f"| {name} | {row['mebibytes']:.0f} | {share:.1f} | {row['seconds']:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="torch's slow mode against gradproof.torch.gradcheck")
    parser.add_argument("--json", metavar="FILE", help="write the raw numbers there")
    parser.add_argument("--memory-of", choices=list(CHECKERS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.autograd.Variable._execution_engine = ENGINE  # before gradproof asks for it first
    if arguments.memory_of:
        print(json.dumps(memory_here(arguments.memory_of)))
        return
    about = {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }
    print("; ".join(f"{key} {value}" for key, value in about.items()) + "; one thread\n")
    # First of all: a process inherits the peak of the one that started it, and this one will grow.
    memory = {name: memory_apart(name) for name in CHECKERS}
    print("Functions that can be batched:\n", flush=True)
    batched = [measure(case) for case in batched_cases()]
    print(table(batched), "\n\nsin as a custom autograd.Function without a vmap rule:\n", sep="", flush=True)
    plain = [measure(case) for case in plain_cases()]
    print(table(plain), f"\n\nMemory, gradcheck(torch.sin) on {MEMORY_ELEMENTS} elements:\n", sep="", flush=True)
    print(memory_table(memory))
    if arguments.json:
        rows = {"batched": batched, "plain": plain}
        numbers = {key: [asdict(row) | {"ratio": row.ratio} for row in part] for key, part in rows.items()}
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"about": about, **numbers, "memory": memory}, file, indent=2)


if __name__ == "__main__":
    main()
