"""The user's process is as it was, whatever happens: random states and flags."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence
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


_known: tuple[bytes, Any] = (b"", None)
"""A memory of NumPy's generator seen before, and the whole state that went with it."""


def _numpy_state(memory: bytes) -> Any:
    """NumPy's whole state. Asking for it takes a tenth of a small check, so that of the last check is remembered.

    Besides the generator's memory a state holds at most one gaussian, which drawing another would have put there: a
    state without one is known by its memory.
    """
    global _known
    if memory and memory == _known[0]:
        return _known[1]
    state: Any = np.random.get_state(legacy=False)
    if not state.get("has_gauss", True):
        _known = memory, state
    return state


class preserved:  # noqa: N801 (used as a function, in a with statement)
    """Put back the random states of Python, NumPy and PyTorch, and the tensors' `requires_grad`, on any exit.

    Inside, gradients are enabled. A class, not a generator: small checks notice the difference.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = tensors

    def __enter__(self) -> None:
        self._python, self._torch = random.getstate(), torch.get_rng_state()
        self._memory = _numpy_memory()
        self._numpy = _numpy_state(self._memory)
        if self._numpy.get("has_gauss", True):
            self._memory = b""  # a gaussian that NumPy keeps for later is not in its generator's memory
        self._devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        self._flags = [tensor.requires_grad for tensor in self._tensors]
        self._grad_mode = torch.is_grad_enabled()
        if not self._grad_mode:
            torch.set_grad_enabled(True)

    def __exit__(self, *_: object) -> None:
        torch.set_grad_enabled(self._grad_mode)
        random.setstate(self._python)
        if not self._memory or self._memory != _numpy_memory():
            np.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        if self._devices:
            torch.cuda.set_rng_state_all(self._devices)
        for tensor, flag in zip(self._tensors, self._flags, strict=True):
            if tensor.requires_grad is not flag:
                tensor.requires_grad_(flag)
