"""Sparse tensors as a pattern and its values, the same for every layout.

A `Pattern` is what a sparse tensor is besides its values: layout, shape and indices. It knows where in the shape each
stored number lies, so that nothing outside this module asks which layout a tensor has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradproof.backends.torch.private import coordinate_parts
from gradproof.core.types import Indices, Matrix, Vector

_BY_ROW = {torch.sparse_csr, torch.sparse_bsr}
BLOCKED = {torch.sparse_bsr, torch.sparse_bsc}
COMPRESSED = _BY_ROW | BLOCKED | {torch.sparse_csc}
LAYOUTS = COMPRESSED | {torch.sparse_coo}


def is_sparse(value: Any) -> bool:
    """Whether this is a tensor of any sparse layout."""
    return isinstance(value, torch.Tensor) and value.layout in LAYOUTS


def values_of(tensor: torch.Tensor) -> torch.Tensor:
    """The stored values of a sparse tensor, as a strided tensor that shares their memory, outside of any graph."""
    values = coordinate_parts()(tensor)[1] if tensor.layout is torch.sparse_coo else tensor.data.values()
    return values.data  # no view of the sparse tensor, of which torch would make no other view


def layout_name(tensor: torch.Tensor) -> str:
    """The layout in words; of a sparse one also how its dimensions are divided, which is a part of it."""
    name = str(tensor.layout).removeprefix("torch.")
    if tensor.layout not in LAYOUTS:
        return name
    return f"{name} (sparse_dim {tensor.sparse_dim()}, dense_dim {tensor.dense_dim()})"


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Where a sparse tensor has values.

    `indices` are the layout's own: one tensor for COO, the compressed and the plain ones for the others. `unique`
    says that no element is stored twice.
    """

    layout: torch.layout
    shape: torch.Size
    indices: tuple[torch.Tensor, ...]
    model: torch.Tensor
    """The values that the pattern was read from."""
    unique: bool

    @staticmethod
    def of(tensor: torch.Tensor) -> Pattern:
        plain = tensor.data
        if tensor.layout is torch.sparse_coo:
            indices, unique = (coordinate_parts()(tensor)[0],), plain.is_coalesced()
        elif tensor.layout in _BY_ROW:
            indices, unique = (plain.crow_indices(), plain.col_indices()), True
        else:
            indices, unique = (plain.ccol_indices(), plain.row_indices()), True
        return Pattern(tensor.layout, tensor.shape, indices, values_of(tensor), unique)

    @staticmethod
    def without_holes(like: torch.Tensor) -> Pattern:
        """The pattern of a tensor of this layout, shape, block size and dtype that stores every element."""
        every = torch.ones(like.shape, dtype=torch.bool, device=like.device)
        if like.layout is torch.sparse_coo:
            whole = every.to_sparse(like.sparse_dim())
        else:
            whole = every.to_sparse(layout=like.layout, blocksize=_block_size(like), dense_dim=like.dense_dim())
        return Pattern.of(whole.to(like.dtype))

    def fill(self, values: torch.Tensor) -> torch.Tensor:
        """The sparse tensor with these values; differentiable in them."""
        if self.layout is torch.sparse_coo:
            return torch.sparse_coo_tensor(
                self.indices[0], values, self.shape, is_coalesced=self.unique, check_invariants=False
            )
        compressed, plain = self.indices
        return torch.sparse_compressed_tensor(
            compressed, plain, values, self.shape, layout=self.layout, check_invariants=False
        )

    def has_indices_of(self, other: Pattern) -> bool:
        """Whether two patterns store the same elements in the same order."""
        return (
            self.layout is other.layout
            and self.model.shape == other.model.shape
            and all(a is b or torch.equal(a, b) for a, b in zip(self.indices, other.indices, strict=True))
        )

    def flat(self) -> Indices:
        """For each stored number, in the order of the values, the row-major number of its element in the shape."""
        flat = self._flat_coordinates() if self.layout is torch.sparse_coo else self._flat_compressed()
        return flat.reshape(-1)

    def _flat_coordinates(self) -> Indices:
        (indices,) = (part.numpy(force=True) for part in self.indices)
        return _inner(_ravel(indices, self.shape[: len(indices)]), self.shape[len(indices) :])

    def _flat_compressed(self) -> Indices:
        compressed, plain = (part.numpy(force=True).astype(np.intp, copy=False) for part in self.indices)
        batch, lines = compressed.shape[:-1], compressed.shape[-1] - 1
        count = math.prod(batch)
        lengths = np.diff(compressed, axis=-1).reshape(-1)
        major = np.repeat(np.tile(np.arange(lines), count), lengths).reshape(count, -1)
        minor = plain.reshape(count, -1)
        rows, columns = (major, minor) if self.layout in _BY_ROW else (minor, major)
        height, width = self.shape[len(batch) : len(batch) + 2]
        tall, wide = self._block_size()
        rows = (rows + np.arange(count)[:, None] * (height // tall))[:, :, None, None] * tall + np.arange(tall)[:, None]
        columns = columns[:, :, None, None] * wide + np.arange(wide)
        return _inner(rows * width + columns, self.shape[len(batch) + 2 :])

    def _block_size(self) -> tuple[int, int]:
        """The height and width of the stored blocks; 1 and 1 where the layout has none."""
        at = self.indices[1].dim()
        return (self.model.shape[at], self.model.shape[at + 1]) if self.layout in BLOCKED else (1, 1)


def _block_size(tensor: torch.Tensor) -> tuple[int, int] | None:
    if tensor.layout not in BLOCKED:
        return None
    at = tensor.dim() - tensor.sparse_dim() - tensor.dense_dim() + 1
    tall, wide = values_of(tensor).shape[at : at + 2]
    return tall, wide


def _ravel(indices: Indices, shape: torch.Size) -> Indices:
    flat = np.zeros(indices.shape[1], dtype=np.intp)
    for along, size in zip(indices, shape, strict=True):
        flat = flat * size + along
    return flat


def _inner(outer: Indices, shape: torch.Size) -> Indices:
    """The elements of the dense dimensions inside each of these."""
    if not shape:
        return outer
    inside = math.prod(shape)
    return outer[..., None] * inside + np.arange(inside)


def look_up(wanted: Indices, stored: Indices, numbers: Matrix) -> Matrix:
    """For each wanted element the sum of the numbers (rows) stored for it; what is not stored is zero."""
    order = np.argsort(stored, kind="stable")
    places, first = np.unique(stored[order], return_index=True)
    found = np.zeros((len(wanted), numbers.shape[1]))
    if not len(places):
        return found
    sums = np.add.reduceat(numbers[order], first, axis=0)
    at = np.minimum(np.searchsorted(places, wanted), len(places) - 1)
    hit = places[at] == wanted
    found[hit] = sums[at[hit]]
    return found


def gather(dense: Vector, flat: Indices, parts: int) -> Vector:
    """The coordinates of some elements of a whole tensor."""
    return dense.reshape(-1, parts)[flat].reshape(-1)


def scatter(coordinates: Vector, flat: Indices, parts: int, size: int) -> Vector:
    """The coordinates of a whole tensor that is zero but for some elements."""
    whole = np.zeros((size, parts))
    whole[flat] = coordinates.reshape(-1, parts)
    return whole.reshape(-1)
