"""NumPy arrays as coordinates, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradproof.core.precision import DOUBLE
from gradproof.core.space import Block, Elements
from gradproof.core.types import Indices, Vector

Array = NDArray[Any]


def as_numbers(value: Any, what: str) -> Array:
    """A value as an array of floating-point numbers, whole numbers made such; `TypeError` if it is none."""
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.asarray(None)
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.dtype.kind not in "fc":
        raise TypeError(f"{what} must be an array of numbers, got {type(value).__name__} with dtype {array.dtype}")
    return array


def coordinates(array: Array) -> Vector:
    """The real numbers of an array in order, two for each complex element. A copy.

    >>> coordinates(np.array([[1.0, 2.0]])), coordinates(np.array([3 + 4j]))
    (array([1., 2.]), array([3., 4.]))
    """
    kind = np.complex128 if array.dtype.kind == "c" else np.float64
    return np.array(array, dtype=kind, order="C").reshape(-1).view(np.float64)


def spacing(dtype: np.dtype[Any]) -> float:
    """The relative spacing of the numbers of a dtype; no finer than double precision, which coordinates have."""
    return max(float(np.finfo(dtype).eps), DOUBLE)


def shape_words(shape: Sequence[int]) -> str:
    return "a number" if not shape else f"shape {tuple(shape)}"


@dataclass(frozen=True, slots=True)
class Like:
    """An array as the coordinates of one block: all of its elements, or those that are `free` to move."""

    array: Array
    block: Block
    free: Indices | None = None
    is_number: bool = False
    """Whether it was no array but a number, and is handed to functions as one."""

    @staticmethod
    def of(value: Array, kind: str, index: int, name: str, start: int, free: Indices | None = None) -> Like:
        parts = 2 if value.dtype.kind == "c" else 1
        elements = None if free is None else Elements(free)
        block = Block(kind, index, name, value.shape, parts, start, spacing(value.dtype), elements)
        return Like(value, block, free)

    def read(self, array: Array) -> Vector:
        """The coordinates of another array of this shape."""
        if self.block.parts == 1:
            array = np.real(array)
        elif array.dtype.kind != "c":
            array = array.astype(np.complex128)
        flat = coordinates(array)
        return flat if self.free is None else flat[self.free]

    def write(self, values: Vector, *, elsewhere: bool = True, dtype: Any = None) -> Any:
        """A new array with these coordinates; those that are not free are as they are, or zero."""
        flat = coordinates(self.array) if elsewhere else np.zeros(self.array.size * self.block.parts)
        flat[slice(None) if self.free is None else self.free] = values
        made = flat.view(np.complex128) if self.block.parts == 2 else flat
        made = made.reshape(self.array.shape).astype(dtype or self.array.dtype, copy=False)
        return made[()] if self.is_number else made


def split(likes: Sequence[Like], point: Vector) -> list[Vector]:
    """The coordinates of each."""
    return [point[like.block.slice] for like in likes]


def join(parts: Sequence[Vector]) -> Vector:
    """All coordinates in one row."""
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0), *parts])
