"""Saturated operations: a gradient arrives, and exactly nothing is handed on."""

from __future__ import annotations

from typing import NamedTuple

import torch

from gradproof.backends.torch.audit.operation import Operation
from gradproof.backends.torch.audit.run import Recording

# From this share of the elements on, that is named.
_MOST = 0.9
# Operations that are there to let nothing through.
_MASKS = ("dropout", "mask", "where", "tri", "zero", "fill", "detach", "copy", "threshold_backward")


class Saturated(NamedTuple):
    """Of the elements at which a gradient arrives, how many hand on exactly zero."""

    number: int
    zero: int
    total: int


def saturated(recording: Recording, operation: Operation) -> Saturated | None:
    """Of an operation that takes each element by itself, as far as shapes tell."""
    backward = recording.backward
    if backward is None or len(operation.tested) != 1 or any(word in operation.name for word in _MASKS):
        return None
    (position,) = operation.tested
    given = operation.leaves[position]
    (arriving, *others), handed_on = backward.arriving(operation), backward.handed_on(operation)
    if others or arriving is None or not handed_on or arriving.shape != given.value.shape:
        return None
    left = handed_on.get(given.edge)
    if left is None or left.layout is not torch.strided:
        return None
    asked = arriving != 0
    total, zero = int(asked.sum()), int((asked & (left == 0)).sum())
    return Saturated(operation.number, zero, total) if total and zero >= _MOST * total else None
