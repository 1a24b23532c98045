"""Contributions that overwrite one another: an element that is read several times gets what one reader gives it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.causes.cause import Cause
from gradproof.causes.evidence import Evidence, close
from gradproof.causes.sampling import Samples
from gradproof.core.capabilities import Elsewhere
from gradproof.core.integral import vjp_at
from gradproof.core.problem import Mode
from gradproof.core.types import Indices, Matrix, Vector

# Outputs that are asked for; how near a ratio of curvatures is to a whole number.
_ROWS, _WHOLE = 256, 0.02
# Elements whose curvature is looked at, wrong ones and right ones.
_BENDS = 5
# Right elements that tell overlapping windows from other sums.
_RIGHT = 3
_WINDOWS = "windows that overlap overwrite one another: add up in place of assigning"
_ADVICE = "an index that occurs more than once: add up (index_add, scatter_add, atomic add) in place of assigning"


def lost(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """Of several outputs that read one element, one is counted; or by curvature, where there is one output."""
    if evidence.mode is not Mode.REVERSE or not found.wrong.any():
        return
    if evidence.output.size > 1:
        yield from _by_entries(evidence, found)
    elif found.right.any():
        yield from _by_curvature(evidence, found, cotangent)


def _by_entries(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """Every wrong element is read by several outputs and has the share of one of them; every right one is read once.

    Every output reads one element, as a lookup does, or several, as windows that overlap: then some must be right, as a
    product with a matrix has other ways to lose a share. Where no element is right and the numbers of readers are the
    same, nothing is said of indices: it may be a sum over an axis.
    """
    inside = found.columns - evidence.input.start
    truths = np.stack([evidence.column(column) for column in found.columns.tolist()])
    size = np.abs(truths).max(axis=1)
    readers = np.abs(truths) > 1e-6 * size[:, None]
    counts = readers.sum(axis=1)
    if (counts[found.wrong] < 2).any() or (counts[found.right] != 1).any():
        return
    rows = np.flatnonzero(readers[found.wrong].any(axis=0))
    windows = bool((readers.sum(axis=0) > 1).any())
    if (windows and int(found.right.sum()) < _RIGHT) or (windows and len(rows) > _ROWS):
        return
    slide = windows and _slide(evidence, readers[found.wrong])
    if len(rows) > _ROWS:
        one = _match_one_reader(evidence, inside[found.wrong], truths[found.wrong])
    else:
        shares = np.zeros(len(found), dtype=np.intp)
        for row in rows.tolist():
            claims = evidence.claimed(_unit(evidence.output.size, row))[inside]
            right = close(claims, truths[:, row], 1e-7 * size)
            if not (right | (claims == 0)).all():
                return
            shares += right & readers[:, row]
        one = bool((shares[found.wrong] == 1).all())
    if one:
        text = "of several outputs that read one element, only one is counted and the others are 0"
        told = found.right.any() or len(np.unique(counts[found.wrong])) > 1
        told = told and (slide or not windows)
        yield Cause(f"{text}: {_WINDOWS if slide else _ADVICE}" if told else text)


def _match_one_reader(evidence: Evidence, inside: Indices, truths: Matrix) -> bool:
    """Whether each claim is that of one of many readers: the same one for every cotangent, which chance does not do."""
    for place, truth in zip(inside.tolist(), truths, strict=True):
        fits = np.abs(truth) > 0
        for cotangent in evidence.cotangents:
            claim = np.full(len(truth), evidence.claimed(cotangent)[place])
            fits = fits & close(claim, cotangent * truth)
        if int(fits.sum()) != 1:
            return False
    return True


def _slide(evidence: Evidence, readers: Matrix) -> bool:
    """Whether elements are read by few neighbours among outputs, as windows do that slide along an axis."""
    if evidence.output.elements is not None or not evidence.output.shape:
        return False
    for one in readers:
        places = evidence.output.positions(evidence.output.start + np.flatnonzero(one))
        for size, index in zip(evidence.output.shape, places, strict=True):
            length = int(index.max() - index.min()) + 1
            if length > 1 and (2 * length > size or len(np.unique(index)) < length):
                return False
    return True


def _unit(size: int, row: int) -> Vector:
    unit = np.zeros(size)
    unit[row] = 1.0
    return unit


def _has_the_share_of_one(evidence: Evidence, found: Samples, cotangent: Vector, counts: Vector) -> bool:
    """Whether the claims are those of one reader each: they move as right ones do, and are no simple part of the truth.

    What is the truth divided by the count is a factor that was forgotten: readers do not give the same.
    """
    wrong = found.take(found.wrong)
    columns, truth, claim = wrong.columns[:_BENDS], wrong.truth[:_BENDS], wrong.claim[:_BENDS]
    if close(counts * claim, truth, wrong.bar[:_BENDS], _WHOLE).any() or not claim.any():
        return False
    if evidence.problem.capability(Elsewhere) is None:
        return True
    whole = evidence.widened(cotangent, evidence.output, evidence.problem.outputs.size)
    point = evidence.problem.point.copy()
    point[columns] += evidence.stencil.step[columns]
    moved = vjp_at(evidence.investigation, point, whole)[columns]
    bends = (moved - claim) / (point[columns] - evidence.problem.point[columns])
    right = evidence.curvature_at(cotangent, found.columns[found.right][:_BENDS])
    return bool(close(bends, np.full(len(bends), np.median(right)), 0.0, _WHOLE).all())


def _by_curvature(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    wrong, right = (
        evidence.curvature_at(cotangent, found.columns[which][:_BENDS]) for which in (found.wrong, found.right)
    )
    if len(wrong) < 2 or len(right) < 2 or not np.isfinite([*wrong, *right]).all():
        return
    one = float(np.median(right))
    if not one or not (np.abs(right / one - 1.0) < _WHOLE).all():
        return
    counts = wrong / one
    if not _has_the_share_of_one(evidence, found, cotangent, counts):
        return
    if (np.abs(counts - np.rint(counts)) < _WHOLE).all() and (np.rint(counts) >= 2).all():
        told = ", ".join(str(int(k)) for k in np.unique(np.rint(counts))[:4])
        yield Cause(
            f"wrong elements bend the output {told} times as much as right ones: they are read so often: {_ADVICE}"
        )
