"""The integral form: how much a function changes along a segment is what its derivative adds up to along it.

    F(c + h) - F(c - h) = integral of J(c + t h) h over t from -1 to 1

With a cotangent v both sides are one number: <v, change>, and the mean of <vjp at c + t h (v), h> by three Gauss
points, exact for polynomials up to the fifth degree. No step goes to zero, so that round-off, which a difference
quotient divides by its step, is divided by a segment as long as the point itself. For kernels of one low precision
nothing else sees much.

Three cotangents matter. The signs of the change itself: the sum grows with the number of outputs, its round-off with
the root, and a common factor shows. Random signs: no lone entry hides by its sign. One output alone is both.

A residual that is no round-off is either a wrong derivative or a segment too long for three points, with kinks on it.
The latter changes as the segment is cut into panels with three points each, the former does not.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from gradproof.core.along import values_along
from gradproof.core.capabilities import Elsewhere
from gradproof.core.draws import random_probe
from gradproof.core.investigation import Investigation
from gradproof.core.norm import norm
from gradproof.core.precision import CONFIDENCE, DOUBLE, EVALUATION_ROUND_OFF, HALF_OR_LESS
from gradproof.core.problem import OutputChangedError
from gradproof.core.types import Flags, Vector

_NODES = (-math.sqrt(0.6), 0.0, math.sqrt(0.6))
_WEIGHTS = (5.0 / 9.0, 8.0 / 9.0, 5.0 / 9.0)
_LONG, _SHORT = (0.5, 0.25, 0.125), (2.0**-4, 2.0**-6, 2.0**-8)
"""Half the segments, in units of each coordinate's scale, longest first: in half precision and in single precision."""
_LONGER, _LESS_SHORT = (1.0, 2.0), (0.25, 1.0)
"""The same where none of these tells anything. They clear and do not accuse: few functions are smooth over so much."""
PANELS = (1, 2, 4)
"""Into how many panels of three Gauss points a segment is cut, until that makes no difference any more."""
BEYOND = 4.0
"""How far the integral may be off, in units of what the last cut changed."""
# Of the derivative's own round-off, in eps, for each element.
_ROUND_OFF = 4.0
# What aimed signs gain from the noise that they are taken from: right networks fail without it.
_AIMED = 3.75
# A segment says something if its bar is at most this part of the change, and enough if it is at most that part.
_TELLING, _ENOUGH = 0.1, 0.02
# A step of a few numbers, in eps: what changes much over it jumps.
_JUMP = 4.0
# A smooth change is visible above this many times round-off; steps of a staircase show in a part up to this.
_VISIBLE, _SHORTER = 4.0, 0.25
# What accuses beyond doubt, in units of the bar.
_SURELY = 2.0


@dataclass(frozen=True, slots=True)
class Segment:
    """A straight segment through the point, which the blocks can store the ends of; and what the function does."""

    length: float
    middle: Vector
    half: Vector
    change: Vector
    error: Vector
    """Round-off of the change, for each output."""


@dataclass(frozen=True, slots=True)
class Balance:
    """Both sides for one cotangent: the change, and what the derivative adds up to along the segment."""

    segment: Segment
    cotangent: Vector
    changed: float
    claimed: float
    noise: float
    """Round-off of the two."""
    is_zero: bool
    """The derivative is zero all along."""
    typical: float = 0.0
    """What the derivative adds up to where nothing is aimed."""
    unsettled: float = 0.0
    """How far the integral itself may be off."""

    @property
    def residual(self) -> float:
        return self.changed - self.claimed

    @property
    def bar(self) -> float:
        return self.noise + self.unsettled

    @property
    def size(self) -> float:
        return max(abs(self.changed), abs(self.claimed), self.typical)

    @property
    def holds(self) -> bool:
        return abs(self.residual) <= self.bar

    @property
    def tells(self) -> bool:
        """Whether a tenth of the change would be noticed."""
        return self.bar <= _TELLING * self.size


def lay(investigation: Investigation, direction: Vector, length: float) -> Segment | None:
    """The segment along a direction of this length to either side; None: the function has no value at an end."""
    problem = investigation.problem
    ends = np.stack([problem.point + length * direction, problem.point - length * direction])
    if problem.evaluates_in is None:
        problem.inputs.round_in_place(ends)
    try:
        above, below = (investigation.evaluate(end) for end in ends)
    except OutputChangedError:
        raise
    except Exception:  # too far: its domain ends before
        return None
    with np.errstate(invalid="ignore"):
        change = above - below
    if not np.isfinite(change).any():
        return None
    eps = problem.outputs.eps if problem.evaluates_in is None else problem.evaluates_in
    size = problem.outputs.typical(above) + problem.outputs.typical(below)
    flat = (change == 0.0) & (problem.coarsest_eps > DOUBLE)
    if flat.any():
        size = np.where(flat, np.fmax(size, investigation.once(size_around)), size)
    error = EVALUATION_ROUND_OFF * eps * size
    return Segment(length, (ends[0] + ends[1]) / 2.0, (ends[0] - ends[1]) / 2.0, change, error)


