"""Between tensors and flat real coordinates.

A complex element has two coordinates. PyTorch's convention, that the gradient of a real L is dL/da + i dL/db, makes
the (real, imaginary) pair of a gradient exactly the two real coordinates, so one reading serves values, gradients,
cotangents and tangents.
"""

from __future__ import annotations

import functools
from typing import Any, cast

import numpy as np
import torch
from torch.masked import MaskedTensor

from gradproof.core.capabilities import Form
from gradproof.core.types import Matrix, Vector

NUMPY = frozenset({torch.float64, torch.float32, torch.float16, torch.complex128, torch.complex64})
"""The dtypes that NumPy has too."""


def read(tensor: torch.Tensor) -> Vector:
    """The coordinates of a tensor. They may share its memory."""
    if type(tensor) is torch.Tensor and tensor.dtype is torch.float64 and tensor.layout is torch.strided:
        return tensor.numpy(force=True).reshape(-1)  # nearly always
    if tensor.layout is not torch.strided:
        tensor = tensor.detach().to_dense()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.detach().resolve_conj())
    if tensor.dtype is not torch.float64:
        tensor = tensor.detach().to(torch.float64)
    if isinstance(tensor, MaskedTensor):
        tensor = cast(Any, tensor.detach()).to_tensor(0.0)
    return tensor.numpy(force=True).reshape(-1)


def build(coordinates: Vector, like: torch.Tensor) -> torch.Tensor:
    """A new dense tensor of the shape, dtype and device of `like` with these coordinates."""
    return _shaped(coordinates, like, ())


def build_batch(coordinates: Matrix, like: torch.Tensor) -> torch.Tensor:
    """One such tensor for each row, stacked along a new first dimension."""
    return _shaped(coordinates, like, (len(coordinates),))


def _shaped(coordinates: Matrix, like: torch.Tensor, batch: tuple[int, ...]) -> torch.Tensor:
    if like.dtype is torch.float64 and like.is_cpu:
        return torch.from_numpy(coordinates.reshape((*batch, *like.shape)).copy())
    complex_ = like.dtype.is_complex
    flat = torch.from_numpy(np.array(coordinates))  # a copy: user code may write into it
    shaped = flat.reshape((*batch, *like.shape, 2) if complex_ else (*batch, *like.shape))
    shaped = shaped.to(device=like.device, dtype=like.dtype.to_real())
    return torch.view_as_complex(shaped) if complex_ else shaped


@functools.cache
def resolution(dtype: torch.dtype) -> float:
    """The relative spacing of a dtype's numbers."""
    return torch.finfo(dtype).eps


def form(tensor: torch.Tensor) -> Form:
    return Form(
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        layout=str(tensor.layout).removeprefix("torch."),
        device=str(tensor.device),
    )
