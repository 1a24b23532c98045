"""The user's process is as it was, whatever happens: random states and flags."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from gradproof.backends.torch.arguments import Call
from gradproof.backends.torch.keeper import Keeper
from gradproof.backends.torch.python_random import python

_MT19937_BYTES = 624 * 4 + 4


class _NumpyMemory:
    """The memory of NumPy's global generator: reading it is far cheaper than asking for its state."""

    def __init__(self) -> None:
        self._generator, self._memory = None, None

    def read(self) -> bytes:
        """All of it; nothing where it is not known how long it is."""
        generator = np.random.mtrand.get_bit_generator()  # pyright: ignore[reportAttributeAccessIssue]
        if generator is not self._generator:
            self._generator, self._memory = generator, None
            if isinstance(generator, np.random.MT19937):
                self._memory = (ctypes.c_char * _MT19937_BYTES).from_address(generator.ctypes.state_address)
        return b"" if self._memory is None else self._memory.raw


_numpy_memory = _NumpyMemory()


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


class Generators:
    """The random states of Python, NumPy and PyTorch at one moment."""

    def __init__(self) -> None:
        self._python, self._torch = python.snapshot(), torch.default_generator.get_state()
        self._memory = _numpy_memory.read()
        self._numpy = _numpy_state(self._memory)
        if self._numpy.get("has_gauss", True):
            self._memory = b""  # a gaussian that NumPy keeps for later is not in its generator's memory
        self._devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def rewind(self) -> None:
        """Put all of them back."""
        self._rewind_python()
        self._rewind_numpy()
        self._rewind_torch()

    def drawn_from(self) -> Iterator[Callable[[], None]]:
        """How to rewind each generator whose state is another one by now."""
        if python.snapshot() != self._python:
            yield self._rewind_python
        if not self._memory or self._memory != _numpy_memory.read():
            yield self._rewind_numpy
        if self._devices or torch.default_generator.get_state().numpy().tobytes() != self._torch.numpy().tobytes():
            yield self._rewind_torch

    def _rewind_python(self) -> None:
        if python.snapshot() != self._python:
            python.rewind(self._python)

    def _rewind_numpy(self) -> None:
        if not self._memory or self._memory != _numpy_memory.read():
            np.random.set_state(self._numpy)

    def _rewind_torch(self) -> None:
        torch.default_generator.set_state(self._torch)
        if self._devices:
            torch.cuda.set_rng_state_all(self._devices)


class preserved:  # noqa: N801 (used as a function, in a with statement)
    """Put back random states and the tensors' `requires_grad` on any exit, and what each run of `call` changes.

    Inside, gradients are enabled. A class, not a generator: small checks notice the difference.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], call: Call | None = None) -> None:
        self._tensors, self._call = tensors, call

    def __enter__(self) -> None:
        self._generators = Generators()
        self._flags = [tensor.requires_grad for tensor in self._tensors]
        self._grad_mode = torch.is_grad_enabled()
        if self._call is not None:
            self._call.keeper = Keeper(self._call.function, self._call.flat, self._generators)
        if not self._grad_mode:
            torch.set_grad_enabled(True)

    def __exit__(self, *_: object) -> None:
        if torch.is_grad_enabled() is not self._grad_mode:
            torch.set_grad_enabled(self._grad_mode)
        if self._call is not None and self._call.keeper is not None:
            self._call.keeper.close()
            self._call.keeper = None
        self._generators.rewind()
        for tensor, flag in zip(self._tensors, self._flags, strict=True):
            if tensor.requires_grad is not flag:
                tensor.requires_grad_(flag)
