"""What a lower precision does to a function: every number it computes, forward and backward, is rounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gradproof.backends.torch.memory.allocated import Allocated

_WIDER = (torch.float32, torch.float64)


class Rounding(TorchDispatchMode):
    """While it is on, the result of every operator is rounded to bfloat16, and kept in the dtype it has.

    What the function writes to a tensor from outside stays as it was written.
    """

    def __init__(self) -> None:
        super().__init__()
        self._allocated = Allocated()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self._allocated.note((*args, *(kwargs or {}).values()), result)
        if not func.is_view:  # what it shows was rounded when it was made
            for tensor in cast(Sequence[Any], result) if isinstance(result, list | tuple) else (result,):
                if isinstance(tensor, torch.Tensor) and tensor.dtype in _WIDER and self._allocated.holds(tensor):
                    tensor.copy_(rounded(tensor))
        return result


def rounded(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with its numbers rounded to bfloat16, in its own dtype."""
    return tensor.to(torch.bfloat16).to(tensor.dtype) if tensor.dtype in _WIDER else tensor
