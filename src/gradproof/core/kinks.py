"""Subgradients along joint directions: what is valid for each coordinate alone may be no subgradient.

At four ties a maximum has the sides 0 and 1 along each coordinate, so that 1 for each of the four lies between them.
Along all four together it is smooth, with the slope 1, and the claim is 4. For a function that bends upwards, <g, u>
lies between -f'(-u) and f'(u) for every direction u; for one that bends downwards, the other way round. So coordinates
of one output are asked about together, those that bend upwards and those that bend downwards each by themselves: a
function that bends both ways, relu(a) - clamp_min(b), may have a zero and a one for the two though it is smooth along
their sum. Where the function does not behave like one that bends one way, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradproof.core.draws import random_probe
from gradproof.core.ladder import Estimate
from gradproof.core.precision import APART
from gradproof.core.stencil import Stencil
from gradproof.core.types import Indices, Vector

# Outputs that are asked about, those with most kinks first, and random directions for each.
_OUTPUTS, _RANDOM = 8, 2


@dataclass(frozen=True, slots=True)
class Kinks:
    """Entries at a kink, each valid by itself: output, input, claim, the derivatives of the two sides, tolerance."""

    rows: Indices
    columns: Indices
    claim: Vector
    left: Vector
    right: Vector
    tolerance: Vector

    def take(self, which: Indices) -> Kinks:
        return Kinks(*(getattr(self, name)[which] for name in self.__slots__))


def disproved(stencil: Stencil, kinks: Kinks) -> Indices:
    """The numbers of the entries that cannot all be valid: along some joint direction their sum is no derivative."""
    groups = sorted(_groups(kinks), key=len, reverse=True)
    wrong = [which for which in groups if not _is_valid(stencil, kinks.take(which))]
    return np.concatenate(wrong) if wrong else np.zeros(0, dtype=np.intp)


def _groups(kinks: Kinks) -> Iterator[Indices]:
    """For some outputs, the entries that bend the same way, where there are several."""
    rows, counts = np.unique(kinks.rows, return_counts=True)
    for row in rows[np.argsort(-counts, kind="stable")][:_OUTPUTS]:
        for upwards in (True, False):
            bend = (kinks.right > kinks.left) if upwards else (kinks.right < kinks.left)
            which = np.flatnonzero((kinks.rows == row) & bend)
            if len(which) > 1:
                yield which


def _is_valid(stencil: Stencil, kinks: Kinks) -> bool:
    """Whether no direction contradicts the claim of one output along coordinates that bend the same way."""
    scale = stencil.scale[kinks.columns]
    upwards = 1.0 if kinks.right[0] > kinks.left[0] else -1.0
    with np.errstate(all="ignore"):
        return not any(
            _contradicts(stencil, kinks, scale * direction, upwards)
            for direction in _directions(scale * kinks.claim, stencil.investigation.seed)
        )


def _directions(claim: Vector, seed: int) -> Iterator[Vector]:
    """All coordinates together, along the claim, and with random signs; in units of their scales."""
    yield np.ones_like(claim)
    largest = np.abs(claim).max()
    if 0 < largest < np.inf and not (claim == claim[0]).all():
        yield claim / largest
    for k in range(_RANDOM):
        yield np.sign(random_probe(len(claim), seed + k))


def _contradicts(stencil: Stencil, kinks: Kinks, steps: Vector, upwards: float) -> bool:
    """Whether the claim along these steps lies outside the two sides, of a function that bends one way along them.

    Where coarse rungs say so, fine ones are asked too: other kinks may be within reach of the coarse ones.
    """
    direction = np.zeros(len(stencil.problem.point))
    direction[kinks.columns] = steps
    return all(
        _are_contradicted(kinks, steps, upwards, stencil.sides_along(direction, kinks.rows[:1], brief=brief))
        for brief in (True, False)
    )


def _are_contradicted(kinks: Kinks, steps: Vector, upwards: float, sides: tuple[Estimate, Estimate]) -> bool:
    left, right = sides
    low, high = float(left.value[0, 0]), float(right.value[0, 0])
    bar = float(left.error[0, 0] + right.error[0, 0])
    slack = bar + float(np.abs(steps) @ kinks.tolerance)
    # of a function that bends one way, the derivative of a sum of steps is at most the sum of their derivatives
    alone = float(np.where(steps > 0, kinks.right, kinks.left) @ steps)
    regular = upwards * (high - low) >= -APART * bar and upwards * (alone - high) >= -slack
    claimed = float(kinks.claim @ steps)
    outside = upwards * (claimed - high) > slack or upwards * (low - claimed) > slack
    return regular and outside and bool(np.isfinite(bar))
