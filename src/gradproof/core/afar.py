"""Slopes that only long steps see, of inputs of which nothing but zeros is claimed.

1e8 a + 0.001 b has a gradient of 0.001 with respect to b, which round-off of numbers of 1e8 hides from ordinary steps,
and more so from questions that move a and b together. If zero is claimed, it is not missed there. Steps nearly as long
as the input itself see it, if it is moved alone. They are taken only where the function moves by so little that no
ordinary step would have seen it; and what they see must draw together, as of a smooth function, and be there on shorter
ones as far as round-off leaves it. In the end an entry is judged, with a ladder of such steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradproof.core.along import values_along
from gradproof.core.investigation import Investigation
from gradproof.core.judge import Judge
from gradproof.core.ladder import settle
from gradproof.core.meanwhile import measured_in
from gradproof.core.options import Options
from gradproof.core.precision import BY_DESIGN, CLEAR
from gradproof.core.problem import Mode
from gradproof.core.space import Block
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.suspects import Judged, Suspects
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Indices, Vector

# A change over a step of `BY_DESIGN` of fewer times its round-off than this may be hidden from ordinary steps.
_HIDDEN = 2.0**24
# The steps that are taken along an input alone, in units of its scale.
_STEPS = (2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8)
# How much longer the steps of a ladder are than ordinary ones: the longest is a quarter of the scale, too.
_STRIDE = 2.0**7
_DOUBT = (
    "the function moves as {input} does, by steps nearly as long as it, though nothing but zeros is claimed; shorter "
    "ones drown in round-off of larger numbers"
)


def change_of(investigation: Investigation, blocks: list[Block]) -> Vector | None:
    """By how much outputs change if these inputs move, by a step wider than any number format's; None: not at all."""
    problem = investigation.problem
    direction = np.zeros(problem.inputs.size)
    for block in blocks:
        direction[block.slice] = (investigation.draw(problem.inputs.size) * investigation.scale)[block.slice]
    values = values_along(investigation, direction, (BY_DESIGN, -BY_DESIGN))
    if np.isnan(values).all(axis=1).any():  # a step too far
        return None
    if all(np.array_equal(value, problem.value, equal_nan=True) for value in values):
        return None
    with np.errstate(invalid="ignore"):
        return np.abs(values - problem.value).max(axis=0)


class Lost(NamedTuple):
    """What long steps see of inputs of which nothing but zeros is claimed: wrong entries, and what is not settled."""

    judged: list[Judged]
    doubts: list[str]


def lost_slopes(investigation: Investigation, options: Options, blocks: list[Block], change: Vector) -> Lost:
    """What long steps see clearly of inputs of which nothing but zeros is claimed, and ordinary ones do not.

    `change` is what outputs change by as all of these inputs move: see `change_of`.
    """
    stencil, found = Stencil(investigation), Lost([], [])
    with np.errstate(invalid="ignore"):
        little = (change > stencil.noise) & (change < _HIDDEN * stencil.noise)
    outputs = np.flatnonzero(little & np.isfinite(investigation.problem.value))
    for block in blocks if len(outputs) else ():
        alone = _Alone(stencil, block, outputs)
        if not alone.moves:
            continue
        place = alone.place()
        judged = None if place is None else _judged(investigation, options, *place)
        if judged is not None and _is_wrong(judged):
            found.judged.append(judged)
        elif judged is None or (judged.status != Status.RIGHT.rank).any():
            found.doubts.append(_DOUBT.format(input=block.label))
    return found


def _judged(investigation: Investigation, options: Options, output: int, column: int) -> Judged:
    """One entry that is claimed to be zero, by a ladder of long steps."""
    with measured_in(investigation, _STRIDE * investigation.scale):
        stencil = Stencil(investigation)
        judge = Judge(stencil, Tolerances(stencil, options))
        return judge.judge(Mode.REVERSE, Suspects.accused([(output, column, 0.0)]), located=True)


def _is_wrong(judged: Judged) -> bool:
    """Whether all of these are wrong, and seen clearly to be."""
    clear = judged.error <= CLEAR * np.abs(judged.suspects.numeric)
    return bool(((judged.status == Status.WRONG.rank) & clear).all())


@dataclass(frozen=True, slots=True)
class _Alone:
    """Some outputs as one input moves alone, or a part of it."""

    stencil: Stencil
    block: Block
    outputs: Indices

    @property
    def moves(self) -> bool:
        """Whether the slope of some output is seen clearly as the whole input moves."""
        return self._seen(np.arange(self.block.start, self.block.stop)) is not None

    def place(self) -> tuple[int, int] | None:
        """An output and a coordinate of the input that moves it, by halves; None: those of no half are seen clearly."""
        columns = np.arange(self.block.start, self.block.stop)
        output = self._seen(columns)
        while output is not None and len(columns) > 1:
            halves = columns[: len(columns) // 2], columns[len(columns) // 2 :]
            seen = ((half, self._seen(half)) for half in halves)
            columns, output = next(((half, found) for half, found in seen if found is not None), (columns, None))
        return None if output is None else (output, int(columns[0]))

    def _seen(self, columns: Indices) -> int | None:
        """The output whose slope is seen most clearly as these coordinates move; None: that of none is."""
        investigation, problem = self.stencil.investigation, self.stencil.problem
        direction = np.zeros(problem.inputs.size)
        direction[columns] = (investigation.draw(problem.inputs.size) * investigation.scale)[columns]
        values = values_along(investigation, direction, [side * step for step in _STEPS for side in (1.0, -1.0)])
        with np.errstate(all="ignore"):
            across = (values[0::2] - values[1::2])[:, self.outputs]
            steps = np.array(_STEPS)[:, None]
            floors = self.stencil.noise[self.outputs] / steps
            slope, bar = (each[0] for each in settle((across / (2.0 * steps))[:, None], floors[:, None], _STEPS, 2))
            clarity = np.nan_to_num(np.abs(slope) / bar)
        best = int(clarity.argmax())
        return int(self.outputs[best]) if clarity[best] * CLEAR >= 1.0 else None
