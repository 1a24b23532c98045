"""A glance: the first look at a small Problem, which settles nearly all small checks.

Two evaluations along the direction of a survey, by the finest rung it starts with, give J u with what round-off leaves
open. What is claimed is held against it. A probe does so by one cotangent, and so does the strategy of every entry if
all operations are the framework's own; of what is written by hand every row is asked for, since it may answer
cotangents of one element otherwise. If the two sides do not differ by more than a smooth function's do, and round-off
alone explains the difference from the claim, all is settled: what the step is off by would have to make up for what is
wrong in the claim to the last digits, along a direction drawn at random. Else the coarser rung is evaluated too, and
error bars and bends are judged as a `Survey` and a `Probe` judge them.

What must be seen is one number, an absolute tolerance of any entry. So a glance only acquits. What it does not settle
is looked at in full. The probe strategy goes on from what was measured and asked. Where every entry is wanted, nothing
that was measured is used again; of what was asked, the first answer becomes the shared one, and rows are remembered.

A lone wrong entry shows for certain by two rungs, and by one unless the step is off by as much. Several hide only if
they cancel with random weights, to within what is hidden. Where every entry is wanted and that is not far below what
must be seen, the same answers must settle all along another direction, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gradproof.core.agreement import largest_of
from gradproof.core.capabilities import AccusedBefore, is_stateless
from gradproof.core.directions import quantised
from gradproof.core.flags import every
from gradproof.core.investigation import Investigation
from gradproof.core.norm import PART
from gradproof.core.options import Options, Strategy
from gradproof.core.precision import (
    BEND_ALONG,
    CONFIDENCE,
    DOUBLE,
    EVALUATION_ROUND_OFF,
    INNER_PRODUCT_ROUND_OFF,
    STRAIGHT,
    UNSEEN_FACTOR,
    least_spacing,
)
from gradproof.core.problem import Mode, OutputChangedError, Problem
from gradproof.core.space import alike
from gradproof.core.types import Vector

RUNGS = (14, 17)
"""The rungs that a probe in double precision starts with."""
# Coordinates up to which every row may be asked for; and entries.
_SMALL, _FEW_ENTRIES = 2048, 2**20
# Where every entry is wanted, errors that cancel to within this part of what must be seen are not looked for along
# another direction, which is drawn by a seed that is so much further on.
_FAR_BELOW, _FURTHER = 1.0 / 16.0, 2
EXTRAPOLATED = 1.0 / (4.0 ** (RUNGS[1] - RUNGS[0]) - 1.0)
"""What Richardson's extrapolation adds of the difference of two quotients."""
CURVED, CURVED_BESIDE = 2.0**-12, 2.0**-15
"""A smooth function bends by a step of the finest rung as much as this part of what it moves by; and as much as this
part of what the output moves by that moves most. Kinks bend by more, or one rung does not tell them."""
SUMMED = INNER_PRODUCT_ROUND_OFF * DOUBLE
"""The round-off of an inner product, relative to the Euclidean norm of its terms."""


class Glance(NamedTuple):
    """What was seen along one direction, and asked with random cotangents."""

    settles: bool
    """Whether no entry can be off by its absolute tolerance, unless the only step that was taken is off by as much."""
    direction: Vector
    found: Sequence[tuple[Vector, Vector]]
    """The difference quotients of each rung, and how far the two sides bend; of the finest only where that settles."""
    questions: Sequence[tuple[Vector, Vector]] = ()
    """The cotangent that was asked, with its answer; none if two rungs leave it too blurred."""
    clearly: bool = False
    """Whether hardly anything is left open, so that several errors do not cancel by chance."""


class _Measured(NamedTuple):
    """J u, and its error bars; none where some output bends."""

    direction: Vector
    found: list[tuple[Vector, Vector]]
    moved: Vector
    bars: Vector | None
    wanted: float
    """How small an error of any entry must be seen, times |u_i|."""

    def blurred(self, cotangent: Vector) -> float:
        """What the bars and the round-off of the sum leave open, weighed by a cotangent."""
        if self.bars is None:
            return math.inf
        return CONFIDENCE * _length(self.bars * cotangent) + SUMMED * _length(cotangent * self.moved)


