"""Directions that surveys go along: their steps are exact, what is added to a point can be stored."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gradproof.core.draws import drawn_parts
from gradproof.core.flags import every
from gradproof.core.ladder import rungs
from gradproof.core.norm import PART, parts
from gradproof.core.precision import DOUBLE
from gradproof.core.problem import Problem
from gradproof.core.types import Flags, Vector

if TYPE_CHECKING:
    from gradproof.core.stencil import Stencil

# The finest rung of a survey in double precision: fine enough to step over few of a hundred thousand kinks.
_FINEST = 35
# The bits of a short direction's numbers.
_BITS = 4
# The bits of a number that its exponent takes; the rest is zero for a power of two.
_EXPONENT = 0x7FF0_0000_0000_0000


def draw_direction(stencil: Stencil) -> Vector:
    """Random signs and magnitudes in units of each coordinate's scale, such that every step is exact."""
    problem, investigation = stencil.problem, stencil.investigation
    shared = investigation.direction if stencil.scale is investigation.scale else None
    if shared is not None:
        return shared
    direction = investigation.draw(problem.inputs.size) * stencil.scale
    return quantised(direction, problem.point, stencil.eps if stencil.only_eps is None else stencil.only_eps)


def is_long(problem: Problem) -> bool:
    """Whether one direction is to serve all who move along one: of many numbers, all in double precision."""
    return problem.inputs.size > PART and problem.coarsest_eps <= DOUBLE and problem.noise is None


def exact(direction: Vector, point: Vector) -> Vector:
    """The same in double precision, rounded so that every step along it is exact."""
    return quantised(direction, point, DOUBLE)


def stretched(seed: int, scale: Vector, point: Vector) -> Vector:
    """The product of a long random probe and a scale that is no less than any number of the point, as exact.

    No number of either is twice as long as the scale, so that this tells the size of quanta; none is lost by it.
    """
    direction, room, quantum = np.empty(len(scale)), np.empty(PART), 2.0 * _quantum(DOUBLE)
    for part, drawn in drawn_parts(len(scale), seed):
        shift, steps = room[: len(drawn)], direction[part]
        _to_shift(scale[part], quantum, shift)
        np.multiply(drawn, scale[part], out=steps)
        steps += shift
        steps -= shift
        if not math.isfinite(np.add.reduce(steps)):  # what is too large for that stays whole
            lost = ~np.isfinite(steps)
            steps[lost] = drawn[lost] * scale[part][lost]
    return direction


def quantised(direction: Vector, point: Vector, eps: Vector | float) -> Vector:
    """Rounded so that point + step * direction can be stored exactly for every step of the ladder.

    `eps` is the spacing of all numbers, or that of each coordinate's.
    """
    steps = np.empty_like(direction)
    for part in parts(len(direction)):
        quantum = _quanta(eps[part]) if isinstance(eps, np.ndarray) else _quantum(eps)
        _quantise(direction[part], point[part], quantum, steps[part])
    return steps


def _quantise(whole: Vector, point: Vector, quantum: Vector | float, rounded: Vector) -> None:
    """The same of one part, for the size of quanta relative to the coordinates; what is lost by it stays whole."""
    shift = np.abs(point)
    np.maximum(shift, np.abs(whole, out=rounded), out=shift)
    _to_shift(shift, quantum, shift)
    np.add(whole, shift, out=rounded)
    rounded -= shift
    if every(rounded) and math.isfinite(np.add.reduce(rounded)):
        return  # nearly always
    lost = ~np.isfinite(rounded) | (rounded == 0)
    rounded[lost] = whole[lost]


def _to_shift(sizes: Vector, quantum: Vector | float, shift: Vector) -> None:
    """Numbers to which others of these sizes are added to be rounded to whole quanta: 3/2 * 2**52 of them."""
    bits = shift.view(np.int64)
    np.bitwise_and(sizes.view(np.int64), _EXPONENT, out=bits)
    shift *= quantum * (2.0 * 1.5 * 2.0**52)


def short(probe: Vector, scale: Vector) -> Vector:
    """Numbers of few bits, times a power of two near each scale: points at steps of any ladder are stored exactly."""
    _, exponent = np.frexp(scale)
    return np.ldexp(np.rint(probe * 2.0**_BITS), exponent - 1 - _BITS)


def _quanta(eps: Vector) -> Vector:
    """The size of a direction's quanta, relative to the coordinate, for each spacing of numbers."""
    quanta = np.empty_like(eps)
    for value in np.unique(eps):
        quanta[eps == value] = _quantum(float(value))
    return quanta


def _quantum(eps: float) -> float:
    """The same for one spacing: a direction is that many of its smallest steps long."""
    return eps * 2.0 ** (max(rungs(eps)[-1], _FINEST if eps <= DOUBLE else 0) + 1)


def on_kinks(point: Vector) -> Flags:
    """The coordinates that may sit on a kink: exact zeros and ties."""
    _, which, counts = np.unique(point, return_inverse=True, return_counts=True)
    return (point == 0) | (counts[which] > 1)
