"""Are the certificates of NumPy functions true? Errors just above them are planted; none may pass.

The 35 problems of Moré, Garbow and Hillstrom, each in three ways: by complex steps, by differences, and by differences
with half of the elements at a bound. Right Jacobians must pass, wrong ones fail.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradproof

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from more_garbow_hillstrom import PROBLEMS, Nonlinear

PLANTED = 1.2
"""The size of an error, in units of what the certificate says."""
SEEDS = range(6)
WAYS = ("complex steps", "differences", "at bounds")


def real(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function, which takes no complex numbers."""

    def only(x: Any) -> Any:
        return function(np.asarray(x).astype(float, casting="safe"))

    return only


def spoilt(problem: Nonlinear, row: int, column: int, error: float) -> Callable[[Any], Any]:
    def wrong(x: Any) -> Any:
        jac = problem.jacobian(x)
        jac[row, column] += error
        return jac

    return wrong


def main() -> int:
    draw = np.random.default_rng(0)
    print("| way | right Jacobians | false alarms | planted errors | missed |")
    print("|---|--:|--:|--:|--:|")
    failed = 0
    for way in WAYS:
        right = alarms = planted = missed = 0
        for name, problem in PROBLEMS.items():
            x = np.asarray(problem.start, dtype=float)
            x = x + 0.05 * np.where(x == 0, 1.0, x) * draw.uniform(-1, 1, x.shape)
            function = problem.residuals if way == "complex steps" else real(problem.residuals)
            bounds = None
            if way == "at bounds":
                bounds = [(each, None) if k % 2 else (None, each) for k, each in enumerate(x)]
            for seed in SEEDS:
                report = gradproof.check(function, x, jac=problem.jacobian, bounds=bounds, seed=seed)
                right += 1
                if not report:
                    alarms += 1
                    print(f"false alarm: {name}, {way}, seed {seed}", file=sys.stderr)
                    continue
                smallest = report.pairs[0].smallest or 0.0
                row, column = draw.integers(report.outputs[0].size), draw.integers(x.size)
                wrong = spoilt(problem, row, column, -PLANTED * smallest)
                planted += 1
                if gradproof.check(function, x, jac=wrong, bounds=bounds, seed=seed):
                    missed += 1
                    print(f"missed: {name}, {way}, seed {seed}, row {row}, column {column}", file=sys.stderr)
        print(f"| {way} | {right} | {alarms} | {planted} | {missed} |")
        failed += alarms + missed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
