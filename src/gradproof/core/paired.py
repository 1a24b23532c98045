"""Products of a question with an answer, which several ask for: <v, J u> and <J^T v, u>."""

from __future__ import annotations

from gradproof.core.investigation import Investigation
from gradproof.core.norm import products
from gradproof.core.types import Vector

# Both of them, and no more: what they are made of is kept with them.
_KEPT = 2


class Paired:
    """`products` of vectors that nobody writes to, found once while the same are asked for.

    Asked through `Investigation.once`.
    """

    def __init__(self, _: Investigation) -> None:
        self._found: list[tuple[Vector, Vector, tuple[float, float]]] = []

    def of(self, left: Vector, right: Vector) -> tuple[float, float]:
        """The sum of the products, and their Euclidean norm."""
        for one, other, found in self._found:
            if one is left and other is right:
                return found
        made = products(left, right)
        self._found = [*self._found, (left, right, made)][-_KEPT:]
        return made
