"""How small a wrong cotangent can be and still be caught: gradproof.check against jax.test_util.check_grads.

    python benchmarks/jax_sensitivity.py
    python benchmarks/jax_sensitivity.py --dtype float32 --rtol 1e-5 --json numbers.json

The function is an elementwise sin of n standard normal numbers with a rule of custom_vjp, compiled by jax.jit. Its bwd
is right but for one element, which is off by d. For each n: the smallest d that a checker catches for every seed (a
seed draws the point, the place of the wrong element and, for `gradproof.check`, the probes), and what a right bwd
costs, reverse mode only.

Time is measured twice. With compilation: after `jax.clear_caches()`, as the first check in a process pays it. Without:
the least of several further checks, less what JAX itself reports of the time it spent in tracing, lowering and
compiling (`jax.monitoring`). Of a jitted function that is nothing, for both checkers; with `--unjitted`, a check traces
and compiles the function anew, and what JAX does around that and does not report counts as ours. torch is not needed.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.monitoring
import jax.numpy as jnp
import jax.test_util
import numpy as np
from bisection import smallest_caught

import gradproof

SIZES = (10**2, 10**3, 10**4, 10**5, 10**6)
SEEDS = range(3)
RUNS, FRESH = 23, 3
# The exponents of ten between which the smallest error that is caught is looked for.
LOWEST, HIGHEST = -13, 12

_compiling: list[float] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: _compiling.append(seconds) if event.startswith("/jax/core/compile") else None
)


@dataclass(frozen=True)
class Subject:
    """A point, and a function whose derivative is wrong there in one place."""

    function: Callable[..., Any]
    point: jax.Array
    place: int
    seed: int

    @staticmethod
    def draw(n: int, size: float, seed: int, dtype: str, *, jitted: bool = True) -> Subject:
        generator = np.random.default_rng(seed)
        point, place = generator.standard_normal(n), int(generator.integers(n))
        error = np.zeros(n)
        error[place] = size
        off = jnp.asarray(error, dtype)
        function = jax.custom_vjp(jnp.sin)
        function.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * (jnp.cos(x) + off),))
        return Subject(jax.jit(function) if jitted else function, jnp.asarray(point, dtype), place, seed)


def with_jax(subject: Subject) -> bool:
    try:
        jax.test_util.check_grads(subject.function, (subject.point,), order=1, modes=["rev"])
    except AssertionError:
        return True
    return False


def with_gradproof(subject: Subject, rtol: float | None = None) -> bool:
    report = gradproof.check(subject.function, subject.point, modes="reverse", seed=subject.seed, rtol=rtol)
    found = report.verdict is gradproof.Verdict.FAIL
    return found and report.findings[0].input_element == (subject.place,)


CHECKERS: dict[str, Callable[[Subject], bool]] = {
    "jax.test_util.check_grads": with_jax,
    "gradproof.check": with_gradproof,
}


@dataclass(frozen=True)
class Cell:
    """One checker at one n. `smallest` is None if even the largest error tried passed. Times are in milliseconds."""

    checker: str
    n: int
    smallest: float | None
    accepts_right: bool
    with_compilation: float
    without: float


def measure(n: int, dtype: str, *, jitted: bool) -> list[Cell]:
    """All checkers in turns, so that a busy moment of the machine is nobody's alone."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in CHECKERS}
    subject = Subject.draw(n, 0.0, 0, dtype, jitted=jitted)
    for run in range(RUNS):
        for name, check in CHECKERS.items():
            runs[name].append(timed(check, subject, fresh=run < FRESH))
    return [
        Cell(
            name,
            n,
            smallest_error(check, n, dtype),
            not any(check(Subject.draw(n, 0.0, seed, dtype)) for seed in SEEDS),
            1e3 * min(whole for whole, _ in runs[name][:FRESH]),
            1e3 * min(without for _, without in runs[name][FRESH:]),
        )
        for name, check in CHECKERS.items()
    ]


def smallest_error(check: Callable[[Subject], bool], n: int, dtype: str) -> float | None:
    """The smallest error that every seed catches."""
    return smallest_caught(
        lambda size: all(check(Subject.draw(n, size, seed, dtype)) for seed in SEEDS), (LOWEST, HIGHEST)
    )


def timed(check: Callable[[Subject], bool], subject: Subject, *, fresh: bool) -> tuple[float, float]:
    """Seconds with compilation, and without; `fresh`: nothing is compiled yet."""
    if fresh:
        jax.clear_caches()
    _compiling.clear()
    started = time.perf_counter()
    check(subject)
    seconds = time.perf_counter() - started
    return seconds, seconds - sum(_compiling)


def table(cells: list[Cell]) -> str:
    lines = [
        "| n | smallest error caught: check_grads | gradproof.check | times smaller | with compilation, ms "
        "| ratio | without, ms | ratio |",
        "|--:" * 8 + "|",
    ]
    for n in sorted({cell.n for cell in cells}):
        theirs, ours = (next(c for c in cells if (c.checker, c.n) == (name, n)) for name in CHECKERS)
        ratio = "" if theirs.smallest is None or not ours.smallest else f"{theirs.smallest / ours.smallest:.0e}"
        lines.append(
            f"| 10^{round(np.log10(n))} | {shown(theirs)} | {shown(ours)} | {ratio} "
            f"| {theirs.with_compilation:.0f}, {ours.with_compilation:.0f} "
            f"| {ours.with_compilation / theirs.with_compilation:.1f} "
            f"| {theirs.without:.1f}, {ours.without:.1f} | {ours.without / theirs.without:.1f} |"
        )
    return "\n".join(lines)


def shown(cell: Cell) -> str:
    smallest = f"> {10.0**HIGHEST:.0e}" if cell.smallest is None else f"{cell.smallest:.0e}"
    return smallest if cell.accepts_right else f"{smallest} (refuses a right gradient)"


def main() -> None:
    parser = argparse.ArgumentParser(description="the smallest wrong cotangent that each checker catches")
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    parser.add_argument("--unjitted", action="store_true", help="time a function that is not compiled by jax.jit")
    parser.add_argument("--rtol", type=float, help="the relative tolerance that gradproof.check is asked for")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="the largest n")
    parser.add_argument("--json", metavar="FILE", help="write the raw numbers there")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", arguments.dtype == "float64")
    about = {
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "dtype": arguments.dtype,
        "function": "not jitted" if arguments.unjitted else "jitted",
        "rtol of gradproof.check": "its default" if arguments.rtol is None else arguments.rtol,
    }
    CHECKERS["gradproof.check"] = functools.partial(with_gradproof, rtol=arguments.rtol)
    print("; ".join(f"{key} {value}" for key, value in about.items()) + "\n", flush=True)
    cells = [
        cell
        for n in SIZES
        if n <= arguments.largest
        for cell in measure(n, arguments.dtype, jitted=not arguments.unjitted)
    ]
    print(table(cells))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"about": about, "cells": [asdict(cell) for cell in cells]}, file, indent=2)


if __name__ == "__main__":
    main()
