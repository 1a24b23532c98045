"""Lone jumps of a function along a direction, as of a solver that takes one iteration more; nothing is asked here."""

from __future__ import annotations

import numpy as np

from gradproof.core.precision import CLEAR
from gradproof.core.types import Matrix, Vector

# The order of differences, which leaves little of smooth parts.
_ORDER = 6


def jumps(values: Matrix) -> Vector:
    """The largest lone jump of each output in its values at equal spacing, one row for each point; zero: none.

    The polynomial through a few points on the left of a cell, continued, misses the next point by their difference of
    that order, and so from the right. On both sides of a jump these are the jump, up to the sign; a kink lies where the
    two polynomials meet, so there they have different signs; and further away both must be small. One point further on
    the polynomial misses by no more than the jump, but by four times as much where only the curvature jumps.

    >>> x = np.linspace(0.3, 1.3, 33)
    >>> curved = np.where(x > 0.81, (x - 0.81) ** 2, 0.0)
    >>> jumps(np.stack([np.sin(x) + 1e-6 * (x > 0.81), np.abs(x - 0.81), curved, np.exp(x)], axis=1)).round(8)
    array([1.e-06, 0.e+00, 0.e+00, 0.e+00])
    """
    return np.max(lone_jumps(values), axis=0, initial=0.0)


def lone_jumps(values: Matrix) -> Matrix:
    """The same for each cell that is far enough from both ends, one row each."""
    with np.errstate(invalid="ignore"):
        missed = np.diff(values, n=_ORDER, axis=0)
        left, right = missed[1:-_ORDER], -missed[_ORDER:-1]  # which end and begin with each cell
        beyond = np.fmax(np.abs(missed[: -_ORDER - 1]), np.abs(missed[_ORDER + 1 :]))
        size = np.fmin(np.abs(left), np.abs(right))
        lone = (left * right > 0) & (beyond <= CLEAR * size)
        next_left, next_right = missed[2 : 1 - _ORDER], missed[_ORDER - 1 : -2]
        lone &= np.abs(next_left + (_ORDER - 1) * left) <= np.abs(left)
        lone &= np.abs(next_right - (_ORDER - 1) * right) <= np.abs(right)
    return np.where(lone, size, 0.0)
