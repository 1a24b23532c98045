"""Cotangents with the same values in other memory layouts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gradproof.backends.torch.memory.sharing import has_memory
from gradproof.backends.torch.tensors.coordinates import NUMPY, build
from gradproof.core.capabilities import MemoryLayout
from gradproof.core.types import Vector

Array = npt.NDArray[Any]

_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
_GAP = 3.0
"""What lies between the elements of a slice: a backward that reads it gets wrong numbers."""


def possible(outputs: Sequence[torch.Tensor]) -> frozenset[MemoryLayout]:
    """The memory layouts that make a difference for some output."""
    return _for_shapes(tuple([output.shape for output in outputs if output.numel() > 1 and has_memory(output)]))


@functools.lru_cache(maxsize=256)
def _for_shapes(shapes: tuple[torch.Size, ...]) -> frozenset[MemoryLayout]:
    found = {MemoryLayout.SLICED, MemoryLayout.EXPANDED} if shapes else set[MemoryLayout]()
    if any(sum(size > 1 for size in shape) > 1 for shape in shapes):
        found.add(MemoryLayout.TRANSPOSED)
    if any(len(shape) in _CHANNELS_LAST for shape in shapes):
        found.add(MemoryLayout.CHANNELS_LAST)
    return frozenset(found)


def arrange(tensor: torch.Tensor, layout: MemoryLayout) -> torch.Tensor:
    """A tensor of our own, contiguous, in another memory layout, where that makes a difference for it."""
    if layout is MemoryLayout.CONTIGUOUS or tensor.numel() < 2 or not has_memory(tensor):
        return tensor
    if tensor.is_cpu and tensor.dtype in NUMPY:
        return _OF_ARRAYS[layout](tensor.numpy())
    return _OF_TENSORS[layout](tensor)


def build_in(layout: MemoryLayout, coordinates: Vector, like: torch.Tensor) -> torch.Tensor:
    """A new dense tensor with these coordinates, of the shape, dtype and device of `like`, in a memory layout.

    Nearly always NumPy arranges them, before torch sees any: three such vjps are in every check.
    """
    if layout is MemoryLayout.CONTIGUOUS or like.dtype is not torch.float64 or not like.is_cpu or coordinates.size < 2:
        return arrange(build(coordinates, like), layout)
    return _OF_ARRAYS[layout](coordinates.reshape(like.shape))


# arrays, whose elements are copied: for few of them that takes a fifth of the time of torch


def _expanded(elements: Array) -> torch.Tensor:
    """All elements in one place. Where they would lie otherwise are zeros: a backward may look there.

    Many zeros that nobody writes take no time and no memory.
    """
    memory = np.zeros(elements.shape, elements.dtype)
    memory.reshape(-1)[0] = elements[(0,) * elements.ndim]
    return torch.from_numpy(memory).as_strided(memory.shape, (0,) * memory.ndim)


def _sliced(elements: Array) -> torch.Tensor:
    shape, here = _slice_of(elements.shape)
    memory = np.empty(shape, elements.dtype)
    memory.fill(_GAP)
    memory[..., here] = elements
    strides = [stride // memory.itemsize for stride in memory[..., here].strides]
    return torch.from_numpy(memory).as_strided(elements.shape, strides, here.start)


def _transposed(elements: Array) -> torch.Tensor:
    return torch.from_numpy(elements.copy("F"))


def _channels_last(elements: Array) -> torch.Tensor:
    if elements.ndim not in _CHANNELS_LAST:
        return _transposed(elements)
    return _tensor_channels_last(torch.from_numpy(elements.copy()))


_OF_ARRAYS: dict[MemoryLayout, Callable[[Array], torch.Tensor]] = {
    MemoryLayout.EXPANDED: _expanded,
    MemoryLayout.SLICED: _sliced,
    MemoryLayout.TRANSPOSED: _transposed,
    MemoryLayout.CHANNELS_LAST: _channels_last,
}


def _slice_of(shape: Sequence[int]) -> tuple[tuple[int, ...], slice]:
    """Every row a part of a longer one, as the halves that a split hands back; of one row, every other element."""
    *others, last = shape
    in_rows = math.prod(others) > 1
    return ((*others, last + 2), slice(1, -1)) if in_rows else ((*others, 2 * last + 1), slice(1, None, 2))


# tensors that NumPy cannot look at


def _tensor_expanded(tensor: torch.Tensor) -> torch.Tensor:
    tensor.view(-1)[1:] = 0.0
    return tensor.as_strided(tensor.shape, (0,) * tensor.dim())


def _tensor_sliced(tensor: torch.Tensor) -> torch.Tensor:
    shape, here = _slice_of(tensor.shape)
    return tensor.new_full(shape, _GAP)[..., here].copy_(tensor)


def _tensor_transposed(tensor: torch.Tensor) -> torch.Tensor:
    backwards = tuple(reversed(range(tensor.dim())))
    return tensor.permute(backwards).contiguous().permute(backwards)


def _tensor_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    memory = _CHANNELS_LAST.get(tensor.dim())
    return _tensor_transposed(tensor) if memory is None else tensor.contiguous(memory_format=memory)


_OF_TENSORS: dict[MemoryLayout, Callable[[torch.Tensor], torch.Tensor]] = {
    MemoryLayout.EXPANDED: _tensor_expanded,
    MemoryLayout.SLICED: _tensor_sliced,
    MemoryLayout.TRANSPOSED: _tensor_transposed,
    MemoryLayout.CHANNELS_LAST: _tensor_channels_last,
}
