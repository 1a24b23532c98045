"""How noisy a function is: measured, because the dtype is only a lower bound.

Functions round inside. A norm casts to float32 whatever it is given, a kernel multiplies in bfloat16, a solver stops at
a tolerance, values are stored on a grid. Seen with fine steps such a function is a staircase.

With o and s the odd and the even part of F along a direction,

    o = (F(x + hu) - F(x - hu)) / 2,    s = (F(x + hu) + F(x - hu)) / 2 - F(x),

what a rung of a ladder of steps leaves unexplained, max(|o - o' h/h'|, |s| / 2) with o' of the rung before, falls with
the square of the step where F is smooth, with the step at a kink, and stays where there is noise. Where it stays over
three rungs, that is the noise; two are enough where F does not move at all at finer ones, between two steps of the
staircase. Where it is the same on all finer rungs, the point lies on a jump, and that is no noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradproof.core.investigation import Investigation, random_probe
from gradproof.core.norm import norm
from gradproof.core.precision import (
    COARSEST_NOISE,
    DOUBLE,
    MEASURED,
    MEASURED_NOISE,
    NOISY_SHARE,
    SINGLE,
    STAYS,
    WIDEST_FORMAT,
)
from gradproof.core.problem import OutputChangedError, Problem
from gradproof.core.seen import Note
from gradproof.core.space import Block, Space
from gradproof.core.types import Matrix, Vector

# Steps in ratios that are no powers of two, as in the ladder; of few bits, so that points are stored exactly.
_JITTER = (1.0, 1.125, 0.875, 1.25, 0.9375, 1.1875, 0.8125, 1.0625, 0.875)
# Bits of a direction's numbers, for the same reason.
_BITS = 4
# Directions that noise is measured along; of few outputs more, because one of many is noisy along any.
_DIRECTIONS, _MANY, _DIRECTIONS_OF_FEW = 2, 16, 4
# Values on a jump are the same on all finer rungs but for this part.
_ALIKE = 0.25
# How far a whole number of steps is from a whole number, by round-off of a decimal place.
_WHOLE = 1e-6


def finds_noise(investigation: Investigation) -> bool:
    """Whether the function is noisier than it was taken to be; from now on it is taken to be as noisy as it is."""
    if investigation.problem is not investigation.made:
        return False
    coarser = investigation.once(measured)
    if coarser is not None:
        investigation.take_as(coarser)
    return coarser is not None


def told(investigation: Investigation) -> Iterator[Note]:
    """In words, what was found."""
    pairs = zip(investigation.made.outputs.blocks, investigation.problem.outputs.blocks, strict=True)
    for stored, block in pairs:
        if block.eps > stored.eps:
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
    noise = _noise_along(investigation, exponents, 0)
    if not any(_spacing(problem, noise, block.slice) for block in problem.outputs.blocks):  # a rare miss is no harm
        return None
    for which in range(1, _DIRECTIONS if problem.outputs.size >= _MANY else _DIRECTIONS_OF_FEW):
        noise = np.fmax(noise, _noise_along(investigation, exponents, which))
    found = [_spacing(problem, noise, block.slice) for block in problem.outputs.blocks]
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


def is_made_of_steps(problem: Problem, output: Block) -> bool:
    """Whether the steps of an output are no floating-point format's: wider, or between numbers of so many decimals."""
    value = problem.value[output.slice]
    step = output.eps * norm(value) / math.sqrt(output.size)
    if output.eps > WIDEST_FORMAT or not step:
        return True
    decimals = math.floor(-math.log10(step))
    scaled = np.multiply.outer([10.0**places for places in range(decimals - 1, decimals + 3)], value)
    return bool((np.abs(scaled - np.rint(scaled)) <= _WHOLE).all(axis=1).any())


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


def _spacing(problem: Problem, noise: Vector, run: slice) -> float:
    """The relative spacing of numbers that explains the noise of an output; zero: its own does, or none could."""
    value, count = problem.value[run], run.stop - run.start
    if not count or not np.isfinite(value).all() or not value.any():
        return 0.0
    eps = 2.0 * float(np.quantile(noise[run], NOISY_SHARE, method="higher")) * math.sqrt(count) / norm(value)
    return eps if MEASURED * float(_own_spacing(problem)[run].max()) < eps <= COARSEST_NOISE else 0.0


