"""Finding the wrong entry by halving.

A question about many places at once is answered by one number, the residual, which is the sum of what each place
contributes. Asking about the left half gives the right half for nothing, so a lone culprit among n places is found with
log2(n) questions; several are found one after the other, worst first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

Residual = Callable[[int, int], float]
"""The residual of places lo..hi-1. Costs an evaluation or a vjp."""

Threshold = Callable[[int, int], float]
"""How large that residual may be by round-off alone. Costs nothing."""


def halve(size: int, total: float, residual: Residual, threshold: Threshold) -> Iterator[int]:
    """The places that contribute most, one after the other, until the rest is round-off.

    >>> wrong = [0.0] * 1000
    >>> wrong[137], wrong[800] = 2.0, -0.5
    >>> list(halve(1000, sum(wrong), lambda lo, hi: sum(wrong[lo:hi]), lambda lo, hi: 1e-9))
    [137, 800]
    """
    queue = [(-abs(total), 0, size, total)]
    while queue:
        _, low, high, here = heapq.heappop(queue)
        if high - low == 1:
            yield low
            continue
        middle = (low + high) // 2
        left = residual(low, middle)
        halves = [(low, middle, left), (middle, high, here - left)]
        guilty = [half for half in halves if not abs(half[2]) <= threshold(half[0], half[1])]
        for lo, hi, value in guilty or [max(halves, key=lambda half: abs(half[2]))]:
            heapq.heappush(queue, (-abs(value), lo, hi, value))
