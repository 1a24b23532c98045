"""The map of all ranks together, as a Problem, under some conventions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradproof.backends.torch.distributed.conventions import Conventions, Held, Layout
from gradproof.backends.torch.distributed.local import GIVEN, TWIN, Share, TwinShare
from gradproof.backends.torch.distributed.team import Team
from gradproof.backends.torch.words import TORCH
from gradproof.core.capabilities import Twin, Twinned
from gradproof.core.problem import Problem
from gradproof.core.types import Vector


class Joint:
    """Questions to all ranks in the coordinates of the whole."""

    def __init__(
        self, team: Team, shares: Sequence[Share], inputs: Conventions, outputs: Conventions, which: str = GIVEN
    ) -> None:
        self._team, self._shares, self._which = team, shares, which
        self._conventions = inputs, outputs
        self.inputs = Layout([share.inputs for share in shares], inputs)
        self.outputs = Layout([share.outputs for share in shares], outputs)

    def raw(self, kind: str, parts: Sequence[Vector]) -> list[Vector]:
        """Each rank's answer to its own part."""
        return self._team.ask(kind, [(self._which, part) for part in parts])

    def evaluate(self, point: Vector) -> Vector:
        return self.outputs.gather(self.raw("evaluate", self.inputs.scatter(point)))

    def vjp(self, cotangent: Vector) -> Vector:
        return self.inputs.gather(self.raw("vjp", self.outputs.scatter(cotangent)))

    def jvp(self, tangent: Vector) -> Vector:
        return self.outputs.gather(self.raw("jvp", self.inputs.scatter(tangent)))

    @property
    def point(self) -> Vector:
        """Where the inputs are: of copies and of shares, which are copies too, the first."""
        values = np.empty(self.inputs.space.size)
        for joined in self.inputs.joined:
            rank, where = joined.members[0]
            values[joined.block.slice] = self._shares[rank].point[where]
        return values

    def problem(self) -> Problem:
        """Asks nothing."""
        finest = {share.evaluates_in for share in self._shares}
        capabilities: dict[type, Any] = {}
        if self._which == GIVEN and None not in finest:
            capabilities[Twin] = Twin(self._twinned)
        return Problem(
            inputs=self.inputs.space,
            outputs=self.outputs.space,
            point=self.point,
            value=self.outputs.gather([share.value for share in self._shares]),
            evaluate=self.evaluate,
            vjp=self.vjp,
            jvp=self.jvp,
            connected=any(share.connected for share in self._shares),
            evaluates_in=finest.pop() if len(finest) == 1 else None,
            evaluations=max(share.evaluations for share in self._shares),
            words=TORCH,
            capabilities=capabilities,
        )

    def _twinned(self) -> Twinned | None:
        twins: list[TwinShare | None] = self._team.ask("twin")
        there = [twin for twin in twins if twin is not None]
        if len(there) < len(twins):
            return None
        wide = Joint(self._team, [twin.share for twin in there], *self._conventions, which=TWIN)
        value = self.outputs.gather([twin.value for twin in there])
        return Twinned(wide.problem(), value, max(twin.inside for twin in there))

    def copies_that_differ(self, cotangent: Vector) -> list[tuple[int, int, float, float, float]]:
        """Where the gradients of copies of one input differ between ranks, for one cotangent: one vjp.

        For each input of which they do, the number of its block, the coordinate that differs most, and both values:
        the rank, the first rank's value there, and its own.
        """
        parts = self.raw("vjp", self.outputs.scatter(cotangent))
        found: list[tuple[int, int, float, float, float]] = []
        for number, joined in enumerate(self.inputs.joined):
            if joined.held is not Held.REPLICATED:
                continue
            first = parts[joined.members[0].rank][joined.members[0].slice]
            size = max(float(np.abs(first).max(initial=0.0)), 1e-300)
            for rank, where in joined.members[1:]:
                apart = np.abs(parts[rank][where] - first)
                apart[np.isnan(apart)] = np.inf
                if apart.size and not apart.max() <= 64 * np.sqrt(first.size) * joined.block.eps * size:
                    worst = int(np.argmax(apart))
                    found.append((number, worst, rank, float(first[worst]), float(parts[rank][where][worst])))
                    break
        return found
