"""The random states of Python and NumPy, which user code may draw from: put back as they were."""

from __future__ import annotations

import ctypes
import functools
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_WORDS = struct.Struct("=625I")
"""Of the state of Python's: its position and its words."""
_MT19937_BYTES = 624 * 4 + 4
"""Of the state of NumPy's default global generator: its words and its position."""


class HostGenerators:
    """The global generators of Python and NumPy as they were when this was made."""

    def __init__(self) -> None:
        self._python, self._numpy = PythonState(), NumpyState()

    def rewind(self) -> None:
        """Put them back."""
        self._python.rewind()
        self._numpy.rewind()

    def drawn_from(self) -> Iterator[Callable[[], None]]:
        """How to rewind each generator whose state is another one by now."""
        if self._python.has_changed():
            yield self._python.rewind
        if self._numpy.has_changed():
            yield self._numpy.rewind


class PythonState:
    """The state of Python's global generator.

    To ask for it and to compare two of them takes 50 µs in a process that does other things meanwhile, a twentieth of
    the smallest check; to read the memory of the generator, where that is found to hold the state, 2 µs.
    """

    def __init__(self) -> None:
        self._state = _python().snapshot()

    def has_changed(self) -> bool:
        """Whether another state is there by now."""
        return _python().snapshot() != self._state

    def rewind(self) -> None:
        """Put it back."""
        if self.has_changed():
            _python().rewind(self._state)


class _ByRequest:
    """A generator asked for its state."""

    def __init__(self, generator: random.Random) -> None:
        self._generator: Any = generator

    def snapshot(self) -> Any:
        return self._generator.getstate()

    def rewind(self, state: Any) -> None:
        self._generator.setstate(state)


class _ByMemory(_ByRequest):
    """A generator whose memory is read: CPython keeps its position and its 624 words in one stretch."""

    def __init__(self, generator: random.Random) -> None:
        super().__init__(generator)
        self._memory = (ctypes.c_char * _WORDS.size).from_address(id(generator) + object.__basicsize__)

    def snapshot(self) -> tuple[bytes, float | None]:
        return self._memory.raw, self._generator.gauss_next

    def rewind(self, state: tuple[bytes, float | None]) -> None:
        position, *words = _WORDS.unpack(state[0])
        self._generator.setstate((self._generator.VERSION, (*words, position), state[1]))

    def is_sound(self) -> bool:
        """Whether the memory holds what the generator itself says."""
        position, *words = _WORDS.unpack(self._memory.raw)
        return (*words, position) == self._generator.getstate()[1]


@functools.cache
def _python() -> _ByRequest:
    """The cheapest way to the state of Python's global generator."""
    generator: Any = random.getrandbits.__self__
    if type(generator) is random.Random and random.Random.__basicsize__ >= object.__basicsize__ + _WORDS.size:
        cheap = _ByMemory(generator)
        if cheap.is_sound():
            return cheap
    return _ByRequest(generator)


class NumpyState:
    """The state of NumPy's global generator.

    To ask for it takes 55 µs and to set it 45, together a tenth of the smallest check; to read the memory of the
    generator takes 1 µs. So the state of the last check is remembered, and recognised by that memory.
    """

    def __init__(self) -> None:
        self._memory = _memory.read()
        self._state = _state_with(self._memory)
        if self._state.get("has_gauss", True):
            self._memory = b""  # a gaussian that NumPy keeps for later is not in its generator's memory

    def has_changed(self) -> bool:
        """Whether another state is there by now; True also where that cannot be told."""
        return not self._memory or self._memory != _memory.read()

    def rewind(self) -> None:
        """Put it back."""
        if self.has_changed():
            np.random.set_state(self._state)


class _Memory:
    """The memory of whichever bit generator is behind NumPy's global functions."""

    def __init__(self) -> None:
        self._generator, self._bytes = None, None

    def read(self) -> bytes:
        """All of it; nothing where it is not known how long it is."""
        generator = np.random.mtrand.get_bit_generator()  # pyright: ignore[reportAttributeAccessIssue]
        if generator is not self._generator:
            self._generator, self._bytes = generator, None
            if isinstance(generator, np.random.MT19937):
                self._bytes = (ctypes.c_char * _MT19937_BYTES).from_address(generator.ctypes.state_address)
        return b"" if self._bytes is None else self._bytes.raw


_memory = _Memory()
_known: tuple[bytes, Any] = (b"", None)
"""A memory of NumPy's generator seen before, and the whole state that went with it."""


def _state_with(memory: bytes) -> Any:
    """NumPy's whole state, where the generator holds this memory.

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
