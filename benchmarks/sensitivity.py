"""How small a wrong gradient can be and still be caught: gradproof's probes against other checkers.

    make bench
    python benchmarks/sensitivity.py --json numbers.json

The function is an elementwise sin of n standard normal numbers in float64. Its forward is right, and so is its gradient
but for one element, which is off by d. Four questions, one table each (two for the first):

- What is the smallest d that a checker catches for every seed, and what does it spend where the gradient is right? A
  seed draws the point, the place of the wrong element and, for `gradproof.check`, the probes.
- What does a right gradient cost `gradproof.check`, in evaluations, vjps and memory?
- What does it cost to find the wrong entry, among a million elements and in a dense matrix?
- How often, of 20 seeds, is an error of a given size caught, and the right element named?

torch runs on one thread. When its fast mode fails it runs the slow mode too, for its message, which a million elements
cannot afford: that is left out here. Memory is the rise of the peak resident size of a process that does nothing but
the check. JAX is optional: without it its columns say so.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib as mpl
import numpy as np
import torch
from bisection import smallest_caught

import gradproof.torch

try:
    import jax
    import jax.numpy as jnp
    import jax.test_util

    jax.config.update("jax_enable_x64", True)
except ImportError:
    jax = None

SIZES = (10**2, 10**3, 10**4, 10**5, 10**6)
SEEDS = range(3)
# The exponents of ten between which the smallest error that is caught is looked for.
LOWEST, HIGHEST = -13, 12
TRIALS = 20
DENSE = 3000
PLOT = Path(__file__).resolve().parents[1] / "docs" / "images" / "sensitivity.svg"


class WrongSin(torch.autograd.Function):
    """sin, with `error` added to its derivative."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, error)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, error = ctx.saved_tensors
        return cotangent * (x.cos() + error), None


class WrongMatmul(torch.autograd.Function):
    """matrix @ x, with the backward of another matrix."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, matrix: torch.Tensor, claimed: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(claimed)
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (claimed,) = ctx.saved_tensors
        return claimed.t() @ cotangent, None, None


@dataclass(frozen=True)
class Subject:
    """A point, and the error of each element of the gradient there."""

    point: np.ndarray
    error: np.ndarray
    seed: int

    @staticmethod
    def draw(n: int, size: float | Callable[[np.ndarray], np.ndarray], seed: int, places: int = 1) -> Subject:
        """n numbers, of which `places` get a wrong gradient, off by `size` or by that function of the point."""
        generator = np.random.default_rng(seed)
        point, error = generator.standard_normal(n), np.zeros(n)
        where = generator.choice(n, places, replace=False)
        error[where] = size(point[where]) if callable(size) else size
        return Subject(point, error, seed)

    @property
    def wrong(self) -> list[int]:
        return np.flatnonzero(self.error).tolist()


@dataclass
class Trial:
    """What one check did. A vmapped call counts as one call."""

    caught: bool = False
    seconds: float = 0.0
    calls: int = 0
    input_element: tuple[int, ...] | None = None

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        gc.collect()  # what the check before this one left behind
        started = time.perf_counter()
        yield
        self.seconds = time.perf_counter() - started

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: Any) -> Any:
            self.calls += 1
            return function(x)

        return call


def torch_call(subject: Subject) -> tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]:
    error = torch.from_numpy(subject.error)
    x = torch.from_numpy(subject.point.copy()).requires_grad_()
    return lambda x: WrongSin.apply(x, error), x


@contextlib.contextmanager
def fast_to_the_end() -> Iterator[None]:
    """Where torch's fast mode fails, it runs the slow mode, to have Jacobians to print. Here it is left out."""
    module = importlib.import_module("torch.autograd.gradcheck")
    with mock.patch.object(module, "_run_slow_mode_and_get_error", return_value=""):
        yield


def with_gradcheck(checker: Callable[..., bool], fast_mode: bool) -> Callable[[Subject], Trial]:
    def run(subject: Subject) -> Trial:
        trial = Trial()
        function, x = torch_call(subject)
        with fast_to_the_end(), trial.timed():
            trial.caught = not checker(trial.counted(function), x, fast_mode=fast_mode, raise_exception=False)
        return trial

    return run


def with_jax(subject: Subject) -> Trial:
    trial, error = Trial(), jnp.asarray(subject.error)
    function = jax.custom_vjp(jnp.sin)
    function.defvjp(lambda x: (jnp.sin(x), x), lambda x, cotangent: (cotangent * (jnp.cos(x) + error),))
    x = jnp.asarray(subject.point)
    with trial.timed():
        try:
            jax.test_util.check_grads(trial.counted(function), (x,), order=1, modes=["rev"])
        except AssertionError:
            trial.caught = True
    return trial


def with_check(subject: Subject) -> Trial:
    trial = Trial()
    function, x = torch_call(subject)
    with trial.timed():
        report = gradproof.check(trial.counted(function), x, modes="reverse", seed=subject.seed)
    trial.caught = report.verdict is gradproof.Verdict.FAIL
    trial.input_element = report.findings[0].input_element if report.findings else None
    return trial


