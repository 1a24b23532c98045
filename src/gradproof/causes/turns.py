"""Ways to put the numbers of an output or an input in another order, to drop some, or to average them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from gradproof.core.space import Block
from gradproof.core.types import Vector

Turn = Callable[[Vector], Vector]

# How many indices share something, as heads of queries share those of keys.
_GROUPS = (2, 3, 4, 8)


def is_plain(block: Block) -> bool:
    return block.elements is None and bool(block.shape)


def as_array(block: Block, vector: Vector) -> Vector:
    return vector.reshape(*block.shape, block.parts)


def flipped(block: Block, axes: tuple[int, ...]) -> Turn:
    return lambda vector: np.flip(as_array(block, vector), axes).reshape(-1)


def halved(block: Block, axis: int) -> Turn:
    return lambda vector: np.roll(as_array(block, vector), block.shape[axis] // 2, axis).reshape(-1)


def transposed(block: Block, first: int, second: int) -> Turn:
    return lambda vector: np.ascontiguousarray(np.swapaxes(as_array(block, vector), first, second)).reshape(-1)


def conjugated(block: Block) -> Turn:
    def turn(vector: Vector) -> Vector:
        turned = vector.copy()
        turned[1::2] *= -1.0
        return turned

    return turn


def rotated(sign: float) -> Turn:
    """Every number times i, or -i."""

    def turn(vector: Vector) -> Vector:
        turned = np.empty_like(vector)
        turned[::2], turned[1::2] = -sign * vector[1::2], sign * vector[::2]
        return turned

    return turn


def turns(block: Block) -> Iterator[tuple[str, Turn]]:
    """Ways to put the numbers of a block in another order that undo themselves."""
    if not is_plain(block):
        return
    axes = [axis for axis, size in enumerate(block.shape) if size > 1]
    for first, second in itertools.combinations(axes, 2):
        if block.shape[first] == block.shape[second]:
            yield f"transposed (axes {first} and {second} swapped)", transposed(block, first, second)
    for axis in axes:
        yield f"flipped along axis {axis}", flipped(block, (axis,))
    for axis in axes:
        if block.shape[axis] % 2 == 0 and block.shape[axis] > 2:
            yield f"with the two halves of axis {axis} swapped", halved(block, axis)
    if len(axes) > 1:
        yield f"flipped along axes {axes[-2]} and {axes[-1]} (a kernel)", flipped(block, (axes[-2], axes[-1]))
    if block.parts == 2:
        yield "conjugated", conjugated(block)


def some_indices(size: int) -> Iterator[tuple[str, slice]]:
    """Indices of an axis that alone may be counted, and what they are called."""
    yield "the first index", slice(0, 1)
    yield "the last index", slice(size - 1, size)
    for tile in (2, 4, 8, 16, 32, 64, 128, 256):
        rest = size % tile
        if rest and size > tile:
            yield f"the first {size - rest} of {size} indices (whole tiles of {tile})", slice(0, size - rest)
    if size > 2:
        yield "all but the last index", slice(0, size - 1)
        yield "all but the first index", slice(1, size)
    for group in _GROUPS:
        if size % group == 0 and size > group:
            yield f"the first of every {group} indices", slice(0, None, group)
            yield f"the last of every {group} indices", slice(group - 1, None, group)


def masked(block: Block, axis: int, kept: slice) -> Turn:
    def turn(vector: Vector) -> Vector:
        array = np.moveaxis(np.zeros((*block.shape, block.parts)), axis, 0)
        array[kept] = np.moveaxis(as_array(block, vector), axis, 0)[kept]
        return np.ascontiguousarray(np.moveaxis(array, 0, axis)).reshape(-1)

    return turn


def averaged(block: Block, axis: int, factor: float) -> Turn:
    def turn(vector: Vector) -> Vector:
        array = as_array(block, vector)
        return np.broadcast_to(factor * array.sum(axis=axis, keepdims=True), array.shape).reshape(-1)

    return turn
