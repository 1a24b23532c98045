"""Reverse mode: J^T v through the graph of the outputs, in every way that properties ask for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from gradproof.backends.torch.derivative.gradients import Gradients
from gradproof.backends.torch.derivative.outputs import Outputs
from gradproof.backends.torch.derivative.pull import pull
from gradproof.backends.torch.derivative.vmap import pull_rows
from gradproof.backends.torch.memory.arrangement import arrange
from gradproof.backends.torch.memory.sharing import memory_of
from gradproof.backends.torch.memory.watch import Watch, hand_written, saved_tensors
from gradproof.backends.torch.private import undefined
from gradproof.backends.torch.tensors.coordinates import build_batch, read
from gradproof.backends.torch.tensors.point import Point
from gradproof.backends.torch.words import cotangent_of
from gradproof.core.capabilities import MemoryLayout, Watched
from gradproof.core.types import Matrix, Vector


class Reverse:
    """The backward of the outputs with respect to the tensors under test."""

    def __init__(self, point: Point, outputs: Outputs) -> None:
        self._point, self._outputs = point, outputs
        self._hand_written = hand_written(outputs.tensors)

    def inspect(self, cotangent: Vector) -> Gradients:
        """The gradients, to be looked at."""
        cotangents = self._outputs.build(cotangent)
        gradients = self._pull(self._outputs.tensors, cotangents)
        return Gradients(self._point, self._outputs, cotangent, cotangents, gradients)

    def vjp(self, cotangent: Vector) -> Vector:
        """J^T v; zeros where no output is connected to an input."""
        if not self._outputs.connected:
            return np.zeros(self._point.space.size)
        return self._gathered(self._outputs.tensors, self._outputs.build(cotangent))

    def without(self, cotangent: Vector, absent: frozenset[int]) -> Vector:
        """J^T v, where the cotangents of some outputs are not there at all."""
        tensors, frames, identity = self._outputs.tensors, self._outputs.frames, undefined()
        outputs = [
            identity(output) if i in absent and frame.can_be_undefined else output
            for i, (output, frame) in enumerate(zip(tensors, frames, strict=True))
        ]
        return self._gathered(outputs, self._outputs.build(cotangent))

    def arranged(self, cotangent: Vector, layout: MemoryLayout) -> Vector:
        """J^T v for cotangents in a memory layout."""
        return self._gathered(self._outputs.tensors, self._arrange(cotangent, layout))

    def watched(self, cotangent: Vector, layout: MemoryLayout) -> Watched:
        """The same with a watch on the cotangents, on the inputs and on what hand-written Functions saved."""
        cotangents = self._arrange(cotangent, layout)
        named = zip(map(cotangent_of, self._outputs.space.blocks), cotangents, strict=True)
        watch = Watch([*named, *self._saved()])
        try:
            gradient = self._point.gather(pull(self._outputs.tensors, self._point.tensors, cotangents))
            overwritten = [leaf.block.label for leaf in self._point.overwritten()]
        finally:
            self._restore()
        return Watched(gradient, tuple(dict.fromkeys((*overwritten, *watch.changed()))))

    def batched(self, cotangents: Matrix) -> Matrix:
        """J^T v for many cotangents, one row each, through vmap."""
        outputs = self._outputs
        stacked = [
            build_batch(cotangents[:, block.slice], tensor)
            for block, tensor in zip(outputs.space.blocks, outputs.tensors, strict=True)
        ]
        try:
            gradients = pull_rows(outputs.tensors, self._point.tensors, stacked)
        finally:
            self._restore()
        rows = np.zeros((len(cotangents), self._point.space.size))
        for block, gradient in zip(self._point.blocks, gradients, strict=True):
            if gradient is not None:
                rows[:, block.slice] = read(gradient).reshape(len(cotangents), -1)
        return rows

    def _arrange(self, cotangent: Vector, layout: MemoryLayout) -> list[torch.Tensor]:
        return [arrange(tensor, layout) for tensor in self._outputs.build(cotangent)]

    def _gathered(self, outputs: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]) -> Vector:
        return self._point.gather(self._pull(outputs, cotangents))

    def _pull(
        self, outputs: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor | None, ...]:
        try:
            return pull(outputs, self._point.tensors, cotangents)
        finally:
            self._restore()

    def _restore(self) -> None:
        """Put the inputs back, to which a backward that is not PyTorch's own may have written."""
        if self._hand_written:
            self._point.restore()

    def _saved(self) -> list[tuple[str, torch.Tensor]]:
        """What hand-written Functions saved, but for inputs, which are looked at anyway."""
        if not self._hand_written:
            return []
        inputs = [memory_of(tensor) for tensor in self._point.tensors]
        return [(name, tensor) for name, tensor in saved_tensors(self._hand_written) if memory_of(tensor) not in inputs]
