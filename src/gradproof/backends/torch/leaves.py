"""The differentiable arguments of a call, and how to move them.

A function may read its inputs by closure instead of by argument, so the user's own tensors are moved, in place, and
put back. Writing goes around autograd and the version counters: graphs built before the check stay valid.
"""

from __future__ import annotations

import numpy as np
import torch

from gradproof.backends.torch.coordinates import build, read
from gradproof.core.space import Block
from gradproof.core.types import Vector


class Leaf:
    """One differentiable tensor: moved in place through PyTorch, on any device and of any dtype."""

    def __init__(self, tensor: torch.Tensor, position: int, block: Block) -> None:
        self.tensor, self.position, self.block = tensor, position, block
        self.base = np.array(read(tensor))
        self.moved: torch.Tensor | None = None
        """What stands in for the tensor while it is moved; None: the tensor itself, moved in place."""

    def write(self, coordinates: Vector) -> None:
        self.tensor.data.copy_(build(coordinates, self.tensor))

    def restore(self) -> None:
        self.write(self.base)

    def is_untouched(self) -> bool:
        """Whether the tensor holds what it held at first, bit for bit."""
        return read(self.tensor).tobytes() == self.base.tobytes()


class ArrayLeaf(Leaf):
    """A tensor in ordinary memory that NumPy can view: moving it is one copy."""

    def __init__(self, tensor: torch.Tensor, position: int, block: Block) -> None:
        self.tensor, self.position, self.block, self.moved = tensor, position, block, None
        plain = tensor.detach()
        self._view = (torch.view_as_real(plain) if block.parts == 2 else plain).numpy()
        self._original = self._view.copy()
        self.base = self._original.reshape(-1).astype(np.float64)

    def write(self, coordinates: Vector) -> None:
        np.copyto(self._view, coordinates.reshape(self._view.shape), casting="same_kind")

    def restore(self) -> None:
        np.copyto(self._view, self._original)

    def is_untouched(self) -> bool:
        return self._view.tobytes() == self._original.tobytes()


class PackedLeaf(Leaf):
    """A tensor in an opaque layout (MKL-DNN): it cannot be moved in place, so a repacked copy stands in for it."""

    def write(self, coordinates: Vector) -> None:
        dense = build(coordinates, self.tensor.detach().to_dense())
        self.moved = dense.to_mkldnn().requires_grad_()  # pyright: ignore[reportUnknownMemberType]

    def restore(self) -> None:
        self.moved = None


_NUMPY = {torch.float64, torch.float32, torch.float16, torch.complex128, torch.complex64}


def make_leaf(tensor: torch.Tensor, position: int, block: Block) -> Leaf:
    """The leaf that suits a tensor's memory."""
    if tensor.layout is torch._mkldnn:  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
        return PackedLeaf(tensor, position, block)
    lazy = tensor.is_conj() or tensor.is_neg()
    if tensor.device.type == "cpu" and tensor.dtype in _NUMPY and not lazy:
        return ArrayLeaf(tensor, position, block)
    return Leaf(tensor, position, block)


def move_together(leaves: list[Leaf]) -> bool:
    """Whether moving one leaf may move another."""
    storages = [leaf.tensor.untyped_storage().data_ptr() for leaf in leaves if not isinstance(leaf, PackedLeaf)]
    return len(set(storages)) < len(storages)
