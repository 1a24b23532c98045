"""Bounds: no evaluation leaves them.

A central difference at a bound would step outside. What the function would be there is extrapolated from points inside:
of a point x + a + b, where only b leads outside,

    F(x + a + b)  is taken to be  3 F(x + a) - 3 F(x + a - b) + F(x + a - 2 b),

the parabola through these three. At a bound itself, the central difference of that is the one-sided difference of
second order, and all that is known of ladders of central differences (their order, their error bars) holds as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradproof.core.types import Flags, Vector

EXTRAPOLATED = 4.0
"""The round-off of three evaluations with weights 3, 3 and 1, in units of that of one: about sqrt(19)."""
# The longest steps, in units of the coordinate's scale: the first rung, uneven, to both sides, and twice as far inside.
_REACH = 2.0**-5


class OutsideBoundsError(ValueError):
    """A step for which the bounds leave no room on either side: a shorter one is tried."""


class Box:
    """Bounds of the coordinates, around a point inside them."""

    def __init__(self, lower: Vector, upper: Vector, point: Vector) -> None:
        self.lower, self.upper, self.point = lower, upper, point

    def is_near(self, scale: Vector) -> bool:
        """Whether some step might lead outside."""
        reach = _REACH * scale
        return bool(((self.point - self.lower < reach) | (self.upper - self.point < reach)).any())

    def holds(self, point: Vector) -> bool:
        return not self.outside(point).any()

    def turned(self, direction: Vector) -> Vector:
        """A direction, with each coordinate turned to the side on which there is more room."""
        sides = np.where(self.upper - self.point >= self.point - self.lower, 1.0, -1.0)
        ends = np.isfinite(self.lower) | np.isfinite(self.upper)
        return np.where(ends, np.copysign(direction, sides), direction)

    def outside(self, point: Vector) -> Flags:
        return (point < self.lower) | (point > self.upper)

    def guarding(self, evaluate: Callable[[Vector], Vector]) -> Callable[[Vector], Vector]:
        """The function, asked at points inside only."""

        def guarded(point: Vector) -> Vector:
            out = self.outside(point)
            if not out.any():
                return evaluate(point)
            near = np.where(out, self.point, point)
            once = np.where(out, 2.0 * self.point - point, point)
            twice = np.where(out, 2.0 * once - self.point, point)
            if self.outside(once).any() or self.outside(twice).any():
                raise OutsideBoundsError("the bounds leave no room for a step of this length")
            return 3.0 * evaluate(near) - 3.0 * evaluate(once) + evaluate(twice)

        return guarded


def read_bounds(bounds: Any, size: int) -> tuple[Vector, Vector]:
    """Lower and upper bounds: an object with `lb` and `ub`, or a pair (lower, upper) for each element.

    >>> read_bounds([(0, None), (-1, 1)], 2)
    (array([ 0., -1.]), array([inf,  1.]))
    """
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        lower, upper = bounds.lb, bounds.ub
    else:
        pairs = _pairs(bounds, size)
        lower = [-np.inf if low is None else low for low, _ in pairs]
        upper = [np.inf if high is None else high for _, high in pairs]
    return _spread(lower, size), _spread(upper, size)


def _pairs(bounds: Any, size: int) -> list[tuple[Any, Any]]:
    try:
        pairs: Sequence[tuple[Any, Any]] = [(low, high) for low, high in bounds]
    except (TypeError, ValueError):
        raise ValueError(f"bounds must be pairs (lower, upper), or an object with lb and ub: got {bounds!r}") from None
    if len(pairs) == 1:  # one for all, as for a number
        return list(pairs) * size
    if len(pairs) != size:
        raise ValueError(f"bounds has {len(pairs)} pairs, but x has {size} elements")
    return list(pairs)


def _spread(values: Any, size: int) -> Vector:
    bounds = np.asarray(values, dtype=np.float64).reshape(-1)
    if bounds.size not in (1, size):
        raise ValueError(f"bounds has {bounds.size} values, but x has {size} elements")
    return np.broadcast_to(bounds, (size,)).astype(np.float64)
