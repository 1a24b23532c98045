"""The user's process is as it was, whatever happens: random states and flags."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

_MT19937_BYTES = 624 * 4 + 4


def _numpy_memory() -> bytes:
    """The memory of NumPy's global generator: reading it is far cheaper than asking for its state."""
    generator = np.random.mtrand.get_bit_generator()  # pyright: ignore[reportAttributeAccessIssue]
    if not isinstance(generator, np.random.MT19937):
        return b""
    return ctypes.string_at(generator.ctypes.state_address, _MT19937_BYTES)


@contextmanager
def preserved(tensors: Sequence[torch.Tensor]) -> Generator[None]:
    """Put back the random states of Python, NumPy and PyTorch, and the tensors' `requires_grad`, on any exit."""
    python, cpu = random.getstate(), torch.get_rng_state()
    numpy: Any = np.random.get_state(legacy=True)
    memory = b"" if numpy[3] else _numpy_memory()  # a stored gaussian is not in the generator's memory
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    flags = [tensor.requires_grad for tensor in tensors]
    try:
        with torch.enable_grad():
            yield
    finally:
        random.setstate(python)
        if not memory or memory != _numpy_memory():
            np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)
        for tensor, flag in zip(tensors, flags, strict=True):
            if tensor.requires_grad is not flag:
                tensor.requires_grad_(flag)
