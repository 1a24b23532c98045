"""How much difference is allowed, for every entry of a Jacobian."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from gradproof.core.ladder import Tolerance, rungs
from gradproof.core.norm import highest, lowest, norm
from gradproof.core.options import Options
from gradproof.core.precision import (
    BOUNDED,
    COARSEST_ENTRY,
    DERIVATIVE_ROUND_OFF,
    DOUBLE,
    ENTRY_ROUND_OFF,
    MOST_ROUND_OFF,
    NEGLIGIBLE,
    UNSEEN_SHARE,
    WIDEST_BAR,
    default_rtol,
)
from gradproof.core.scales import PairScales, Places, of_blocks
from gradproof.core.space import Block, Space, alike
from gradproof.core.stencil import Stencil
from gradproof.core.types import Flags, Indices, Matrix, Vector

# An error bar of two rungs, in units of the round-off of the finer one: twice what the two differ by, and that itself.
_BARS = 3.0
# What hides in an error bar of noise that was measured, in units of it: the value is off by as much, the other way.
_BOTH_WAYS = 2.0
# Columns of an input that are measured to know how wide these bars are.
_MEASURED = 16
# What round-off may hide in units of the tolerance that was asked for, before a pass says so; as for probes.
_SHORT = 4.0
# An error bar in units of what no step sees: the second rung leaves eight of these, and both parts of a number count.
_FLAT = 256.0
# Claims of up to this part of what no step sees, 128 eps of the output, are no more than its round-off.
_DUST = 2.0**-3
# The part of what is claimed of a pair that is most of it.
_MOST_OF = 0.5
# Of what low precision makes of zero: numerical entries that are as small are zero, as far as it can tell.
_NOTHING = 2.0**-10
# What one step acquits by itself of what has been accused: half a tolerance leaves the other half to its truncation.
_AT_FIRST_SIGHT = 0.5


class Tolerances:
    """The tolerance of every entry of a Problem's Jacobian.

    Unless told otherwise, and in low precision, it depends on the largest entry of the same pair of an output and an
    input: entries are shown to it as they are measured, before any is judged.
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
            self._relative(inputs) if options.rtol is None or self._low_inputs else alike(inputs.size, options.rtol)
        )
        self.least_atol = self._least_asked = options.atol or 0.0
        """The smallest absolute tolerance of any pair."""
        self._atol: Matrix = np.array([[self.least_atol]])
        """Of each pair, or of all of them."""
        self._numeric, self._claimed = PairScales(outputs, inputs), PairScales(outputs, inputs)
        self._negligible = 0.0 if options.atol is not None else NEGLIGIBLE
        self._low = widens and max(inputs.coarsest_eps, outputs.finest_eps) > DOUBLE
        self._depends = bool(self._negligible) or self._low
        self.still = _excuses(stencil) if self._negligible else None
        """Of each output, the part of what is negligible in its array that is so in it; None: all of it."""
        # where evaluations are no sharper than the low precision itself, no bar is as sharp as a tolerance may ask;
        # nor where noise was measured, of which a tolerance that was asked for did not know
        blurred = stencil.problem.noise is not None or (self._low and stencil.problem.evaluates_in is None)
        self._accepts_bars = bool(self._negligible) or blurred
        self._certifies = options.certify
        self._most: Vector | None = None
        self._counted: Vector | float = np.inf
        """Of each input block, the size of the largest numerical entry that counts."""
        self._blurred: dict[int, Vector] = {}
        self._sharp: bool | None = None

    def _relative(self, space: Space) -> Vector:
        """The relative tolerance of derivatives in a space's precision."""
        eps = space.eps if space.coarsest_eps > space.finest_eps else np.full(1, space.finest_eps)
        least = default_rtol(eps) if self._given is None else self._given
        relative = np.maximum(least, np.minimum(ENTRY_ROUND_OFF * eps, COARSEST_ENTRY))
        return relative if len(relative) == space.size else alike(space.size, float(relative[0]))

    @functools.cached_property
    def least_rtol(self) -> float:
        """The smallest relative tolerance of any input."""
        return lowest(self.rtol)

    @functools.cached_property
    def row_rtol(self) -> Vector:
        """What the precision of an output adds to rtol, where it is lower than double."""
        outputs = self._stencil.problem.outputs
        if not self.has_low_rows:
            return alike(outputs.size, 0.0)
        return np.where(outputs.eps > DOUBLE, self._relative(outputs), 0.0)

    @property
    def largest(self) -> Matrix:
        """The size of the largest numerical entry seen of each pair."""
        return self._numeric.largest

    def most_atol(self, number: int) -> float:
        """The largest absolute tolerance of any output with one of the input blocks."""
        return float(self._atol[:, number if self._atol.size > 1 else 0].max())

    @property
    def round_off_of_others(self) -> float:
        """The part of the largest entry of all pairs that is excused in every pair, in low precision."""
        problem = self._stencil.problem
        return ENTRY_ROUND_OFF * max(problem.inputs.coarsest_eps, problem.outputs.finest_eps) if self._low else 0.0

    def atol(self, rows: Places, columns: Places) -> Matrix:
        """The absolute tolerance of every one of these outputs with every one of these inputs; may be one number."""
        atol = self._numeric.spread(self._atol, rows, columns)
        return atol if self.still is None else atol * self.still[rows, None]

    def excused(self, rows: Places, columns: Places) -> Matrix:
        """What the largest entry of the same pair is excused, for every one of these outputs with these inputs."""
        largest = self.bounded(self._numeric.spread(self.largest, rows, columns), columns)
        relative = self.rtol[columns] + self.row_rtol[rows, None]
        return self.atol(rows, columns) + relative * largest + self.floor(rows, columns)

    def widest_bar(self, rows: Indices, columns: Indices, nearby: Vector | float = 0.0) -> Vector:
        """How wide an error bar may be, for each of these entries, where no tolerance was asked for that can be met.

        Small next to the largest claim of the pair; and where those are round-off of others, negligible next to these.
        Or small next to what slopes change by at a kink `nearby`, where that was measured. Of a flat function, of which
        nothing but round-off is claimed, what the coarse rungs leave of round-off.
        """
        if not self._accepts_bars:
            return np.zeros(1)
        claimed = self._claimed.largest
        most = float(claimed.max(initial=0.0))
        round_off = claimed <= DERIVATIVE_ROUND_OFF * DOUBLE * most
        widest = np.where(round_off, self._negligible * float(self.rtol.min()) * most, WIDEST_BAR * claimed)
        bars = np.maximum(self._claimed.pick(widest, rows, columns), WIDEST_BAR * nearby)
        flat = self._flat
        if not flat.any():
            return bars
        floor = self.noise[rows] * self.unresolvable[columns]
        widened = np.maximum(bars, _FLAT * floor)
        return np.where(self._claimed.pick(flat.astype(np.float64), rows, columns) > 0, widened, bars)

    @property
    def _flat(self) -> Flags:
        """The outputs of which nothing but their own round-off is claimed, for each input: a row of flags each."""
        claimed, inputs, outputs = self._claimed.largest, self._stencil.problem.inputs, self._stencil.problem.outputs
        if not self.is_default:
            return np.zeros(claimed.shape, dtype=np.bool_)
        floor = np.multiply.outer(of_blocks(outputs, self.noise), of_blocks(inputs, self.unresolvable))
        return np.broadcast_to((claimed <= _DUST * floor).all(axis=1, keepdims=True), claimed.shape)

    def bound(self, largest: Sequence[float] | None) -> None:
        """Excuse no entry of an input more than a part of what one of this size is, if a certificate knows of any."""
        self.count_at_most(largest)
        if largest is not None:
            blocks = self._stencil.problem.inputs.blocks
            most = [BOUNDED * size for size in largest]
            single = len(blocks) == 1
            self._most = alike(blocks[0].size, most[0]) if single else np.repeat(most, [b.size for b in blocks])

    def count_at_most(self, largest: Sequence[float] | None) -> None:
        """Nothing is negligible beside larger entries than these: steps that reach over a jump measure no slope."""
        if largest is not None:
            self._counted = np.array(largest)

    def bounded(self, size: Matrix, columns: Places) -> Matrix:
        """The sizes of entries, as far as they count."""
        return size if self._most is None else np.minimum(size, self._most[columns])

    @property
    def at_first_sight(self) -> float:
        """The part of a tolerance within which one step acquits an entry.

        Where a certificate says what is excused at most, what that step is off by must not come on top of it.
        """
        return 1.0 if self._most is None else _AT_FIRST_SIGHT

    def of(self, size: Vector, rows: Indices, columns: Indices, bar: Vector | float = np.inf) -> Vector:
        """What single entries of these sizes may be off by, seen with such error bars.

        Along a tiny coordinate, steps of its own size may have resolved what no longer one can.
        """
        atol = self._numeric.pick(self._atol, rows, columns)
        atol = atol if self.still is None else atol * self.still[rows]
        allowed = atol + (self.rtol[columns] + self.row_rtol[rows]) * self.bounded(size, columns)
        floor = self.noise[rows] * self.unresolvable[columns]
        return allowed + np.where(self._stencil.tiny[columns], np.fmin(floor, bar), floor)

    def floor(self, rows: Places, columns: Places) -> Matrix:
        """The difference that cannot be seen of each of these outputs with each of these inputs."""
        return np.multiply.outer(self.noise[rows], self.unresolvable[columns])

    @functools.cached_property
    def unresolvable(self) -> Vector:
        """Per input: times `noise`, the difference that this precision cannot see."""
        return np.zeros(len(self.rtol)) if self._stencil.fixed else self._stencil.unresolvable

    def widest(self, number: int) -> float:
        """What the largest entry seen, of any output and of one of the input blocks, would be excused."""
        outputs, block = self._stencil.problem.outputs, self._stencil.problem.inputs.blocks[number]
        if not block.size:
            return 0.0
        relative = float(self.rtol[block.slice].max()) + of_blocks(outputs, self.row_rtol)
        atol = self._atol[:, number if self._atol.size > 1 else 0]
        return float((atol + relative * self.largest[:, number] + self.blurred(number)).max())

    def blurred(self, number: int) -> Vector:
        """What round-off excuses of each output with one of the input blocks: what no step sees, and error bars.

        An entry that differs is measured by the ladder, and its error bar excuses more than the tolerance does: that of
        the two coarsest rungs, where there is noise.
        """
        inputs, outputs = self._stencil.problem.inputs, self._stencil.problem.outputs
        if number not in self._blurred:
            block = inputs.blocks[number]
            exponents = rungs(float(self._stencil.eps[block.start]))
            bars = self.hidden_by_bars * _BARS * 2.0 ** (exponents[1] - exponents[0])
            least = 0.0 if self._stencil.fixed else self._stencil.least_seen(block)
            self._blurred[number] = of_blocks(outputs, self.noise) * least * (1.0 + bars)
            if self._stencil.problem.noise is not None and not self._stencil.fixed:
                self._blurred[number] = np.fmax(self._blurred[number], self.hidden_by_bars * self._bars_of(block))
        return self._blurred[number]

    def _bars_of(self, block: Block) -> Vector:
        """The widest error bars of some columns of an input, for each output: where there is noise, and curvature.

        Next to noise steps are so long that what a function bends over them is in the bars, too.
        """
        columns = np.unique(np.linspace(block.start, block.stop - 1, _MEASURED).astype(np.intp))
        error = self._stencil.bars(columns)
        return of_blocks(self._stencil.problem.outputs, np.where(np.isfinite(error), error, 0.0).max(axis=0))

    @property
    def hidden_by_bars(self) -> float:
        """How much of an error hides in an error bar, in units of it: what is measured may be off by a bar itself.

        Bars of round-off are wider than that by far; noise that is measured is as large as it is taken for.
        """
        return 1.0 if self._stencil.problem.noise is None else _BOTH_WAYS

    @property
    def needs_largest(self) -> bool:
        """Whether the largest entries must be known before anything is judged or certified."""
        return self._depends or self._certifies or self.asks_too_much

    @functools.cached_property
    def asks_too_much(self) -> bool:
        """Whether an absolute tolerance was asked for that some entry may be too noisy for, at any step."""
        if self._accepts_bars or self.one_step_is_sharp:  # nearly always
            return False
        return bool(self.noise.max(initial=0.0) * self.unresolvable.max(initial=0.0) > _SHORT * self.least_atol)

    @property
    def is_default(self) -> bool:
        """Whether no absolute tolerance was given, of a function that is as precise as double precision."""
        return bool(self._negligible) and not self._low and self._stencil.problem.noise is None

    def drowns(self, output: int, input_: int) -> float:
        """What round-off hides of a pair, where that is more than its tolerances allow the largest entry; or zero."""
        problem = self._stencil.problem
        rows, columns = problem.outputs.blocks[output].slice, problem.inputs.blocks[input_].slice
        if rows.start == rows.stop or columns.start == columns.stop:
            return 0.0
        hidden = float(self.noise[rows].max()) * float(self.unresolvable[columns].max())
        relative = float(self.rtol[columns].max()) + float(self.row_rtol[rows].max())
        return hidden if hidden > _SHORT * (self.least_atol + relative * self.largest[output, input_]) else 0.0

    def clouds(self, output: int, input_: int) -> float:
        """What measured noise hides of a pair, if that is much of what is claimed, and more than was asked for.

        Where no tolerance was given, it is as much as the widest error bar hides that an entry is still judged by.
        """
        size = float(self._claimed.largest[output, input_])
        problem = self._stencil.problem
        rows, columns = problem.outputs.blocks[output].slice, problem.inputs.blocks[input_].slice
        relative = float(self.rtol[columns].max()) + float(self.row_rtol[rows].max())
        hidden = float(self.blurred(input_)[output]) + relative * size
        asked = self._least_asked + (self._given or 0.0) * size
        share = _BOTH_WAYS * WIDEST_BAR if self._negligible else UNSEEN_SHARE
        return hidden if size and hidden > max(share * size, _SHORT * asked) else 0.0

    def buries(self, output: int, input_: int) -> float:
        """What round-off hides of a pair where no tolerance is given, if that is most of what is claimed; or zero.

        Claims that may be round-off of others, or of the output itself, are none. Nor is anything hidden where the
        largest entry was measured to be about as large: a number beside it may be huge and constant, as what is masked
        is.
        """
        problem, claimed = self._stencil.problem, self._claimed.largest
        rows, columns = problem.outputs.blocks[output].slice, problem.inputs.blocks[input_].slice
        size = float(claimed[output, input_])
        if size <= DERIVATIVE_ROUND_OFF * DOUBLE * float(claimed.max(initial=0.0)):
            return 0.0
        if abs(float(self._numeric.largest[output, input_]) - size) <= _MOST_OF * size:
            return 0.0
        hidden = float(self.noise[rows].max()) * float(self.unresolvable[columns].max())
        return hidden if hidden > _MOST_OF * size and not self._flat[output, input_] else 0.0

    @property
    def one_step_is_sharp(self) -> bool:
        """Whether round-off of one screening step is below every tolerance."""
        if self._sharp is None:
            self._sharp = self._stencil.fixed or highest(self.noise) <= self.least_atol * lowest(self._stencil.step)
        return self._sharp

    def learn_numeric(self, numeric: Matrix, rows: Places, columns: Places) -> None:
        """Numerical entries, a tile of them or single ones: what is negligible next to the largest is excused."""
        _learn(self._numeric, numeric, rows, columns)
        if self._depends:
            inputs = self._stencil.problem.inputs
            atol = of_blocks(inputs, self._negligible * self.rtol) * np.minimum(self.largest, self._counted)
            if self._low:  # a gradient that should be zero is made of others, and of their round-off
                rounds_in = np.maximum(inputs.eps, self._stencil.problem.outputs.finest_eps)
                atol = np.maximum(
                    atol,
                    of_blocks(inputs, np.minimum(ENTRY_ROUND_OFF * rounds_in, COARSEST_ENTRY)) * self.largest.max(),
                )
                atol = np.maximum(atol, self._excused_dust)
            self._atol = np.maximum(self._atol, atol)
            self.least_atol = float(self._atol.min())
            self._sharp = None

    def dust_along(self, direction: Vector) -> float:
        """What claims along a direction may be by round-off of low precision alone, where the derivative is zero."""
        if not self._low:
            return 0.0
        blocks = self._stencil.problem.inputs.blocks
        dust = self._excused_dust.max(axis=0, initial=0.0).tolist()
        return sum(norm(direction[block.slice]) * size for block, size in zip(blocks, dust, strict=True))

    @property
    def _excused_dust(self) -> Matrix:
        """The same of each pair; zero where some entry was measured to be more than that."""
        return np.where(self.largest <= _NOTHING * self._dust, self._dust, 0.0)

    @functools.cached_property
    def _dust(self) -> Matrix:
        """Of each pair, what a claim in low precision may be by round-off alone where the derivative is zero.

        It is made of numbers as large as the output, per change of an input as large as it is.
        """
        problem = self._stencil.problem
        value = np.where(np.isfinite(problem.value), np.abs(problem.value), 0.0)
        rounds_in = np.maximum(problem.inputs.eps, problem.outputs.finest_eps)
        per_change = np.minimum(DERIVATIVE_ROUND_OFF * rounds_in, MOST_ROUND_OFF) / self._stencil.scale
        return np.multiply.outer(of_blocks(problem.outputs, value), of_blocks(problem.inputs, per_change))

    def learn_analytic(self, analytic: Matrix, rows: Places, columns: Places) -> None:
        """Claimed entries: error bars that are small next to the largest are accepted.

        Not next to the largest numerical one: the quotient across a jump is huge, and its error bar too.
        """
        if self._accepts_bars:
            _learn(self._claimed, analytic, rows, columns)

    def sharpness(self, columns: Indices, outputs: Places = slice(None)) -> Tolerance:
        """How sharp the numerical derivative along these inputs should be: ten times what the tolerance needs."""
        atol, rtol = self.atol(outputs, columns).T, self.rtol[columns, None]
        unresolvable = self.floor(outputs, columns).T
        return lambda value: 0.1 * (atol + rtol * np.abs(value)) + 2.0 * unresolvable


def _excuses(stencil: Stencil) -> Vector | None:
    """Outputs that are stiller than larger ones beside them are excused less, but for round-off of a derivative."""
    least = DERIVATIVE_ROUND_OFF * DOUBLE / (NEGLIGIBLE * float(default_rtol(np.array([DOUBLE]))[0]))
    return None if stencil.still is None else np.fmax(stencil.still, least)


def _learn(scales: PairScales, values: Matrix, rows: Places, columns: Places) -> None:
    if isinstance(rows, slice) and isinstance(columns, slice):
        scales.learn(values, rows, columns)
    else:
        assert not isinstance(rows, slice), "a tile, or single entries"
        assert not isinstance(columns, slice), "a tile, or single entries"
        scales.learn_entries(values, rows, columns)
