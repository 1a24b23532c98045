"""Directions that surveys go along: their steps are exact, what is added to a point can be stored."""

from __future__ import annotations

import numpy as np

from gradproof.core.ladder import rungs
from gradproof.core.norm import PART, parts
from gradproof.core.precision import DOUBLE
from gradproof.core.problem import Problem
from gradproof.core.space import alike
from gradproof.core.types import Flags, Vector

# The finest rung of a survey in double precision: fine enough to step over few of a hundred thousand kinks.
_FINEST = 35
# The bits of a short direction's numbers.
_BITS = 4
# The bits of a number that its exponent takes; the rest is zero for a power of two.
_EXPONENT = 0x7FF0_0000_0000_0000


def is_long(problem: Problem) -> bool:
    """Whether one direction is to serve all who move along one: of many numbers, all in double precision."""
    return problem.inputs.size > PART and problem.coarsest_eps <= DOUBLE and problem.noise is None


def exact(direction: Vector, point: Vector) -> Vector:
    """The same in double precision, rounded so that every step along it is exact."""
    return quantised(direction, point, alike(len(point), DOUBLE), DOUBLE)


def quantised(direction: Vector, point: Vector, eps: Vector, only_eps: float | None) -> Vector:
    """Rounded so that point + step * direction can be stored exactly for every step of the ladder."""
    steps = np.empty_like(direction)
    for part in parts(len(direction)):
        whole = direction[part]
        # what is added to 3/2 * 2**52 quanta is rounded to whole ones
        larger = np.abs(point[part])
        np.maximum(larger, np.abs(whole), out=larger)
        quantum = _quantum(only_eps) if only_eps is not None else _quanta(eps[part])
        shift = (larger.view(np.int64) & _EXPONENT).view(np.float64) * (quantum * (2.0 * 1.5 * 2.0**52))
        rounded = np.add(whole, shift, out=steps[part])
        rounded -= shift
        lost = ~np.isfinite(rounded) | (rounded == 0)
        if lost.any():
            rounded[lost] = whole[lost]
    return steps


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
