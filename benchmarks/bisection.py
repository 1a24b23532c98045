"""The smallest error that a checker catches."""

from __future__ import annotations

from collections.abc import Callable


def smallest_caught(caught: Callable[[float], bool], powers: tuple[int, int]) -> float | None:
    """By bisection on powers of ten from the lowest to the highest, then one step of 3; None: not even the highest."""
    low, high = powers
    if not caught(10.0**high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if caught(10.0**middle) else (middle, high)
    return 3 * 10.0**low if caught(3 * 10.0**low) else 10.0**high
