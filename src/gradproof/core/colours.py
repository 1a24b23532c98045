"""Columns that share no output are measured together.

Of a Jacobian with many zeros, columns whose claimed entries lie in different rows can share one central difference: in
each row at most one of them has a claim to prove, the others claim to be zero. That is how sparse Jacobians have been
estimated since Curtis, Powell and Reid; here it only has to confirm them. Every column of a group gets a weight of its
own, no two the same, so that errors in one row do not cancel, and a group is settled only if it agrees far more closely
than the tolerance asks. One that does not is measured column by column.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, Protocol

import numpy as np

from gradproof.core.flags import every, some
from gradproof.core.precision import DOUBLE
from gradproof.core.space import Space
from gradproof.core.stencil import Stencil
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Flags, Indices, Matrix, Vector

# Fewer columns than this are not worth grouping; groups must save this factor of the work.
_WORTH, _GAIN = 2, 2
# How closely a group must agree, as a part of the tolerance: at least, where round-off allows, and at most.
_CLOSEST, _CLOSE = 1e-4, 1e-2
# How many times the noise of one evaluation may remain in a difference.
_REMAINS = 4.0


class Confirmed(NamedTuple):
    """What groups confirm of a Jacobian."""

    columns: Flags
    bent: Flags | None
    """Rows with a bend within the steps, if any: beside a kink, a group confirms the mean of its two sides."""


def confirmed(stencil: Stencil, tolerances: Tolerances, claimed: Matrix, rows: slice, length: int) -> Confirmed | None:
    """The columns of `claimed`, the analytic Jacobian of some outputs, that groups confirm; None: not any.

    `length` is the number of groups measured at a time. Large blocks are grouped apart, so that a batch of evaluations
    moves one of them only.
    """
    inputs, outputs = stencil.problem.inputs, stencil.problem.outputs
    if inputs.size < _WORTH or stencil.fixed or max(inputs.coarsest_eps, outputs.coarsest_eps) > DOUBLE:
        return None
    pattern = claimed != 0
    if not tolerances.least_atol and some(pattern):
        return None
    settled, bent = np.zeros(inputs.size, dtype=np.bool_), None
    watched = not every(np.logical_or.reduce(pattern, axis=1))
    for run in inputs.chunks(inputs.size):
        claims = _claims(claimed[:, run], pattern[:, run], _by_block(inputs, run))
        if claims is not None:
            for first in range(0, claims.count, length):
                groups = slice(first, min(first + length, claims.count))
                found = _confirm(stencil, tolerances, claims, rows, run, groups, watched=watched)
                settled[run] |= found.columns
                if found.bent is not None:
                    bent = found.bent if bent is None else bent | found.bent
    return Confirmed(settled, bent)


def _claims(claimed: Matrix, pattern: Flags, groups: list[slice]) -> _Claims | None:
    """What the groups of a run of columns claim, those given or better ones; None where grouping saves too little."""
    if _is_one_group(pattern):
        return _OneGroup(claimed)
    if _GAIN * len(groups) <= pattern.shape[1] and all(_is_one_group(pattern[:, columns]) for columns in groups):
        group_of = np.empty(pattern.shape[1], dtype=np.intp)
        for group, columns in enumerate(groups):
            group_of[columns] = group
        return _ManyGroups(claimed, pattern, group_of)
    group_of = colour(pattern)
    return None if group_of is None else _ManyGroups(claimed, pattern, group_of)


def _by_block(inputs: Space, run: slice) -> list[slice]:
    """The likeliest groups of a run: a function of each element of its inputs by itself needs one for each of them."""
    blocks = [block for block in inputs.blocks if run.start <= block.start < run.stop]
    return [
        slice(block.start - run.start + part, block.stop - run.start, block.parts)
        for block in blocks
        for part in range(block.parts)
    ]


def _is_one_group(pattern: Flags) -> bool:
    """Whether no row has two columns, as for a function of each element by itself."""
    return int(np.count_nonzero(pattern)) <= len(pattern) and not some(
        np.add.reduce(pattern, axis=1, dtype=np.intp) > 1
    )


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


class _Claims(Protocol):
    """A run of columns in groups, each of which claims at most one entry for each row."""

    count: int

    def points(self, groups: slice, base: Vector, above: Vector, below: Vector) -> Matrix:
        """The points to evaluate: for each group its columns above the base, then for each its columns below."""
        ...

    def differences(self, groups: slice, moved: Vector) -> Matrix:
        """What each group must show in each row when the columns are moved this far."""
        ...

    def least(self, groups: slice, sizes: Vector) -> Vector:
        """The smallest of these sizes in each group."""
        ...

    def members(self, groups: slice, chosen: Flags) -> Flags:
        """The columns of the groups that are chosen."""
        ...


class _OneGroup:
    """All columns in one group: 60 µs less than telling groups apart, 5 % of a small check."""

    count = 1

    def __init__(self, claimed: Matrix) -> None:
        self._claimed = claimed

    def points(self, groups: slice, base: Vector, above: Vector, below: Vector) -> Matrix:
        points = np.empty((2, len(base)))
        points[0], points[1] = above, below
        return points

    def differences(self, groups: slice, moved: Vector) -> Matrix:
        return (self._claimed @ moved)[None, :]

    def least(self, groups: slice, sizes: Vector) -> Vector:
        return np.minimum.reduce(sizes, keepdims=True)

    def members(self, groups: slice, chosen: Flags) -> Flags:
        return chosen


class _ManyGroups:
    """Columns in the groups that they were given."""

    def __init__(self, claimed: Matrix, pattern: Flags, group_of: Indices) -> None:
        self._group_of, self.count = group_of, int(group_of.max()) + 1
        self._all, self._height = np.arange(len(group_of)), len(claimed)
        self._rows, self._columns = np.nonzero(pattern)
        self._values = claimed[self._rows, self._columns]

    def _inside(self, groups: slice) -> tuple[Indices, Indices]:
        """The columns of these groups, and the group of each, counted from the first of these."""
        if groups.stop - groups.start == self.count:
            return self._all, self._group_of
        columns = np.flatnonzero((self._group_of >= groups.start) & (self._group_of < groups.stop))
        return columns, self._group_of[columns] - groups.start

    def points(self, groups: slice, base: Vector, above: Vector, below: Vector) -> Matrix:
        columns, group = self._inside(groups)
        count = groups.stop - groups.start
        points = np.empty((2 * count, len(base)))
        points[:] = base
        points[group, columns] = above[columns]
        points[group + count, columns] = below[columns]
        return points

    def differences(self, groups: slice, moved: Vector) -> Matrix:
        differences = np.zeros((groups.stop - groups.start, self._height))
        rows, columns, values = self._rows, self._columns, self._values
        group = self._group_of[columns]
        if len(differences) < self.count:
            here = (group >= groups.start) & (group < groups.stop)
            rows, columns, values, group = rows[here], columns[here], values[here], group[here]
        differences[group - groups.start, rows] = values * moved[columns]
        return differences

    def least(self, groups: slice, sizes: Vector) -> Vector:
        columns, group = self._inside(groups)
        least = np.full(groups.stop - groups.start, np.inf)
        np.minimum.at(least, group, sizes[columns])
        return least

    def members(self, groups: slice, chosen: Flags) -> Flags:
        columns, group = self._inside(groups)
        inside = np.zeros(len(self._group_of), dtype=np.bool_)
        inside[columns] = chosen[group]
        return inside


def _confirm(
    stencil: Stencil, tolerances: Tolerances, claims: _Claims, rows: slice, run: slice, groups: slice, *, watched: bool
) -> Confirmed:
    """The columns of these groups that agree closely; False for all others of the run.

    Some row that claims nothing is `watched`: of a narrow bump, steps on both sides may reach over all there is.
    """
    base, count = stencil.problem.point[run], groups.stop - groups.start
    shift = _weights(len(base), stencil.investigation.seed) * stencil.step[run]
    above, below = base + shift, base - shift
    values = stencil.attempt(claims.points(groups, base, above, below), run)
    moved = above - below
    residual = values[:count, rows] - values[count:, rows]
    second = stencil.second(values)
    bends = stencil.find_bends(second[:, rows], residual, rows)
    residual -= claims.differences(groups, moved)
    if watched:
        residual[stencil.leaps(values, second)[:, rows]] = np.inf
    closest = claims.least(groups, tolerances.least_atol * np.abs(moved))
    allowed = _allowed(stencil.noise[rows], closest[:, None])
    agrees = np.logical_and.reduce(np.abs(residual, out=residual) <= allowed, axis=1)
    bent = None if bends is None else np.logical_or.reduce(bends, axis=0)
    return Confirmed(claims.members(groups, agrees), bent)


def _allowed(noise: Vector, closest: Matrix) -> Matrix:
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
