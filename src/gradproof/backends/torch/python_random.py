"""The state of Python's global random generator, had cheaply.

`random.getstate()` makes 625 integers, which takes as long as a small backward. CPython keeps them in one stretch of
memory; where that is found to be so, a copy of it is the state.
"""

from __future__ import annotations

import ctypes
import random
import struct
from typing import Any, Protocol

_WORDS = struct.Struct("=625I")
_HEAD = object.__basicsize__


class RandomState(Protocol):
    """How the state is read and put back."""

    def snapshot(self) -> Any: ...
    def rewind(self, state: Any) -> None: ...


class ByMemory:
    """From the memory of the generator: its position, then its 624 words. A gaussian kept for later is beside it."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._memory = (ctypes.c_char * _WORDS.size).from_address(id(generator) + _HEAD)

    def snapshot(self) -> tuple[bytes, float | None]:
        return self._memory.raw, self._generator.gauss_next

    def rewind(self, state: tuple[bytes, float | None]) -> None:
        position, *words = _WORDS.unpack(state[0])
        self._generator.setstate((self._generator.VERSION, (*words, position), state[1]))


class ByRequest:
    """From the generator itself."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def snapshot(self) -> Any:
        return self._generator.getstate()

    def rewind(self, state: Any) -> None:
        self._generator.setstate(state)


def reader(generator: random.Random) -> RandomState:
    """The cheapest way that gives what the generator itself says."""
    if type(generator).__basicsize__ >= _HEAD + _WORDS.size and type(generator) is random.Random:
        cheap = ByMemory(generator)
        position, *words = _WORDS.unpack(cheap.snapshot()[0])
        if (*words, position) == generator.getstate()[1]:
            return cheap
    return ByRequest(generator)


python = reader(random.random.__self__)  # type: ignore[attr-defined]