def size_around(investigation: Investigation) -> Vector:
    """How large each output is as far from the point as that is from zero. Asked through `Investigation.once`.

    A value that does not change at all may be what cancellation left of numbers of that size: (1 + erf(x)) / 2 is.
    """
    problem = investigation.problem
    direction = investigation.draw(problem.inputs.size) * investigation.scale
    size = problem.outputs.typical(problem.value)
    for value in values_along(investigation, direction, (-1.0, 1.0)):
        size = np.fmax(size, problem.outputs.typical(np.where(np.isfinite(value), value, 0.0)))
    return size


def aimed(segment: Segment, otherwise: Vector) -> Vector:
    """The signs of the change, other ones where nothing changes: that it does not is to be seen too.

    Nothing where there is no value.
    """
    signs = np.copysign(1.0, np.where(segment.change != 0.0, segment.change, otherwise))
    return np.where(np.isfinite(segment.change), signs, 0.0)


def balance(
    investigation: Investigation, segment: Segment, cotangent: Vector, *, is_aimed: bool, panels: int = 1
) -> Balance | None:
    """Both sides for a cotangent; None: the derivative has no value somewhere along the segment."""
    problem = investigation.problem
    claimed, shares = 0.0, np.zeros(problem.inputs.size)
    for node, weight in rule(panels):
        gradient = vjp_at(investigation, segment.middle + node * segment.half, cotangent)
        with np.errstate(invalid="ignore", over="ignore"):
            share = np.where(segment.half == 0.0, 0.0, weight * gradient * segment.half)
        if not np.isfinite(share).all():
            return None
        claimed += float(share.sum())
        shares += np.abs(share)
    used = cotangent != 0.0
    weighted = cotangent[used] * segment.error[used]
    if is_aimed:  # where nothing changes, signs are random
        weighted[segment.change[used] != 0.0] *= _AIMED
    noise = CONFIDENCE * (norm(weighted) + _ROUND_OFF * problem.coarsest_eps * norm(shares))
    if is_aimed:  # signs that noise decided all count in its favour
        faint = np.abs(segment.change[used]) < 2.0 * segment.error[used]
        noise += float(np.abs(cotangent[used] * segment.error[used])[faint & (segment.change[used] != 0.0)].sum())
    changed = float((cotangent[used] * segment.change[used]).sum())
    return Balance(segment, cotangent, changed, claimed, noise, not shares.any(), norm(shares))


def rule(panels: int) -> list[tuple[float, float]]:
    """Nodes and weights on [-1, 1], three for each panel.

    >>> [round(sum(weight * node**4 for node, weight in rule(panels)), 12) for panels in (1, 2)]
    [0.4, 0.4]
    """
    width = 1.0 / panels
    middles = [(2 * k + 1) * width - 1.0 for k in range(panels)]
    return [(m + width * node, width * w) for m in middles for node, w in zip(_NODES, _WEIGHTS, strict=True)]


def vjp_at(investigation: Investigation, point: Vector, cotangent: Vector) -> Vector:
    """J^T v at another point; no numbers where it refuses that."""
    investigation.problem.inputs.round_in_place(point)
    investigation.cost.evaluate()
    investigation.cost.pull()
    try:
        return investigation.asks(Elsewhere).vjp(point, cotangent)
    except OutputChangedError:
        raise
    except Exception:  # too far
        return np.full(investigation.problem.inputs.size, np.nan)


def settled(investigation: Investigation, segment: Segment, cotangent: Vector, *, is_aimed: bool) -> Balance | None:
    """A balance whose integral is as sharp as it needs to be: cut into more panels while its residual is no round-off.

    What each cut changes says how far the integral may still be off. Along many kinks that falls slowly.
    """
    found = balance(investigation, segment, cotangent, is_aimed=is_aimed)
    moved: list[float] = []
    for panels in PANELS[1:]:
        if found is None or found.holds:
            break
        finer = balance(investigation, segment, cotangent, is_aimed=is_aimed, panels=panels)
        if finer is None:
            return None
        moved.append(abs(finer.claimed - found.claimed))
        # two cuts that change little by chance are rarer than one
        unsettled = BEYOND * max(change / 2.0**k for k, change in enumerate(reversed(moved)))
        found = dataclasses.replace(finer, unsettled=unsettled)
    return found


