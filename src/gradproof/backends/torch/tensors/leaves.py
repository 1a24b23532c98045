"""The differentiable arguments of a call, and how to move them.

A function may read its inputs by closure instead of by argument, so the user's own tensors are moved, in place, and
put back. Writing goes around autograd and the version counters: graphs built before the check stay valid.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np
import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.memory.sharing import has_memory, share_memory
from gradproof.backends.torch.private import masked_parts
from gradproof.backends.torch.tensors.coordinates import NUMPY, build, read
from gradproof.backends.torch.tensors.frames import (
    BlockKind,
    Frame,
    MaskedFrame,
    PackedFrame,
    PatternFrame,
    WholeFrame,
    input_frame,
)
from gradproof.backends.torch.tensors.sparse import values_of
from gradproof.core.space import Block, Space
from gradproof.core.types import Vector

_SMALL = 4096
"""Bytes that are copied to be compared: in place, that takes 4 µs more."""


class Leaf:
    """One differentiable tensor, on any device and of any dtype, moved in place through PyTorch.

    `memory` is the strided tensor that holds its coordinates: the tensor itself, or the values of a sparse one.
    """

    def __init__(self, tensor: torch.Tensor, position: int, block: Block, frame: Frame, memory: torch.Tensor) -> None:
        self.tensor, self.position, self.block, self.frame, self.memory = tensor, position, block, frame, memory
        self.moved: torch.Tensor | None = None
        """What stands in for the tensor while it is moved; None: the tensor itself, moved in place."""
        self._keep()

    def _keep(self) -> None:
        self.base: Vector = np.array(read(self.memory))

    def write(self, coordinates: Vector) -> None:
        self.memory.copy_(build(coordinates, self.memory))

    def step(self, direction: Vector, step: float) -> None:
        """Write what lies a step along a direction from where it was."""
        self.write(self.base + step * direction)

    def restore(self) -> None:
        self.write(self.base)

    def is_untouched(self) -> bool:
        """Whether the tensor holds what it held at first, bit for bit."""
        return self.current().tobytes() == self.base.tobytes()

    def current(self) -> Vector:
        """The coordinates as they are now."""
        return read(self.memory)


class ArrayLeaf(Leaf):
    """A tensor in ordinary memory that NumPy can view: moving it is one copy."""

    def _keep(self) -> None:
        self._view = (torch.view_as_real(self.memory) if self.block.parts == 2 else self.memory).numpy()
        self._original = self._view.copy()
        self.base = self._original.reshape(-1).astype(np.float64, copy=False)

    def write(self, coordinates: Vector) -> None:
        self._view[...] = coordinates.reshape(self._view.shape)

    def step(self, direction: Vector, step: float) -> None:
        if not self._view.flags.c_contiguous or self._view.dtype != np.float64:
            super().step(direction, step)
            return
        # without a copy, in one pass; all of these are views
        base, along = (torch.from_numpy(values) for values in (self.base, direction))
        torch.add(base, along, alpha=step, out=torch.from_numpy(self._view.reshape(-1)))

    def restore(self) -> None:
        self._view[...] = self._original

    def is_untouched(self) -> bool:
        now, then = self._view, self._original
        if now.nbytes > _SMALL and now.flags.c_contiguous and then.flags.c_contiguous:  # without a copy
            whole = np.uint64 if now.dtype == np.float64 else np.uint8  # eight at a time take half as long
            return np.array_equal(now.reshape(-1).view(whole), then.reshape(-1).view(whole))
        return now.tobytes() == then.tobytes()


class MaskedLeaf(Leaf):
    """A MaskedTensor: only the specified elements of its memory are moved."""

    def _keep(self) -> None:
        self._original = self.memory.clone()
        self.base = np.array(self.frame.read(self.tensor))

    def write(self, coordinates: Vector) -> None:
        self.memory.copy_(torch.where(self._mask, masked_parts()(self.frame.build(coordinates))[0], self._original))

    def restore(self) -> None:
        self.memory.copy_(self._original)

    def current(self) -> Vector:
        return np.array(self.frame.read(self.tensor))

    @property
    def _mask(self) -> torch.Tensor:
        return masked_parts()(self.tensor)[1]


class StandIn(Leaf):
    """A tensor in an opaque layout (MKL-DNN): it cannot be moved in place, so that a copy stands in for it."""

    def _keep(self) -> None:
        self.base = np.array(self.frame.read(self.tensor))

    def write(self, coordinates: Vector) -> None:
        self.moved = self.frame.build(coordinates).requires_grad_()

    def restore(self) -> None:
        self.moved = None

    def current(self) -> Vector:
        return self.base if self.moved is None else np.array(self.frame.read(self.moved))


class SparseStandIn(StandIn):
    """A sparse tensor of which also those elements are to be moved that it does not store.

    Its own values are put back all the same: the function gets it too, for the derivative under test.
    """

    def _keep(self) -> None:
        super()._keep()
        self._original = self.memory.clone()

    def restore(self) -> None:
        super().restore()
        self.memory.copy_(self._original)


def make_leaf(tensor: torch.Tensor, position: int, block: Block, frame: Frame) -> Leaf:
    """The leaf that suits a tensor's memory."""
    if isinstance(frame, PackedFrame):
        return StandIn(tensor, position, block, frame, tensor)
    if isinstance(frame, WholeFrame):
        return SparseStandIn(tensor, position, block, frame, values_of(tensor))
    if isinstance(frame, MaskedFrame):
        return MaskedLeaf(tensor, position, block, frame, masked_parts()(tensor)[0])
    memory = values_of(tensor) if isinstance(frame, PatternFrame) else tensor.data
    plain = memory.is_cpu and memory.dtype in NUMPY and not (memory.is_conj() or memory.is_neg())
    kind = ArrayLeaf if plain else Leaf
    return kind(tensor, position, block, frame, memory)


