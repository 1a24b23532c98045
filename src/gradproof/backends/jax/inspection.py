"""What one vjp or jvp returned, as arrays whose form can be looked at: JAX lets a bwd return any dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradproof.backends.jax.arrays import Model, Row
from gradproof.core.capabilities import Form, Misshapen
from gradproof.core.space import Block
from gradproof.core.types import Vector

Values = tuple[Vector, Vector]
"""Those of the function, and those that it has while it is differentiated."""


class Shown:
    """Gradients for a row of inputs, or tangents for a row of outputs.

    `values` is there where rules of somebody's own may give the function other values when it is differentiated.
    """

    def __init__(
        self, row: Row, arrays: Sequence[Any], coordinates: Vector, values: Callable[[], Values] | None = None
    ) -> None:
        self.coordinates, self.values = coordinates, values
        self._row, self._forms = row, [Model(array.shape, array.dtype) for array in arrays]

    def misshapen(self) -> list[Misshapen]:
        """Those of another shape or dtype than they should have."""
        triples = zip(self._row.space.blocks, self._row.models, self._forms, strict=True)
        return [
            Misshapen(block, _form(wanted), _form(got)) for block, wanted, got in triples if _form(wanted) != _form(got)
        ]

    def aliased(self) -> list[tuple[Block, str]]:
        """None: nothing can be written to an array of JAX."""
        return []

    def share_memory(self, later: Any) -> bool:
        """No, or nobody could tell."""
        return False

    def overwritten(self) -> list[Block]:
        """None, for the same reason."""
        return []

    def overwritten_cotangents(self) -> list[str]:
        """None, for the same reason."""
        return []


def _form(model: Model) -> Form:
    return Form(tuple(model.shape), str(model.dtype), "", "")
