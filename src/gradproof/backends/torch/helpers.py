"""The helpers beside torch's gradcheck that return whole Jacobians, with the names and signatures they have there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradproof.backends.notices import notify
from gradproof.backends.torch import jacobians


def get_numerical_jacobian(
    fn: Callable[..., Any], inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> tuple[torch.Tensor, ...]:
    """The numerical Jacobian of the first output of `fn(inputs)` for each tensor of `target` (default: `inputs`).

    Plain central differences with step `eps`; one row for each element of the input, one column for each of the
    output. `target` may be anything that `fn` reads, by argument or not.
    """
    _deprecated(grad_out, "get_numerical_jacobian")
    return jacobians.numerical_of_first_output(fn, inputs, target, eps)


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any],
    input_idx: int,
    inputs: Sequence[Any],
    outputs: Sequence[torch.Tensor],
    eps: float,
    input: torch.Tensor | None = None,
    is_forward_ad: bool = False,
) -> tuple[torch.Tensor, ...]:
    """The numerical Jacobians of all outputs of `fn(*inputs)` for `inputs[input_idx]`, or for `input` if given.

    `outputs` and `is_forward_ad` are torch's; the outputs are read off the function itself.
    """
    return jacobians.numerical_of_one_input(fn, input_idx, inputs, eps, input)


def get_analytical_jacobian(
    inputs: Any, output: torch.Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[torch.Tensor, ...], bool, bool, bool]:
    """The Jacobians of `output`, by its graph, for each tensor of `inputs` that requires a gradient.

    Returns them with three flags: the backward is repeatable to within `nondet_tol`; the gradients have the sizes
    of their inputs; they have their dtypes.
    """
    _deprecated(grad_out, "get_analytical_jacobian")
    return jacobians.analytical_with_flags(inputs, output, nondet_tol)


def _deprecated(grad_out: float, name: str) -> None:
    """Refuse what torch refuses, and warn the user of a helper that torch has marked as going away."""
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0: {name} takes no other value, got {grad_out!r}")
    notify(f"`{name}` is deprecated in torch, which this stands in for: it is private there.", FutureWarning, 3)
