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
    seen = 0
    kept_rows: set[int] = set()
    for column in found.columns[found.wrong][:_COLUMNS].tolist():
        truth = evidence.column(column)
        size = float(np.abs(truth).max())
        rows = np.flatnonzero(np.abs(truth) > 1e-6 * size)
        if len(rows) < 2 or len(rows) > evidence.output.size // 2 + 1:
            return
        ends = rows if len(rows) <= _ENTRIES else np.concatenate([rows[: _ENTRIES // 2], rows[-_ENTRIES // 2 :]])
        claims = np.array(
            [evidence.claimed(_unit(evidence.output.size, row))[column - evidence.input.start] for row in ends]
        )
        right, zero = close(claims, truth[ends], 1e-7 * size), claims == 0
        if not (right | zero).all() or not zero.any():
            return
        kept_rows |= set(ends[right].tolist())
        seen += 1
    if seen >= 1 and kept_rows and (seen > 1 or len(found) < 8):
        yield f"of several outputs that read one element, only some are counted and the others are 0: {_ADVICE}"


def _unit(size: int, row: int) -> Vector:
    unit = np.zeros(size)
    unit[row] = 1.0
    return unit


def _by_curvature(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[str]:
    bends = evidence.curvature_at(cotangent, found.columns)
    wrong, right = bends[found.wrong], bends[found.right]
    if len(wrong) < 2 or len(right) < 2 or not np.isfinite(bends[found.telling]).all():
        return
    one = float(np.median(right))
    if not one or not (np.abs(right / one - 1.0) < _WHOLE).all():
        return
    counts = wrong / one
    if (np.abs(counts - np.rint(counts)) < _WHOLE).all() and (np.rint(counts) >= 2).all():
        told = ", ".join(str(int(k)) for k in np.unique(np.rint(counts))[:4])
        yield f"wrong elements bend the output {told} times as much as right ones: they are read so often: {_ADVICE}"
