"""A backend with `evaluate` and `vjp` alone: functions of named NumPy arrays, with a gradient written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.core.problem import Problem
from gradproof.core.space import Block, Space
from gradproof.core.words import Words

WORDS = Words(reverse="your pull", cotangent="the seed", nonlinear="keep the pull linear in {probe}")


@dataclass(frozen=True)
class Pulling:
    """`function(**arrays)` is an array; `pull(seed, **arrays)` gives the gradient of <seed, function> by name."""

    function: Callable[..., Any]
    pull: Callable[..., Mapping[str, Any]]

    def problem(self, **arrays: Any) -> Problem:
        blocks: list[Block] = []
        for index, (name, array) in enumerate(arrays.items()):
            start = blocks[-1].stop if blocks else 0
            blocks.append(Block("input", index, name, array.shape, 1, start, np.finfo(array.dtype).eps))
        space = Space(tuple(blocks))
        value = self.function(**arrays)

        def unpacked(point: Any) -> dict[str, Any]:
            return {block.name: point[block.slice].reshape(block.shape) for block in space.blocks}

        def vjp(cotangent: Any) -> Any:
            gradients = self.pull(cotangent.reshape(value.shape), **arrays)
            return np.concatenate([np.ravel(gradients[block.name]) for block in space.blocks])

        return Problem(
            inputs=space,
            outputs=Space((Block("output", 0, "", value.shape, 1, 0, np.finfo(value.dtype).eps),)),
            point=np.concatenate([np.ravel(array) for array in arrays.values()]),
            value=np.ravel(value),
            evaluate=lambda point: np.ravel(self.function(**unpacked(point))),
            vjp=vjp,
            words=WORDS,
        )
