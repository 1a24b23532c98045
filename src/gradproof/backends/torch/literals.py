"""Arguments of a call as Python source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import torch

_MOST = 10_000


class UnwritableError(Exception):
    """Something that has no source, in words."""


def literal(value: Any, names: Mapping[int, str]) -> str:
    """The source of an argument; tensors are named, by their identity.

    >>> literal((1, [2.5, None], {"dim": torch.float32}), {})
    "(1, [2.5, None], {'dim': torch.float32})"
    """
    if id(value) in names:
        return names[id(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    if value is None or type(value) in (int, float, complex, bool, str, bytes, slice, torch.dtype, torch.Size):
        return repr(value)
    if type(value) in (list, tuple):
        inside = [literal(each, names) for each in cast(list[Any], value)]
        if isinstance(value, list):
            return f"[{', '.join(inside)}]"
        return f"({', '.join(inside)},)" if len(inside) == 1 else f"({', '.join(inside)})"
    if type(value) is dict:
        pairs = [f"{literal(k, names)}: {literal(v, names)}" for k, v in cast(dict[Any, Any], value).items()]
        return f"{{{', '.join(pairs)}}}"
    raise UnwritableError(f"an argument of type {type(value).__qualname__} has no source")


def tensor_literal(tensor: torch.Tensor) -> str:
    """The source of a tensor: its values, its dtype, and its strides unless it is contiguous."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise UnwritableError(f"a tensor of layout {tensor.layout} is not written down")
    if tensor.numel() > _MOST:
        raise UnwritableError(f"a tensor of {tensor.numel()} elements is too large to be written down")
    told = repr(tensor.detach().cpu().tolist()).replace("nan", 'float("nan")').replace("inf", 'float("inf")')
    if not tensor.numel():
        return f"torch.empty({tuple(tensor.shape)}, dtype={tensor.dtype})"
    device = "" if tensor.device.type == "cpu" else f', device="{tensor.device}"'
    made = f"torch.tensor({told}, dtype={tensor.dtype}{device})"
    if tensor.is_contiguous():
        return made
    size, stride = tuple(tensor.shape), tensor.stride()
    return f"torch.empty_strided({size}, {stride}, dtype={tensor.dtype}{device}).copy_({made})"
