"""PyTorch: tensors of any dtype, strides and layout, reverse and forward mode, batches through vmap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradproof.backends.torch.calls import flatten_outputs
from gradproof.backends.torch.session import (
    FRAMEWORK,
    comparing_session,
    gradcheck_session,
    gradgradcheck_session,
    session,
)
from gradproof.backends.torch.shrinking import shrinkable
from gradproof.backends.torch.standalone import namespaces, write_test
from gradproof.backends.torch.state.generators import random_state, set_random_state
from gradproof.backends.torch.variants import dtype_of, memory_layouts, tested_labels, vary

__all__ = [
    "comparing_session",
    "dtype_of",
    "framework",
    "gradcheck_session",
    "gradgradcheck_session",
    "memory_layouts",
    "namespaces",
    "random_state",
    "recognises",
    "session",
    "set_random_state",
    "set_threads",
    "shrinkable",
    "tested_labels",
    "threads",
    "vary",
    "write_test",
]

framework = FRAMEWORK


def threads() -> int:
    """How many threads share one operation."""
    return torch.get_num_threads()


def set_threads(count: int) -> None:
    """Let so many threads share one operation."""
    if count != torch.get_num_threads():
        torch.set_num_threads(count)


def recognises(values: Sequence[Any]) -> bool:
    """Whether there is a tensor or a module among these values, nested as it may be."""
    return any(isinstance(leaf, torch.Tensor | torch.nn.Module) for value in values for leaf in flatten_outputs(value))
