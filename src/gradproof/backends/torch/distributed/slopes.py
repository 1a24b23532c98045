"""Directional derivatives of every rank's outputs, raw: before anything is said of what belongs together.

They choose between explanations that differ by whole factors, so two steps and one extrapolation are enough. The
verdict is not theirs: that comes from the ladder and its error bars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gradproof.backends.torch.distributed.conventions import Key, key_of
from gradproof.backends.torch.distributed.local import GIVEN, Share
from gradproof.backends.torch.distributed.team import Team
from gradproof.core.precision import DOUBLE
from gradproof.core.types import Vector

Parts = list[Vector]
"""A vector for each rank."""


class Slopes:
    """Moves one tensor, on some ranks or on all, and sees what all ranks' outputs do."""

    def __init__(self, team: Team, shares: Sequence[Share], seed: int) -> None:
        self.team, self.shares = team, shares
        self._random = np.random.default_rng([seed, 17])
        precise = all(share.evaluates_in in (None, DOUBLE) for share in shares)
        eps = max([DOUBLE, *(block.eps for share in shares for block in share.outputs)])
        low = eps > DOUBLE and not all(share.evaluates_in == DOUBLE for share in shares)
        self._step = float(eps**0.2) if low or not precise else 2.0**-9
        self.close = 2e-2 if eps > DOUBLE else 1e-5
        """How far, in parts of itself, a number may be off that is right."""

    def direction(self, key: Key, alike: bool, ranks: Sequence[int] | None = None) -> Parts:
        """Random numbers in one tensor's place, on these ranks (None: all that have it); `alike`: the same on each."""
        parts = [np.zeros(len(share.point)) for share in self.shares]
        drawn: dict[int, Vector] = {}
        for rank, share in enumerate(self.shares):
            for block in share.inputs:
                if key_of(block) == key and (ranks is None or rank in ranks):
                    own = self._draw(block.size, share.point[block.slice])
                    parts[rank][block.slice] = drawn.setdefault(block.size, own) if alike else own
        return parts

    def _draw(self, size: int, values: Vector) -> Vector:
        scale = np.maximum(np.abs(values), np.sqrt(np.mean(values**2)) * 0.1 if size else 0.0)
        scale[scale == 0] = 1.0
        return self._random.choice([-1.0, 1.0], size) * self._random.uniform(0.5, 1.5, size) * scale

    def along(self, direction: Parts) -> Parts:
        """How the outputs of each rank change along it. Four evaluations."""
        coarse, fine = (self._quotient(direction, step) for step in (self._step, self._step / 2))
        return [(4 * b - a) / 3 for a, b in zip(coarse, fine, strict=True)]

    def _quotient(self, direction: Parts, step: float) -> Parts:
        ahead, behind = (
            self._evaluate([share.point + h * u for share, u in zip(self.shares, direction, strict=True)])
            for h in (step, -step)
        )
        return [(a - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)]

    def _evaluate(self, points: Parts) -> Parts:
        return self.team.ask("evaluate", [(GIVEN, point) for point in points])

    def pull(self, cotangents: Parts) -> Parts:
        """The gradients of each rank. One vjp."""
        return self.team.ask("vjp", [(GIVEN, cotangent) for cotangent in cotangents])

    def cotangents(self, alike: Mapping[Key, bool]) -> Parts:
        """Random cotangents for each rank's outputs: the same on each, or not."""
        parts = [np.zeros(len(share.value)) for share in self.shares]
        drawn: dict[tuple[Key, int], Vector] = {}
        for rank, share in enumerate(self.shares):
            for block in share.outputs:
                own = self._random.choice([-1.0, 1.0], block.size) * self._random.uniform(0.5, 1.5, block.size)
                key = key_of(block)
                parts[rank][block.slice] = drawn.setdefault((key, block.size), own) if alike[key] else own
        return parts


def within(parts: Parts, key: Key, shares: Sequence[Share]) -> dict[int, Vector]:
    """A tensor's part of each rank's input coordinates, on the ranks that have it."""
    return {
        rank: parts[rank][block.slice]
        for rank, share in enumerate(shares)
        for block in share.inputs
        if key_of(block) == key
    }
