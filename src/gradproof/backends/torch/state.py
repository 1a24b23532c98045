"""The user's process is as it was, whatever happens: random states and flags."""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def preserved(tensors: Sequence[torch.Tensor]) -> Generator[None]:
    """Put back the random states of Python, NumPy and PyTorch, and the tensors' `requires_grad`, on any exit."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    flags = [tensor.requires_grad for tensor in tensors]
    try:
        with torch.enable_grad():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)
        for tensor, flag in zip(tensors, flags, strict=True):
            if tensor.requires_grad is not flag:
                tensor.requires_grad_(flag)
