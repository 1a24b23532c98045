"""A watch on memory: who wrote to what was not theirs?

Of large tensors no copy is kept: their bits are summed up as integers, which shows a change as well.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

_SMALL = 4096
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements lie in memory of its own: not those of wrappers, nor zeros that are only promised."""
    plain = type(tensor) is torch.Tensor or isinstance(tensor, torch.nn.Parameter)
    return plain and tensor.layout is torch.strided and tensor.numel() > 0 and not tensor._is_zerotensor()


def fingerprint(tensor: torch.Tensor) -> int | bytes:
    """What changes with any bit of a tensor's memory, gaps between its elements included."""
    if not has_memory(tensor):
        return 0
    storage = tensor.untyped_storage()
    if tensor.is_cpu and storage.nbytes() <= _SMALL:
        return ctypes.string_at(storage.data_ptr(), storage.nbytes())
    whole = tensor.detach().as_strided((storage.nbytes() // tensor.element_size(),), (1,), 0)
    if whole.is_complex():
        whole = torch.view_as_real(whole)
    return int(whole.view(_BITS[whole.element_size()]).sum())


class Watch:
    """Fingerprints of named tensors, to be compared later."""

    def __init__(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> None:
        self._before = [(name, tensor, fingerprint(tensor)) for name, tensor in tensors]

    def changed(self) -> Iterator[str]:
        """The names of those that were written to since."""
        return (name for name, tensor, before in self._before if fingerprint(tensor) != before)


def saved_tensors(outputs: Sequence[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    """What custom Functions in the graph of these outputs saved for backward, with names.

    Of PyTorch's own nodes nothing is listed: nobody else can write to what they saved without being noticed.
    """
    found: list[tuple[str, torch.Tensor]] = []
    seen: set[Any] = set()
    waiting: list[Any] = [output.grad_fn for output in outputs if output.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        waiting += [following for following, _ in node.next_functions if following is not None]
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            name = f"a tensor that {type(node).__name__.removesuffix('Backward')} saved for backward"
            found += [(name, tensor) for tensor in _unpacked(node)]
    return found


def _unpacked(node: Any) -> list[torch.Tensor]:
    return [tensor for tensor in node.saved_tensors if isinstance(tensor, torch.Tensor)]


def memory_of(tensor: torch.Tensor) -> int:
    """Where the memory of a dense tensor begins, 0 where there is none to speak of."""
    return tensor.untyped_storage().data_ptr() if has_memory(tensor) else 0


def share_memory(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two different tensors have an element in common. Parts of one tensor side by side have none."""
    if first is second or first.device != second.device or not memory_of(first) == memory_of(second) != 0:
        return False
    try:
        return np.shares_memory(_array(first), _array(second))
    except (RuntimeError, TypeError):  # on another device, or lazily conjugated
        return first.data_ptr() == second.data_ptr()


def _array(tensor: torch.Tensor) -> Any:
    """The memory of a tensor, as integers that NumPy understands."""
    plain = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
    return plain.view(_BITS[plain.element_size()]).numpy()
