"""Which elements of a wrong input are measured: a grid through what was found to be wrong, and random others.

The grid has a few indices of every axis, the first and the last among them, and every combination of these. So whatever
holds along an axis (a difference that is the same, a ratio, a right and a wrong end) shows on several lines.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from gradproof.causes.evidence import Evidence
from gradproof.core.norm import norm
from gradproof.core.precision import DOUBLE
from gradproof.core.types import Flags, Indices, Vector

# Indices of each axis, by the number of axes; random elements besides.
_OF_AXIS = {0: (), 1: (14,), 2: (4, 4), 3: (2, 3, 3), 4: (2, 2, 2, 3)}
_RANDOM = 8
# An error bar of so much of an error does not hide it.
_SHARP = 0.25


@dataclass(frozen=True, slots=True)
class Samples:
    """Sampled coordinates with truth and claim for one cotangent.

    `telling` are those that are not zero in both, and seen sharply enough: if they were off by as much as those that
    are wrong, in relation to themselves, they would be wrong too.
    """

    columns: Indices
    truth: Vector
    claim: Vector
    bar: Vector
    wrong: Flags
    telling: Flags

    def take(self, which: Flags) -> Samples:
        return Samples(*(getattr(self, name)[which] for name in self.__slots__))

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def right(self) -> Flags:
        return self.telling & ~self.wrong


def sample(evidence: Evidence, anchors: Indices, *, keep: int = 0) -> None:
    """Measure the elements of the grid and random ones, around the anchors, which are known to be wrong.

    So many evaluations are kept for other questions.
    """
    if not evidence.is_small:
        wanted = _parts(evidence, np.concatenate([anchors[:1], _grid(evidence, anchors), anchors[1:3]]))
        evidence.measure(wanted[: max(0, (evidence.allowance.left - keep) // 2)])


def samples(evidence: Evidence, cotangent: Vector) -> Samples:
    """All that was measured, for one cotangent."""
    columns = evidence.measured
    truth, claim = evidence.truth_at(cotangent, columns), evidence.claimed_at(cotangent, columns)
    bar = evidence.bar_at(cotangent, columns)
    finite = truth[np.isfinite(truth)]
    size = norm(finite) / math.sqrt(len(finite) or 1)
    close = 1e-7 if evidence.problem.coarsest_eps <= DOUBLE else 1e-3
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(truth - claim) <= bar + close * np.maximum(np.abs(truth), np.abs(claim)) + 1e-9 * size)
        large = np.maximum(np.abs(truth), np.abs(claim))
        telling = (large > bar + 1e-9 * size) & ~_is_blurred(truth - claim, large, bar, wrong) | wrong
    return Samples(columns, truth, claim, bar, wrong, telling)


def _is_blurred(off: Vector, large: Vector, bar: Vector, wrong: Flags) -> Flags:
    """Where nothing is seen to be wrong only because the error bar is wide."""
    relative = np.abs(off)[wrong] / large[wrong]
    relative = relative[np.isfinite(relative)]
    return bar > _SHARP * float(np.median(relative)) * large if len(relative) else np.zeros(len(off), dtype=np.bool_)


def _parts(evidence: Evidence, columns: Indices) -> Indices:
    """Both parts of complex elements, in the order given."""
    inputs = evidence.problem.inputs
    both = [part for c in columns.tolist() for part in inputs.parts_of(np.array([c])).tolist()]
    return np.array(list(dict.fromkeys(both)), dtype=np.intp)


def _grid(evidence: Evidence, anchors: Indices) -> Indices:
    block, rng = evidence.input, np.random.default_rng(evidence.investigation.seed + 5)
    elements = evidence.elements()
    others = elements[rng.permutation(len(elements))[:_RANDOM]]
    shape = block.shape
    if block.elements is not None or not shape or len(shape) > max(_OF_AXIS):
        return np.concatenate([others, elements[rng.permutation(len(elements))[:24]]])
    anchor = [int(axis[0]) for axis in block.positions(anchors[:1])]
    indices = [_indices(size, at, count, rng) for size, at, count in zip(shape, anchor, _counts(shape), strict=True)]
    # the first indices of all axes first: where the allowance ends early, no axis is left out
    ranks = sorted(itertools.product(*(range(len(each)) for each in indices)), key=sum)
    places = np.array([[each[k] for each, k in zip(indices, rank, strict=True)] for rank in ranks], dtype=np.intp).T
    grid = block.start + np.ravel_multi_index(tuple(places), shape) * block.parts
    return np.concatenate([grid, others])


def _counts(shape: tuple[int, ...]) -> list[int]:
    """How many indices of each axis, those of the longest axes first."""
    counts = sorted(_OF_AXIS[len(shape)])
    order = np.argsort(shape, kind="stable")
    given = [0] * len(shape)
    for count, axis in zip(counts, order.tolist(), strict=True):
        given[axis] = count
    return given


def _indices(size: int, anchor: int, count: int, rng: np.random.Generator) -> list[int]:
    """Indices of one axis: that of the anchor, the ends, the one beside it, and random ones."""
    beside = anchor + 1 if anchor + 1 < size else anchor - 1
    wanted = [anchor, size - 1 if anchor != size - 1 else 0, *(int(k) for k in rng.integers(0, size, 1)), 0, size - 1]
    wanted = [*wanted, beside, *rng.permutation(size)[: 2 * count].tolist()]
    return [k for k in dict.fromkeys(wanted) if 0 <= k < size][:count]
