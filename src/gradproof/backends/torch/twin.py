"""The float64 twin of a low-precision call.

float32 and below are too coarse to difference well. Where the function accepts float64, its numerical side is evaluated
there, at the very same point: the low-precision numbers are float64 numbers too. Where it does not (it mixes them with
low-precision tensors of its own, or has a kernel for one dtype only), there is no twin, and error bars are what the
native dtype allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gradproof.backends.torch.arguments import Call, flatten_outputs
from gradproof.backends.torch.coordinates import build, resolution
from gradproof.backends.torch.leaves import Leaf
from gradproof.core.types import Vector

_WIDE = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}


def wide(dtype: torch.dtype) -> torch.dtype:
    """The double-precision dtype of the same kind."""
    return _WIDE.get(dtype, dtype if dtype.is_complex else torch.float64)


class Twin:
    """The same call on double-precision copies of its floating-point tensors."""

    def __init__(self, call: Call, leaves: list[Leaf]) -> None:
        self.call, self._leaves = call, leaves
        self.models = [torch.empty(leaf.tensor.shape, dtype=wide(leaf.tensor.dtype)) for leaf in leaves]
        self._constants = {
            position: value.detach().to(wide(value.dtype))
            for position, value in enumerate(call.flat)
            if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
        }

    def run(self, point: Vector) -> list[Any]:
        moved = [build(point[leaf.block.slice], model) for leaf, model in zip(self._leaves, self.models, strict=True)]
        return self.run_with(moved)

    def run_with(self, moved: Sequence[torch.Tensor]) -> list[Any]:
        """The outputs with these tensors in place of the leaves."""
        values = {leaf.position: tensor for leaf, tensor in zip(self._leaves, moved, strict=True)}
        return flatten_outputs(self.call.with_values({**self._constants, **values}))


def find_twin(
    call: Call, leaves: list[Leaf], point: Vector, chosen: list[int], outputs: list[torch.Tensor]
) -> Twin | None:
    """The twin, if there is one that computes the same function in double precision."""
    if all(leaf.tensor.dtype in (torch.float64, torch.complex128) for leaf in leaves):
        return None
    if any(leaf.tensor.layout is not torch.strided or not leaf.tensor.is_cpu for leaf in leaves):
        return None
    twin = Twin(call, leaves)
    try:
        found = twin.run(point)
        moved = point + _reach(leaves) * np.abs(point)
        follows = _follows(twin, leaves, moved, chosen, [found[i] for i in chosen], outputs)
    except Exception:
        return None
    if not follows:
        return None
    for index, output in zip(chosen, outputs, strict=True):
        other = found[index] if index < len(found) else None
        if not isinstance(other, torch.Tensor) or other.shape != output.shape or other.dtype != wide(output.dtype):
            return None
        if not _same_function(other, output):
            return None
    return twin


def _reach(leaves: list[Leaf]) -> float:
    """How far to move the point to see whether the twin follows: far enough for the lower precision to notice."""
    return max(2.0**-6, *(16 * resolution(leaf.tensor.dtype) for leaf in leaves))


def _follows(
    twin: Twin, leaves: list[Leaf], moved: Vector, chosen: list[int], fine: list[Any], coarse: list[torch.Tensor]
) -> bool:
    """Whether twin and original move alike: the twin of a function that also reads inputs by closure does not."""
    there = twin.run(moved)
    try:
        for leaf in leaves:
            leaf.write(moved[leaf.block.slice])
        original = flatten_outputs(twin.call())
        pairs = [(there[i] - f, (original[i] - o).to(f.dtype)) for i, f, o in zip(chosen, fine, coarse, strict=True)]
    finally:
        for leaf in leaves:
            leaf.restore()
    return all(_same_change(left, right, o) for (left, right), o in zip(pairs, coarse, strict=True))


def _same_change(fine: torch.Tensor, coarse: torch.Tensor, output: torch.Tensor) -> bool:
    eps = resolution(output.dtype)
    size = output.detach().abs().to(fine.abs().dtype)
    allowed = 8 * eps * (size + 0.1 * (size.max() if size.numel() else 0)) + 0.25 * fine.abs()
    return bool(((fine.detach() - coarse.detach()).abs() <= allowed).all())


def _same_function(fine: torch.Tensor, coarse: torch.Tensor) -> bool:
    """Equal to within a generous round-off of the lower precision."""
    fine, coarse = fine.detach(), coarse.detach()
    difference = (fine - coarse.to(fine.dtype)).abs()
    size = fine.abs().max() if fine.numel() else torch.zeros(())
    return bool(np.all(difference.numpy() <= 64 * resolution(coarse.dtype) * (fine.abs() + 0.1 * size).numpy()))
