"""Which memory a run allocated itself: a mode that rounds what operators write may do so there, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch

from gradproof.backends.torch.memory.sharing import memory_of


class Allocated:
    """The memory that appeared in results of operators and was none of what they were given.

    An address that is freed and used again is that of another allocation of the same run.
    """

    def __init__(self) -> None:
        self._addresses: set[int] = set()

    def note(self, given: Any, made: Any) -> None:
        """An operator was given this, and made that."""
        addresses = {memory_of(tensor) for tensor in _tensors(made)}
        self._addresses |= addresses - {memory_of(tensor) for tensor in _tensors(given)}

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies there, and not in memory of somebody else."""
        return memory_of(tensor) in self._addresses


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors among what an operator takes or gives: lists hold some."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in cast("list[Any] | tuple[Any, ...]", value):
            yield from _tensors(part)
