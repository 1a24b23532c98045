"""Who shares memory with whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from gradproof.backends.torch.private import is_zero_tensor

BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers of each width in bytes."""


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements lie in memory of its own: not those of wrappers, nor zeros that are only promised."""
    plain = type(tensor) is torch.Tensor or isinstance(tensor, torch.nn.Parameter)
    return plain and tensor.layout is torch.strided and tensor.numel() > 0 and not is_zero_tensor()(tensor)


def memory_of(tensor: torch.Tensor) -> int:
    """Where the memory of a dense tensor begins, 0 where it has none of its own."""
    return tensor.untyped_storage().data_ptr() if has_memory(tensor) else 0


def share_memory(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two different tensors have an element in common. Parts of one tensor side by side have none."""
    if first is second or first.device != second.device or not memory_of(first) == memory_of(second) != 0:
        return False
    try:
        return np.shares_memory(_array(first), _array(second))
    except (RuntimeError, TypeError):  # on another device, or lazily conjugated
        return first.data_ptr() == second.data_ptr()


def moved_along(values: Sequence[Any], tested: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The positions of tensors that moving one under test would move too, each with the first that does."""
    memory = {i: memory_of(value) for i, value in enumerate(values) if isinstance(value, torch.Tensor)}
    held = {memory[i] for i in tested} - {0}
    if len(held) == sum(address in held for address in memory.values()):
        return  # nobody else lies where one of them does
    for i, address in memory.items():
        if address in held:
            others = [k for k in tested if memory[k] == address and (k < i or i not in tested)]
            first = next((k for k in others if share_memory(values[k], values[i])), None)
            if first is not None:
                yield i, first


def _array(tensor: torch.Tensor) -> Any:
    """The memory of a tensor, as integers that NumPy understands."""
    plain = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
    return plain.view(BITS[plain.element_size()]).numpy()


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether two elements of a tensor share memory."""
    if tensor.layout is not torch.strided or tensor.is_contiguous():
        return False
    axes = sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)
    reach = 0
    for stride, size in axes:
        if stride <= reach:
            break
        reach += stride * (size - 1)
    else:
        return False
    offsets = np.zeros(1, dtype=np.int64)
    for stride, size in axes:
        offsets = np.add.outer(offsets, stride * np.arange(size)).reshape(-1)
    return len(np.unique(offsets)) < len(offsets) if tensor.numel() else False
