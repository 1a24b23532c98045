"""Whole Jacobians as tensors, in the shape of torch's helpers: (elements of the input) x (elements of the output)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from gradproof.backends import as_arguments
from gradproof.backends.torch.calls import call_of, flatten_outputs
from gradproof.backends.torch.derivative.pull import pull
from gradproof.backends.torch.problem import first_order
from gradproof.backends.torch.state.preserve import preserved
from gradproof.core.investigation import Investigation
from gradproof.core.space import Block
from gradproof.core.stencil import Stencil
from gradproof.core.types import Indices, Matrix


def numerical_of_first_output(
    function: Callable[..., Any], inputs: Any, target: Any, step: float
) -> tuple[torch.Tensor, ...]:
    """That of the first output of `function(inputs)` for each tensor of `target`, or of `inputs` if that is None."""
    many = isinstance(inputs, (tuple, list))
    packed = tuple(inputs) if many else inputs
    moved = as_arguments(packed if target is None else target)

    def call(*arguments: Any) -> Any:
        """What is moved may be read from somewhere else than from the arguments."""
        return function(packed if target is not None else arguments if many else arguments[0])

    with preserved([x for x in moved if isinstance(x, torch.Tensor)]):
        found = _numerical(call, moved, step)
    return tuple(per_output[0] for per_output in found)


def numerical_of_one_input(
    function: Callable[..., Any], at: int, inputs: Sequence[Any], step: float, instead: torch.Tensor | None = None
) -> tuple[torch.Tensor, ...]:
    """Those of all outputs of `function(*inputs)` for `inputs[at]`, or for a tensor `instead` of it."""
    moved = inputs[at] if instead is None else instead
    if not moved.requires_grad:
        raise ValueError(f"input {at} does not require a gradient: call requires_grad_() on it")

    def call(argument: torch.Tensor) -> Any:
        return function(*inputs) if instead is not None else function(*inputs[:at], argument, *inputs[at + 1 :])

    with preserved([moved]):
        return tuple(_numerical(call, (moved,), step)[0])


def analytical_with_flags(
    inputs: Any, output: torch.Tensor, nondet_tol: float
) -> tuple[tuple[torch.Tensor, ...], bool, bool, bool]:
    """Those of an output, by its graph; and whether they repeat, have the sizes of their inputs, and their dtypes."""
    if output.is_complex():
        raise ValueError("Expected output to be non-complex: take its real or imaginary part first")
    sources = [x for x in flatten_outputs(inputs) if isinstance(x, torch.Tensor) and x.requires_grad]
    first, second = (_analytical(sources, output) for _ in range(2))
    repeatable = all(not len(a) or bool((a - b).abs().max() <= nondet_tol) for a, b in zip(first, second, strict=True))
    gradients = pull([output.sum()], sources, [torch.ones_like(output.sum())])
    pairs = [(x, g) for x, g in zip(sources, gradients, strict=True) if g is not None]
    return (
        tuple(first),
        repeatable,
        all(x.shape == g.shape for x, g in pairs),
        all(x.dtype == g.dtype for x, g in pairs),
    )


def _numerical(function: Callable[..., Any], inputs: Sequence[Any], step: float) -> list[list[torch.Tensor]]:
    """Central differences with this step: for each differentiable input, one Jacobian per output.

    Of sparse tensors what they specify is moved, in place; the rows of all other elements are zero, as torch's are.
    """
    problem = first_order(call_of(function, inputs), masked=True).problem
    columns = Stencil(Investigation(problem), step).screen(slice(0, problem.inputs.size))
    return [
        [_tensor(columns[source.slice, target.slice], source, target) for target in problem.outputs.blocks]
        for source in problem.inputs.blocks
    ]


def _tensor(part: Matrix, source: Block, target: Block) -> torch.Tensor:
    """Real coordinates as one Jacobian; a complex input has entries ds/da + i ds/db."""
    if source.parts == 2 and target.parts == 2:
        raise ValueError(
            f"{source.label} and {target.label} are both complex: their Jacobian has four real numbers for each "
            "entry. Take the real or the imaginary part of the output inside the function."
        )
    real, imaginary = (part[:, 0::2], part[:, 1::2]) if target.parts == 2 else (part[0::2], part[1::2])
    given = real + 1j * imaginary if source.parts == 2 or target.parts == 2 else part
    if source.elements is None and target.elements is None:
        return torch.from_numpy(np.ascontiguousarray(given))
    whole = np.zeros((math.prod(source.shape), math.prod(target.shape)), given.dtype)
    whole[np.ix_(_elements(source), _elements(target))] = given
    return torch.from_numpy(whole)


def _elements(block: Block) -> Indices:
    """The numbers of a block's elements in its shape."""
    return np.arange(math.prod(block.shape)) if block.elements is None else block.elements.flat


def _analytical(inputs: Sequence[torch.Tensor], output: torch.Tensor) -> list[torch.Tensor]:
    """Rows of the vjp at an output whose graph is there, one Jacobian for each input."""
    jacobians = [torch.zeros(x.numel(), output.numel(), dtype=x.dtype, device="cpu") for x in inputs]
    for j in range(output.numel()):
        cotangent = torch.zeros(output.numel(), dtype=output.dtype, device=output.device)
        cotangent[j] = 1.0
        gradients = pull([output], inputs, [cotangent.reshape(output.shape)])
        for jacobian, gradient in zip(jacobians, gradients, strict=True):
            if gradient is not None:
                dense = gradient if gradient.layout is torch.strided else gradient.to_dense()
                jacobian[:, j] = dense.reshape(-1)
    return jacobians
