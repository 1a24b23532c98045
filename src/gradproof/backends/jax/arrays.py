"""Arrays of JAX as coordinates.

A `Row` is a row of arrays, inputs or outputs, seen as one vector of float64 numbers. JAX's cotangents of complex
numbers are the conjugates of what the core means by one: `Row.conjugated` is where the two meet.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradproof.core.precision import DOUBLE
from gradproof.core.space import Block, Space
from gradproof.core.types import Matrix, Vector

TYPES = (jax.Array, np.ndarray, np.generic)
"""What counts as an array."""


def is_floating(value: Any) -> bool:
    """Whether this is an array of real or complex numbers, which can have a derivative; a PRNG key is none."""
    return isinstance(value, TYPES) and bool(jnp.issubdtype(value.dtype, jnp.inexact))


def is_key(value: Any) -> bool:
    """Whether this is a PRNG key of the typed kind."""
    return isinstance(value, jax.Array) and bool(jnp.issubdtype(value.dtype, jax.dtypes.prng_key))


def is_complex(dtype: Any) -> bool:
    """Whether numbers of this floating-point dtype are complex."""
    return np.dtype(dtype).kind == "c"


def wide(dtype: Any) -> Any:
    """The double-precision dtype for numbers of this kind."""
    return np.dtype(np.complex128 if is_complex(dtype) else np.float64)


def in_double() -> AbstractContextManager[Any]:
    """Where JAX computes in double precision; the setting belongs to this thread."""
    enable: Any = getattr(jax, "enable_x64", None)
    if enable is None:  # before JAX 0.8
        enable = importlib.import_module("jax.experimental").enable_x64
    return enable(True)


def is_double() -> bool:
    """Whether JAX does so in any case."""
    config: Any = jax.config
    return bool(config.jax_enable_x64)


class Model(NamedTuple):
    """What an array is besides its values. `sharding` is where it lies, if the user put it there."""

    shape: tuple[int, ...]
    dtype: Any
    sharding: Any = None

    @staticmethod
    def of(value: Any) -> Model:
        placed = value.sharding if isinstance(value, jax.Array) and getattr(value, "committed", False) else None
        return Model(tuple(value.shape), jax.dtypes.canonicalize_dtype(value.dtype), placed)

    @property
    def parts(self) -> int:
        return 2 if is_complex(self.dtype) else 1

    def build(self, coordinates: Matrix, batch: tuple[int, ...] = ()) -> Any:
        """The array with these coordinates, or a batch of such arrays; it may lie in their memory."""
        if self.parts == 2:
            pairs = np.ascontiguousarray(coordinates, dtype=np.float64)
            made = pairs.view(np.complex128).astype(self.dtype)
        else:
            made = coordinates.astype(self.dtype, copy=False)
        made = made.reshape((*batch, *self.shape))
        if self.sharding is None or batch:
            return made
        with in_double():  # else double precision would be lost on the way
            return jax.device_put(made, self.sharding)


@dataclass(frozen=True, slots=True)
class Name:
    """What an array is to the call."""

    kind: str
    index: int
    name: str


class Row:
    """Arrays one behind the other, and the coordinates of all of them."""

    def __init__(self, names: Sequence[Name], models: Sequence[Model]) -> None:
        self.names, self.models = tuple(names), tuple(models)
        blocks: list[Block] = []
        for name, model in zip(names, models, strict=True):
            start = blocks[-1].stop if blocks else 0
            eps = max(float(jnp.finfo(model.dtype).eps), DOUBLE)
            blocks.append(Block(name.kind, name.index, name.name, model.shape, model.parts, start, eps))
        self.space = Space(tuple(blocks))

    def widened(self) -> Row:
        """The same in double precision."""
        return Row(self.names, [model._replace(dtype=wide(model.dtype)) for model in self.models])

    @property
    def is_wide(self) -> bool:
        """Whether all of it is in double precision."""
        return all(wide(model.dtype) == model.dtype for model in self.models)

    def build(self, coordinates: Vector) -> tuple[Any, ...]:
        """The arrays with these coordinates."""
        pairs = zip(self.space.blocks, self.models, strict=True)
        return tuple(model.build(coordinates[block.slice]) for block, model in pairs)

    def build_rows(self, rows: Matrix) -> tuple[Any, ...]:
        """Batches of arrays, one for each row."""
        pairs = zip(self.space.blocks, self.models, strict=True)
        return tuple(model.build(rows[:, block.slice], (len(rows),)) for block, model in pairs)

    def read(self, arrays: Sequence[Any]) -> Vector:
        """The coordinates of arrays."""
        values = np.empty(self.space.size)
        for block, array in zip(self.space.blocks, arrays, strict=True):
            values[block.slice] = _real(array, block.parts).reshape(-1)
        return values

    def read_rows(self, arrays: Sequence[Any], count: int) -> Matrix:
        """The coordinates of batches of arrays, one row each."""
        values = np.empty((count, self.space.size))
        for block, array in zip(self.space.blocks, arrays, strict=True):
            values[:, block.slice] = _real(array, block.parts).reshape(len(array), block.size)[:count]
        return values

    def conjugated(self, coordinates: Matrix) -> Matrix:
        """The coordinates of the conjugate numbers. The last axis runs over the coordinates."""
        return coordinates if self._signs is None else coordinates * self._signs

    @functools.cached_property
    def _signs(self) -> Vector | None:
        """-1 for imaginary parts; None where all numbers are real."""
        if all(block.parts == 1 for block in self.space.blocks):
            return None
        signs = np.ones(self.space.size)
        for block in self.space.blocks:
            if block.parts == 2:
                signs[block.start + 1 : block.stop : 2] = -1.0
        return signs


def _real(array: Any, parts: int) -> Any:
    """The real numbers of an array, as they lie in memory; they are not copied unless they must be converted."""
    numbers: Any = np.asarray(array)
    if parts == 2:
        return np.ascontiguousarray(numbers, dtype=np.complex128).reshape(-1).view(np.float64)
    return numbers.real if numbers.dtype.kind == "c" else numbers