@dataclass(frozen=True, slots=True)
class Course:
    """Where segments are laid: in which coordinates, by which random numbers, aimed at a common factor or not.

    Of many outputs the cotangent is aimed; of one, the direction: along it the derivative claims to add up.
    """

    moved: slice | Flags
    """The coordinates that are moved."""
    seed: int
    is_aimed: bool

    def direction(self, investigation: Investigation, *, tight: bool) -> Vector:
        """`tight`: none of the coordinates changes its sign along a segment."""
        problem, scale = investigation.problem, investigation.scale
        if problem.coarsest_eps > HALF_OR_LESS:  # what moves less drowns
            scale = np.maximum(scale, problem.inputs.typical(problem.point, least=1.0))
        if tight:
            own = np.abs(problem.point)
            scale = np.where(own > 0.0, np.minimum(own, scale), scale)
        drawn = random_probe(problem.inputs.size, investigation.seed + self.seed)
        if self.is_aimed and problem.outputs.size == 1:
            drawn = np.where(investigation.pullback != 0.0, np.copysign(drawn, investigation.pullback), drawn)
        direction = np.zeros(problem.inputs.size)
        direction[self.moved] = (drawn * scale)[self.moved] / 1.5
        return direction

    def cotangent(self, investigation: Investigation, segment: Segment) -> Vector:
        """Signs of the change, or random ones."""
        outputs = len(segment.change)
        if outputs == 1:
            return np.ones(1)
        drawn = random_probe(outputs, investigation.seed + self.seed + 1)
        return aimed(segment, drawn) if self.is_aimed else np.copysign(1.0, drawn)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the segments along one direction say: the telling balance, and whether it accuses."""

    balance: Balance
    accuses: bool
    surely: bool

    @property
    def factor(self) -> float:
        """What the derivative is too large by, as a factor."""
        return self.balance.claimed / self.balance.changed if self.balance.changed else math.inf


def follow(investigation: Investigation, course: Course) -> Outcome | None:
    """Segments along one direction, long to short, until one says enough; None: none could be laid."""
    made: list[Balance] = []
    half = investigation.problem.coarsest_eps > HALF_OR_LESS
    lengths, reserve = (_LONG, _LONGER) if half else (_SHORT, _LESS_SHORT)
    for length in (*lengths, *reserve):
        if length in reserve and any(each.tells for each in made):
            break
        found = _along(investigation, course, length)
        if found is None or (length in reserve and not found.holds):
            continue
        made.append(found)
        if found.bar <= _ENOUGH * found.size or abs(found.residual) > _SURELY * found.bar:
            break
    if not made:
        return None
    accusing = [each for each in made if not each.holds]
    sharpest = min(accusing or made, key=lambda each: each.bar / (each.size or 1.0))
    surely = bool(accusing) and abs(sharpest.residual) > _SURELY * sharpest.bar
    if accusing and not surely and made[-1].holds and made[-1].bar <= sharpest.bar:
        return Outcome(made[-1], accuses=False, surely=False)
    surely = surely and not has_jumps(investigation, sharpest.segment)
    return Outcome(sharpest, bool(accusing), surely and not _is_beside_zero(investigation, course, sharpest.segment))


def _is_beside_zero(investigation: Investigation, course: Course, segment: Segment) -> bool:
    """Whether all is well where no coordinate changes its sign: at zero, a function like log|x| has a pole."""
    tight = _along(investigation, course, segment.length, ways=(True,))
    return tight is not None and tight.holds and tight.tells


def _along(
    investigation: Investigation, course: Course, length: float, ways: tuple[bool, ...] = (False, True)
) -> Balance | None:
    """The balance along one direction; along one on which no coordinate changes its sign, where that has no value."""
    for tight in ways:
        segment = lay(investigation, course.direction(investigation, tight=tight), length)
        if segment is None or not np.isfinite(segment.change).all():
            continue
        is_aimed = course.is_aimed and len(segment.change) > 1
        found = settled(investigation, segment, course.cotangent(investigation, segment), is_aimed=is_aimed)
        if found is not None:
            return found
    return None


def has_jumps(investigation: Investigation, segment: Segment) -> bool:
    """Whether an output changes over a small part of the segment as much as others do along all of it: x - floor(x)."""
    tiny = max(_JUMP * investigation.problem.coarsest_eps, segment.length / 16.0)
    short = lay(investigation, segment.half / segment.length, tiny)
    if short is None:
        return False
    return bool(np.abs(short.change).max(initial=0.0) > 0.5 * np.abs(segment.change).max(initial=0.0))


def is_staircase(investigation: Investigation, moved: slice | Flags) -> bool:
    """Whether most outputs that change along a segment do not at all along a short part of it: they go in wide steps.

    So short that there are hardly steps in it, and so long that a smooth change would be well above round-off.
    """
    direction = Course(moved, 5, is_aimed=False).direction(investigation, tight=False)
    whole = lay(investigation, direction, 0.5)
    if whole is None or not whole.change.any():
        return False
    changed = whole.change != 0.0
    visible = float(np.median(whole.error[changed] / np.abs(whole.change[changed])))
    part = max(_JUMP * investigation.problem.coarsest_eps, _VISIBLE * visible)
    short = lay(investigation, direction, 0.5 * part) if part < _SHORTER else None
    return short is not None and bool((short.change != 0.0).sum() < 0.5 * changed.sum())
