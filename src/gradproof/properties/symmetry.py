"""The Hessian of a scalar function is symmetric."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.core.capabilities import Pairing
from gradproof.core.draws import random_probe
from gradproof.core.investigation import Investigation
from gradproof.core.locate import halve
from gradproof.core.options import Options
from gradproof.core.precision import DERIVATIVE_ROUND_OFF, default_rtol
from gradproof.core.status import Status
from gradproof.core.types import Vector
from gradproof.results.finding import Finding


def symmetry(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """<b, H a> = <a, H b> for two random vectors; if not, the entry that differs most is looked for."""
    hessian = _Hessian(investigation, options)
    left, right = (random_probe(len(hessian.pairs), investigation.seed + k) for k in (2, 3))
    residual, bar = hessian.skew(left, right)
    if abs(residual) > bar:
        row, column = hessian.locate(left, right, residual, bar)
        yield from _judge(investigation, options, hessian, row, column)


class _Hessian:
    """H through its vjp, at the coordinates that inputs and gradient share."""

    def __init__(self, investigation: Investigation, options: Options) -> None:
        self._investigation, self.pairs = investigation, investigation.asks(Pairing).inputs
        self._eps = investigation.problem.coarsest_eps
        self._slack = options.nondet_tol

    def apply(self, vector: Vector) -> Vector:
        return self._investigation.vjp(vector)[self.pairs]

    def skew(self, left: Vector, right: Vector) -> tuple[float, float]:
        """<left, (H - H^T) right>, and how large that may be by round-off alone."""
        one, other = self.apply(left) * right, self.apply(right) * left
        noise = self._slack * float(np.abs(left).sum() + np.abs(right).sum())
        round_off = DERIVATIVE_ROUND_OFF * self._eps * float(np.abs(one).sum() + np.abs(other).sum())
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


def _judge(
    investigation: Investigation, options: Options, hessian: _Hessian, row: int, column: int
) -> Iterator[Finding]:
    problem = investigation.problem
    here, there = hessian.entry(row, column), hessian.entry(column, row)
    rtol = float(default_rtol(np.array(problem.coarsest_eps))) if options.rtol is None else options.rtol
    allowed = (options.atol or 0.0) + rtol * max(abs(here), abs(there))
    if abs(here - there) <= allowed:
        return
    first, second = (problem.inputs.place(int(hessian.pairs[k])) for k in (row, column))
    yield Finding(
        property="symmetry",
        status=Status.WRONG,
        input=second.block.key,
        input_element=second.element,
        output=problem.outputs.place(row).block.index,
        output_element=first.element,
        analytic=here,
        numeric=there,
        allowed=allowed,
        headline=(
            f"The Hessian is not symmetric: the derivative of the gradient at {first} with respect to {second} is "
            f"{here:.9g}, the other way round {there:.9g}."
        ),
        hint="the first derivative is not the gradient of any function, or it is differentiated wrongly",
    )
