"""How one tensor, of any layout, is seen as coordinates.

A `Frame` belongs to one input or output. It reads whatever tensor stands for it (the value itself, a gradient, a
tangent, in any layout) and builds tensors from coordinates (a moved value, a cotangent). Which elements are
coordinates is all that masks and layouts come down to:

- strided and MKL-DNN tensors: every element;
- sparse tensors with `masked=True`, and MaskedTensor: the specified elements;
- sparse tensors with `masked=False`: every element, so that what is built stores every one of them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.masked import MaskedTensor, masked_tensor

from gradproof.backends.torch.memory.arrangement import build_in
from gradproof.backends.torch.memory.holders import is_ours
from gradproof.backends.torch.private import MKLDNN, masked_parts
from gradproof.backends.torch.tensors.coordinates import build, form, read, resolution
from gradproof.backends.torch.tensors.sparse import BLOCKED, LAYOUTS, Pattern, gather, layout_name, look_up, scatter
from gradproof.core.capabilities import Form, MemoryLayout
from gradproof.core.space import Block, Elements
from gradproof.core.types import Indices, Vector

_SPECIFIED, _UNSPECIFIED = "specified", "unspecified"
_PLACES = "_gradproof_places"


class BlockKind(NamedTuple):
    """What a block is, apart from its name and where it lies."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    elements: Elements | None

    def block(self, kind: str, index: int, name: str, start: int) -> Block:
        """Such a block, the first coordinate of which is `start`."""
        dtype = self.dtype
        return Block(kind, index, name, self.shape, 1 + dtype.is_complex, start, resolution(dtype), self.elements)


class Frame:
    """Every element of a tensor, in order."""

    elements: Elements | None = None
    """Which elements of the shape these are; None: all, in order."""
    batches = True
    """Whether vmap can carry such tensors."""
    can_be_undefined = True
    """Whether torch can put zeros in place of a gradient that is not there."""

    def __init__(self, model: torch.Tensor) -> None:
        self.model = model
        self.shape: tuple[int, ...] = tuple(model.shape)

    def read(self, tensor: torch.Tensor) -> Vector:
        """The coordinates of a tensor that stands for this one. They may share its memory."""
        return read(tensor)

    def take(self, tensors: Sequence[torch.Tensor]) -> Vector:
        """The coordinates of the only tensor in a list or tuple, which nobody else writes to: a copy where they may."""
        ours = is_ours(tensors)
        coordinates = self.read(tensors[0])
        return coordinates if ours else coordinates.copy()

    def build(self, coordinates: Vector) -> torch.Tensor:
        """A new tensor with these coordinates."""
        return build(coordinates, self.model)

    def build_in(self, layout: MemoryLayout, coordinates: Vector) -> torch.Tensor:
        """The same in a memory layout, where that makes a difference for it."""
        return build_in(layout, coordinates, self.model)

    def block(self, kind: str, index: int, name: str, start: int) -> Block:
        """The block of these coordinates, the first of which is `start`."""
        return self.kind.block(kind, index, name, start)

    @property
    def kind(self) -> BlockKind:
        """What a block of these coordinates is, wherever it lies."""
        return BlockKind(self.shape, self.model.dtype, self.elements)

    def mismatch(self, tensor: torch.Tensor) -> tuple[Form, Form] | None:
        """The form that a gradient should have and the one it has, if they differ."""
        model = self.model
        if (
            tensor.shape == model.shape
            and tensor.dtype is model.dtype
            and tensor.layout is model.layout
            and tensor.device == model.device
        ):
            return None
        return form(model), form(tensor)


class PlacedFrame(Frame):
    """Every element of a strided tensor, each of which is an element of some larger tensor, and is named as that."""

    def __init__(self, model: torch.Tensor, places: tuple[tuple[int, ...], Elements]) -> None:
        super().__init__(model)
        self.shape, self.elements = places


class _UnstridedFrame(Frame):
    """Of a tensor whose memory cannot be arranged otherwise."""

    batches = False

    def build_in(self, layout: MemoryLayout, coordinates: Vector) -> torch.Tensor:
        return self.build(coordinates)


class PackedFrame(_UnstridedFrame):
    """Every element of a tensor in an opaque layout, MKL-DNN's."""

    def build(self, coordinates: Vector) -> torch.Tensor:
        dense = build(coordinates, self.model.detach().to_dense())
        return dense.to_mkldnn()  # pyright: ignore[reportUnknownMemberType]


class _SparseFrame(_UnstridedFrame):
    def __init__(self, model: torch.Tensor) -> None:
        super().__init__(model)
        self.parts = 1 + model.is_complex()
        self._pattern = Pattern.of(model)
        self.can_be_undefined = model.layout not in BLOCKED

    def mismatch(self, tensor: torch.Tensor) -> tuple[Form, Form] | None:
        """A gradient may be strided; if it is sparse, then of the same layout, with dimensions divided alike."""
        if tensor.layout is torch.strided:
            wanted, got = dataclasses.replace(form(self.model), layout="strided"), form(tensor)
        else:
            wanted, got = (dataclasses.replace(form(t), layout=layout_name(t)) for t in (self.model, tensor))
        return None if wanted == got else (wanted, got)


