"""Outputs that stand still because a number inside swallows the input: log(cosh(x)) at x = 1e-8 is 0, and so around it.

Their values are exact numbers, and on a grid: that of cosh(x), which is about 1. No step that is short beside the point
leaves a grid point, so all quotients are zero, and nothing in them says that they are blind. Longer steps do: at some
length the output jumps by the width of the grid, and stands still again. Where it goes on through many such grid points
until steps are of order one, it is no constant, and that width is its noise.

A constant never moves. A function that is flat up to a kink begins to move by as little as one likes; one that jumps
beside the point, by design, moves on at once, or has few steps in all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gradproof.core.investigation import Investigation
from gradproof.core.ladder import rungs
from gradproof.core.precision import MEASURED_NOISE
from gradproof.core.problem import Problem
from gradproof.core.stencil import Stencil
from gradproof.core.types import Vector

SWALLOWED = 0.5
"""What a claim comes to over a step is less than this power of eps, if a number inside can swallow it: one that is a
hundred million in double precision can."""

# How much longer, or shorter, each step is than the one before; bisections between the last that is still and the
# first that moves.
_GROWS, _HALVINGS = 2.0**6, 12
# Samples beyond a jump, of which some must be the same, and how far they are apart, as a part of the step.
_SAMPLES, _BESIDE = 8, 2.0**-5
# It goes through this many grid points at least, as a power of the relative spacing of its numbers, on longer steps:
# some part of one. A million in double precision.
_RESOLVED, _FAR = -0.4, (2.0**-3, 2.0**-6, 2.0**-9)
# Steps are measured in so many times the one that it first moves by: the shortest still see a few grid points.
_STRIDE = 2.0**30


class Grid(NamedTuple):
    """What outputs that are on a grid make of a Problem: its noise, and what steps are to be measured in."""

    problem: Problem
    scale: Vector


class Standing(NamedTuple):
    """An entry of the Jacobian along which nothing moved."""

    row: int
    column: int
    is_buried: bool
    """Whether what is claimed is no more than round-off of numbers of order one: `drowned.py` sees more of that, so
    that only what steps of the ladder cannot see, and less than the longest step, is called a grid."""


def on_its_grid(investigation: Investigation, places: Sequence[Standing]) -> Grid | None:
    """What is known once outputs that stand still at the point are seen to be on a grid; None: none is."""
    stencil, problem = Stencil(investigation), investigation.problem
    noise, scale, found = stencil.noise.copy(), investigation.scale.copy(), False
    for row, column, is_buried in places:
        jump = _Still(stencil, row, column, is_buried).jump()
        if jump is not None:
            found = True
            output, input_ = problem.outputs.block_at(row).slice, problem.inputs.block_at(column).slice
            noise[output] = np.fmax(noise[output], MEASURED_NOISE * jump.width)
            scale[input_] = np.fmax(scale[input_], min(_STRIDE * jump.step, 1.0))
    return Grid(replace(problem, noise=noise), scale) if found else None


class _Jump(NamedTuple):
    """The step by which an output first moves, and by how much it does."""

    step: float
    width: float


class _Still:
    """One output as one coordinate moves, which does not move it by short steps."""

    def __init__(self, stencil: Stencil, row: int, column: int, is_buried: bool) -> None:
        self._is_buried = is_buried
        self._stencil, self._row, self._column = stencil, np.array([row]), np.array([column])
        self._scale, self._eps = float(stencil.scale[column]), float(stencil.eps[column])

    def jump(self) -> _Jump | None:
        """How it leaves the grid point that it stands on; None: it is on no grid that longer steps resolve."""
        return self._jump_to(1.0) or self._jump_to(-1.0)

    def _jump_to(self, side: float) -> _Jump | None:
        longest, still = max(1.0, self._scale), 2.0 ** -rungs(self._eps)[0] * self._scale
        moving = still
        while self._change(side * moving) == 0:
            still, moving = moving, _GROWS * moving
            if still >= longest:
                return None
        if (
            not self._is_buried and still == moving
        ):  # the finest steps stand still, where not even the longest of them does
            still, moving = self._below(side, moving)
        for _ in range(_HALVINGS if still < moving else 0):
            middle = math.sqrt(still * moving)
            still, moving = (middle, moving) if self._change(side * middle) == 0 else (still, middle)
        width = self._width_at(side * moving)
        return None if width is None or not self._goes_on(side * longest, width) else _Jump(moving, width)

    def _below(self, side: float, moving: float) -> tuple[float, float]:
        """A shorter step by which it does not move, and one by which it does; twice the same, where all move it."""
        finest = 2.0 ** -rungs(self._eps)[-1] * self._scale
        while (still := max(moving / _GROWS, finest)) < moving:
            if self._change(side * still) == 0:
                return still, moving
            moving = still
        return moving, moving

    def _width_at(self, step: float) -> float | None:
        """By how much it jumps there; None where it moves on at once, as after a kink, and is on no grid.

        Several roundings may move it to and fro; then some of its values are the same.
        """
        changes = [self._change((1.0 + _BESIDE * k) * step) for k in range(_SAMPLES)]
        if not all(map(math.isfinite, changes)) or len(set(changes)) == len(changes):
            return None
        return max(map(abs, changes[:2]))

    def _goes_on(self, longest: float, width: float) -> bool:
        """Whether it goes through many grid points, as far as it is defined."""
        parts = _FAR if self._is_buried else (1.0, *_FAR)
        far = (abs(self._change(part * longest)) for part in parts)
        return next((change for change in far if math.isfinite(change)), 0.0) >= self._many * width

    @property
    def _many(self) -> float:
        return self._eps**_RESOLVED

    def _change(self, step: float) -> float:
        """By how much the output changes over a step; NaN where the function refuses that."""
        values, _ = self._stencil.moved(self._column, np.array([step]), self._row)
        return float(values[0, 0] - self._stencil.problem.value[self._row[0]])