def move_together(leaves: list[Leaf]) -> bool:
    """Whether moving one leaf may move another."""
    if len(leaves) < 2:
        return False
    memories = [leaf.memory for leaf in leaves if not isinstance(leaf.frame, PackedFrame)]
    if len({memory.untyped_storage().data_ptr() for memory in memories}) == len(memories):
        return False
    return any(_may_move(one, other) for one, other in itertools.combinations(memories, 2))


def _may_move(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether moving one moves the other: parts of one tensor side by side do not. Who cannot tell may."""
    if has_memory(one) and has_memory(other):
        return one is other or share_memory(one, other)
    address = one.untyped_storage().data_ptr()
    return address == other.untyped_storage().data_ptr() != 0


def space_of(kinds: Sequence[str], indices: Sequence[int], names: Sequence[str], frames: Sequence[Frame]) -> Space:
    """Blocks one behind the other. Those of whole tensors are kept: to make them is 3 % of a small check's bytecode."""
    forms = tuple([frame.kind for frame in frames])
    make = _kept_space if all(form.elements is None for form in forms) else _space
    return make(tuple(kinds), tuple(indices), tuple(names), forms)


def _space(
    kinds: tuple[str, ...], indices: tuple[int, ...], names: tuple[str, ...], forms: tuple[BlockKind, ...]
) -> Space:
    blocks: list[Block] = []
    for kind, index, name, form in zip(kinds, indices, names, forms, strict=True):
        blocks.append(form.block(kind, index, name, blocks[-1].stop if blocks else 0))
    return Space(tuple(blocks))


_kept_space = functools.lru_cache(maxsize=256)(_space)


def find_leaves(call: Call, masked: bool = False) -> tuple[list[Leaf], Space]:
    """The tensors under test, ready to be moved, and the space of their coordinates."""
    found = call.differentiable()
    names, tensors = call.names(), [call.flat[i] for i in found]
    frames = [input_frame(tensor, masked) for tensor in tensors]
    space = space_of([call.kind(i) for i in found], [call.origins[i] for i in found], [names[i] for i in found], frames)
    parts = zip(tensors, found, space.blocks, frames, strict=True)
    return [make_leaf(tensor, i, block, frame) for tensor, i, block, frame in parts], space
