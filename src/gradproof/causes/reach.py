"""How far an element reaches: along which axes it moves outputs besides its own, and along which that is claimed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.causes.cause import Cause
from gradproof.causes.evidence import Evidence, close
from gradproof.causes.sampling import Samples
from gradproof.core.problem import Mode
from gradproof.core.types import Indices, Vector

# An output that moves by less than this part of the one that moves most may do so by round-off.
_MOVES = 1e-6
# Outputs whose claims are looked at.
_OUTPUTS = 2


def own_only(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """The claim of an element is what it gives to its own output, and nothing of what it gives to others."""
    telling = found.take(found.telling)
    if not _is_square(evidence) or not len(telling):
        return
    inside = telling.columns - evidence.input.start
    own = np.array([evidence.column(c)[k] for c, k in zip(telling.columns.tolist(), inside.tolist(), strict=True)])
    axes = _axes_of_truth(evidence, telling.columns)
    if axes and own.all() and close(telling.claim, cotangent[inside] * own, telling.bar, _MOVES).all():
        yield Cause(
            f"analytic is what an element gives to its own output: what it gives to the others along {_named(axes)} is "
            "missing, as if a sum were forgotten"
        )


def along_fewer_axes(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """An output is claimed to depend on elements along some of the axes only along which it does."""
    truth, claim = _reached(evidence, found)
    lost = truth - claim
    if claim and claim < truth and not any(_is_claimed_along(evidence, axis) for axis in lost):
        yield Cause(
            f"outputs depend on elements along {_named(truth)}, and none is claimed to depend on those along "
            f"{_named(lost)}: a sum or a mean over {_named(lost)} is missing (or a transpose is)"
        )


def _is_claimed_along(evidence: Evidence, axis: int) -> bool:
    """Whether any output is claimed to depend on an element with another index of the axis.

    Two different indices differ in a bit. So for each bit, what is claimed for the outputs whose index has it must be 0
    at all elements whose index has it not, and the other way round: that is asked of all outputs at once.
    """
    shape = evidence.input.shape
    index = np.unravel_index(np.arange(evidence.input.size), shape)[axis]
    for bit in range((shape[axis] - 1).bit_length()):
        has = (index >> bit & 1).astype(np.bool_)
        for side in (has, ~has):
            claims = np.abs(evidence.claimed(np.where(side, evidence.cotangents[0], 0.0)))
            if (claims[~side] > _MOVES * claims.max(initial=0.0)).any():
                return True
    return False


def _reached(evidence: Evidence, found: Samples) -> tuple[frozenset[int], frozenset[int]]:
    """The axes along which an output depends on elements, and is claimed to; none where that differs."""
    if not _is_square(evidence) or evidence.mode is not Mode.REVERSE or not len(found):
        return frozenset(), frozenset()
    claims = {_axes_of_claim(evidence, int(column)) for column in found.columns[found.wrong][:_OUTPUTS]}
    return _axes_of_truth(evidence, found.columns), next(iter(claims)) if len(claims) == 1 else frozenset()


def along_other_axes(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """An output is claimed to depend on elements along other axes than those along which it does."""
    truth, claim = _reached(evidence, found)
    if truth and claim and not claim <= truth:
        yield Cause(
            f"sampled elements move outputs along {_named(truth)} alone, and outputs are claimed to depend on those "
            f"along {_named(claim)}: a reduction over the wrong axis, or over one too many?"
        )


def _is_square(evidence: Evidence) -> bool:
    """Whether every element has an output of its own, by its place."""
    output, input_ = evidence.output, evidence.input
    plain = output.elements is None and input_.elements is None and output.parts == input_.parts == 1
    return plain and output.shape == input_.shape and len(input_.shape) > 0


def _axes_of_truth(evidence: Evidence, columns: Indices) -> frozenset[int]:
    return frozenset(axis for column in columns for axis in _axes(evidence, int(column), evidence.column(int(column))))


def _axes_of_claim(evidence: Evidence, column: int) -> frozenset[int]:
    unit = np.zeros(evidence.output.size)
    unit[column - evidence.input.start] = 1.0
    return _axes(evidence, column, evidence.claimed(unit))


def _axes(evidence: Evidence, column: int, entries: Vector) -> frozenset[int]:
    """The axes along which entries lie that are not zero, as seen from an element."""
    shape, size = evidence.input.shape, np.abs(np.where(np.isfinite(entries), entries, 0.0))
    at = np.unravel_index(column - evidence.input.start, shape)
    there = np.unravel_index(np.flatnonzero(size > _MOVES * size.max(initial=0.0)), shape)
    return frozenset(axis for axis, (own, places) in enumerate(zip(at, there, strict=True)) if (places != own).any())


def _named(axes: frozenset[int]) -> str:
    return f"{'axis' if len(axes) == 1 else 'axes'} {' and '.join(map(str, sorted(axes)))}"
