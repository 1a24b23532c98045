"""The outputs of a call: which of them count, their form, their coordinates."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
from jax import tree_util

from gradproof.backends.jax.arrays import Model, Name, Row, is_floating
from gradproof.core.problem import OutputChangedError


class Outputs:
    """The outputs of the first call: those of floating-point numbers count."""

    def __init__(self, output: Any) -> None:
        found, self._tree = tree_util.tree_flatten_with_path(output)
        leaves = [_as_number(leaf) for _, leaf in found]
        self.chosen = [i for i, leaf in enumerate(leaves) if is_floating(leaf)]
        self.left_out = [_described(i, leaf) for i, leaf in enumerate(leaves) if i not in self.chosen]
        """Those that do not, in words."""
        names = [Name("output", i, _name(found[i][0])) for i in self.chosen]
        self.row = Row(names, [Model.of(leaves[i])._replace(sharding=None) for i in self.chosen])

    @property
    def key(self) -> Hashable:
        """What `pick` rests on."""
        return self._tree, tuple(self.chosen), self.row.models

    def pick(self, output: Any, row: Row) -> tuple[Any, ...]:
        """Those that count of what another call returned. Raises `OutputChangedError` if they are not as in the row."""
        leaves, tree = tree_util.tree_flatten(output)
        if tree != self._tree and str(tree) != str(self._tree):  # a class may be made anew by every call
            raise OutputChangedError(
                f"the function returned {self._tree} at the inputs given, but {tree} when they were moved a little. "
                "The form of its output must not depend on the values of its inputs."
            )
        picked = tuple(_as_number(leaves[i]) for i in self.chosen)
        for index, model, array in zip(self.chosen, row.models, picked, strict=True):
            if array.shape != model.shape or array.dtype != model.dtype:
                raise OutputChangedError(
                    f"output {index} has shape {model.shape} and dtype {model.dtype} at the inputs given, but shape "
                    f"{array.shape} and dtype {array.dtype} when they were moved a little. "
                    "The form of an output must not depend on the values of the inputs."
                )
        return picked


def _name(path: tuple[Any, ...]) -> str:
    """Where in the output it is; of a plain tuple or list, the number tells as much."""
    if len(path) == 1 and isinstance(path[0], tree_util.SequenceKey):
        return ""
    return tree_util.keystr(path).removeprefix(".")


def _as_number(leaf: Any) -> Any:
    """A number of Python is what JAX makes of it."""
    return jnp.asarray(leaf) if isinstance(leaf, float | complex) else leaf


def _described(index: int, leaf: Any) -> str:
    kind = str(leaf.dtype) if isinstance(leaf, jax.Array) else type(leaf).__name__
    return f"output {index} ({kind}, not differentiable)"