@dataclass(frozen=True)
class Checker:
    """A checker by its name, and the largest n that it can afford."""

    name: str
    run: Callable[[Subject], Trial]
    largest: int = SIZES[-1]


CHECKERS = (
    Checker("torch slow", with_gradcheck(torch.autograd.gradcheck, fast_mode=False), largest=10**3),
    Checker("torch fast", with_gradcheck(torch.autograd.gradcheck, fast_mode=True)),
    Checker("jax check_grads", with_jax, largest=SIZES[-1] if jax else 0),
    Checker("gradproof gradcheck, fast", with_gradcheck(gradproof.torch.gradcheck, fast_mode=True)),
    Checker("gradproof.check", with_check),
)


@dataclass
class Cell:
    """One checker at one n. `smallest` is None if even the largest error tried passed."""

    checker: str
    n: int
    skipped: str = ""
    smallest: float | None = None
    milliseconds: float = 0.0
    calls: int = 0
    accepts_right: bool = True


def sensitivity(checker: Checker, n: int) -> Cell:
    if n > checker.largest:
        return Cell(checker.name, n, skipped="not run" if checker.largest else "not installed")
    cell = Cell(checker.name, n, smallest=smallest_error(checker, n))
    trials = [checker.run(Subject.draw(n, 0.0, seed)) for seed in SEEDS]
    cell.milliseconds = 1e3 * min(trial.seconds for trial in trials)
    cell.calls = trials[-1].calls
    cell.accepts_right = not any(trial.caught for trial in trials)
    return cell


def smallest_error(checker: Checker, n: int) -> float | None:
    """The smallest error that every seed catches."""
    return smallest_caught(
        lambda size: all(checker.run(Subject.draw(n, size, seed)).caught for seed in SEEDS), (LOWEST, HIGHEST)
    )


