"""How far an element reaches: along which axes it moves outputs besides its own, and along which that is claimed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.causes.evidence import Evidence, close
from gradproof.causes.sampling import Samples
from gradproof.core.problem import Mode
from gradproof.core.types import Indices, Vector

# An output that moves by less than this part of the one that moves most may do so by round-off.
_MOVES = 1e-6
# Outputs whose claims are looked at.
_OUTPUTS = 2


def own_only(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[str]:
    """The claim of an element is what it gives to its own output, and nothing of what it gives to others."""
    telling = found.take(found.telling)
    if not _is_square(evidence) or not len(telling):
        return
    inside = telling.columns - evidence.input.start
    own = np.array([evidence.column(c)[k] for c, k in zip(telling.columns.tolist(), inside.tolist(), strict=True)])
    axes = _axes_of_truth(evidence, telling.columns)
    if axes and own.all() and close(telling.claim, cotangent[inside] * own, telling.bar, _MOVES).all():
        yield (
            f"analytic is what an element gives to its own output: what it gives to the others along {_named(axes)} is "
            "missing, as if a sum were forgotten"
        )


def along_other_axes(evidence: Evidence, found: Samples) -> Iterator[str]:
    """An output is claimed to depend on elements along other axes than those along which it does."""
    if not _is_square(evidence) or evidence.mode is not Mode.REVERSE or not len(found):
        return
    truth = _axes_of_truth(evidence, found.columns)
    claims = {_axes_of_claim(evidence, int(column)) for column in found.columns[found.wrong][:_OUTPUTS]}
    if len(claims) != 1 or not truth:
        return
    (claim,) = claims
    if claim and claim != truth and not claim < truth:
        yield (
            f"an output depends on elements along {_named(truth)}, and is claimed to depend on those along "
            f"{_named(claim)}: a reduction over the wrong axis, or over one too many"
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
