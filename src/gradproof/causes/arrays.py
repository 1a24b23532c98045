"""Arrays that an author of a derivative has at hand, as they lie over an input: what may be missing or too many."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.causes.evidence import Evidence
from gradproof.core.problem import Mode
from gradproof.core.space import Block
from gradproof.core.types import Vector

# Other inputs that sums and norms are taken of.
_OTHERS = 3


def called(block: Block, otherwise: str = "") -> str:
    return f"`{block.name}`" if block.name else otherwise or block.label


def spread(block: Block, values: Vector, over: Block) -> Vector | None:
    """The numbers of a block over the shape of another; None where they do not fit."""
    if block.elements is not None or over.elements is not None or block.parts != 1 or over.parts != 1:
        return None
    try:
        laid = np.broadcast_to(values.reshape(block.shape), over.shape)
    except ValueError:
        return None
    return np.ascontiguousarray(laid).reshape(-1)


def base_arrays(evidence: Evidence) -> Iterator[tuple[str, Vector]]:
    """The input, the output and the other inputs, where they fit over the input."""
    problem, own = evidence.problem, evidence.input
    if own.parts != 1 or own.elements is not None:
        return
    yield called(own, "x"), problem.point[own.slice]
    output = spread(evidence.output, problem.value[evidence.output.slice], own)
    if output is not None and evidence.output.size > 1:
        yield "the output", output
    for other in evidence.others:
        laid = spread(other, problem.point[other.slice], own)
        if laid is not None:
            yield called(other), laid


def cotangent_over(evidence: Evidence, cotangent: Vector) -> Vector | None:
    """The cotangent over the input, where it fits and says something: in forward mode it must not be spread out there.

    What an element gets from one output of several, or several from one, a jvp sums up, and would be called otherwise.
    """
    if evidence.output.size < 2 or (evidence.mode is not Mode.REVERSE and evidence.output.size != evidence.input.size):
        return None
    return spread(evidence.output, cotangent, evidence.input)


def simple_functions(evidence: Evidence) -> Iterator[tuple[str, Vector]]:
    """The base arrays and simple functions of them."""
    with np.errstate(all="ignore"):
        for name, array in base_arrays(evidence):
            yield name, array
            yield f"{name}²", array**2
            yield f"(1 - {name})", 1.0 - array
            yield f"(1 - {name}²)", 1.0 - array**2
            yield f"(1 + {name}²)", 1.0 + array**2
            yield f"exp({name})", np.exp(array)
            yield f"exp(-{name}²/2)", np.exp(-(array**2) / 2.0)
            yield f"sqrt({name})", np.sqrt(array)
            yield f"sigmoid({name})", 1.0 / (1.0 + np.exp(-array))
            yield f"cos({name})", np.cos(array)
            yield f"sin({name})", np.sin(array)
            yield f"1/{name}", 1.0 / array
            yield f"tanh({name})", np.tanh(array)
            yield f"(1 - tanh({name})²)", 1.0 - np.tanh(array) ** 2
            yield f"log({name})", np.log(array)


def probabilities(evidence: Evidence) -> Iterator[tuple[str, Vector]]:
    """The softmax of the input along each axis."""
    own = evidence.input
    if not _is_real(own):
        return
    array, name = evidence.problem.point[own.slice].reshape(own.shape), called(own, "x")
    for axis, size in enumerate(own.shape):
        if size > 1:
            exponentials = np.exp(array - array.max(axis=axis, keepdims=True))
            yield f"softmax({name}, axis {axis})", (exponentials / exponentials.sum(axis, keepdims=True)).reshape(-1)


def reductions(evidence: Evidence) -> Iterator[tuple[str, Vector]]:
    """Sums, norms and deviations along axes of the input, and of others where they fit over it."""
    own = evidence.input
    if not _is_real(own) or not own.shape:
        return
    for block in [own, *evidence.others[:_OTHERS]]:
        if not _is_real(block) or not block.shape:
            continue
        array = evidence.problem.point[block.slice].reshape(block.shape)
        for axis in _reduced(len(block.shape)):
            kept = tuple(size for k, size in enumerate(block.shape) if k not in axis)
            shape = tuple(1 if k in axis else size for k, size in enumerate(block.shape))
            over = next((each for each in (shape, kept) if _fits(each, own.shape)), None)
            if over is None:
                continue
            own_name = called(block, "x" if block is own else "")
            name = f"{own_name} along {'axis' if len(axis) == 1 else 'axes'} {', '.join(map(str, axis))}"
            for word, value in _sizes(array, axis):
                yield f"the {word} of {name}", np.broadcast_to(value.reshape(over), own.shape).reshape(-1)


def _is_real(block: Block) -> bool:
    return block.parts == 1 and block.elements is None


def _reduced(count: int) -> list[tuple[int, ...]]:
    """One axis, or all but one."""
    axes = [(axis,) for axis in range(count)]
    others = [tuple(a for a in range(count) if a != axis) for axis in range(count)] if count > 1 else []
    return list(dict.fromkeys([*axes, *others]))


def _fits(shape: tuple[int, ...], over: tuple[int, ...]) -> bool:
    """Whether an array of a shape, with more than one element, can be laid over another."""
    try:
        return np.prod(shape, dtype=int) > 1 and np.broadcast_shapes(shape, over) == over
    except ValueError:
        return False


def _sizes(array: np.ndarray, axis: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
    yield "sum", array.sum(axis=axis)
    yield "norm", np.sqrt(np.square(array).sum(axis=axis))
    yield "standard deviation", array.std(axis=axis)
    yield "variance", array.var(axis=axis)
    yield "largest", array.max(axis=axis)