def glance(investigation: Investigation, options: Options) -> Glance | None:
    """The first survey and the first question of the probe strategy; None: this is no Problem for a glance."""
    seen, asked = None, list[tuple[Vector, Vector]]()
    for seen in _measured(investigation, options):
        hidden = _left_open(investigation, seen, asked)
        if _is_seen(hidden, seen.wanted):
            clearly = _is_seen(hidden, _FAR_BELOW * seen.wanted)
            return Glance(True, seen.direction, seen.found, asked, clearly)
    if seen is None or len(seen.found) < len(RUNGS):
        return None
    sharp = [(cotangent, answer) for cotangent, answer in asked if _is_seen(seen.blurred(cotangent), seen.wanted)]
    return Glance(False, seen.direction, seen.found, sharp)


def _left_open(investigation: Investigation, seen: _Measured, asked: list[tuple[Vector, Vector]]) -> float:
    """What one question leaves open; if it was not `asked` before, and promises to suffice, it is, and is added."""
    cotangent = asked[0][0] if asked else investigation.draw(len(seen.moved), 1)
    blurred = seen.blurred(cotangent)
    if not _is_seen(blurred, seen.wanted):
        return math.inf
    if not asked:
        asked.append((cotangent, investigation.share_cotangent(cotangent)))
    return _hidden(investigation.problem, seen, *asked[0], blurred)


def acquits(investigation: Investigation, options: Options, length: int) -> bool:
    """Whether a glance settles what every entry is wanted of; rows are asked for `length` at a time, if at all."""
    if is_stateless(investigation.problem):
        glanced = glance(investigation, options)
        if glanced is None or not glanced.settles:
            return False
        if is_stateless(investigation.problem):  # still: no hook was called
            return glanced.clearly or _settled_again(investigation, options, [*glanced.questions])
    problem = investigation.problem
    if problem.inputs.size * problem.outputs.size > _FEW_ENTRIES:
        return False
    hidden = _hidden_by_rows(investigation, options, length)
    return hidden <= 0.5 * _FAR_BELOW or (
        hidden <= 1.0 and _hidden_by_rows(investigation, options, length, _FURTHER) <= 1.0
    )


def _settled_again(investigation: Investigation, options: Options, asked: list[tuple[Vector, Vector]]) -> bool:
    """Whether the same question settles all along another direction, by which errors of one output cancel no more."""
    along = _measured(investigation, options, _FURTHER)
    return any(_is_seen(_left_open(investigation, seen, asked), seen.wanted) for seen in along)


def _hidden_by_rows(investigation: Investigation, options: Options, length: int, further: int = 0) -> float:
    """What all rows leave open along a direction, beside what must be seen; by the first rungs that suffice."""
    for seen in _measured(investigation, options, further):
        hidden = _left_open_by_rows(investigation, seen, length)
        if hidden <= seen.wanted:
            return hidden / seen.wanted
    return math.inf


def _left_open_by_rows(investigation: Investigation, seen: _Measured, length: int) -> float:
    """What is left open if each row of the Jacobian moves its output as far as is measured; else infinite."""
    problem = investigation.problem
    if seen.bars is None:
        return math.inf
    blurred = CONFIDENCE * seen.bars + SUMMED * np.abs(seen.moved)
    if not float(blurred.max()) <= seen.wanted:
        return math.inf
    rows = investigation.jacobian_rows(slice(0, problem.outputs.size), length)
    claimed, sizes = np.zeros((2, len(rows)))
    parts: list[tuple[float, Vector]] = []
    for block in problem.inputs.blocks:
        direction = seen.direction[block.slice]
        moved, size = rows[:, block.slice] @ direction, np.abs(rows[:, block.slice]) @ np.abs(direction)
        claimed += moved
        sizes += size
        parts.append((float(np.abs(moved).max()), size))
    allowed = blurred + SUMMED * sizes
    residual = np.abs(claimed - seen.moved)
    if not every(residual <= allowed):
        return math.inf
    hidden = float((residual + allowed).max())
    return hidden if all(_shows(moved, size, hidden) for moved, size in parts) else math.inf


def _hidden(problem: Problem, seen: _Measured, cotangent: Vector, answer: Vector, blurred: float) -> float:
    """What the answer to a cotangent leaves open; infinite where it, or a factor of all of an input, accuses."""
    shares = answer * seen.direction
    allowed = blurred + SUMMED * _length(shares)
    residual = abs(float(np.add.reduce(cotangent * seen.moved)) - float(np.add.reduce(shares)))
    hidden = allowed + residual
    shares_of = [shares[block.slice] for block in problem.inputs.blocks]
    shown = residual <= allowed and all(_shows(abs(float(np.add.reduce(each))), each, hidden) for each in shares_of)
    return hidden if shown else math.inf


