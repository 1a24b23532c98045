"""The arithmetic of a ladder: steps that shrink, and what the difference quotients on its rungs say together.

Each two neighbours are extrapolated, and how far they differ is their error bar; the finest pair that is not blurred by
round-off speaks. Nothing here evaluates anything: `Stencil` brings the quotients.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gradproof.core.flags import every
from gradproof.core.precision import BEND, CLEAR, RUNS_AWAY
from gradproof.core.types import Flags, Indices, Matrix, Vector

Tolerance = Callable[[Matrix], Matrix]
"""How large an error bar may be, given the values."""

# Steps in a ratio that is no power of two: else hidden quantisation, (x + 1e8) - 1e8, agrees with itself on two rungs.
_UNEVEN = (1.0, 1.19, 0.87, 1.13, 0.91, 1.23, 0.83)
# Quotients of neighbouring rungs draw together if they differ by no more than this part of what the coarser ones do.
_FALLS = 0.5
# The rungs of a brief ladder: the coarse pair that is sharpest where the function is smooth, one between, and the fine
# pair that sees what others step over.
_BRIEF = 5


@dataclass(frozen=True, slots=True)
class Estimate:
    """Derivatives of all outputs along some coordinates, one row each, with their error bars."""

    value: Matrix
    error: Matrix
    evaluations: int
    unsteady: Flags | None = None
    """Where the quotients that these were made of have not settled as the steps shrink: see `unsteady`."""

    def __and__(self, other: Estimate) -> Estimate:
        """Two estimates of the same: where they differ by more than their error bars say, the bar grows."""
        with np.errstate(invalid="ignore"):
            value = np.where(other.error < self.error, other.value, self.value)
            error = np.minimum(self.error, other.error) + np.abs(self.value - other.value)
        return Estimate(value, error, self.evaluations + other.evaluations)


def bits(eps: float) -> int:
    """Significant binary digits behind the leading one: 52 for float64, 23 for float32, 7 for bfloat16."""
    return round(-math.log2(eps))


@functools.cache
def rungs(eps: float) -> tuple[int, ...]:
    """The ladder for a precision, coarse to fine: rung k takes a step of 2**-k times the coordinate's scale.

    >>> rungs(2.0**-52), rungs(2.0**-23), rungs(2.0**-7)
    ((9, 12, 15, 18, 21, 24, 27), (4, 6, 8, 10), (1, 2, 3))
    """
    digits = max(bits(eps), 4)  # two rungs at least
    spacing = 3 if digits > 40 else 2 if digits > 15 else 1
    return tuple(range(max(1, round(digits / 6)), digits // 2 + (spacing + 1) // 2, spacing))


def relative_steps(eps: float, *, brief: bool = False) -> list[float]:
    """The steps of the ladder for a precision, in units of the coordinate's scale; if `brief`, some of them."""
    steps = [2.0**-rung * uneven for rung, uneven in zip(rungs(eps), _UNEVEN, strict=False)]
    return [*steps[:2], steps[len(steps) // 2], *steps[-2:]] if brief and len(steps) > _BRIEF else steps


def ends(steps: list[float]) -> tuple[float, float]:
    """A coarse and a fine step, with room for round-off below the fine one."""
    return steps[0], steps[len(steps) // 2]


def stepped(width: Vector, asked: Vector) -> Vector:
    """The distance really stepped, which rounding made a little other than asked; an infinite coordinate stays."""
    finite = np.isfinite(width)
    return width if every(finite) else np.where(finite, width, asked)


def deep_steps(eps: float) -> list[float]:
    """Relative steps from where the ladder for a precision ends down to the spacing of its numbers."""
    return [2.0**-rung for rung in range(rungs(eps)[-1] + 1, bits(eps) + 1, 2)]


@dataclass(frozen=True, slots=True)
class Climb:
    """How the rungs of a ladder are taken: a difference quotient, its order, and the scale of its steps.

    A last resort is for columns that have no finite value otherwise. A short climb has steps of the length over which
    the function changes by its own size, where that is shorter than the scale. One that is near has steps no longer
    than the coordinate itself, and reckons with the round-off of numbers of the output's own size, or where it is still
    with that alone, whatever noise was measured. A brief one leaves rungs out. A deep one has the steps below those of
    all others, down to the spacing of the numbers themselves.
    """

    quotient: Callable[[Indices, Vector, slice | Indices], Matrix]
    scale: Vector
    order: int
    last_resort: bool = False
    short: bool = False
    near: bool = False
    brief: bool = False
    deep: bool = False
    still: bool = False


def extrapolate(values: Matrix, floors: Matrix, sizes: Sequence[float], order: int) -> tuple[Matrix, Matrix]:
    """What each two neighbours of a ladder of quotients (coarse to fine along the first axis) say, and how surely.

    `sizes` are the relative steps of the rungs. Neighbours are extrapolated (Richardson); how far they differ is
    their error bar, doubled. Round-off grows as the step shrinks, so what blurs a fine pair blurs the next coarser
    one at least in proportion to the step: a pair that agrees by luck is not taken for a sharp one.
    """
    ratios = np.array(sizes[:-1]) / np.array(sizes[1:])
    gains = ratios**order
    with np.errstate(invalid="ignore", over="ignore"):
        leaps: Matrix = np.diff(values, axis=0)
        limits: Matrix = values[1:] + leaps / (gains[:, None, None] - 1.0)
        spread = np.abs(leaps)
        apart = np.abs(np.diff(limits, axis=0))
        np.fmin(spread[1:], apart, out=spread[1:])
        np.fmin(spread[:-1], apart + 0.1 * floors[2:], out=spread[:-1])
        errors = 2.0 * spread + floors[1:]
        finite = np.isfinite(limits)
        if not finite.all():
            errors[~finite] = np.inf
        for rung in range(len(errors) - 2, -1, -1):
            blur = errors[rung + 1] / ratios[rung]
            known = np.isfinite(blur)
            np.maximum(errors[rung], blur, out=errors[rung], where=True if known.all() else known)
    return limits, errors


def contradicts(value: Matrix, error: Matrix, other: Matrix, bar: Matrix) -> Flags:
    """Where a value that was seen clearly cannot be reconciled with the other one."""
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(other - value)
        return (apart > bar + error) & (error <= CLEAR * apart)


def drifts(values: Matrix, floors: Matrix, least: Matrix) -> Flags:
    """Where the quotients run away as the step shrinks: every step is longer than what the function does here.

    Their differences grow towards the finest rungs, where they are no round-off, come to `least` or more, and are not
    much smaller than the quotients themselves. What such a ladder says of its own error is nothing.
    """
    with np.errstate(all="ignore"):
        leaps = np.abs(np.diff(values, axis=0))
        if len(leaps) < 2:
            return np.zeros(leaps.shape[1:], dtype=np.bool_)
        last = leaps[-1]
        large = (last >= least) & (last >= RUNS_AWAY * np.fmax(np.abs(values[-1]), np.abs(values[-2])))
        return (last > leaps[-2]) & (last > BEND * (floors[-1] + floors[-2])) & large


def unsteady(values: Matrix, floors: Matrix, sizes: Sequence[float], order: int, settled: Matrix, bar: Matrix) -> Flags:
    """Where a ladder that `settled` on a value with this error bar may have stepped over what the function does.

    The finest two rungs differ by more than round-off; or the finest that do so do not draw together, or say another
    value.
    """
    with np.errstate(all="ignore"):
        leaps = np.abs(np.diff(values, axis=0))
        beyond = leaps > BEND * (floors[1:] + floors[:-1])
        grows = beyond[1:] & (leaps[1:] > _FALLS * leaps[:-1])
        # of the finest that tell anything: what coarser ones step over, they do not
        last = len(grows) - 1 - np.argmax(beyond[1:][::-1], axis=0)
        found = np.take_along_axis(grows, last[None], axis=0)[0] & beyond[1:].any(axis=0)
        limits, errors = extrapolate(values, floors, sizes, order)
        return found | beyond[-1] | (np.abs(limits[-1] - settled) > errors[-1] + bar)


def settle(values: Matrix, floors: Matrix, sizes: Sequence[float], order: int) -> tuple[Matrix, Matrix]:
    """The best value and its error bar from a ladder of quotients, coarse to fine along the first axis.

    From afar a staircase looks like a slope and a kink like a mean, so the finest pair speaks first: a coarser one
    with a smaller error bar replaces it, unless the finer one sees clearly that the coarser is wrong. Where round-off
    blurs the fine rungs, even round-off that no formula predicts, they see nothing clearly, and the coarser decide.
    """
    limits, errors = extrapolate(values, floors, sizes, order)
    with np.errstate(invalid="ignore", over="ignore"):
        value: Matrix = limits[-1]
        error: Matrix = errors[-1]
        for rung in range(len(limits) - 2, -1, -1):
            coarser, bar = limits[rung], errors[rung]
            take = (bar < error) & ~contradicts(value, error, coarser, bar)
            if take.all():  # of many outputs nearly always
                value, error = coarser, bar
            else:
                value, error = np.where(take, coarser, value), np.where(take, bar, error)
    return value, error
