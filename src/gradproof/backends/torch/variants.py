"""The same call with inputs of another dtype, in other memory, or with gradients of some of them only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gradproof.backends import Variation, Varied
from gradproof.backends.calls import Call, parameter_names
from gradproof.backends.torch.calls import TENSORS, call_of, is_floating
from gradproof.backends.torch.memory.arrangement import arrange, possible
from gradproof.core.capabilities import MemoryLayout


def dtype_of(name: str) -> torch.dtype | None:
    """The dtype of this name; None: there is none."""
    found = getattr(torch, name, None)
    return found if isinstance(found, torch.dtype) else None


def tested_labels(func: Callable[..., Any], arguments: Sequence[Any]) -> list[str]:
    """The inputs under test, as reports call them: those that require a gradient, or all if none does."""
    call = call_of(func, arguments)
    return [call.label(i) for i in _tested(call)]


def memory_layouts(arguments: Sequence[Any]) -> frozenset[MemoryLayout]:
    """The memory layouts, beside the contiguous one, that make a difference for some input."""
    call = call_of(_nothing, arguments)
    return possible([call.flat[i] for i in _floating(call)])


def vary(func: Callable[..., Any], arguments: Sequence[Any], variation: Variation) -> Varied:
    """The call in a variation. Expanded inputs are expanded inside the function that is called with them.

    Elements that share memory cannot be moved one by one.
    """
    call = call_of(func, arguments)
    tested, floating = _tested(call), _floating(call)
    chosen = tested if variation.gradients is None else [tested[k] for k in variation.gradients]
    replaced: dict[int, torch.Tensor] = {}
    shapes: dict[int, torch.Size] = {}
    for i in floating:
        tensor = _contiguous(call.flat[i], variation.dtype)
        if variation.layout is MemoryLayout.EXPANDED:
            shapes[i] = tensor.shape
            tensor = _one_of_each(tensor)
        else:
            tensor = arrange(tensor, variation.layout)
        replaced[i] = tensor.requires_grad_(i in chosen)
    varied = call.replacing(replaced)
    expanded = {i: shape for i, shape in shapes.items() if replaced[i].shape != shape}

    def adapted(function: Callable[..., Any]) -> Callable[..., Any]:
        return Expanding(function, expanded) if expanded else function

    return Varied(varied.arguments, sum(call.flat[i].numel() for i in floating), adapted)


class Expanding:
    """A function of inputs that it expands first: their elements share memory."""

    def __init__(self, function: Callable[..., Any], shapes: Mapping[int, torch.Size]) -> None:
        """`shapes` are those of some flat positions among the arguments."""
        self._function, self._shapes = function, shapes
        self.__name__ = str(getattr(function, "__name__", type(function).__name__))
        self.parameter_names = parameter_names(function, TENSORS)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        call = Call(self._function, arguments, keywords, TENSORS)
        return call.with_values({i: call.flat[i].expand(shape) for i, shape in self._shapes.items()})


def _floating(call: Call) -> list[int]:
    """The flat positions of the tensors of numbers in ordinary memory."""
    return [i for i, value in enumerate(call.flat) if _is_ordinary(value)]


def _is_ordinary(value: Any) -> bool:
    return type(value) is torch.Tensor and value.layout is torch.strided and is_floating(value)


def _tested(call: Call) -> list[int]:
    return call.differentiable() or _floating(call)


def _contiguous(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    """A copy; of a complex tensor in the complex dtype of the same precision."""
    if dtype is not None and tensor.is_complex():
        dtype = dtype.to_complex()
    return tensor.detach().to(dtype or tensor.dtype, copy=True).contiguous()


def _one_of_each(tensor: torch.Tensor) -> torch.Tensor:
    """The first along the first axis with several: what an expanded tensor has in memory."""
    axis = next((k for k, size in enumerate(tensor.shape) if size > 1), None)
    return tensor if axis is None else tensor.narrow(axis, 0, 1).clone()


def _nothing() -> None: ...
