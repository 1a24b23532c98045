"""Points that were visited: F of a few outputs, where one coordinate alone was moved.

Judging an entry, looking for a kink along its coordinate and drawing its figures ask for the same points. Where the
outputs are many, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradproof.core.investigation import Investigation
from gradproof.core.types import Indices, Matrix, Vector

Evaluate = Callable[[Indices, Vector], tuple[Matrix, Vector]]
"""The values of the outputs in question, one row for each coordinate that is moved, and where that came to lie."""

FEW = 16
"""Outputs that are remembered of one point."""
# Points that are.
_MOST = 4096


class Visited:
    """What one investigation has seen of its function along single coordinates. Made through `Investigation.once`."""

    def __init__(self, investigation: Investigation) -> None:
        self._known: dict[tuple[int, float], tuple[tuple[int, ...], Vector, float]] = {}
        self.same_from_afar: set[tuple[int, int]] = set()
        """The entries, by output and input, that have the same slope by steps nearly as long as the input."""

    def look(self, index: Indices, step: Vector, outputs: slice | Indices, evaluate: Evaluate) -> tuple[Matrix, Vector]:
        """What `evaluate` gives for these coordinates and steps; only what is not known yet is evaluated."""
        if isinstance(outputs, slice) or len(outputs) > FEW:
            return evaluate(index, step)
        wanted = tuple(outputs.tolist())
        keys = list(zip(index.tolist(), step.tolist(), strict=True))
        fresh = [k for k, key in enumerate(keys) if self._recall(key, wanted) is None]
        values, reached = np.empty((len(index), len(outputs))), np.empty(len(index))
        for k, key in enumerate(keys):
            if (known := self._recall(key, wanted)) is not None:
                values[k], reached[k] = known
        if fresh:
            values[fresh], reached[fresh] = evaluate(index[fresh], step[fresh])
        for k in fresh:
            if len(self._known) < _MOST and np.isfinite(values[k]).all():  # else it may have been refused
                self._known[keys[k]] = wanted, values[k].copy(), float(reached[k])
        return values, reached

    def _recall(self, key: tuple[int, float], wanted: tuple[int, ...]) -> tuple[Vector, float] | None:
        known = self._known.get(key)
        if known is None or not set(wanted) <= set(known[0]):
            return None
        outputs, values, reached = known
        return values[[outputs.index(each) for each in wanted]], reached
