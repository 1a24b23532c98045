"""How the outputs of a call, and their changes, are held against those of its twin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradproof.backends.twins import OF_THE_LARGEST, SAME_CHANGE, SAME_VALUE

BENT = 2.0**-6
"""Slopes along a tiny step and a longer one differ by less than this part of the largest, unless the function goes in
steps, or jumps at the point."""
# Then they do by far more.
_JUMPS = 2.0**12


def largest(outputs: Sequence[torch.Tensor]) -> float:
    """The largest number of all."""
    return max((float(output.abs().max()) for output in outputs if output.numel()), default=0.0)


def same_nowhere(fine: Sequence[Any], chosen: Sequence[int], coarse: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """By the number of an output, where both have the same that is no finite number: -inf, inf or NaN."""
    found: dict[int, torch.Tensor] = {}
    for index, output in zip(chosen, coarse, strict=True):
        other = fine[index] if index < len(fine) else None
        if isinstance(other, torch.Tensor) and other.shape == output.shape and not bool(torch.isfinite(other).all()):
            other, own = other.detach(), output.detach().to(other.dtype)
            found[index] = ~torch.isfinite(other) & ((other == own) | (other.isnan() & own.isnan()))
    return found


def without(output: Any, nowhere: torch.Tensor | None) -> Any:
    """An output with zeros there."""
    if nowhere is None or not isinstance(output, torch.Tensor) or output.shape != nowhere.shape:
        return output
    return output.masked_fill(nowhere, 0)


def pairs(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Each of these with its counterpart."""
    return list(zip(first, second, strict=True))


def count(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> int:
    """How many elements are marked in both."""
    return sum(int((a & b).sum()) for a, b in pairs(first, second))


def is_still(changes: Sequence[torch.Tensor]) -> bool:
    """Whether nothing moves over a step that only double precision sees."""
    return not any(bool(change.any()) for change in changes)


def longer(changes: Sequence[torch.Tensor], ratio: float) -> list[torch.Tensor]:
    """The changes along a step so many times as long, of a function that is straight."""
    return [(change * ratio).to(change.dtype) for change in changes]


def goes_in_steps(slight: Sequence[torch.Tensor], near: Sequence[torch.Tensor]) -> bool:
    """Whether a tiny step shows another slope than one a little longer: less, or far too much."""
    for small, large in zip(slight, near, strict=True):
        finite = torch.isfinite(small) & torch.isfinite(large)
        apart, size = (small - large).abs()[finite], large.abs()[finite]
        apart = apart[apart < _JUMPS * size.max()] if apart.numel() else apart  # by as much over either step
        if apart.numel() and bool((apart > BENT * size.max()).any()):
            return True
    return False


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Both parts of complex numbers."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def same_change(
    fine: torch.Tensor, coarse: torch.Tensor, output: torch.Tensor, eps: float, share: float, curved: float
) -> bool:
    size = output.detach().abs().to(fine.abs().dtype)
    largest = size.max() if size.numel() else 0
    allowed = SAME_CHANGE * eps * (size + OF_THE_LARGEST * largest) + share * fine.abs()
    if curved and fine.numel():
        allowed = allowed + curved * fine.abs().max()
    nowhere = ~torch.isfinite(fine) & ~torch.isfinite(coarse)
    return bool((((fine.detach() - coarse.detach()).abs() <= allowed) | nowhere).all())


def same_function(fine: torch.Tensor, coarse: torch.Tensor, eps: float) -> bool:
    """Equal to within a generous round-off of the lower precision."""
    fine, coarse = fine.detach(), coarse.detach()
    difference = (fine - coarse.to(fine.dtype)).abs()
    largest = fine.abs().max() if fine.numel() else torch.zeros(())
    allowed = SAME_VALUE * eps * (fine.abs() + OF_THE_LARGEST * largest)
    return bool((difference <= allowed).all())