def _measured(investigation: Investigation, options: Options, further: int = 0) -> Iterator[_Measured]:
    """J u of a small Problem in double precision, where an absolute tolerance was given: by one rung, then by two.

    Nothing, if it is no such Problem; nothing more where the function raises away from the point.
    """
    problem = investigation.problem
    most = _SMALL if options.strategy is Strategy.ENTRIES else PART
    if not options.atol or max(problem.inputs.size, problem.outputs.size) > most or not is_plain(problem, options):
        return
    drawn = investigation.draw(problem.inputs.size, further)
    direction = quantised(drawn * investigation.scale, problem.point, DOUBLE)
    wanted = options.atol * float(np.abs(direction).min())
    fine = _at(investigation, direction, RUNGS[1])
    if fine is None:
        return
    noise = unit_noise(problem) * 2.0 ** RUNGS[1]
    yield _by_one(direction, fine, noise, wanted)
    coarse = _at(investigation, direction, RUNGS[0])
    if coarse is not None:
        yield _by_two(direction, coarse, fine, noise, wanted)


def _at(investigation: Investigation, direction: Vector, rung: int) -> tuple[Vector, Vector] | None:
    """The difference quotients of a rung, and how far its two sides bend; None where the function raises there."""
    problem, step = investigation.problem, 2.0**-rung * direction
    try:
        above, below = investigation.evaluate_many(np.array((problem.point + step, problem.point - step)))
    except OutputChangedError:
        raise
    except Exception:  # each point is attempted by itself, then
        return None
    return (above - below) * 2.0 ** (rung - 1), (above + below - 2.0 * problem.value) * 2.0**rung


def _by_one(direction: Vector, fine: tuple[Vector, Vector], noise: float, wanted: float) -> _Measured:
    """By one rung: what its step is off by does not show, and has no bar."""
    moved, bend = fine
    sizes = np.abs(moved)
    smooth = CURVED * sizes + (CURVED_BESIDE * largest_of(moved) + BEND_ALONG * noise)
    bars = alike(len(moved), noise) if every(np.abs(bend) <= smooth) else None
    return _Measured(direction, [fine], moved, bars, wanted)


def _by_two(
    direction: Vector, coarse: tuple[Vector, Vector], fine: tuple[Vector, Vector], noise: float, wanted: float
) -> _Measured:
    """By two rungs, with error bars of what their steps are off by."""
    correction = (fine[0] - coarse[0]) * EXTRAPOLATED
    moved = fine[0] + correction
    straight = STRAIGHT * np.abs(moved) + BEND_ALONG * noise
    bars = None
    if every(np.abs(fine[1]) <= np.maximum(0.5 * np.abs(coarse[1]), straight)):
        bars = 2.0 * np.abs(correction) + noise
    return _Measured(direction, [coarse, fine], moved, bars, wanted)


def unit_noise(problem: Problem) -> float:
    """The round-off of an evaluation: no output is larger than the largest."""
    return EVALUATION_ROUND_OFF * (problem.round_off * DOUBLE * largest_of(problem.value) + least_spacing(DOUBLE))


def is_plain(problem: Problem, options: Options) -> bool:
    """Whether nothing but the first question is to be asked, if all is as it should be."""
    inputs, outputs = problem.inputs, problem.outputs
    return (
        options.modes == (Mode.REVERSE,)
        and not options.certify
        and options.step is None
        and outputs.size > 0
        and problem.connected
        and problem.noise is None
        and problem.evaluates_in is None
        and problem.coarsest_eps == DOUBLE
        and inputs.size > 0
        and all(block.size for block in inputs.blocks)
        and problem.capability(AccusedBefore) is None
    )


def _length(values: Vector) -> float:
    """The Euclidean norm; infinite where squares leave the range of numbers, which settles nothing."""
    return math.sqrt(np.vdot(values, values))


def _is_seen(hidden: float, wanted: float) -> bool:
    """Whether a residual shows as much: a lone error d moves it by |v_j d u_i|, and no |v_j| is below a half."""
    return 2.0 * hidden <= wanted


def _shows(moved: float, shares: Vector, hidden: float) -> bool:
    """Whether a common factor of all entries of an input would show, or could not if none of them cancelled."""
    return hidden <= UNSEEN_FACTOR * moved or hidden > UNSEEN_FACTOR * float(np.add.reduce(np.abs(shares)))
