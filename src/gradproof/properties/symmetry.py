"""The Hessian of a scalar function is symmetric."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gradproof.core.finding import Finding, Status
from gradproof.core.locate import halve
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem, random_probe
from gradproof.core.types import Indices, Vector

# Round-off of the two inner products, in units of eps.
_ROUND_OFF = 1e3


def symmetry(problem: Problem, options: Options) -> Iterator[Finding]:
    """<b, H a> = <a, H b> for two random vectors; if not, the entry that differs most is looked for."""
    pairs = problem.paired
    if pairs is None or not len(pairs) or Mode.REVERSE not in options.modes:
        return
    hessian = _Hessian(problem, pairs, options)
    left, right = (random_probe(len(pairs), problem.seed + k) for k in (2, 3))
    residual, bar = hessian.skew(left, right)
    if abs(residual) > bar:
        row, column = hessian.locate(left, right, residual, bar)
        yield from _judge(problem, options, hessian, row, column)


class _Hessian:
    """H through its vjp, at the coordinates that inputs and gradient share."""

    def __init__(self, problem: Problem, pairs: Indices, options: Options) -> None:
        self._problem, self.pairs = problem, pairs
        self._eps = max(problem.inputs.coarsest_eps, problem.outputs.coarsest_eps)
        self._slack = options.nondet_tol

    def apply(self, vector: Vector) -> Vector:
        return self._problem.vjp(vector)[self.pairs]

    def skew(self, left: Vector, right: Vector) -> tuple[float, float]:
        """<left, (H - H^T) right>, and how large that may be by round-off alone."""
        one, other = self.apply(left) * right, self.apply(right) * left
        noise = self._slack * float(np.abs(left).sum() + np.abs(right).sum())
        round_off = _ROUND_OFF * self._eps * float(np.abs(one).sum() + np.abs(other).sum())
        return float(one.sum() - other.sum()), round_off + noise

    def locate(self, left: Vector, right: Vector, total: float, bar: float) -> tuple[int, int]:
        """The worst pair of coordinates, by halving first one vector, then the other."""
        rows = halve(len(left), total, lambda lo, hi: self.skew(_part(left, lo, hi), right)[0], lambda lo, hi: bar)
        row = next(rows)
        unit = _part(np.ones_like(left), row, row + 1)
        rest, bar = self.skew(unit, right)
        columns = halve(len(right), rest, lambda lo, hi: self.skew(unit, _part(right, lo, hi))[0], lambda lo, hi: bar)
        return row, next(columns)

    def entry(self, row: int, column: int) -> float:
        return float(self.apply(_part(np.ones(len(self.pairs)), row, row + 1))[column])


def _part(vector: Vector, low: int, high: int) -> Vector:
    part = np.zeros_like(vector)
    part[low:high] = vector[low:high]
    return part


def _judge(problem: Problem, options: Options, hessian: _Hessian, row: int, column: int) -> Iterator[Finding]:
    here, there = hessian.entry(row, column), hessian.entry(column, row)
    rtol = options.rtol if options.rtol is not None else max(2.5e-7, math.sqrt(problem.inputs.coarsest_eps))
    allowed = (options.atol or 0.0) + rtol * max(abs(here), abs(there))
    if abs(here - there) <= allowed:
        return
    first, second = (problem.inputs.place(int(hessian.pairs[k])) for k in (row, column))
    yield Finding(
        property="symmetry",
        status=Status.WRONG,
        input=second.block.index,
        input_element=second.element,
        output=problem.outputs.place(row).block.index,
        output_element=first.element,
        analytic=here,
        numeric=there,
        allowed=allowed,
        message=(
            f"The Hessian is not symmetric: the derivative of the gradient at {first} with respect to {second} is "
            f"{here:.9g}, the other way round {there:.9g}."
        ),
        hint="the first derivative is not the gradient of any function, or it is differentiated wrongly",
    )
