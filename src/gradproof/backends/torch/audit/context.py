"""An operation in the model and the same one alone must hand on the same gradients.

They differ where what it saved was overwritten in between past torch's version counter (`.data`, a tensor kept on `ctx`
itself), or where it keeps state that another call changes. Alone such an operation is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from gradproof.backends.torch.audit.account import gradients_alone
from gradproof.backends.torch.audit.operation import Given, Operation, Replay
from gradproof.backends.torch.audit.run import Recording
from gradproof.backends.torch.tensors.coordinates import resolution

# The same kernels on the same numbers round alike, up to the order of sums.
_ROUND_OFF = 256.0


class Departure(NamedTuple):
    """Where an operation hands on something else in the model than alone: the worst element of one input."""

    number: int
    position: int
    element: tuple[int, ...]
    in_model: float
    alone: float
    elements: int
    writer: int | None
    """A later operation that wrote to what went in or came out."""


def departure(recording: Recording, operation: Operation) -> Departure | None:
    """How one operation departs in the model from what it does alone, if it does."""
    backward = recording.backward
    if backward is None or not backward.ran(operation):
        return None
    handed_on = backward.handed_on(operation)
    arriving = backward.arriving(operation)
    if handed_on is None or any(g is not None and not bool(torch.isfinite(g).all()) for g in arriving):
        return None
    alone = gradients_alone(operation, arriving)
    if alone is None:
        return None
    for edge in dict.fromkeys(given.edge for _, given in operation.inputs if given.edge is not None):
        positions = [i for i, given in operation.inputs if given.edge == edge]
        like = operation.leaves[positions[0]].value
        mine = _dense(handed_on.get(edge), like)
        other = sum((_dense(alone[i], like) for i in positions), torch.zeros_like(mine))
        same = (mine == other) | (mine.isnan() & other.isnan())
        far = torch.where(same, 0.0, (mine - other).abs())
        sizes = torch.cat([mine.abs().flatten(), other.abs().flatten()])
        largest = float(sizes[torch.isfinite(sizes)].amax()) if bool(torch.isfinite(sizes).any()) else 0.0
        allowed = _ROUND_OFF * resolution(like.dtype) * largest
        if not bool((far <= allowed).all()):
            worst = int(torch.nan_to_num(far, nan=torch.inf).argmax())
            element = tuple(int(k) for k in torch.unravel_index(torch.tensor(worst), like.shape))
            values = float(mine.flatten()[worst].real), float(other.flatten()[worst].real)
            writer = overwriting(recording.operations, operation)
            return Departure(operation.number, positions[0], element, *values, int((far > allowed).sum()), writer)
    return None


def _dense(gradient: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    dtype = torch.complex128 if like.is_complex() else torch.float64
    if gradient is None:
        return torch.zeros(like.shape, dtype=dtype, device=like.device)
    gradient = gradient.to_dense() if gradient.layout is not torch.strided else gradient
    return gradient.detach().to(dtype).reshape(like.shape)


def overwriting(operations: Sequence[Operation], operation: Operation) -> int | None:
    """The first later operation that wrote to memory that this one read or made."""
    held = {leaf.memory for leaf in (*operation.leaves, *operation.outputs) if isinstance(leaf, Given)} - {0}
    for later in operations[operation.number + 1 :]:
        if any(later.leaves[i].memory in held for i in later.written):
            return later.number
    return None


def overwritten(operations: Sequence[Operation]) -> Operation | None:
    """The operation whose saved tensors torch refuses to use because they were written to, if there is one."""
    for operation in reversed(operations):
        for node in operation.nodes:
            if _refuses(node):
                return operation
    return None


def _refuses(node: Any) -> bool:
    names = [name for name in dir(node) if name.startswith("_saved_") or name == "saved_tensors"]
    for name in names:
        try:
            getattr(node, name)
        except RuntimeError as error:
            if "inplace operation" in str(error):
                return True
        except Exception:  # an attribute that is not there for this node
            continue
    return False


def faithful(operation: Operation) -> bool:
    """Whether the operation, called again, gives the values that it gave."""
    replay = Replay(operation)
    try:
        with torch.no_grad():
            outputs = replay(*(tensor.detach() for tensor in replay.inputs()))
    except Exception:  # whatever it raises: it cannot be called again
        return False
    if len(outputs) != len(operation.outputs):
        return False
    return all(_same(output, given.value) for output, given in zip(outputs, operation.outputs, strict=True))


def _same(output: torch.Tensor, recorded: torch.Tensor) -> bool:
    if output.shape != recorded.shape or output.dtype != recorded.dtype:
        return False
    if not (output.is_floating_point() or output.is_complex()):
        return bool((output == recorded).all())
    allowed = _ROUND_OFF * resolution(output.dtype)
    return bool(torch.allclose(output, recorded, rtol=allowed, atol=allowed, equal_nan=True))
