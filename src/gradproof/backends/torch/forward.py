"""What forward mode needs besides dual tensors."""

from __future__ import annotations

import functools
import importlib
import warnings

import torch


@functools.cache
def load_forward_mode() -> None:
    """torch loads some of its forward-mode rules on first use, with a warning that is none of the user's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("torch._decomp.decompositions_for_jvp")


def in_kind(tangent: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """A tangent as real or as complex as its output: that it was not is for another property to report."""
    if tangent.is_complex() == output.is_complex():
        return tangent
    return tangent.real if tangent.is_complex() else tangent.to(output.dtype)
