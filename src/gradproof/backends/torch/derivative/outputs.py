"""The outputs of a call: which of them count, their form, their coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch

from gradproof.backends.torch.calls import flatten_outputs, is_floating
from gradproof.backends.torch.derivative.widening import wide
from gradproof.backends.torch.memory.holders import is_ours
from gradproof.backends.torch.tensors.coordinates import read
from gradproof.backends.torch.tensors.frames import output_frame
from gradproof.backends.torch.tensors.leaves import space_of
from gradproof.core.capabilities import MemoryLayout
from gradproof.core.norm import PART
from gradproof.core.problem import OutputChangedError
from gradproof.core.types import Matrix, Vector

NameOutputs = Callable[[list[int]], list[str]]
"""Names for the outputs with these numbers."""


def nameless(chosen: list[int]) -> list[str]:
    """Outputs have no names."""
    return [""] * len(chosen)


class Outputs:
    """The outputs of the first call, with the graph that every vjp uses.

    Those with a graph count; where none has one, all that could.
    """

    def __init__(self, everything: Sequence[Any], masked: bool, names: NameOutputs = nameless) -> None:
        with_graph = [i for i, o in enumerate(everything) if isinstance(o, torch.Tensor) and o.requires_grad]
        constant = [i for i, o in enumerate(everything) if _is_constant(o)]
        self.connected = bool(with_graph)
        self.left_out = constant if with_graph else []
        """Those that count as constant because they have no graph, while others have one."""
        self.count, self.chosen = len(everything), with_graph or constant
        self.tensors: list[torch.Tensor] = [everything[i] for i in self.chosen]
        self.here = self.tensors
        """What holds their values: themselves, unless they may lie in the memory of inputs that are put back."""
        self.frames = [output_frame(o, masked) for o in self.tensors]
        self._signature = [(o.shape, o.dtype) for o in self.tensors]
        kinds = ["output"] * len(self.chosen)
        self.space = space_of(kinds, self.chosen, names(self.chosen), self.frames)
        self.batches = all(frame.batches for frame in self.frames)
        """Whether vmap can carry all of them."""

    def keep(self, everything: Sequence[Any]) -> Outputs:
        """These, with values read from what is kept of all outputs."""
        self.here = [everything[i] for i in self.chosen]
        return self

    def pick(self, output: Any, *, widened: bool = False, remark: str = "") -> list[torch.Tensor]:
        """Those that count of what another call returned; of double precision if `widened`.

        Raises `OutputChangedError`, with the remark, if their number or form is another one.
        """
        everything = flatten_outputs(output)
        if len(everything) != self.count:
            raise OutputChangedError(
                f"the function returned {self.count} outputs at the inputs given, but {len(everything)} when they "
                "were moved a little. Its number of outputs must not depend on the values of its inputs."
            )
        picked = [everything[i] for i in self.chosen]
        for index, (shape, dtype), tensor in zip(self.chosen, self._signature, picked, strict=True):
            if tensor.shape != shape or tensor.dtype != (wide(dtype) if widened else dtype):
                raise OutputChangedError(
                    f"output {index} has shape {tuple(shape)} and dtype {dtype} at the inputs given, but shape "
                    f"{tuple(tensor.shape)} and dtype {tensor.dtype} when they were moved a little. "
                    f"The form of an output must not depend on the values of the inputs.{remark}"
                )
        return picked

    def handed_over(self, tensors: Sequence[torch.Tensor]) -> Vector:
        """The coordinates of new outputs. They are writeable if this memory is nobody else's."""
        if len(tensors) != 1:
            return self.read(tensors)
        ours, values = is_ours(tensors), self.frames[0].read(tensors[0])
        if not ours:
            values.flags.writeable = False
        return values

    def look(self, tensors: Sequence[torch.Tensor]) -> Vector:
        """The coordinates of tensors that stand for the outputs. They may share memory with a single one."""
        return self.frames[0].read(tensors[0]) if len(tensors) == 1 else self.read(tensors)

    def read(self, tensors: Sequence[torch.Tensor | None]) -> Vector:
        """A copy of these; those that are not there are zero."""
        if len(tensors) == 1 and tensors[0] is not None:
            if self.space.size <= PART:
                return self.frames[0].read(tensors[0]).copy()
            return self.frames[0].take(cast(Sequence[torch.Tensor], tensors))
        values = np.zeros(self.space.size)
        for block, frame, tensor in zip(self.space.blocks, self.frames, tensors, strict=True):
            if tensor is not None:
                values[block.slice] = frame.read(tensor)
        return values

    def read_rows(self, tensors: Sequence[torch.Tensor]) -> Matrix:
        """The coordinates of batches of outputs, one row each."""
        rows = [read(tensor).reshape(tensor.shape[0], -1) for tensor in tensors]
        if len(rows) == 1:
            return rows[0]
        return np.concatenate(rows, axis=1) if rows else np.empty((0, self.space.size))

    def build(self, cotangent: Vector) -> list[torch.Tensor]:
        """A cotangent as one tensor for each output."""
        pairs = zip(self.space.blocks, self.frames, strict=True)
        return [frame.build(cotangent[block.slice]) for block, frame in pairs]

    def build_in(self, layout: MemoryLayout, cotangent: Vector) -> list[torch.Tensor]:
        """The same in a memory layout."""
        pairs = zip(self.space.blocks, self.frames, strict=True)
        return [frame.build_in(layout, cotangent[block.slice]) for block, frame in pairs]


def _is_constant(output: Any) -> bool:
    """A tensor that could have a graph and has none."""
    return isinstance(output, torch.Tensor) and not output.requires_grad and is_floating(output)
