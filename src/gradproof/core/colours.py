"""Columns that share no output are measured together.

Of a Jacobian with many zeros, columns whose claimed entries lie in different rows can share one central difference: in
each row at most one of them has a claim to prove, the others claim to be zero. That is how sparse Jacobians have been
estimated since Curtis, Powell and Reid; here it only has to confirm them. Every column of a group gets a weight of its
own, no two the same, so that errors in one row do not cancel, and a group is settled only if it agrees far more closely
than the tolerance asks. One that does not is measured column by column.
"""

from __future__ import annotations

import functools

import numpy as np

from gradproof.core.precision import DOUBLE
from gradproof.core.stencil import Stencil
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Flags, Indices, Matrix, Vector

# Fewer columns than this are not worth grouping; groups must save this factor of the work.
_WORTH, _GAIN = 2, 2
# How closely a group must agree, as a part of the tolerance: at least, where round-off allows, and at most.
_CLOSEST, _CLOSE = 1e-4, 1e-2
# How many times the noise of one evaluation may remain in a difference.
_REMAINS = 4.0


def confirmed(stencil: Stencil, tolerances: Tolerances, claimed: Matrix, rows: slice, length: int) -> Flags | None:
    """The columns of `claimed`, the analytic Jacobian of some outputs, that groups confirm; None: not any.

    `length` is the number of groups measured at a time. Large blocks are grouped apart, so that a batch of evaluations
    moves one of them only.
    """
    inputs, outputs = stencil.problem.inputs, stencil.problem.outputs
    if inputs.size < _WORTH or stencil.fixed or max(inputs.coarsest_eps, outputs.coarsest_eps) > DOUBLE:
        return None
    pattern = claimed != 0
    if not tolerances.atol.all() and pattern.any():
        return None
    settled = np.zeros(inputs.size, dtype=np.bool_)
    for run in inputs.chunks(inputs.size):
        here = pattern[:, run]
        one_group = np.zeros(run.stop - run.start, dtype=np.intp) if _is_one_group(here) else None
        if (group_of := one_group if one_group is not None else colour(here)) is not None:
            claims = _Claims(claimed, pattern, run, group_of)
            for first in range(0, claims.count, length):
                groups = slice(first, min(first + length, claims.count))
                settled[run] |= _confirm(stencil, tolerances, claims, rows, groups)
    return settled


def _is_one_group(pattern: Flags) -> bool:
    """Whether no row has two columns, as for a function of each element by itself."""
    return bool(np.count_nonzero(pattern) <= len(pattern) and pattern.sum(axis=1).max(initial=0) <= 1)


def colour(pattern: Flags) -> Indices | None:
    """A group for each column, such that no row has two columns of one group; None where that would save too little.

    >>> colour(np.eye(4, dtype=bool)).tolist()
    [0, 0, 0, 0]
    >>> colour(np.array([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool)).tolist()
    [0, 1, 0, 1]
    """
    height, width = pattern.shape
    most = width // _GAIN
    if np.count_nonzero(pattern) > most * height:  # some row is in more groups than that
        return None
    group_of = np.empty(width, dtype=np.intp)
    count = 0
    for alike in _disjoint(_by_pattern(pattern)):
        for columns in alike:
            group_of[columns] = np.arange(count, count + len(columns))
        count += max(map(len, alike))
        if count > most:
            return None
    return group_of


def _by_pattern(pattern: Flags) -> dict[int, list[int]]:
    """The columns, gathered by the rows they need, which are the bits of a number; the most common first."""
    bits = np.packbits(pattern.T, axis=1)
    size, content = bits.shape[1], bits.tobytes()
    found: dict[bytes, list[int]] = {}
    for column in range(len(bits)):
        found.setdefault(content[column * size : (column + 1) * size], []).append(column)
    common = sorted(found.items(), key=lambda item: -len(item[1]))
    return {int.from_bytes(rows): columns for rows, columns in common}


def _disjoint(columns_of: dict[int, list[int]]) -> list[list[list[int]]]:
    """Lists of columns with patterns that share no row, put together where they first fit."""
    taken: list[int] = []
    together: list[list[list[int]]] = []
    for needs, columns in columns_of.items():
        at = next((k for k, rows in enumerate(taken) if not rows & needs), len(taken))
        if at == len(taken):
            taken.append(0)
            together.append([])
        taken[at] |= needs
        together[at].append(columns)
    return together


class _Claims:
    """What a run of grouped columns claims: at most one entry for each group and row."""

    def __init__(self, claimed: Matrix, pattern: Flags, run: slice, group_of: Indices) -> None:
        self.run, self.group_of = run, group_of
        self.count = int(group_of.max()) + 1
        self._height = len(claimed)
        self._rows, self._columns = np.nonzero(pattern[:, run])
        self._values = claimed[:, run][self._rows, self._columns]

    def of(self, groups: slice, moved: Vector) -> Matrix:
        """The differences that the groups must show when the columns are moved this far."""
        differences = np.zeros((groups.stop - groups.start, self._height))
        rows, columns, values = self._rows, self._columns, self._values
        group = self.group_of[columns]
        if len(differences) < self.count:
            here = (group >= groups.start) & (group < groups.stop)
            rows, columns, values, group = rows[here], columns[here], values[here], group[here]
        differences[group - groups.start, rows] = values * moved[columns]
        return differences


def _confirm(stencil: Stencil, tolerances: Tolerances, claims: _Claims, rows: slice, groups: slice) -> Flags:
    """The columns of these groups that agree closely; False for all others of the run."""
    point, seed, count = stencil.problem.point, stencil.investigation.seed, groups.stop - groups.start
    inside = (claims.group_of >= groups.start) & (claims.group_of < groups.stop)
    columns = np.flatnonzero(inside)
    group, run = claims.group_of[columns] - groups.start, claims.run
    base, shift = point[run], (_weights(len(inside), seed) * stencil.step[run])[columns]
    points = np.empty((2 * count, len(inside)))
    points[:] = base
    above, below = base[columns] + shift, base[columns] - shift
    points[group, columns] = above
    points[group + count, columns] = below
    values = stencil.attempt(points, run)
    moved, least = np.zeros(len(inside)), np.full(count, np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        moved[columns] = above - below
        np.minimum.at(least, group, (tolerances.atol[run] * np.abs(moved))[columns])
        residual = values[:count, rows] - values[count:, rows]
        residual -= claims.of(groups, moved)
        allowed = _allowed(stencil.noise[rows], least[:, None])
        inside[columns] = np.all(np.abs(residual, out=residual) <= allowed, axis=1)[group]
    return inside


def _allowed(noise: Vector, closest: Matrix | float) -> Matrix:
    """How far off the differences may be, where `closest` is the smallest that the tolerance would excuse."""
    return np.minimum(np.maximum(_REMAINS * noise, _CLOSEST * closest), _CLOSE * closest)


@functools.lru_cache(maxsize=64)
def _weights(size: int, seed: int) -> Vector:
    """Random signs, and magnitudes spread over [0.5, 1.5] in random order, one in each of `size` equal parts of it.

    Their digits are random too: errors as they happen to be, multiples of one another, cancel in no sum of them.
    """
    generator = np.random.default_rng((seed, size))
    magnitude = 0.5 + (generator.permutation(size) + generator.uniform(0.1, 0.9, size)) / size
    magnitude[generator.random(size) < 0.5] *= -1.0
    magnitude.flags.writeable = False
    return magnitude
