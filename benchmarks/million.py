"""What a check of a million elements costs: time against torch's fast mode, the search for one wrong entry, memory.

    python benchmarks/million.py
    python benchmarks/million.py --n 100000 --repeats 3

- Time: `sin`, right, by `gradproof.check`, `gradproof.torch.gradcheck` and `torch.autograd.gradcheck`, the last two in
  fast mode. They take turns; the best of several repeats counts, and the ratio to torch's.
- Location: one entry of the Jacobian is off, at a random place. `sin` has a diagonal Jacobian, a stencil of seven
  neighbours a banded one, and in a cumulative sum each output depends on all inputs before it. All of the check is
  counted, with the figures of the report.
- Memory: the rise of the peak resident size in a process that does nothing but the check, which sees torch's memory and
  NumPy's; and by tracemalloc the peak of NumPy's alone. Both in sizes of the input.

torch runs on one thread.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gradproof
import gradproof.torch

CHECK_LIMIT, FAST_LIMIT, MEMORY_LIMIT = 2.0, 1.5, 30.0
EVALUATIONS_LIMIT, VJPS_LIMIT = 40, 12
# The weights of a stencil of seven neighbours.
BAND = (0.05, -0.2, 0.4, 1.0, 0.3, -0.1, 0.02)


class WrongEntry(torch.autograd.Function):
    """A function whose gradient is right but for one entry: `error` is added for one output and one input."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, function: Any, place: tuple[int, int], error: float) -> torch.Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            ctx.leaf, ctx.value, ctx.place, ctx.error = leaf, function(leaf), place, error
        return ctx.value.detach()

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        (gradient,) = torch.autograd.grad(ctx.value, ctx.leaf, cotangent, retain_graph=True)
        output, input_ = ctx.place
        gradient = gradient.clone()
        gradient[input_] += ctx.error * cotangent[output]
        return gradient, None, None, None


class WrongSine(torch.autograd.Function):
    """The same of sin, with no memory that a plain sin does not take."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        gradient = x.cos().mul_(cotangent)
        gradient[len(x) // 3] *= 1.1
        return gradient


def sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def banded(x: torch.Tensor) -> torch.Tensor:
    weights = torch.tensor(BAND, dtype=x.dtype)
    return torch.nn.functional.conv1d(x.tanh()[None, None], weights[None, None], padding=len(BAND) // 2)[0, 0]


def cumulative(x: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(x.sin(), 0)


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"sin": sine, "stencil": banded, "cumsum": cumulative}


def numbers(n: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(n)).requires_grad_()


# time


def times(n: int, repeats: int) -> dict[str, float]:
    """The best time of each checker, in seconds."""
    x = numbers(n)
    checkers: dict[str, Callable[[], Any]] = {
        "gradproof.check": lambda: gradproof.check(torch.sin, x),
        "gradproof gradcheck, fast": lambda: gradproof.torch.gradcheck(torch.sin, x, fast_mode=True),
        "torch gradcheck, fast": lambda: torch.autograd.gradcheck(torch.sin, x, fast_mode=True),
    }
    best = dict.fromkeys(checkers, float("inf"))
    for _ in range(repeats):
        for name, run in checkers.items():
            gc.collect()
            started = time.perf_counter()
            assert run(), f"{name} does not pass a right function"
            best[name] = min(best[name], time.perf_counter() - started)
    return best


def show_times(n: int, repeats: int) -> bool:
    best = times(n, repeats)
    by_torch = best["torch gradcheck, fast"]
    limits = {"gradproof.check": CHECK_LIMIT, "gradproof gradcheck, fast": FAST_LIMIT}
    print(
        f"## Time of sin at n = {n}, best of {repeats}\n\n| checker | ms | times torch's | limit |\n|---|--:|--:|--:|"
    )
    for name, seconds in best.items():
        print(f"| {name} | {1e3 * seconds:.0f} | {seconds / by_torch:.2f} | {limits.get(name, '')} |")
    return all(best[name] <= limit * by_torch for name, limit in limits.items())


# location


@dataclass(frozen=True)
class Location:
    """One search: what it took, and whether the report names the place, and nothing else, with all of its figures."""

    evaluations: int
    vjps: int
    seconds: float
    right: bool
    complete: bool


def locate(function: Callable[[torch.Tensor], torch.Tensor], n: int, error: float, seed: int) -> Location:
    draw = np.random.default_rng(seed)
    output = int(draw.integers(n))
    near = {sine: 0, banded: int(draw.integers(-3, 4)), cumulative: -int(draw.integers(output + 1))}[function]
    place = output, min(max(output + near, 0), n - 1)
    x = numbers(n, seed)
    report = gradproof.check(lambda x: WrongEntry.apply(x, function, place, error), x, modes="reverse", seed=seed)
    named = [(entry.output.element, entry.input.element) for finding in report.findings for entry in finding.entries]
    entry = report.findings[0].entries[0] if named else None
    complete = (
        entry is not None
        and abs(entry.analytic - entry.numeric - error) <= entry.error + 1e-9
        and 0 < entry.error < abs(error)
        and len(report.exhibits) == 1
        and len(report.exhibits[0].ladder) >= 3
        and "<figure" in drawn(report)
    )
    right = report.verdict is gradproof.Verdict.FAIL and named == [((place[0],), (place[1],))]
    return Location(report.cost.evaluations, report.cost.vjps, report.cost.seconds, right, complete)


def drawn(report: gradproof.Report) -> str:
    """The report as a page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        report.to_html(path)
        return path.read_text()


