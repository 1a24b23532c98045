"""Cotangents with the same values in other memory layouts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from gradproof.backends.torch.memory.sharing import has_memory
from gradproof.backends.torch.tensors.coordinates import NUMPY
from gradproof.core.capabilities import MemoryLayout

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
    if tensor.numel() < 2 or not has_memory(tensor):
        return tensor
    return _ARRANGEMENTS[layout](tensor)


def _array(tensor: torch.Tensor) -> Any:
    """The elements for NumPy, which takes a fifth of the time of torch for few of them; None where it cannot."""
    return tensor.numpy() if tensor.is_cpu and tensor.dtype in NUMPY else None


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    """All elements in one place. Where they would lie otherwise is something else: a backward may look there."""
    elements = _array(tensor)
    if elements is None:
        tensor.view(-1)[1:] = _GAP
    else:
        elements.reshape(-1)[1:] = _GAP
    return tensor.as_strided(tensor.shape, (0,) * tensor.dim())


def _sliced(tensor: torch.Tensor) -> torch.Tensor:
    """Every row a part of a longer one, as the halves that a split hands back; of one row, every other element."""
    *others, last = tensor.shape
    in_rows = math.prod(others) > 1
    width, here = (last + 2, slice(1, -1)) if in_rows else (2 * last + 1, slice(1, None, 2))
    shape, elements = (*others, width), _array(tensor)
    if elements is None:
        return tensor.new_full(shape, _GAP)[..., here].copy_(tensor)
    memory = np.full(shape, _GAP, elements.dtype)
    memory[..., here] = elements
    return torch.from_numpy(memory)[..., here]


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    elements = _array(tensor)
    if elements is not None:
        return torch.from_numpy(np.asfortranarray(elements))
    backwards = tuple(reversed(range(tensor.dim())))
    return tensor.permute(backwards).contiguous().permute(backwards)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    memory = _CHANNELS_LAST.get(tensor.dim())
    return _transposed(tensor) if memory is None else tensor.contiguous(memory_format=memory)


def _contiguous(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


_ARRANGEMENTS: dict[MemoryLayout, Callable[[torch.Tensor], torch.Tensor]] = {
    MemoryLayout.CONTIGUOUS: _contiguous,
    MemoryLayout.EXPANDED: _expanded,
    MemoryLayout.SLICED: _sliced,
    MemoryLayout.TRANSPOSED: _transposed,
    MemoryLayout.CHANNELS_LAST: _channels_last,
}
