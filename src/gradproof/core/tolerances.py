"""How much difference is allowed, for every entry of a Jacobian."""

from __future__ import annotations

import functools

import numpy as np

from gradproof.core.agreement import largest_of
from gradproof.core.options import Options
from gradproof.core.precision import DOUBLE, ENTRY_ROUND_OFF, NEGLIGIBLE, WIDEST_BAR, default_rtol
from gradproof.core.space import Space
from gradproof.core.stencil import Stencil, Tolerance
from gradproof.core.types import Indices, Matrix, Vector


class Tolerances:
    """The tolerance of every entry of a Problem's Jacobian.

    Unless told otherwise, and in low precision, it depends on the largest entry: entries are shown to it as they are
    measured, before any is judged.
    """

    def __init__(self, stencil: Stencil, options: Options) -> None:
        self._stencil, self.noise = stencil, stencil.noise
        self._given = options.rtol
        # the derivative under test is computed in the blocks' own precision, whatever the stencil computes in
        inputs, outputs = stencil.problem.inputs, stencil.problem.outputs
        widens = not stencil.fixed and options.rtol != 0
        self._low_inputs = widens and inputs.coarsest_eps > DOUBLE
        self.has_low_rows = widens and outputs.coarsest_eps > DOUBLE
        self.rtol = (
            self._relative(inputs) if options.rtol is None or self._low_inputs else np.full(inputs.size, options.rtol)
        )
        self.atol: Vector = np.full(inputs.size, options.atol or 0.0)
        self.largest = 0.0
        """The size of the largest entry seen."""
        self._negligible = 0.0 if options.atol is not None else NEGLIGIBLE
        # sums in the derivative round relative to the largest entry
        self._rounds_in = np.maximum(inputs.eps, outputs.finest_eps) if widens else np.full(inputs.size, DOUBLE)
        self._low = bool(self._rounds_in.max(initial=0.0) > DOUBLE)
        # noise that was measured is wider than a tolerance that was asked for before it was known
        self._accepts_bars = options.atol is None or stencil.problem.noise is not None
        self._depends = bool(self._negligible) or self._low
        self.needs_largest = self._depends or options.certify
        """Whether the largest entry must be known before anything is judged or certified."""
        self._widest_bar = 0.0
        self._sharp: bool | None = None

    def _relative(self, space: Space) -> Vector:
        """The relative tolerance of derivatives in a space's precision."""
        least = default_rtol(space.eps) if self._given is None else self._given
        return np.maximum(least, ENTRY_ROUND_OFF * space.eps)

    @functools.cached_property
    def row_rtol(self) -> Vector:
        """What the precision of an output adds to rtol, where it is lower than double."""
        outputs = self._stencil.problem.outputs
        if not self.has_low_rows:
            return np.zeros(outputs.size)
        return np.where(outputs.eps > DOUBLE, self._relative(outputs), 0.0)

    def widest_bar(self, columns: Indices) -> Vector:
        """How wide an error bar may be, for each of these inputs, where no tolerance was asked for."""
        return np.full(len(columns), self._widest_bar)

    def of(self, size: Vector, rows: Indices, columns: Indices) -> Vector:
        """What single entries of these sizes may be off by."""
        allowed = self.atol[columns] + (self.rtol[columns] + self.row_rtol[rows]) * size
        return allowed + self.noise[rows] * self.unresolvable[columns]

    @functools.cached_property
    def unresolvable(self) -> Vector:
        """Per input: times `noise`, the difference that this precision cannot see."""
        return np.zeros_like(self.atol) if self._stencil.fixed else self._stencil.unresolvable

    def widest(self, columns: slice) -> float:
        """What the largest entry seen, of any output and any of these inputs, would be excused."""
        if columns.start == columns.stop:
            return 0.0
        relative = float(self.rtol[columns].max()) + float(self.row_rtol.max(initial=0.0))
        unresolvable = float(self.noise.max(initial=0.0)) * float(self.unresolvable[columns].max())
        return float(self.atol[columns].max()) + relative * self.largest + unresolvable

    @property
    def one_step_is_sharp(self) -> bool:
        """Whether round-off of one screening step is below every tolerance."""
        if self._sharp is None:
            self._sharp = self._stencil.fixed or bool(self.noise.max() <= self.atol.min() * self._stencil.step.min())
        return self._sharp

    def learn_numeric(self, numeric: Matrix) -> None:
        """Numerical entries: what is negligible next to the largest is excused."""
        self.largest = max(self.largest, largest_of(numeric))
        if self._depends:
            own = ENTRY_ROUND_OFF * self._rounds_in if self._low else 0.0
            self.atol = np.maximum(self.atol, (self._negligible * self.rtol + own) * self.largest)

    def learn_analytic(self, analytic: Matrix) -> None:
        """Claimed entries: error bars that are small next to the largest are accepted.

        Not next to the largest numerical one: the quotient across a jump is huge, and its error bar too.
        """
        if self._accepts_bars:
            self._widest_bar = max(self._widest_bar, WIDEST_BAR * largest_of(analytic))

    def sharpness(self, columns: Indices, outputs: slice | Indices = slice(None)) -> Tolerance:
        """How sharp the numerical derivative along these inputs should be: ten times what the tolerance needs."""
        atol, rtol = self.atol[columns, None], self.rtol[columns, None]
        unresolvable = np.multiply.outer(self.unresolvable[columns], self.noise[outputs])
        return lambda value: 0.1 * (atol + rtol * np.abs(value)) + 2.0 * unresolvable
