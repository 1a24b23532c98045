"""The point: the tensors under test as one vector of coordinates, moved in place and put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.tensors.coordinates import build, build_batch, read
from gradproof.backends.torch.tensors.leaves import Leaf, StandIn, find_leaves, move_together
from gradproof.core.norm import PART
from gradproof.core.space import Block
from gradproof.core.types import Matrix, Vector


class Point:
    """The tensors under test of a call, where the user left them."""

    def __init__(self, call: Call, masked: bool) -> None:
        """`masked` leaves out what sparse tensors do not specify."""
        self.leaves, self.space = find_leaves(call, masked)
        self.tensors = [leaf.tensor for leaf in self.leaves]
        self.blocks = self.space.blocks
        bases = [leaf.base for leaf in self.leaves]
        self.coordinates = bases[0] if len(bases) == 1 else np.concatenate(bases) if bases else np.empty(0)
        self.moves_together = move_together(self.leaves)
        """Moving one input moves another: a tangent of one of them is not the derivative of moving it."""
        self.stand_ins = [leaf for leaf in self.leaves if isinstance(leaf, StandIn)]
        """Those that cannot be moved in place."""
        self.batches = all(leaf.frame.batches for leaf in self.leaves)
        """Whether vmap can carry all of them."""

    def move(self, coordinates: Vector) -> None:
        """Write other coordinates into the user's tensors."""
        if self.moves_together:
            self._shift_each(coordinates)
        else:
            for leaf in self.leaves:
                leaf.write(coordinates[leaf.block.slice])

    def step(self, direction: Vector, step: float) -> None:
        """Move the user's tensors by a step along a direction from where they were, each by itself."""
        for leaf in self.leaves:
            leaf.step(direction[leaf.block.slice], step)

    def _shift_each(self, coordinates: Vector) -> None:
        """Where memory is shared, the shifts of all add up; a tensor that was passed twice has as many stand-ins."""
        self.restore()
        for leaf in self.leaves:
            shift = coordinates[leaf.block.slice] - leaf.base
            if shift.any():
                for other in [twin for twin in self.stand_ins if twin.tensor is leaf.tensor] or [leaf]:
                    other.write(other.current() + shift)

    def restore(self) -> None:
        """Put the user's tensors back."""
        for leaf in self.leaves:
            leaf.restore()

    def overwritten(self) -> list[Leaf]:
        """Those that hold something else than they did."""
        return [leaf for leaf in self.leaves if not leaf.is_untouched()]

    def standing_in(self) -> dict[int, torch.Tensor]:
        """By their positions in the call, what stands in for tensors while they are moved."""
        return {leaf.position: leaf.moved for leaf in self.stand_ins if leaf.moved is not None}

    def placed(self, tensors: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
        """Tensors in place of those under test, by their positions in the call."""
        return {leaf.position: tensor for leaf, tensor in zip(self.leaves, tensors, strict=True)}

    def build_rows(
        self, rows: Matrix, run: slice, still: frozenset[int], models: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Rows of the coordinates of a run as batches of tensors like the models; those in `still` are single."""
        return [
            build(leaf.base, model) if k in still else build_batch(rows[:, _within(leaf.block, run)], model)
            for k, (leaf, model) in enumerate(zip(self.leaves, models, strict=True))
        ]

    def gather(self, gradients: Sequence[torch.Tensor | None]) -> Vector:
        """The coordinates of gradients; those that are not there are zero."""
        if len(gradients) == 1 and gradients[0] is not None:
            if self.space.size <= PART:  # a hundredth of a small check
                return self.leaves[0].frame.read(gradients[0]).copy()
            return self.leaves[0].frame.take(cast(Sequence[torch.Tensor], gradients))
        result = np.zeros(self.space.size)
        for leaf, gradient in zip(self.leaves, gradients, strict=True):
            if gradient is not None:
                result[leaf.block.slice] = leaf.frame.read(gradient)
        return result

    def gather_rows(self, gradients: Sequence[torch.Tensor | None], count: int) -> Matrix:
        """The same of batches of so many gradients, one row each."""
        if len(gradients) == 1 and gradients[0] is not None:
            return read(gradients[0]).reshape(count, -1).copy()
        rows = np.zeros((count, self.space.size))
        for block, gradient in zip(self.blocks, gradients, strict=True):
            if gradient is not None:
                rows[:, block.slice] = read(gradient).reshape(count, -1)
        return rows


def _within(block: Block, run: slice) -> slice:
    """Where the coordinates of a block lie in a run."""
    start = run.start or 0
    return slice(block.start - start, block.stop - start)
