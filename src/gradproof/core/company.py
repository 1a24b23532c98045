"""Noise is no excuse for one entry that sticks out among others.

What a function rounds inside, or where its solver stops, is in all entries of an output more or less, and it is there
whether the derivative is right or wrong. So where a single entry differs, and others of the same pair agree far more
closely, noise explains nothing: it would have spoiled these too. Without this rule a check would see less of a wrong
derivative than of a right one, of which no noise is ever measured, and a certificate would promise too much.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.core.draws import basis
from gradproof.core.investigation import Investigation
from gradproof.core.precision import CLEAR, DOUBLE
from gradproof.core.problem import Mode
from gradproof.core.space import Place
from gradproof.core.stencil import Stencil
from gradproof.core.types import Flags, Vector
from gradproof.core.visited import Visited
from gradproof.core.wide import widened

# Entries that are measured beside the one that differs; the lines (of an output, or of an input in forward mode) that
# they are looked for in, its own first; and how many of one line, the largest.
_ENTRIES, _LINES, _OF_LINE = 8, 7, 4
# One agrees if it differs by no more than this part of what that one does, error bar included.
_LESS = 0.25
# A coarse step, relative to the one that screens: what the two differ by is the error bar.
_COARSE = 4.0
# Steps that one entry is looked at with, in the same units, until two of them agree: on a staircase short ones do not.
_LONGER = (1.0, 16.0, 256.0, 4096.0, 65536.0)

_Entry = tuple[int, int, float]
"""Output, input and what is claimed."""


def sticks_out(
    investigation: Investigation, mode: Mode, place: tuple[Place, Place], size: float, difference: float
) -> bool:
    """Whether most others of the same pair agree far more closely than one entry, at an output and an input.

    That is `difference` off from its `size`; the others must agree more closely in relation to theirs, too. False where
    there are no others: then nothing is known of what noise does. And where it agrees itself by the steps that the
    others are measured with: then shorter ones have seen no more of it than one step of a staircase.
    """
    wide = investigation.once(widened) if investigation.problem.coarsest_eps > DOUBLE else None
    investigation = wide or investigation
    stencil = Stencil(investigation)
    others = list(_others(investigation, mode, *place))[:_ENTRIES]
    if not others or stencil.buried[place[1].coordinate]:  # along which no step can be taken that means anything
        return False
    if not is_wrong_by_long_steps(investigation, mode, place, difference):
        return False
    sizes = np.array([abs(claim) for _, _, claim in others])
    within = _LESS * difference * np.minimum(1.0, sizes / (abs(size) or difference))
    return 2 * int(_agree(stencil, others, within).sum()) > len(others)


def is_wrong_by_long_steps(
    investigation: Investigation, mode: Mode, place: tuple[Place, Place], difference: float
) -> bool:
    """Whether an entry does not agree by the steps that others are measured with, either.

    Else shorter ones have seen no more of it than one step of a staircase. Nothing is asked where far longer steps have
    shown the same slope as they.
    """
    if (place[0].coordinate, place[1].coordinate) in investigation.once(Visited).same_from_afar:
        return True
    stencil, entry, within = Stencil(investigation), _entry(investigation, mode, *place), _LESS * difference
    for longer in _LONGER:
        (fine,), (apart,), (floor,) = _slopes(stencil, [entry], longer)
        if abs(entry[2] - fine) + apart + floor <= within:
            return False
        if apart <= max(CLEAR * within, floor) and fine != 0:
            return True
    return True


def _agree(stencil: Stencil, entries: list[_Entry], within: Vector) -> Flags:
    """Which entries are seen to be right to within so much, by two steps each."""
    fine, apart, floor = _slopes(stencil, entries)
    return np.abs(np.array([entry[2] for entry in entries]) - fine) + apart + floor <= within


def _slopes(stencil: Stencil, entries: list[_Entry], longer: float = 1.0) -> tuple[Vector, Vector, Vector]:
    """Entries by one step each, how far a coarser one is from it, and its round-off."""
    rows, columns = (np.array([entry[k] for entry in entries]) for k in range(2))
    step, each = longer * stencil.step[columns], np.arange(len(entries))
    points = np.tile(stencil.problem.point, (4, len(entries), 1))
    for point, size in zip(points, (1.0, -1.0, _COARSE, -_COARSE), strict=True):
        point[each, columns] += size * step
    values = stencil.attempt(points.reshape(-1, len(stencil.problem.point))).reshape(4, len(entries), -1)
    with np.errstate(all="ignore"):
        above, below, far, back = values[:, each, rows]
        fine, coarse = (above - below) / (2.0 * step), (far - back) / (2.0 * _COARSE * step)
        return fine, np.abs(fine - coarse), stencil.noise[rows] / step


def _entry(investigation: Investigation, mode: Mode, output: Place, input_: Place) -> _Entry:
    """One entry, with what is claimed of it."""
    asked, answered = (output, input_) if mode is Mode.REVERSE else (input_, output)
    claim = float(_line(investigation, mode, asked.coordinate)[answered.coordinate])
    return output.coordinate, input_.coordinate, claim


def _others(investigation: Investigation, mode: Mode, output: Place, input_: Place) -> Iterator[_Entry]:
    """Entries of the pair that are claimed not to be zero, but for that one: of its own line, then of some others."""
    asked, answered = (output, input_) if mode is Mode.REVERSE else (input_, output)
    rng = np.random.default_rng(investigation.seed)
    lines = asked.block.start + rng.permutation(asked.block.size)[: _LINES - 1]
    for line in dict.fromkeys([asked.coordinate, *lines.tolist()]):
        claims = _line(investigation, mode, line)
        filled = answered.block.start + np.flatnonzero(claims[answered.block.slice])
        largest_first = filled[np.argsort(-np.abs(claims[filled]), kind="stable")]
        for place in largest_first[:_OF_LINE].tolist():
            row, column = (line, place) if mode is Mode.REVERSE else (place, line)
            if (row, column) != (output.coordinate, input_.coordinate) and np.isfinite(claims[place]):
                yield row, column, float(claims[place])


def _line(investigation: Investigation, mode: Mode, line: int) -> Vector:
    """What is claimed of one output, or along one input."""
    problem = investigation.problem
    if mode is Mode.FORWARD:
        return investigation.jvp(basis(slice(line, line + 1), problem.inputs.size)[0])
    if investigation.rows is not None:
        return investigation.rows[line]
    return investigation.vjp(basis(slice(line, line + 1), problem.outputs.size)[0])