class WholeFrame(_SparseFrame):
    """Every element of a sparse tensor: what is built has no holes."""

    def __init__(self, model: torch.Tensor) -> None:
        super().__init__(model)
        self.hole = np.ones(model.numel(), dtype=np.intp)
        self.hole[self._pattern.flat()] = 0
        self.elements = Elements(np.arange(len(self.hole)), (_SPECIFIED, _UNSPECIFIED), self.hole)

    @functools.cached_property
    def _whole(self) -> tuple[Pattern, Indices]:
        pattern = Pattern.without_holes(self.model)
        return pattern, pattern.flat()

    def build(self, coordinates: Vector) -> torch.Tensor:
        pattern, flat = self._whole
        return pattern.fill(build(gather(coordinates, flat, self.parts), pattern.model))


class PatternFrame(_SparseFrame):
    """The specified elements of a sparse tensor. Nothing else exists: no gradient there is looked at."""

    def __init__(self, model: torch.Tensor, elements: Elements | None = None) -> None:
        super().__init__(model)
        elements = elements or Elements(self._pattern.flat(), (_SPECIFIED,))
        self.elements, self._flat = elements, elements.flat

    def read(self, tensor: torch.Tensor) -> Vector:
        wanted = self._flat
        if tensor.layout not in LAYOUTS:
            return gather(read(tensor), wanted, self.parts)
        stored = Pattern.of(tensor)
        if self._pattern.unique and stored.has_indices_of(self._pattern):
            return read(stored.model)
        return look_up(wanted, stored.flat(), read(stored.model).reshape(-1, 1 + tensor.is_complex())).reshape(-1)

    def build(self, coordinates: Vector) -> torch.Tensor:
        return self._pattern.fill(build(coordinates, self._pattern.model))


class MaskedFrame(_UnstridedFrame):
    """The elements of a MaskedTensor that its mask specifies."""

    def __init__(self, model: torch.Tensor) -> None:
        super().__init__(model)
        self.parts = 1 + model.is_complex()
        self._data, self._mask = masked_parts()(model)
        self.flat = np.flatnonzero(self._mask.numpy(force=True))
        self.elements = Elements(self.flat, (_SPECIFIED,))

    def read(self, tensor: torch.Tensor) -> Vector:
        flat, parts = self.flat, self.parts
        if not isinstance(tensor, MaskedTensor):
            return gather(read(tensor), flat, parts)
        data, mask = masked_parts()(tensor)
        there = mask.numpy(force=True).reshape(-1)[flat]
        return np.where(np.repeat(there, parts), gather(read(data), flat, parts), 0.0)

    def build(self, coordinates: Vector) -> torch.Tensor:
        whole = scatter(coordinates, self.flat, self.parts, self.model.numel())
        return masked_tensor(build(whole, self._data), self._mask.clone())


def input_frame(tensor: torch.Tensor, masked: bool) -> Frame:
    """The frame of an input. Elements that a sparse tensor stores twice are two coordinates under a mask."""
    places = vars(tensor).get(_PLACES)
    if tensor.layout is torch.strided and not isinstance(tensor, MaskedTensor):
        return Frame(tensor) if places is None else PlacedFrame(tensor, places)
    if isinstance(tensor, MaskedTensor):
        return MaskedFrame(tensor)
    if tensor.layout in LAYOUTS:
        return PatternFrame(tensor, places) if masked else WholeFrame(tensor)
    return PackedFrame(tensor) if tensor.layout is MKLDNN else Frame(tensor)


def output_frame(tensor: torch.Tensor, masked: bool) -> Frame:
    """The frame of an output; what is stored twice is one number."""
    if type(tensor) is torch.Tensor and tensor.layout is torch.strided:  # nearly always
        return Frame(tensor)
    if masked and tensor.layout is torch.sparse_coo:
        return PatternFrame(tensor.detach().coalesce())
    return Frame(tensor) if tensor.layout is MKLDNN else input_frame(tensor, masked)


def without_holes(tensor: torch.Tensor) -> torch.Tensor:
    """A sparse tensor that stores every element, and knows which ones this one does."""
    frame = WholeFrame(tensor)
    whole = frame.build(frame.read(tensor))
    flat = Pattern.of(whole).flat()
    setattr(whole, _PLACES, Elements(flat, (_SPECIFIED, _UNSPECIFIED), frame.hole[flat]))
    return whole


def values_in_place(tensor: torch.Tensor) -> tuple[Pattern, torch.Tensor]:
    """A sparse tensor as a pattern and its values: a strided tensor of the same memory and names of elements."""
    frame = PatternFrame(tensor, getattr(tensor, _PLACES, None))
    pattern = Pattern.of(tensor)
    setattr(pattern.model, _PLACES, (frame.shape, frame.elements))
    return pattern, pattern.model
