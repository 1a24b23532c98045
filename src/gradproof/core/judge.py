"""Judgement of single entries: how much difference is allowed, and what a difference means."""

from __future__ import annotations

import math

import numpy as np

from gradproof.core.finding import Status
from gradproof.core.lazy import lazy
from gradproof.core.options import Options
from gradproof.core.space import Space, filled
from gradproof.core.stencil import Estimate, Stencil, Tolerance
from gradproof.core.types import Flags, Indices, Matrix, Vector

# Relative error of a derivative computed in a precision, in units of its eps, that is nobody's mistake.
_CARELESS = 4.0
# The default absolute tolerance, relative to the largest entry: dust next to it may differ.
_DUST = 1e-2

# An error bar of up to this part of the largest entry still says something.
_BEARABLE = 0.2
_DOUBLE = 2.0**-52
# One-sided derivatives differ if they do so by this many times their error bars.
_APART = 2.0

Statuses = Indices
"""An array of `Status.rank`."""


class Judge:
    """The tolerance of every entry of a Problem's Jacobian."""

    def __init__(self, stencil: Stencil, options: Options) -> None:
        self._stencil = stencil
        self._given = options.rtol
        # the derivative under test is computed in the blocks' own precision, whatever the stencil computes in
        inputs, outputs = stencil.problem.inputs, stencil.problem.outputs
        widens = not stencil.fixed and options.rtol != 0
        self._low_inputs = widens and inputs.coarsest_eps > _DOUBLE
        self.has_low_rows = widens and outputs.coarsest_eps > _DOUBLE
        self.rtol = (
            self._relative(inputs) if options.rtol is None or self._low_inputs else filled(inputs.size, options.rtol)
        )
        self.atol: Vector = filled(inputs.size, options.atol or 0.0)
        self.largest = 0.0
        """The size of the largest entry seen."""
        self._dust = 0.0 if options.atol is not None else _DUST
        self._depends = bool(self._dust) or self._low_inputs
        self.looks_for_dust = self._depends or options.certify
        """Whether the largest entry must be known before anything is judged or certified."""
        self._bearable = 0.0

    def _relative(self, space: Space) -> Vector:
        """The relative tolerance of derivatives in a space's precision."""
        least = np.maximum(2.5e-7, 0.35 * np.sqrt(space.eps)) if self._given is None else self._given
        return np.maximum(least, _CARELESS * space.eps)

    @lazy
    def row_rtol(self) -> Vector:
        """What the precision of an output adds to rtol, where it is lower than double."""
        outputs = self._stencil.problem.outputs
        if not self.has_low_rows:
            return np.zeros(outputs.size)
        return np.where(outputs.eps > _DOUBLE, self._relative(outputs), 0.0)

    def bearable(self, columns: Indices) -> Vector:
        """How wide an error bar may be, for each of these inputs, where no tolerance was asked for."""
        return np.full(len(columns), self._bearable)

    def tolerance(self, size: Vector, rows: Indices, columns: Indices) -> Vector:
        """What single entries of these sizes may be off by."""
        allowed = self.atol[columns] + (self.rtol[columns] + self.row_rtol[rows]) * size
        return allowed + self.noise[rows] * self.unresolvable[columns]

    @property
    def noise(self) -> Vector:
        return self._stencil.noise

    @lazy
    def unresolvable(self) -> Vector:
        """Per input: times `noise`, the difference that this precision cannot see."""
        return np.zeros_like(self.atol) if self._stencil.fixed else self._stencil.unresolvable

    @lazy
    def one_step_is_sharp(self) -> bool:
        """Whether round-off of one screening step is below every tolerance."""
        return self._stencil.fixed or bool(self.noise.max() <= self.atol.min() * self._stencil.step.min())

    def allow_dust(self, numeric: Matrix) -> None:
        """Excuse what is small next to the largest numerical entry: unless told otherwise, and in low precision."""
        largest = max(float(numeric.max(initial=0.0)), -float(numeric.min(initial=0.0)))  # no copy of the Jacobian
        if not math.isfinite(largest):
            largest = float(np.max(np.abs(numeric), initial=0.0, where=np.isfinite(numeric)))
        self.largest = max(self.largest, largest)
        if self._depends:
            own = _CARELESS * self._stencil.problem.inputs.eps if self._low_inputs else 0.0
            self.atol = np.maximum(self.atol, (self._dust * self.rtol + own) * largest)

    def bear(self, analytic: Matrix) -> None:
        """Where no tolerance was asked for, bear error bars that are small next to the largest claimed entry.

        Not next to the largest numerical one: the quotient across a jump is huge, and its error bar too.
        """
        if self._dust:
            largest = np.max(np.abs(analytic), initial=0.0, where=np.isfinite(analytic))
            self._bearable = max(self._bearable, _BEARABLE * float(largest))

    def sharpness(self, columns: Indices, outputs: slice | Indices = slice(None)) -> Tolerance:
        """How sharp the numerical derivative along these inputs should be: ten times what the tolerance needs."""
        atol, rtol = self.atol[columns, None], self.rtol[columns, None]
        unresolvable = np.multiply.outer(self.unresolvable[columns], self.noise[outputs])
        return lambda value: 0.1 * (atol + rtol * np.abs(value)) + 2.0 * unresolvable


def judge(difference: Vector, error: Vector, tolerance: Vector, bearable: Vector | float = 0.0) -> Statuses:
    """WRONG beyond tolerance and error bar; INCONCLUSIVE where the bar is wider than the tolerance; else RIGHT.

    A bar up to `bearable` is no reason to call an entry inconclusive.

    >>> ranks = judge(np.ones(3), error=np.array([0.1, 3.0, 0.1]), tolerance=np.array([0.5, 2.0, 2.0]))
    >>> [list(Status)[rank].name for rank in ranks]
    ['WRONG', 'INCONCLUSIVE', 'RIGHT']
    """
    with np.errstate(invalid="ignore"):
        within = difference <= tolerance + error
        sharp = error <= np.maximum(tolerance, bearable)
    return np.where(within, np.where(sharp, Status.RIGHT.rank, Status.INCONCLUSIVE.rank), Status.WRONG.rank)


def subgradients(
    analytic: Vector, left: Estimate, right: Estimate, central: Vector, tolerance: Vector
) -> tuple[Flags, Flags]:
    """Where the point is a kink or a jump; and where, there, the analytic value lies between the two sides.

    The point is no ordinary one if the sides differ from each other, or agree with each other but not with the
    difference across it, as at a jump.
    """
    with np.errstate(invalid="ignore"):
        bar = left.error + right.error
        kink = np.abs(right.value - left.value) > _APART * bar + tolerance
        jump = np.abs(central - (left.value + right.value) / 2) > _APART * bar + tolerance
        low, high = np.minimum(left.value, right.value), np.maximum(left.value, right.value)
        between = (analytic >= low - bar - tolerance) & (analytic <= high + bar + tolerance)
        special = (kink | jump) & np.isfinite(bar)
        return special, special & between
