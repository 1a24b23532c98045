"""Whether anybody else holds a tensor's memory: what nobody else can write to need not be copied.

A check of a million elements keeps a dozen values and gradients. A copy of each is three passes over memory that is in
no cache, a tenth of the whole check. Short tensors are copied: that is cheaper than to ask.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradproof.backends.torch.trusted import trusted
from gradproof.core.norm import PART

_torch: Any = torch  # none of what is used here has types

IsSole = Callable[[Sequence[torch.Tensor]], bool]
"""Whether a list or tuple is all that holds the only tensor in it."""


def is_ours(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the one long tensor in a list or tuple, a number for each coordinate in order, is held by nothing else.

    The caller keeps no other name for it. Where it cannot be told, it is not.
    """
    tensor = tensors[0]
    if tensor.numel() <= PART or type(tensor) is not torch.Tensor or tensor.dtype is not torch.float64:
        return False
    plain = tensor.layout is torch.strided and tensor.is_cpu and tensor.is_contiguous() and not tensor.is_neg()
    del tensor
    return plain and is_sole()(tensors)


@functools.cache
def is_sole() -> IsSole:
    """By the numbers of references: they are those of a tensor that was just made.

    To the Python object, the tensor behind it, its storage, and the object of that. What lies in memory that torch has
    not allocated itself (NumPy's, another process's) is somebody else's.
    """
    return trusted("torch._C._storage_Use_Count", _private_is_sole, _counts, _never)


def _private_is_sole() -> IsSole:
    holders_of, count = _torch._C._storage_Use_Count, sys.getrefcount

    def held(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
        """No name is given to the tensor, and none to its storage before the references to that are counted."""
        own = count(tensors[0]), weakref.getweakrefcount(tensors[0]), _uses(tensors[0])
        beneath = count(tensors[0].untyped_storage())
        storage: Any = tensors[0].untyped_storage()
        return *own, beneath, holders_of(storage._cdata), storage.resizable(), storage.is_shared()

    alone = held([_new()])
    return lambda tensors: held(tensors) == alone


def _uses(tensor: Any) -> int:
    return tensor._use_count()


def _never(tensors: Sequence[torch.Tensor]) -> bool:
    return False


def _counts(is_sole: IsSole) -> bool:
    """One tensor is nobody else's. Others have a name, a view, an array, a graph, or lie in an array's memory."""
    held, viewed, shown, storage = _new(), [_new()], [_new()], [_new()]
    view, array, kept = viewed[0].detach(), shown[0].numpy(), storage[0].untyped_storage()
    saved = [_new().requires_grad_().exp()]
    lent = [torch.from_numpy(array.copy())]
    others = ([held], viewed, shown, storage, saved, lent)
    told = [is_sole(each) for each in others]
    del view, array, kept
    return is_sole([_new()]) and not any(told)


def _new() -> torch.Tensor:
    """Whatever the user's default device and dtype."""
    return torch.zeros(2, dtype=torch.float64, device="cpu")
