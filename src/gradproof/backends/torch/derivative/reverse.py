"""Reverse mode: J^T v through the graph of the outputs, in every way that properties ask for it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gradproof.backends.torch.derivative.gradients import Gradients
from gradproof.backends.torch.derivative.graph import Graph
from gradproof.backends.torch.derivative.outputs import Outputs
from gradproof.backends.torch.derivative.pull import pull
from gradproof.backends.torch.derivative.vmap import pull_rows
from gradproof.backends.torch.memory.watch import Watch
from gradproof.backends.torch.private import undefined
from gradproof.backends.torch.tensors.coordinates import build_batch
from gradproof.backends.torch.tensors.point import Point
from gradproof.backends.torch.words import cotangent_of
from gradproof.core.capabilities import MemoryLayout, Watched
from gradproof.core.norm import PART
from gradproof.core.space import alike
from gradproof.core.types import Matrix, Vector


class _Undefined(torch.autograd.Function):
    """`private.undefined` of a long tensor, without a copy of it: that takes a hundredth of a check of a million."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None


class Reverse:
    """The backward of the outputs with respect to the tensors under test."""

    def __init__(self, point: Point, outputs: Outputs, graph: Graph) -> None:
        self._point, self._outputs, self.graph = point, outputs, graph

    def inspect(self, cotangent: Vector) -> Gradients:
        """The gradients, to be looked at."""
        return self.graph.ask(lambda outputs: self._shown(cotangent, outputs))

    def _shown(self, cotangent: Vector, outputs: Sequence[torch.Tensor]) -> Gradients:
        cotangents = self._outputs.build(cotangent)
        return Gradients(self._point, self._outputs, cotangent, cotangents, self._pull(outputs, cotangents))

    def vjp(self, cotangent: Vector) -> Vector:
        """J^T v; zeros where no output is connected to an input."""
        if not self._outputs.connected:
            return np.zeros(self._point.space.size)
        return self.graph.ask(lambda outputs: self._gathered(outputs, self._outputs.build(cotangent)))

    def first_not_finite(self, cotangent: Vector) -> str:
        """The node of the graph that first returns NaN, as torch's anomaly mode tells; nothing where it does not."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with torch.autograd.detect_anomaly(check_nan=True):
                    self.vjp(cotangent)
        except RuntimeError as error:
            told = re.search(r"Function '(\w+)' returned nan values", str(error))
            return "" if told is None else told[1]
        return ""

    def without(
        self, cotangent: Vector, absent: frozenset[int], layout: MemoryLayout = MemoryLayout.CONTIGUOUS
    ) -> Vector:
        """J^T v, where the cotangents of some outputs are not there at all."""
        blocks, frames, identity = self._outputs.space.blocks, self._outputs.frames, undefined()

        def pulled(tensors: Sequence[torch.Tensor]) -> Vector:
            outputs: list[torch.Tensor] = []
            cotangents: list[torch.Tensor] = []
            for i, (output, frame, block) in enumerate(zip(tensors, frames, blocks, strict=True)):
                if i in absent and frame.can_be_undefined:
                    is_long = type(output) is torch.Tensor and output.numel() > PART
                    outputs.append(_Undefined.apply(output) if is_long else identity(output))
                    cotangents.append(output)  # whatever it is, it is not passed on
                else:
                    outputs.append(output)
                    cotangents.append(frame.build_in(layout, cotangent[block.slice]))
            gradients, size = self._pull(outputs, cotangents), self._point.space.size
            none = size > PART and all(gradient is None for gradient in gradients)
            return alike(size, 0.0) if none else self._point.gather(gradients)

        return self.graph.ask(pulled)

    def arranged(self, cotangent: Vector, layout: MemoryLayout) -> Vector:
        """J^T v for cotangents in a memory layout."""
        return self.graph.ask(lambda outputs: self._gathered(outputs, self._outputs.build_in(layout, cotangent)))

    def watched(self, cotangent: Vector, layout: MemoryLayout) -> Watched:
        """The same with a watch on the cotangents, on the inputs and on what hand-written Functions saved."""
        watched = self.graph.ask(
            lambda outputs: self._watched(outputs, self._outputs.build_in(layout, cotangent)), watched=True
        )
        return watched.and_also(self.graph.consumed())

    def _watched(self, outputs: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]) -> Watched:
        anew = self.graph.anew  # then the function itself may have written to its inputs
        inputs = [(leaf.block.label, leaf.tensor) for leaf in self._point.leaves] if anew else []
        watch = Watch([*inputs, *zip(map(cotangent_of, self._outputs.space.blocks), cotangents, strict=True)])
        gradient = self._gathered(outputs, cotangents)
        moved = [] if anew else [leaf.block.label for leaf in self._point.overwritten()]
        return Watched(gradient, (*moved, *watch.changed()))

    def batched(self, cotangents: Matrix) -> Matrix:
        """J^T v for many cotangents, one row each, through vmap."""
        if self.graph.anew:
            raise NotImplementedError("a graph that answers once has no batches")
        blocks = self._outputs.space.blocks

        def pulled(outputs: Sequence[torch.Tensor]) -> Matrix:
            stacked = [
                build_batch(cotangents[:, block.slice], tensor) for block, tensor in zip(blocks, outputs, strict=True)
            ]
            with self.graph.watching:
                gradients = pull_rows(outputs, self._point.tensors, stacked)
            return self._point.gather_rows(gradients, len(cotangents))

        return self.graph.ask(pulled)

    def _gathered(self, outputs: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]) -> Vector:
        return self._point.gather(self._pull(outputs, cotangents))

    def _pull(
        self, outputs: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor | None, ...]:
        with self.graph.watching:
            return pull(outputs, self._point.tensors, cotangents)