def _own_spacing(problem: Problem) -> Vector:
    """The spacing of the numbers that each output is said to be computed in."""
    if problem.evaluates_in is not None:
        return np.full(problem.outputs.size, problem.evaluates_in)
    return np.maximum(problem.outputs.eps, problem.inputs.finest_eps)


def _noise_along(investigation: Investigation, exponents: tuple[int, ...], which: int) -> Vector:
    """The noise of each output along a random direction; zero where nothing stays."""
    direction = _direction(investigation, which)
    sizes = [2.0**-rung * jitter for rung, jitter in zip(exponents, _JITTER, strict=False)]
    values = _evaluate(investigation, direction, [*sizes, *(-size for size in sizes), 0.0])
    above, below, here = values[: len(sizes)], values[len(sizes) : -1], values[-1]
    with np.errstate(all="ignore"):
        odd, even = (above - below) / 2.0, (above + below) / 2.0 - here
        ratios = np.array(sizes[1:]) / np.array(sizes[:-1])
        left = np.fmax(np.abs(odd[1:] - ratios[:, None] * odd[:-1]), np.abs(even[1:]) / 2.0)
        return staying(left, falls=float(2.0 ** (exponents[1] - exponents[0])) ** STAYS)


def _direction(investigation: Investigation, which: int) -> Vector:
    """Random signs and magnitudes of few bits, times a power of two near each coordinate's scale."""
    probe = random_probe(investigation.problem.inputs.size, investigation.seed + 2 + which)
    _, exponent = np.frexp(investigation.scale)
    return np.ldexp(np.rint(probe * 2.0**_BITS), exponent - 1 - _BITS)


def _evaluate(investigation: Investigation, direction: Vector, steps: Sequence[float]) -> Matrix:
    """F along a direction, NaN where the function refuses a point. Without a batch, which may round otherwise."""
    problem = investigation.problem
    values = np.full((len(steps), problem.outputs.size), np.nan)
    for row, step in zip(values, steps, strict=True):
        point = problem.point + step * direction
        if problem.evaluates_in is None:
            problem.inputs.round_in_place(point)
        try:
            row[:] = investigation.evaluate(point)
        except OutputChangedError:
            raise
        except Exception:  # outside of the domain: the other rungs remain
            continue
    return values


def staying(left: Matrix, falls: float) -> Vector:
    """The noise in what each rung leaves unexplained (one row each, coarse to fine): where it does not fall so fast.

    >>> rungs = np.array([[1e-2, 1e-2], [1e-4, 1e-4], [2e-6, 2e-6], [3e-6, 3e-8], [1e-6, 5e-10]])
    >>> staying(rungs, falls=4.0)
    array([3.e-06, 0.e+00])
    """
    noise = np.zeros(left.shape[1])
    still = np.ones(left.shape[1], dtype=bool)  # all finer rungs are
    with np.errstate(invalid="ignore"):
        stays = (left[1:] * falls > left[:-1]) & (left[1:] > 0)
        for rung in range(len(left) - 2, -1, -1):
            if rung + 2 < len(left):
                still &= left[rung + 2] == 0
                three = stays[rung] & stays[rung + 1]
                finer = np.maximum(left[rung + 1], left[rung + 2])  # the first may be what a smooth function leaves
                noise = np.where(three, np.fmax(noise, finer), noise)
                noise = np.where(stays[rung] & still, np.fmax(noise, np.fmax(left[rung], left[rung + 1])), noise)
    return np.where(_jumps(left), 0.0, noise)


def _jumps(left: Matrix) -> Vector:
    """Where the finer half of the rungs leave the same."""
    finer = left[len(left) // 2 :]
    with np.errstate(invalid="ignore"):
        low, high = finer.min(axis=0), finer.max(axis=0)
        return (low > 0) & (high - low <= _ALIKE * high)
