"""How noisy a function is: measured, because the dtype is only a lower bound.

Functions round inside. A norm casts to float32 whatever it is given, a kernel multiplies in bfloat16, a solver stops at
a tolerance, values are stored on a grid. Seen with fine steps such a function is a staircase.

With o and s the odd and the even part of F along a direction,

    o = (F(x + hu) - F(x - hu)) / 2,    s = (F(x + hu) + F(x - hu)) / 2 - F(x),

what a rung of a ladder of steps leaves unexplained, max(|o - o' h/h'|, |s| / 2) with o' of the rung before, falls with
the square of the step where F is smooth, with the step at a kink, and stays where there is noise. Where it stays over
three rungs, that is the noise; two are enough where F does not move at all at finer ones, between two steps of the
staircase. Where it is the same on all finer rungs, with its sign, the point lies on a jump, and that is no noise.

Noise is looked for only where something is about to be reported, or zero is claimed of all of an input, and by a coarse
and the two finest rungs first: where they leave no more than round-off, there is none. A solver that stops at a
tolerance may be smooth at the point all the same, and jump beside it: see `core/jumps.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradproof.core.along import Along
from gradproof.core.cancelled import cancelled
from gradproof.core.capabilities import Twin
from gradproof.core.investigation import Investigation
from gradproof.core.jumps import jumps
from gradproof.core.nearby import is_straight
from gradproof.core.norm import PART, norm, parts
from gradproof.core.precision import (
    CLEAR,
    COARSEST_NOISE,
    DOUBLE,
    EVALUATION_ROUND_OFF,
    HALF_OR_LESS,
    LEAST_JUMP,
    MEASURED,
    MEASURED_NOISE,
    NOISY_SHARE,
    SINGLE,
    STAYS,
    TOLD,
    WIDEST_FORMAT,
    WIDEST_JUMP,
)
from gradproof.core.problem import Problem
from gradproof.core.ripples import ripples
from gradproof.core.seen import Note
from gradproof.core.space import Space
from gradproof.core.types import Flags, Matrix, Vector

# Steps in ratios that are no powers of two, as in the ladder; of few bits, so that points are stored exactly.
_JITTER = (1.0, 1.125, 0.875, 1.25, 0.9375, 1.1875, 0.8125, 1.0625, 0.875)
# Directions that noise is measured along; of few outputs more, because one of many is noisy along any.
_DIRECTIONS, _MANY, _DIRECTIONS_OF_FEW = 2, 16, 4
# Inputs up to which each is moved by itself, too.
_EACH = 4
# Values on a jump are the same on all finer rungs but for this part.
_ALIKE = 0.25
# What finer rungs leave this many times less of is resolved by them: a ripple, no noise.
_RESOLVED = 256.0
# Two rungs are a run if the second is not below the first by this part of the ratio of their steps: at a kink nearby,
# beyond which F does not move, it is by half of it at least.
_SHORT_RUN = 0.375
# The rung among the coarse ones that fine ones are compared with, and how much slopes of a smooth function may differ.
_MIDDLE, _STRAIGHT = 2, 0.05
# Jumps are looked for in this many cells, and so far around the point, along one direction after the other: solvers
# take one iteration more or less only here and there.
_CELLS, _SPANS = 64, (0.5, 1.0, 0.25, 2.0)


def learn_noise(
    investigation: Investigation, *, slight: bool = False, unless: Callable[[], bool] = lambda: False
) -> bool:
    """Take the function to be as noisy as it is from now on; whether that is more than it was taken to be.

    Where what is in doubt is `slight`, jumps beside the point may explain it too. Nothing does `unless`, which is asked
    where there is noise, or where it costs much to look for it.
    """
    first = investigation.problem is investigation.made
    coarser = investigation.once(inside) if first else None
    if first and investigation.problem.evaluates_in is None and not unless():
        lost = investigation.once(cancelled)
        coarser = coarser if lost is None else _with_lost(coarser or investigation.problem, lost)
    if coarser is None and slight and not unless():
        coarser = investigation.once(jumping)
    if coarser is None or coarser is investigation.problem or unless():
        return False
    investigation.take_as(coarser, keep=(inside, known_inside, jumping, cancelled))
    return True


def inside(investigation: Investigation) -> Problem | None:
    """The Problem as it is computed inside: by what its twin knows, which costs little, or else as it is measured.

    None: the dtype explains what there is. Asked through `Investigation.once`.
    """
    return investigation.once(known_inside) or measured(investigation)


def learn_cancelled(investigation: Investigation) -> bool:
    """Take outputs that are nothing but round-off for that; whether there are any. For a twin and its own noise."""
    lost = investigation.once(cancelled)
    if lost is None or investigation.problem is not investigation.made:
        return False
    investigation.take_as(_with_lost(investigation.problem, lost), keep=(cancelled,))
    return True


def _with_lost(problem: Problem, lost: Vector) -> Problem:
    """The Problem with the noise of outputs that are nothing but that."""
    own = EVALUATION_ROUND_OFF * _own_spacing(problem) * problem.outputs.typical(problem.value)
    return replace(problem, noise=np.fmax(own if problem.noise is None else problem.noise, lost))


def told(investigation: Investigation) -> Iterator[Note]:
    """In words, what was found."""
    for stored, block in zip(investigation.made.outputs.blocks, investigation.problem.outputs.blocks, strict=True):
        if block.eps > TOLD * stored.eps:
            bits = max(1, round(-math.log2(block.eps)))
            yield Note(f"{block.label} is computed with about {bits} bits inside, as measured, and judged accordingly")


def measured(investigation: Investigation) -> Problem | None:
    """The Problem with the noise that its function is seen to have; None: the dtype explains what there is.

    Asked through `Investigation.once`.
    """
    problem = investigation.problem
    exponents = _rungs(_evaluated_in(problem))
    if not exponents or not problem.inputs.size or not problem.outputs.size:
        return None
    along = _Ladder(investigation, 0)
    if along.is_smooth(exponents):
        return None
    several = [block.slice for block in problem.inputs.blocks if block.size][: _EACH + 1]
    # what is smooth along some inputs hides that others are moved from step to step of a staircase
    alone = several if 1 < len(several) <= _EACH and _evaluated_in(problem) <= DOUBLE else []
    found = _measured_along(along, exponents)
    for moved in alone:
        if found is None and not (along := _Ladder(investigation, 0, moved)).is_smooth(exponents):
            found = _measured_along(along, exponents)
    return found


def _measured_along(here: _Ladder, exponents: tuple[int, ...]) -> Problem | None:
    """The same, as the coordinates are moved that a first ladder moves, and no others."""
    investigation, problem, moved = here.investigation, here.problem, here.moved
    noise, on_jump = here.noise(exponents)
    if on_jump.all():
        return None  # of the point itself, whatever the direction
    few = problem.outputs.size < _MANY and moved == slice(None)
    if not few and not any(_spacings(problem, noise)):  # a rare miss is no harm
        return None
    for which in range(1, _DIRECTIONS_OF_FEW if few else _DIRECTIONS):
        noise = np.fmax(noise, _Ladder(investigation, which, moved).noise(exponents)[0])
    if _evaluated_in(problem) <= DOUBLE and any(_spacings(problem, noise)):
        noise[ripples(here, problem.outputs.blocks, noise, max(here.shortest(exponents, noise) - 2, 0))] = 0.0
    return _as_noisy_as(problem, noise, _sustained(investigation, _spacings(problem, noise)))


def _sustained(investigation: Investigation, found: Sequence[float]) -> list[float]:
    """The spacings that are found, but zero where an output of half precision shows none of it close to the point."""
    problem = investigation.problem
    if _evaluated_in(problem) <= HALF_OR_LESS:
        return [*found]
    kept: list[float] = []
    for block, eps in zip(problem.outputs.blocks, found, strict=True):
        size = norm(problem.value[block.slice]) / math.sqrt(block.size or 1)
        kept.append(0.0 if eps and is_straight(investigation, block, eps * size / 2.0) else eps)
    return kept


def known_inside(investigation: Investigation) -> Problem | None:
    """The Problem in the precision that it computes with inside, as its twin knows; None: that is its own.

    Asked through `Investigation.once`.
    """
    problem = investigation.problem
    twin = problem.capability(Twin)
    twinned = None if twin is None else twin.make()
    if twinned is None or twinned.inside <= problem.coarsest_eps:
        return None
    inside = computed_in(problem, [twinned.inside] * len(problem.outputs.blocks))
    return replace(inside, evaluates_in=problem.evaluates_in)  # evaluations of a twin stay as sharp as they are


def jumping(investigation: Investigation) -> Problem | None:
    """The Problem with the jumps that its function makes beside the point for its noise; None: it makes none.

    Only small ones count, of not too few elements of an output, as of a solver that stops at a tolerance. Asked through
    `Investigation.once`.
    """
    problem = investigation.problem
    if not problem.inputs.size or not problem.outputs.size or _evaluated_in(investigation.made) > DOUBLE:
        return None
    size = np.zeros(problem.outputs.size)
    for which, span in enumerate(_SPANS):
        along = _Ladder(investigation, which)
        size = np.fmax(size, jumps(along.own_values(np.linspace(-span, span, _CELLS + 1))))
        found = [eps if LEAST_JUMP < eps <= WIDEST_JUMP else 0.0 for eps in _spacings(problem, size)]
        if any(found):
            return _as_noisy_as(problem, size, found)
    return None


def _as_noisy_as(problem: Problem, noise: Vector, found: Sequence[float]) -> Problem | None:
    """The Problem with this noise, which so wide a spacing of numbers explains for each output; None: none is found."""
    if not any(found):
        return None
    sizes = [block.size for block in problem.outputs.blocks]
    spacing = np.maximum(np.repeat(found, sizes), _own_spacing(problem))
    least = spacing * problem.outputs.typical(problem.value)
    return replace(computed_in(problem, found), noise=np.fmax(MEASURED_NOISE * noise, least))


def computed_in(problem: Problem, precisions: Sequence[float]) -> Problem:
    """The Problem, with a function that is computed in a precision for each output, where that is lower than stored."""
    blocks = zip(problem.outputs.blocks, precisions, strict=True)
    outputs = Space(tuple(replace(block, eps=max(block.eps, eps)) for block, eps in blocks))
    twin = None if problem.evaluates_in is None else max(problem.evaluates_in, *precisions)
    return replace(problem, outputs=outputs, evaluates_in=twin)


def _evaluated_in(problem: Problem) -> float:
    return problem.coarsest_eps if problem.evaluates_in is None else problem.evaluates_in


def _rungs(eps: float) -> tuple[int, ...]:
    """The rungs that noise of a function in a precision is looked for on; none below half: nothing is coarser.

    >>> _rungs(2.0**-52), _rungs(2.0**-23), _rungs(2.0**-10), _rungs(2.0**-7)
    ((0, 3, 6, 9, 12, 15, 18, 21, 24), (1, 3, 5, 7, 9, 11), (0, 1, 2, 3, 4, 5), ())
    """
    if eps <= DOUBLE:
        return tuple(range(0, 25, 3))
    if eps <= SINGLE:
        return tuple(range(1, 12, 2))
    return tuple(range(6)) if eps < WIDEST_FORMAT else ()


def _spacings(problem: Problem, noise: Vector) -> list[float]:
    """The relative spacing of numbers that explains the noise of each output; zero: its own does, or none could."""
    return [_spacing(problem, noise, block.slice) for block in problem.outputs.blocks]


def _spacing(problem: Problem, noise: Vector, run: slice) -> float:
    value, count = problem.value[run], run.stop - run.start
    if not count or not np.isfinite(value).all() or not value.any():
        return 0.0
    eps = 2.0 * float(np.quantile(noise[run], NOISY_SHARE, method="higher")) * math.sqrt(count) / norm(value)
    return eps if MEASURED * float(_own_spacing(problem)[run].max()) < eps <= COARSEST_NOISE else 0.0


def _own_spacing(problem: Problem) -> Vector:
    """The spacing of the numbers that each output is said to be computed in."""
    if problem.evaluates_in is not None:
        return np.full(problem.outputs.size, problem.round_off * problem.evaluates_in)
    return problem.round_off * np.maximum(problem.outputs.eps, problem.inputs.finest_eps)


class _Ladder(Along):
    """Steps of several sizes along a random direction; of few outputs, values that were asked for are kept."""

    def __init__(self, investigation: Investigation, which: int, moved: slice = slice(None)) -> None:
        super().__init__(investigation, which, moved)
        self.investigation, self.moved = investigation, moved
        self._known: dict[float, Vector] = {}

    def _at(self, step: float) -> Vector:
        """F at one step, a new array."""
        if (known := self._known.get(step)) is not None:
            return known.copy()
        value = self.values([step])[0]
        if len(value) <= PART:
            self._known[step] = value.copy()
        return value

    def noise(self, exponents: tuple[int, ...]) -> tuple[Vector, Flags]:
        """The noise of each output, zero where nothing stays; and whether the point lies on a jump of it."""
        slopes, left, (jumps,) = (np.stack(rows) for rows in self._unexplained(exponents))
        noise = staying(left, slopes[1:] != 0, ratio=2.0 ** (exponents[1] - exponents[0]))
        return np.where(jumps != 0, 0.0, noise), jumps != 0

    def shortest(self, exponents: tuple[int, ...], noise: Vector) -> int:
        """The finest of these rungs on which nearly all noisy outputs are off by a part of the noise."""
        left = np.stack(self._unexplained(exponents)[1])[:, noise > 0]
        with np.errstate(invalid="ignore"):
            off = left >= CLEAR * noise[noise > 0]
        finest = len(off) - 1 - np.argmax(off[::-1], axis=0)
        return exponents[1 + int(np.quantile(finest, 1.0 - NOISY_SHARE))]

    def is_smooth(self, exponents: tuple[int, ...]) -> bool:
        """Whether fine rungs leave no more than round-off unexplained, of a function that has the same slope on them.

        That is, the same as on a coarse one: along some coordinates it may be a staircase, and smooth along others.
        """
        slopes, left, _ = self._unexplained((exponents[_MIDDLE], *exponents[-2:]))
        floor = MEASURED * TOLD * _own_spacing(self.problem) * self.problem.outputs.typical(self.problem.value)
        with np.errstate(invalid="ignore"):
            apart = np.abs(slopes[0] - slopes[-1])
            straight = apart <= _STRAIGHT * self.problem.outputs.typical(slopes[0])
            return bool((straight & (slopes[-1] != 0) & (left[-1] <= floor)).all())

    def _unexplained(self, exponents: tuple[int, ...]) -> tuple[list[Vector], list[Vector], list[Vector]]:
        """The slope on each rung, zero only where F does not move; what each but the first leaves; jumps, in one row.

        Nothing is as large as all of it in one piece, for which long outputs would need new memory.
        """
        sizes = np.array([2.0**-rung * _JITTER[rung % len(_JITTER)] for rung in exponents])
        values = [self._at(step) for step in (*sizes.tolist(), *(-sizes).tolist(), 0.0)]
        slopes, left, jumps = values[: len(sizes)], values[len(sizes) : -2], values[-2:-1]
        for part in parts(len(values[0])):
            found = _rung_by_rung([row[part] for row in values], sizes)
            for row, new in zip([*slopes, *left, *jumps], found, strict=True):
                row[part] = new
        return slopes, left, jumps


def _rung_by_rung(values: Sequence[Vector], sizes: Vector) -> Matrix:
    """The slope on each rung, what each but the first leaves, and jumps, by F above and below and at the point."""
    above, below, here = np.stack(values[: len(sizes)]), np.stack(values[len(sizes) : -1]), values[-1]
    with np.errstate(all="ignore"):
        odd, even = (above - below) / 2.0, (above + below) / 2.0 - here
        ratios = sizes[1:] / sizes[:-1]
        across, beside = odd[1:] - ratios[:, None] * odd[:-1], even[1:] / 2.0
        left = np.fmax(np.abs(across), np.abs(beside))
        still = (above == here) & (below == here)
        slopes = np.where(still, 0.0, np.where(odd != 0, odd / sizes[:, None], np.finfo(np.float64).tiny))
        return np.concatenate([slopes, left, on_jump(across, beside)[None, :].astype(np.float64)])


def staying(left: Matrix, moves: Flags, ratio: float) -> Vector:
    """The noise in what each rung leaves unexplained (one row each, coarse to fine): what does not fall as at a kink.

    `moves` says whether F moves on each of them, `ratio` is that of two neighbouring steps. What finer rungs resolve is
    no noise.

    >>> rungs = np.array([[1e-2, 1e-2], [1e-4, 1e-4], [2e-6, 2e-6], [3e-6, 3e-8], [1e-6, 5e-10]])
    >>> staying(rungs, rungs > 0, ratio=8.0)
    array([3.e-06, 0.e+00])
    """
    noise = np.zeros(left.shape[1])
    still = np.ones(left.shape[1], dtype=np.bool_)  # on all rungs beyond the three
    least = np.full(left.shape[1], np.inf)  # what is left on those of them on which F moves
    with np.errstate(invalid="ignore"):
        for rung in range(len(left) - 3, -1, -1):
            first, second, third = left[rung : rung + 3]
            if rung + 3 < len(left):
                least = np.where(moves[rung + 3], np.fmin(least, left[rung + 3]), least)
            three = (third > 0) & (third * ratio ** (2.0 * STAYS) > np.fmax(first, second))
            three &= np.fmax(second, third) <= _RESOLVED * least
            noise = np.where(three, np.fmax(noise, np.fmax(second, third)), noise)  # the first may be truncation
            still &= ~moves[rung + 2]
            two = still & moves[rung + 1] & (second * _SHORT_RUN * ratio > first)
            noise = np.where(two, np.fmax(noise, np.fmax(first, second)), noise)
    return noise


def on_jump(across: Matrix, beside: Matrix) -> Flags:
    """Where the finer half of the rungs leave the same, with its sign, both of the odd and of the even part of F.

    Noise that is as large on all of them, by chance, changes its sign.

    >>> noisy = np.array([[1.0], [-1.0], [0.9], [-1.0]])
    >>> on_jump(np.abs(noisy), 0.0 * noisy), on_jump(noisy, 0.0 * noisy)
    (array([ True]), array([False]))
    """
    finer = [part[len(part) // 2 :] for part in (across, beside)]
    with np.errstate(invalid="ignore"):
        sizes = np.fmax(*map(np.abs, finer))
        # a rung that is refused says nothing, nor does the odd part on the next one
        apart = np.fmax(*(np.fmax.reduce(part) - np.fmin.reduce(part) for part in finer))
        return (sizes.min(axis=0) > 0) & (apart <= _ALIKE * sizes.max(axis=0))