def wide_table(cells: list[Cell], show: Callable[[Cell], str]) -> str:
    lines = ["| n | " + " | ".join(checker.name for checker in CHECKERS) + " |", "|--:" * (1 + len(CHECKERS)) + "|"]
    for n in SIZES:
        row = [cell.skipped or show(cell) for cell in cells if cell.n == n]
        lines.append(f"| {power(n)} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def show_smallest(cell: Cell) -> str:
    smallest = f"> {10.0**HIGHEST:.0e}" if cell.smallest is None else f"{cell.smallest:.0e}"
    return smallest if cell.accepts_right else f"{smallest} (refuses a right gradient)"


def power(n: int) -> str:
    return f"10^{round(np.log10(n))}"


def plot(cells: list[Cell], path: Path) -> None:
    """The smallest error caught against n, one line for each checker."""
    mpl.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "gradproof"  # the same numbers give the same file
    figure, axes = pyplot.subplots(figsize=(7.5, 4.6), layout="constrained")
    for checker, marker in zip(CHECKERS, "osD^v", strict=True):
        points = [(cell.n, cell.smallest) for cell in cells if cell.checker == checker.name and cell.smallest]
        if points:
            axes.loglog(*zip(*points, strict=True), marker=marker, label=checker.name)
    axes.set_xlabel("elements n")
    axes.set_ylabel("smallest error of one element that is caught")
    axes.set_title("One wrong element in the gradient of an elementwise sin")
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


@dataclass(frozen=True)
class RightRow:
    """The cost of a right gradient. Memory is in MiB and in units of the input's own size."""

    n: int
    evaluations: int
    vjps: int
    mebibytes: float
    inputs: float


def right_here(n: int) -> RightRow:
    """In this process, after a small check has loaded what it needs."""
    with_check(Subject.draw(30, 0.0, 0))
    function, x = torch_call(Subject.draw(n, 0.0, 0))
    before = peak_bytes()
    cost = gradproof.check(function, x, modes="reverse").cost
    extra = peak_bytes() - before
    return RightRow(n, cost.evaluations, cost.vjps, extra / 2**20, extra / (8 * n))


def peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 2**10


def right_apart(n: int) -> RightRow:
    command = [sys.executable, __file__, "--right", str(n)]
    return RightRow(**json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def right_table(rows: list[RightRow]) -> str:
    lines = [
        "| n | evaluations | vjps | peak extra memory, MiB | in sizes of the input |",
        "|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {power(row.n)} | {row.evaluations} | {row.vjps} | {row.mebibytes:.1f} | {row.inputs:.0f} |" for row in rows
    ]
    return "\n".join(lines)


@dataclass(frozen=True)
class Location:
    """What it took to find the wrong entries of one function; `others` are entries listed that are right."""

    case: str
    entries: int
    wrong: int
    error: float
    listed: int
    others: int
    evaluations: int
    vjps: int
    seconds: float


def locate(case: str, function: Callable[..., Any], x: torch.Tensor, wrong: set[Any], error: float) -> Location:
    report = gradproof.check(function, x, modes="reverse")
    listed = {(entry.output.element, entry.input.element) for finding in report.findings for entry in finding.entries}
    cost = report.cost
    return Location(
        case,
        report.entries,
        len(wrong),
        error,
        len(listed & wrong),
        len(listed - wrong),
        cost.evaluations,
        cost.vjps,
        cost.seconds,
    )


def locations() -> Iterator[Location]:
    """One wrong entry, then five, of a diagonal Jacobian and of a dense one."""
    error = 1e-3
    for places in (1, 5):
        subject = Subject.draw(SIZES[-1], error, 0, places)
        function, x = torch_call(subject)
        yield locate("elementwise sin", function, x, {((i,), (i,)) for i in subject.wrong}, error)
    generator = np.random.default_rng(0)
    matrix = torch.from_numpy(generator.standard_normal((DENSE, DENSE)))
    x = torch.from_numpy(generator.standard_normal(DENSE)).requires_grad_()
    for places in (1, 5):
        claimed = matrix.clone()
        wrong = {divmod(int(k), DENSE) for k in generator.choice(DENSE**2, places, replace=False)}
        for row, column in wrong:
            claimed[row, column] += error
        yield locate(
            "dense matrix",
            lambda x, claimed=claimed: WrongMatmul.apply(x, matrix, claimed),
            x,
            {((row,), (column,)) for row, column in wrong},
            error,
        )


def location_table(rows: list[Location]) -> str:
    lines = [
        "| function | Jacobian entries | wrong entries | off by | of them listed | right entries listed "
        "| evaluations | vjps | seconds |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row.case} | {row.entries:.0e} | {row.wrong} | {row.error:.0e} | {row.listed} | {row.others} "
        f"| {row.evaluations} | {row.vjps} | {row.seconds:.2f} |"
        for row in rows
    ]
    return "\n".join(lines)


@dataclass(frozen=True)
class Rate:
    """Of `TRIALS` seeds, how many caught an error, and how many named the right element (None: not asked)."""

    checker: str
    n: int
    error: str
    caught: int
    named: int | None


def check_rate(n: int, size: float) -> Rate:
    caught = named = 0
    for seed in range(TRIALS):
        subject = Subject.draw(n, size, seed)
        trial = with_check(subject)
        caught += trial.caught
        named += trial.caught and trial.input_element == (subject.wrong[0],)
    return Rate("gradproof.check", n, f"{size:.0e}", caught, named)


def gradcheck_rate(n: int, times: float) -> Rate:
    """Errors in units of torch's tolerance of the entry, atol + rtol * |numeric|."""
    run = with_gradcheck(gradproof.torch.gradcheck, fast_mode=True)

    def size(x: np.ndarray) -> np.ndarray:
        return times * (1e-5 + 1e-3 * np.abs(np.cos(x)))

    caught = sum(run(Subject.draw(n, size, seed)).caught for seed in range(TRIALS))
    return Rate("gradproof gradcheck, fast", n, f"{times:g} tolerances", caught, None)


def rates() -> Iterator[Rate]:
    for n, size in ((10**3, 1e-6), (10**5, 1e-5), (10**6, 1e-4)):
        yield check_rate(n, size)
    for n in (10**3, 10**5):
        for times in (0.5, 2.0):
            yield gradcheck_rate(n, times)


def rate_table(rows: list[Rate]) -> str:
    lines = [f"| checker | n | error | caught, of {TRIALS} | right element named |", "|---|--:|--:|--:|--:|"]
    lines += [
        f"| {row.checker} | {power(row.n)} | {row.error} | {row.caught} | {'' if row.named is None else row.named} |"
        for row in rows
    ]
    return "\n".join(lines)


def section(title: str, body: str) -> None:
    print(f"{title}:\n\n{body}\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="the smallest wrong gradient that each checker catches")
    parser.add_argument("--json", metavar="FILE", help="write the raw numbers there")
    parser.add_argument("--plot", metavar="FILE", type=Path, default=PLOT, help="default: docs/images/sensitivity.svg")
    parser.add_argument("--right", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.right:
        print(json.dumps(asdict(right_here(arguments.right))))
        return
    about = {
        "torch": torch.__version__,
        "jax": jax.__version__ if jax else "not installed",
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }
    print("; ".join(f"{key} {value}" for key, value in about.items()) + "; one thread for torch\n", flush=True)
    # First of all: a process inherits the peak of the one that started it, and this one will grow.
    right = [right_apart(n) for n in SIZES]
    cells = [sensitivity(checker, n) for n in SIZES for checker in CHECKERS]
    section(f"The smallest error of one element that all of {len(SEEDS)} seeds catch", wide_table(cells, show_smallest))
    section(
        "Milliseconds and function calls for a right gradient",
        wide_table(cells, lambda cell: f"{cell.milliseconds:.3g} ms, {cell.calls}"),
    )
    section("gradproof.check of a right gradient", right_table(right))
    plot(cells, arguments.plot)
    located = list(locations())
    section("Wrong entries, located by gradproof.check", location_table(located))
    caught = list(rates())
    section(f"Errors caught with {TRIALS} seeds", rate_table(caught))
    if arguments.json:
        parts = {"sensitivity": cells, "right": right, "located": located, "rates": caught}
        numbers = {key: [asdict(row) for row in part] for key, part in parts.items()}
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"about": about, **numbers}, file, indent=2)


if __name__ == "__main__":
    main()
