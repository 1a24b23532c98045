"""The length of a vector, whatever the size of its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from gradproof.core.flags import every
from gradproof.core.types import Vector

# Sums of squares below this may have lost digits.
_TINY = 1e-280
# Longer vectors are taken in parts of this length: a few of them stay in the processor's cache.
PART = 2**15
# Dot products in shorter ones: no threads are woken up for them, no digits lost.
_DOT = 2**13
_WHOLE = (slice(None),)


def parts(size: int) -> Iterable[slice]:
    """All of so many coordinates, in parts that stay in the processor's cache."""
    if size <= PART:
        return _WHOLE if size else ()
    return (slice(start, start + PART) for start in range(0, size, PART))


def norm(values: Vector) -> float:
    """The Euclidean norm; squares that leave the range of numbers do no harm.

    >>> norm(np.array([3e-200, 4e-200]))
    5e-200
    """
    total = float(np.vdot(values, values)) if len(values) <= _DOT else sum_of_squares(values)
    if _TINY < total < math.inf:
        return math.sqrt(total)
    largest = float(np.abs(values).max(initial=0.0))
    if not 0.0 < largest < math.inf:  # zero, infinite or NaN
        return largest
    scaled = values / largest
    return largest * math.sqrt(sum_of_squares(scaled))


def highest(values: Vector) -> float:
    """The largest of some numbers, NaN if there is one: of few numbers in half the time of NumPy's `max`.

    >>> highest(np.array([1.0, 3.0])), highest(np.array([1.0, np.nan]))
    (3.0, nan)
    """
    return float(values[values.argmax()])


def lowest(values: Vector) -> float:
    """The smallest of some numbers, NaN if there is one.

    >>> lowest(np.array([1.0, 3.0])), lowest(np.array([1.0, np.nan]))
    (1.0, nan)
    """
    return float(values[values.argmin()])


def products(left: Vector, right: Vector) -> tuple[float, float]:
    """The sum of the products of two vectors, and their Euclidean norm; where the left one is zero, the right is none.

    In parts that stay in the processor's cache: at a million elements four times as fast as with whole products.

    >>> products(np.array([1.0, 2.0, 0.0]), np.array([3.0, 2.0, np.inf]))
    (7.0, 5.0)
    """
    if len(left) <= PART:
        product = _product(left, right)
        return float(np.add.reduce(product)), norm(product)
    sums: list[float] = []
    squares: list[float] = []
    room = np.empty(PART)
    with np.errstate(invalid="ignore"):
        for part in parts(len(left)):
            here = left[part]
            product = np.multiply(here, right[part], out=room[: len(here)])
            total = float(np.add.reduce(product))
            if not math.isfinite(total):  # zero times infinity may be among them
                product = _product(here, right[part])
                total = float(np.add.reduce(product))
            sums.append(total)
            squares.append(sum_of_squares(product))
    length = math.fsum(squares) if math.isfinite(sum(squares)) else math.inf
    whole = math.fsum(sums) if math.isfinite(sum(sums)) else sum(sums)
    return whole, math.sqrt(length) if _TINY < length < math.inf else norm(_product(left, right))


def norm_of_products(left: Vector, right: Vector) -> float:
    """The second of these alone."""
    if len(left) <= PART:
        return norm(_product(left, right))
    room = np.empty(PART)
    with np.errstate(invalid="ignore", over="ignore"):
        total = sum(sum_of_squares(np.multiply(left[p], right[p], out=room[: len(left[p])])) for p in parts(len(left)))
    return math.sqrt(total) if _TINY < total < math.inf else norm(_product(left, right))


def _product(left: Vector, right: Vector) -> Vector:
    return left * right if every(left) else (left * np.where(left != 0, right, 0.0))


def sum_of_squares(values: Vector) -> float:
    """The sum of the squares. By `vdot`: `dot` warns of overflow."""
    each = (values[start : start + _DOT] for start in range(0, len(values), _DOT))
    return math.fsum([float(np.vdot(part, part)) for part in each])
