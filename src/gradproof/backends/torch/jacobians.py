"""Whole Jacobians as tensors, in the shape of torch's helpers: (elements of the input) x (elements of the output)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.derivative.pull import pull
from gradproof.backends.torch.problem import first_order
from gradproof.core.investigation import Investigation
from gradproof.core.space import Block
from gradproof.core.stencil import Stencil
from gradproof.core.types import Matrix


def numerical(function: Callable[..., Any], inputs: Sequence[Any], step: float) -> list[list[torch.Tensor]]:
    """Central differences with this step: for each differentiable input, one Jacobian per output."""
    problem = first_order(call_of(function, inputs)).problem
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
    whole = real + 1j * imaginary if source.parts == 2 or target.parts == 2 else part
    return torch.from_numpy(np.ascontiguousarray(whole))


def analytical(inputs: Sequence[torch.Tensor], output: torch.Tensor) -> list[torch.Tensor]:
    """Rows of the vjp at an output whose graph is there, one Jacobian for each input."""
    jacobians = [torch.zeros(x.numel(), output.numel(), dtype=x.dtype) for x in inputs]
    for j in range(output.numel()):
        cotangent = torch.zeros(output.numel(), dtype=output.dtype, device=output.device)
        cotangent[j] = 1.0
        gradients = pull([output], inputs, [cotangent.reshape(output.shape)])
        for jacobian, gradient in zip(jacobians, gradients, strict=True):
            if gradient is not None:
                dense = gradient if gradient.layout is torch.strided else gradient.to_dense()
                jacobian[:, j] = dense.reshape(-1)
    return jacobians