def show_locations(n: int, places: int) -> bool:
    print(f"\n## One wrong entry of {n} times {n}, {places} random places each\n")
    print("| function | off by | right place | all figures | evaluations, most | vjps, most | seconds, median |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    holds = True
    for name, function in FUNCTIONS.items():
        for error in (0.1, 1e-2) if function is cumulative else (0.1, 1e-3):
            found = [locate(function, n, error, seed) for seed in range(places)]
            evaluations, vjps = max(each.evaluations for each in found), max(each.vjps for each in found)
            right, complete = sum(each.right for each in found), sum(each.complete for each in found)
            seconds = float(np.median([each.seconds for each in found]))
            holds &= right == complete == places and evaluations <= EVALUATIONS_LIMIT and vjps <= VJPS_LIMIT
            print(f"| {name} | {error:g} | {right} | {complete} | {evaluations} | {vjps} | {seconds:.1f} |", flush=True)
    return holds


# memory


@dataclass(frozen=True)
class Memory:
    """Peaks in sizes of the input."""

    resident: float
    numpy: float


def memory_here(n: int, wrong: bool, traced: bool) -> float:
    """The peak of one check in this process, in sizes of the input, after a small one has loaded what it needs."""

    def run(size: int) -> Any:
        return gradproof.check(WrongSine.apply if wrong else torch.sin, numbers(size), modes="reverse")

    assert bool(run(3000)) is not wrong
    gc.collect()
    if traced:
        tracemalloc.start()
        run(n)
        return tracemalloc.get_traced_memory()[1] / (8 * n)
    before = peak_bytes()
    run(n)
    return (peak_bytes() - before) / (8 * n) - 1.0  # the input itself is made by `run`


def peak_bytes() -> int:
    """The peak of this process. On Linux `getrusage` gives that of the process that started it, if it was larger."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 2**10


def memory_apart(n: int, wrong: bool) -> Memory:
    def ask(*flags: str) -> float:
        command = [sys.executable, __file__, "--memory", "--n", str(n), *flags, *(["--wrong"] if wrong else [])]
        return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))

    return Memory(ask(), ask("--traced"))


def show_memory(n: int) -> bool:
    print(f"\n## Peak extra memory of sin at n = {n}, in sizes of the input (limit {MEMORY_LIMIT:g})\n")
    print("| check | resident | NumPy's part |\n|---|--:|--:|")
    holds = True
    for name, wrong in (("right", False), ("one wrong entry", True)):
        memory = memory_apart(n, wrong)
        holds &= all(0 < peak <= MEMORY_LIMIT for peak in asdict(memory).values())
        print(f"| {name} | {memory.resident:.1f} | {memory.numpy:.1f} |", flush=True)
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=10**6, metavar="ELEMENTS")
    parser.add_argument("--repeats", type=int, default=7, help="of each checker's time")
    parser.add_argument("--places", type=int, default=10, help="of each function's wrong entry")
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--wrong", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory:
        print(json.dumps(memory_here(options.n, options.wrong, options.traced)))
        return 0
    held = {
        "time": show_times(options.n, options.repeats),
        "location": show_locations(options.n, options.places),
        "memory": show_memory(options.n),
    }
    print("\n" + ", ".join(f"{name}: {'within' if held_ else 'OVER'} the limits" for name, held_ in held.items()))
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
