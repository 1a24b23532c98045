"""Calls of PyTorch functions whose tensors are cut and given other values."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from gradproof.backends.calls import Call
from gradproof.backends.shrinkable import ArrayOf, Axis
from gradproof.backends.torch.calls import call_of, is_floating


def shrinkable(func: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> TensorCall:
    """The call, to be made smaller."""
    return TensorCall(call_of(func, arguments, keywords))


@dataclass(frozen=True, slots=True)
class TensorCall:
    """A call with its tensors. `strided`: cut tensors keep the strides of those they were cut from."""

    call: Call
    strided: bool = False

    @property
    def arguments(self) -> tuple[Any, ...]:
        return tuple(self.call.arguments)

    @property
    def keywords(self) -> dict[str, Any]:
        return dict(self.call.keywords)

    @property
    def key(self) -> object:
        digest = hashlib.sha256()
        for value in self.call.flat:
            digest.update(_described(value))
        return digest.digest(), len(self.call.arguments), self.strided

    def arrays(self) -> list[ArrayOf]:
        return [
            ArrayOf(i, self.call.origins[i], _shape(value), _kind(value), value.requires_grad)
            for i, value in self._tensors()
        ]

    def elements(self) -> int:
        return sum(value.numel() for _, value in self._tensors())

    def _tensors(self) -> list[tuple[int, torch.Tensor]]:
        return [(i, value) for i, value in enumerate(self.call.flat) if isinstance(value, torch.Tensor)]

    def _replacing(self, replaced: Mapping[int, Any]) -> TensorCall:
        return TensorCall(self.call.replacing(replaced), self.strided)

    def copies(self) -> Iterator[TensorCall]:
        """Contiguous in float64, contiguous, and with their own strides; none that is just like the call."""
        tensors = dict(self._tensors())
        if any(value.dtype is not _double(value.dtype) for value in tensors.values()):
            yield self._replacing({i: _copy(value, _double(value.dtype)) for i, value in tensors.items()})
        if any(_is_plain(value) and not value.is_contiguous() for value in tensors.values()):
            yield self._replacing({i: _copy(value, value.dtype) for i, value in tensors.items()})
            own = {i: _like(value, value.detach()) for i, value in tensors.items()}
            yield TensorCall(self.call.replacing(own), strided=True)

    def cut(self, kept: Mapping[Axis, Sequence[int]]) -> TensorCall:
        replaced: dict[int, torch.Tensor] = {}
        for (position, axis), indices in kept.items():
            value: torch.Tensor = replaced[position] if position in replaced else self.call.flat[position].detach()
            replaced[position] = value.index_select(axis, torch.tensor(indices, device=value.device))
        if self.strided:
            replaced = {i: _with_strides(value, self.call.flat[i].stride()) for i, value in replaced.items()}
        return self._replacing({i: _needing(value, self.call.flat[i]) for i, value in replaced.items()})

    def counting(self, old: int, new: int) -> TensorCall | None:
        """Numbers equal to the size become the new one; in tensors of whole numbers, those too large wrap around."""
        replaced: dict[int, Any] = {}
        for i, value in enumerate(self.call.flat):
            if isinstance(value, torch.Tensor):
                if _kind(value) == "integer" and value.numel() and new <= int(value.max()) < old:
                    replaced[i] = torch.where(value >= new, value % new, value)
            elif type(value) is int and value == old:
                replaced[i] = new
        return self._replacing(replaced) if replaced else None

    def values(self, position: int) -> list[float]:
        return [float(value) for value in self.call.flat[position].detach().flatten().tolist()]

    def with_values(self, position: int, values: Sequence[float]) -> TensorCall:
        old = self.call.flat[position]
        new = torch.tensor(values, dtype=torch.float64).to(old.dtype).reshape(old.shape).to(old.device)
        return self._replacing({position: _like(old, new)})

    def constant(self, position: int) -> TensorCall:
        return self._replacing({position: self.call.flat[position].detach()})

    def without(self, position: int) -> Iterator[TensorCall]:
        arguments, last = self.arguments, len(self.call.arguments) - 1
        origin = self.call.origins[position]
        if origin == last and arguments[last] is self.call.flat[position]:
            yield TensorCall(call_of(self.call.function, arguments[:last], self.keywords), self.strided)
        yield self._replacing({position: None})


def _kind(value: torch.Tensor) -> Any:
    if not _is_plain(value) or value.is_complex() or value.dtype is torch.bool:
        return "other"
    return "real" if is_floating(value) else "integer"


def _is_plain(value: torch.Tensor) -> bool:
    return value.layout is torch.strided and not value.is_quantized and not value.is_nested


def _shape(value: torch.Tensor) -> tuple[int, ...]:
    """What can be cut: a sparse tensor has no axis for it."""
    return tuple(value.shape) if _is_plain(value) else ()


def _double(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def _copy(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    copy = value.detach().to(dtype, copy=True)
    return _needing(copy.contiguous() if _is_plain(copy) else copy, value)


def _needing(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return value.requires_grad_(like.requires_grad)


def _like(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """New values with the strides of the old ones."""
    if not _is_plain(old) or old.is_contiguous():
        return _needing(new.detach().clone(), old)
    return _needing(_with_strides(new, old.stride()), old)


def _with_strides(values: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """A copy that lies in memory like this; where elements would share memory, as torch lays it."""
    if 0 in [step for step, size in zip(stride, values.shape, strict=True) if size > 1]:
        return values.clone()
    made = torch.empty_strided(tuple(values.shape), tuple(stride), dtype=values.dtype, device=values.device)
    return made.copy_(values)


def _described(value: Any) -> bytes:
    """Bytes that tell values apart."""
    if not isinstance(value, torch.Tensor):
        return repr(cast(object, value)).encode()
    told = f"{tuple(value.shape)} {value.dtype} {value.layout} {value.requires_grad}".encode()
    if not _is_plain(value):
        return told + str(id(value)).encode()
    dense = value.detach().resolve_conj().resolve_neg().cpu().clone(memory_format=torch.contiguous_format)
    told += str(value.stride()).encode()
    return told + dense.reshape(-1).view(torch.uint8).numpy().tobytes() if dense.numel() else told
