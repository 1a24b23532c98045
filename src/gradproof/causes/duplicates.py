"""Contributions that overwrite one another: an element that is read several times gets what one reader gives it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.causes.evidence import Evidence, close
from gradproof.causes.sampling import Samples
from gradproof.core.problem import Mode
from gradproof.core.types import Vector

# Columns and entries of each that are looked at; how near a ratio of curvatures is to a whole number.
_COLUMNS, _ENTRIES, _WHOLE = 6, 6, 0.1
# Elements whose curvature is looked at, wrong ones and right ones.
_BENDS = 5
_ADVICE = "an index that occurs more than once: add up (index_add, scatter_add, atomic add) in place of assigning"


def lost(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[str]:
    """Of several outputs that read one element, one is counted; or by curvature, where there is one output."""
    if evidence.mode is not Mode.REVERSE or not found.wrong.any():
        return
    if evidence.output.size > 1:
        yield from _by_entries(evidence, found)
    if found.right.any():
        yield from _by_curvature(evidence, found, cotangent)


def _by_entries(evidence: Evidence, found: Samples) -> Iterator[str]:
    """Every entry that an output of such a column claims, among those that were measured, is right or zero."""
    inside = found.columns - evidence.input.start
    truths = np.stack([evidence.column(column) for column in found.columns.tolist()])
    looked_at = lost_somewhere = 0
    for k in np.flatnonzero(found.wrong)[:_COLUMNS].tolist():
        size = float(np.abs(truths[k]).max())
        rows = np.flatnonzero(np.abs(truths[k]) > 1e-6 * size)
        if len(rows) < 2 or len(rows) > evidence.output.size // 2 + 1:
            return
        ends = rows if len(rows) <= _ENTRIES else np.concatenate([rows[: _ENTRIES // 2], rows[-_ENTRIES // 2 :]])
        kept = 0
        for row in ends.tolist():
            claims = evidence.claimed(_unit(evidence.output.size, row))[inside]
            right = close(claims, truths[:, row], 1e-7 * size)
            if not (right | (claims == 0)).all():
                return
            kept += int(right[k])
        if kept == len(ends):
            return
        looked_at, lost_somewhere = looked_at + 1, lost_somewhere + (kept > 0)
    if lost_somewhere and (looked_at > 1 or len(found) < 8):
        yield f"of several outputs that read one element, only some are counted and the others are 0: {_ADVICE}"


def _unit(size: int, row: int) -> Vector:
    unit = np.zeros(size)
    unit[row] = 1.0
    return unit


def _by_curvature(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[str]:
    wrong, right = (
        evidence.curvature_at(cotangent, found.columns[which][:_BENDS]) for which in (found.wrong, found.right)
    )
    wrong, right = wrong[np.isfinite(wrong)], right[np.isfinite(right)]
    if len(wrong) < 2 or len(right) < 2:
        return
    one = float(np.median(right))
    if not one or not (np.abs(right / one - 1.0) < _WHOLE).all():
        return
    counts = wrong / one
    if (np.abs(counts - np.rint(counts)) < _WHOLE).all() and (np.rint(counts) >= 2).all():
        told = ", ".join(str(int(k)) for k in np.unique(np.rint(counts))[:4])
        yield f"wrong elements bend the output {told} times as much as right ones: they are read so often: {_ADVICE}"
