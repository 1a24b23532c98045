"""A backend for HIPS autograd: `check(function, *arrays)` checks what its primitives claim (`defvjp`, `defjvp`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from autograd.core import make_jvp, make_vjp

from gradproof import Report
from gradproof.core.problem import OutputChangedError, Problem
from gradproof.core.space import Block, Space
from gradproof.core.words import Words
from gradproof.engine import check_problem

WORDS = Words(reverse="defvjp", forward="defjvp")


def check(function: Callable[..., Any], *arrays: Any) -> Report:
    return check_problem(problem(function, *arrays), getattr(function, "__name__", "function"))


def problem(function: Callable[..., Any], *arrays: Any) -> Problem:
    point = tuple(np.array(array) for array in arrays)  # copies: the user's arrays stay as they are
    value = np.asarray(function(*copies(point)))
    inputs, outputs = space("input", point), space("output", (value,))

    def evaluate(coordinates: Any) -> Any:
        result = np.asarray(function(*unpacked(coordinates, inputs, point)))
        if result.shape != value.shape:
            raise OutputChangedError(f"shape {result.shape} instead of {value.shape}")
        return packed((result,))

    def vjp(cotangent: Any) -> Any:
        (v,) = unpacked(cotangent, outputs, (value,))
        pull, _ = make_vjp(lambda inputs: function(*inputs), copies(point))
        return packed([np.conj(gradient) for gradient in pull(np.conj(v))])  # its convention is dL/da - i dL/db

    def jvp(tangent: Any) -> Any:
        push = make_jvp(lambda inputs: function(*inputs), copies(point))
        return packed((push(unpacked(tangent, inputs, point))[1],))

    spaces, here = {"inputs": inputs, "outputs": outputs}, {"point": packed(point), "value": packed((value,))}
    forward = jvp if is_defined(jvp, inputs.size) else None
    return Problem(**spaces, **here, evaluate=evaluate, vjp=vjp, jvp=forward, words=WORDS)


def is_defined(jvp: Callable[[Any], Any], size: int) -> bool:
    try:
        jvp(np.zeros(size))
    except NotImplementedError:  # a primitive without defjvp
        return False
    return True


def space(kind: str, arrays: Any) -> Space:
    blocks: list[Block] = []
    for index, array in enumerate(arrays):  # a complex element has two coordinates
        start, parts = (blocks[-1].stop if blocks else 0), 2 if np.iscomplexobj(array) else 1
        blocks.append(Block(kind, index, "", array.shape, parts, start, float(np.finfo(array.dtype).eps)))
    return Space(tuple(blocks))


def packed(arrays: Any) -> Any:
    return np.concatenate([np.array(array, order="C").reshape(-1).view(np.float64) for array in arrays])


def unpacked(coordinates: Any, space: Space, like: Any) -> Any:
    return tuple(
        np.array(coordinates[block.slice]).view(array.dtype).reshape(array.shape)
        for block, array in zip(space.blocks, like, strict=True)
    )


def copies(arrays: Any) -> Any:
    return tuple(array.copy() for array in arrays)
