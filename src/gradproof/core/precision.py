"""What counts as round-off, as a bend, as too small to matter: one place, one value and one reason each.

`eps` is always the relative spacing of the numbers of a precision: 2**-52 for float64, 2**-23 for float32.
"""

from __future__ import annotations

import numpy as np

from gradproof.core.types import Vector

DOUBLE = 2.0**-52
SINGLE = 2.0**-23
HALF_OR_LESS = 2.0**-12
"""Precisions with a wider spacing than this (half and below) need steps and scales of their own."""

NARROW = 2.0**-10
"""That of float16, whose numbers end at 65504: even a factor of four may be too much."""

SHORTEST = 2.0**-1000
"""Scales are no shorter than this: a step of 2**-27 of it can be taken with half of the digits at least."""


def least_spacing(eps: float) -> float:
    """How far apart the smallest numbers of a format are, by the spacing of the others: there it does not shrink.

    >>> least_spacing(2.0**-23) == 2.0**-149, least_spacing(2.0**-7) == 2.0**-133, least_spacing(2.0**-10) == 2.0**-24
    (True, True, True)
    """
    least_normal = 2.0**-14 if eps == NARROW else 2.0**-126 if eps >= SINGLE else 2.0**-1022
    return least_normal * eps


def largest_number(eps: float) -> float:
    """Where the numbers of a format end, by their spacing.

    >>> largest_number(2.0**-10), largest_number(2.0**-23) > 1e38
    (65504.0, True)
    """
    return (2.0 - eps) * 2.0 ** (15 if eps == NARROW else 127 if eps >= SINGLE else 1023)


# Round-off, in units of eps.

EVALUATION_ROUND_OFF = 2.0
"""Of one evaluation, relative to the output: a few operations deep. Two evaluations make a difference."""
INNER_PRODUCT_ROUND_OFF = 32.0
"""Of an inner product of a probe with an answer, relative to its Euclidean norm, with the answer's own."""
DERIVATIVE_ROUND_OFF = 1e3
"""Of a derivative that is zero, or is asked for twice in one order, relative to the numbers it is made of."""
SUM_ROUND_OFF = 64.0
"""Of a derivative along many coordinates at once, relative to it."""
BATCH_ROUND_OFF = 64.0
"""Between a batched and a plain call, relative to the largest value, for batches to be of use."""
ENTRY_ROUND_OFF = 4.0
"""Of a single entry by the derivative under test, relative to it: nobody's mistake, whatever rtol says."""
MOST_ROUND_OFF = 1e-2
"""No round-off is taken to be more than this part, however low the precision."""


COARSEST_ENTRY = 0.5
"""Nor is the round-off of an entry more than this part of it: that of one with two bits is an eighth."""


def reordered(eps: float) -> float:
    """The relative difference that another order of summation, in other memory, may make: 4e-10 in float64.

    In float32 half of the digits: its matrix exponential loses as many by itself.
    """
    return eps**0.5 if DOUBLE < eps <= SINGLE else eps**0.6


# Tolerances where none are given.


def default_rtol(eps: Vector) -> Vector:
    """The relative tolerance of an entry in a precision: 2.5e-7 in float64, 1.2e-4 in float32, 3 % in bfloat16."""
    return np.maximum(2.5e-7, 0.35 * np.sqrt(eps))


NEGLIGIBLE = 1e-2
"""The default atol, as a part of rtol times the largest entry."""
WIDEST_BAR = 0.2
"""Where no tolerance is given, an error bar up to this part of the largest entry still says something."""
BOUNDED = 0.25
"""The part of the largest entry that there may be which counts in what an entry is excused, where a certificate tells.

Sums show how large entries may be, and nearly all are far smaller; a larger one is excused as much as these.
"""
UNSEEN_FACTOR = 0.01
"""A common factor of all entries of an input is to be seen if it is off by this much."""
UNSEEN_SHARE = 0.1
"""The part of a typical entry that an error must not exceed unseen, where no tolerance is given."""
BATCH_FLAW = 1e-5
"""A batch that differs by more than this, relative to the largest value, has a wrong batching rule."""

# Noise that is measured.

MEASURED = 4.0
"""Noise of this many times what the dtype explains is a lower precision inside; less may be accumulated round-off."""
MEASURED_NOISE = 2.0
"""What is taken for the noise of an output, in units of the noise that was seen of it on a few rungs."""
NOISY_SHARE = 0.9
"""The precision of an output is that of its elements up to this quantile: a few on a jump do not count."""
TOLD = 64.0
"""Noise of this many times what the dtype explains is worth a note in the report."""
LEAST_JUMP = 2.0**-30
"""Smaller jumps, relative to the output, are below every tolerance of the derivative."""
WIDEST_JUMP = 2.0**-12
"""Wider ones are no solver's tolerance."""
SLIGHT = 1e-2
"""A difference of up to this part of an entry may come from a solver that stops at a tolerance."""
NOISY_STRIDE = 4.0
"""How much longer steps are tried where half precision or less was measured, and what they should settle drowned."""
STAYS = 2.0 / 3.0
"""Noise is what does not fall with this power of the step: at a kink it falls with the first, elsewhere faster."""
WIDEST_FORMAT = 2.0**-7
"""Steps wider than bfloat16's are no format's that functions are computed in: the function is made of them."""
BY_DESIGN = 2.0**-5
"""Steps wider than this are those of no format, however its noise was measured, but by design: round, floor."""
COARSEST_NOISE = 2.0**-2.5
"""Steps wider than this (those of numbers of eight bits, with three behind the first) leave no slope behind them."""

# Kinks, and numbers that see them.

BEND = 4.0
"""A second difference of this many times its round-off is no round-off: the function bends."""
BEND_ALONG = 16.0
"""The same along a direction that moves many coordinates at once: round-off of many terms adds up."""
STRAIGHT = 1e-7
"""Nor is one below this part of the derivative along a direction: extrapolation leaves as much."""
ROUGH = 8.0
"""Differences across a point that shrink this many times less than those of a smooth function are of a rough one."""
APART = 2.0
"""One-sided derivatives differ if they do so by this many times their error bars."""
OWN_SIZE = 2.0**-10
"""A function that changes by this part of its value or more between the finest steps is no smooth one with noise."""
RUNS_AWAY = 0.25
"""Quotients that differ by this part of themselves on the finest rungs have not begun to settle."""
UNLIKE_ROUND_OFF = 2.0**16
"""Nor is it round-off that is this many times what the precision explains, where the value happens to be small."""
CLEAR = 0.1
"""An estimate sees a difference clearly if its error bar is at most this part of it."""

# Probabilities.

CONFIDENCE = 7.55
"""Hoeffding: a sum with random signs exceeds this many times its norm with probability 2 exp(-7.55**2 / 2) < 1e-12."""
MISS = 1e-12
"""That probability."""

NEARBY = 2.0**-20
"""How far a point is moved, relative to its scale, to see whether a batch gives what a plain call gives."""

USUAL_STEP = 1e-6
"""What most checkers take central differences with, whatever the input."""
