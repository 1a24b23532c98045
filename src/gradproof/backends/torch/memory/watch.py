"""A watch on memory that a backward must not write to.

Of large tensors no copy is kept: their bits are summed up as integers, which shows a change as well.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from gradproof.backends.torch.calls import flatten_outputs
from gradproof.backends.torch.memory.sharing import BITS, has_memory

_SMALL = 4096
"""Bytes up to which a copy is kept."""


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
    return int(whole.view(BITS[whole.element_size()]).sum())


class Watch:
    """Fingerprints of named tensors, to be compared later."""

    def __init__(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> None:
        self._before = [(name, tensor, fingerprint(tensor)) for name, tensor in tensors]

    def changed(self) -> Iterator[str]:
        """The names of those that were written to since."""
        return (name for name, tensor, before in self._before if fingerprint(tensor) != before)


def hand_written(outputs: Sequence[torch.Tensor]) -> list[Any]:
    """The nodes in the graph of these outputs that are not PyTorch's own: only they may write to what is not theirs."""
    found: list[Any] = []
    seen: set[Any] = set()
    waiting: list[Any] = [output.grad_fn for output in outputs if output.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        waiting += [following for following, _ in node.next_functions if following is not None]
        if isinstance(node, torch.autograd.function.BackwardCFunction) or type(node).__name__ == _IN_CPP:
            found.append(node)
    return found


_IN_CPP = "CppFunction"
"""The name of the type of nodes that were written in C++ outside of torch."""


def saved_tensors(nodes: Sequence[Any]) -> list[tuple[str, torch.Tensor]]:
    """What hand-written nodes saved for backward, with names; those written in C++ do not tell."""
    return [(_saved_by(node), tensor) for node in nodes for tensor in _among(getattr(node, "saved_tensors", ()))]


def attributes(nodes: Sequence[Any]) -> list[tuple[str, torch.Tensor]]:
    """The tensors that hand-written nodes keep as attributes, with names. They may be room to work in."""
    return [(_saved_by(node), tensor) for node in nodes for tensor in _among(getattr(node, "__dict__", {}).values())]


def _among(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors, whatever containers they are in."""
    return [value for value in flatten_outputs(list(values)) if isinstance(value, torch.Tensor)]


def _saved_by(node: Any) -> str:
    return f"a tensor that {type(node).__name__.removesuffix('Backward')} saved for backward"
