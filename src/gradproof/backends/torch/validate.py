"""What the torch front door refuses, with an error that says what arrived and what to do."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.masked import MaskedTensor

from gradproof.backends.calls import Call
from gradproof.backends.notices import notify
from gradproof.backends.torch.likes import is_like
from gradproof.backends.torch.memory.sharing import overlaps
from gradproof.backends.torch.private import MKLDNN
from gradproof.backends.torch.tensors.sparse import LAYOUTS, layout_name, values_of

_DOUBLE = (torch.float64, torch.complex128)


def differentiable(call: Call) -> list[tuple[int, torch.Tensor]]:
    """The tensors of a call that require a gradient, with the numbers of their arguments."""
    return [(call.origins[i], call.flat[i]) for i in call.differentiable()]


def validate_inputs(call: Call, *, who: str, forward: bool, warn_precision: bool) -> list[torch.Tensor]:
    """The tensors under test. Raises for inputs that cannot be checked, warns about low precision.

    `who` is the function the user called, at which a warning points.
    """
    if torch.is_inference_mode_enabled():
        raise RuntimeError(
            f"{who} was called inside torch.inference_mode(), where nothing has a graph: call it outside"
        )
    found = differentiable(call)
    _refuse_tensor_likes(call, who)
    if not found:
        raise ValueError(
            f"{who} expects at least one input tensor to require gradient, but none of the "
            f"{len(call.flat)} inputs does: call requires_grad_() on those to be checked"
        )
    for index, tensor in found:
        if hasattr(tensor, "__tensor_flatten__"):
            raise ValueError(
                f"input {index} is a {type(tensor).__name__}, which wraps other tensors, so {who} cannot move its "
                "numbers. Pass the tensors that it wraps, and make this one inside the function."
            )
        if tensor.layout not in _KNOWN or (tensor.layout in LAYOUTS and isinstance(tensor, MaskedTensor)):
            raise ValueError(
                f"input {index} is a {type(tensor).__name__} of layout {tensor.layout}, which cannot be checked. "
                "Check the function of a strided tensor instead, from which it makes this one."
            )
        if warn_precision and tensor.dtype not in _DOUBLE:
            notify(
                f"Input #{index} requires gradient and is not a double precision floating point or complex, but "
                f"{tensor.dtype}: the check can see no more than that precision resolves.",
                stacklevel=_users_level(),
            )
        if forward and tensor.layout is not torch.strided:
            kind = "an MKLDNN" if tensor.layout is MKLDNN else f"a {layout_name(tensor)}"
            raise ValueError(f"input {index} is {kind} tensor, which forward mode AD does not support in torch")
        if tensor.layout is not MKLDNN:
            _require_own_memory(index, values_of(tensor) if tensor.layout in LAYOUTS else tensor)
    return [tensor for _, tensor in found]


def _refuse_tensor_likes(call: Call, who: str) -> None:
    """Raise for what speaks `__torch_function__`, requires a gradient and is no tensor: it cannot be moved."""
    for index, value in zip(call.origins, call.flat, strict=True):
        if is_like(value) and getattr(value, "requires_grad", False):
            raise TypeError(
                f"input {index} is a {type(value).__name__}, which is like a tensor (it has __torch_function__) but is "
                f"none, and does not hold a single one, so {who} cannot move it. Pass the tensor that it is made of, "
                "and wrap it inside the function."
            )


def _users_level() -> int:
    """The stacklevel of a warning, in the caller of this, that points at the call of gradproof in the user's code."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        level, frame = level + 1, frame.f_back
    return level


_INSIDE = {"gradproof", "contextlib"}
"""The packages whose frames lie between a warning and the user's call."""
_KNOWN = LAYOUTS | {torch.strided, MKLDNN}


def _require_own_memory(index: int, tensor: torch.Tensor) -> None:
    if overlaps(tensor):
        raise RuntimeError(
            f"The input {index} has elements that share memory (shape {tuple(tensor.shape)}, strides "
            f"{tensor.stride()}): moving one would move others. Pass input.contiguous() instead."
        )


def validate_outputs(outputs: list[Any]) -> None:
    """Raise for layouts of outputs that plain gradcheck does not take."""
    for index, output in enumerate(outputs):
        if isinstance(output, torch.Tensor) and output.layout is not torch.strided:
            kind = "MKLDNN" if output.layout is MKLDNN else "Sparse"
            raise ValueError(
                f"{kind} output is not supported at gradcheck yet: output {index} has layout {output.layout}. "
                "Call to_dense(masked_grad=...) on it inside the function."
            )
