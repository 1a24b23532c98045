"""Finding the wrong entry among many.

A question about many places at once is answered by one number, the residual, which is the sum of what each place
contributes. Asking about the left half gives the right half for nothing, so a lone culprit among n places is found with
log2(n) questions; several are found one after the other. Where the residual is sharp, a lone one is found with fewer:
see `decoding`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from gradproof.core.decoding import EVERY_DIGIT, NOWHERE, Answer, Decoder, Window
from gradproof.core.precision import CONFIDENCE
from gradproof.core.survey import Survey
from gradproof.core.types import Indices, Vector

# A difference on one side, which costs half, is taken where the residual is this many times its error bar.
_SHARP = 1024.0

Residual = Callable[[int, int], float]
"""The residual of places lo..hi-1. Costs an evaluation or a vjp."""

Threshold = Callable[[int, int], float]
"""How large that residual may be by round-off alone. Costs nothing."""


Shortcut = Callable[[int, int, float], Window | None]
"""A window among places lo..hi-1, whose residual is given, that contributes all of it; None: halve."""


def _no_shortcut(low: int, high: int, here: float) -> Window | None:
    return None


def halve(
    size: int, total: float, residual: Residual, threshold: Threshold, shortcut: Shortcut = _no_shortcut
) -> Iterator[int]:
    """The places that contribute, one after the other, until the rest is round-off.

    It goes straight down, always into the worse half, and comes back for the others, the nearest first: where
    everything is wrong, the first culprit costs no more, and its neighbours little.

    >>> wrong = [0.0] * 1000
    >>> wrong[137], wrong[800] = 2.0, -0.5
    >>> list(halve(1000, sum(wrong), lambda lo, hi: sum(wrong[lo:hi]), lambda lo, hi: 1e-9))
    [137, 800]
    """
    left_over = [(0, size, total)]
    while left_over:
        low, high, here = left_over.pop()
        while high - low > 1:
            window = shortcut(low, high, here)
            if window is not None:
                low, high, here = window
                continue
            middle = (low + high) // 2
            left = residual(low, middle)
            if not math.isfinite(left):  # what is no number is wrong, and says nothing of the other half
                high, here = middle, left
                continue
            halves = [(low, middle, left), (middle, high, here - left)]
            better, worse = sorted(halves, key=lambda half: math.inf if math.isnan(half[2]) else abs(half[2]))
            if not abs(better[2]) <= threshold(better[0], better[1]):
                left_over.append(better)
            low, high, here = worse
        yield low


def worst_columns(
    survey: Survey,
    output: int,
    rung: int,
    total: float,
    claim: Callable[[Vector, slice], float],
    likely: Indices = NOWHERE,
) -> Iterator[int]:
    """The worst inputs of one output, by one rung along parts of a survey's direction.

    `total` is what is claimed along all of it, and `claim` tells it along a part, which is zero outside of a slice.
    Those that are `likely` are found sooner.
    """
    direction = survey.direction
    bar = CONFIDENCE * (_off_by(survey, output, rung) + float(survey.error[output]))
    here = Answer(float(survey.value[output]) - total, bar)
    quick = survey.blunt(output, rung)
    one_sided = quick is not None and abs(here.residual) > _SHARP * CONFIDENCE * quick

    def along(low: int, weights: Vector, *, central: bool) -> Answer:
        part, run = np.zeros_like(direction), slice(low, low + len(weights))
        np.multiply(direction[run], weights, out=part[run])
        if central or quick is None:
            return Answer(survey.one_along(part, rung, output) - claim(part, run), bar)
        return Answer(survey.ahead(part, rung, output) - claim(part, run), CONFIDENCE * quick)

    def ask(low: int, weights: Vector) -> Answer:
        return along(low, weights, central=not one_sided)

    def residual(low: int, high: int) -> float:
        return along(low, np.ones(high - low), central=True).residual

    decode = Decoder(ask, survey.stencil.problem.inputs.element_of, likely)

    def shortcut(low: int, high: int, residual: float) -> Window | None:
        return decode(low, high, Answer(residual, bar))

    return halve(len(direction), here.residual, residual, lambda low, high: bar, shortcut)


def sharpest_rung(survey: Survey, output: int, residual: float) -> int:
    """The rung that a residual of one output is followed on: the finest that reads every digit, else the sharpest.

    Short steps reach fewest kinks, long ones have the least round-off.
    """
    bars = {rung: _off_by(survey, output, rung) for rung, _ in survey.ladder}
    sharp = [rung for rung, bar in bars.items() if EVERY_DIGIT * CONFIDENCE * bar <= abs(residual)]
    return max(sharp) if sharp else min(bars, key=lambda rung: bars[rung] if math.isfinite(bars[rung]) else math.inf)


def _off_by(survey: Survey, output: int, rung: int) -> float:
    """How far the quotient of an output on a rung may be from its value, along a survey or a part of it.

    By truncation, as it is here, and by round-off. How noisy the output is, finer quotients tell by themselves: a sum
    of many terms is noisier than its size explains.
    """
    value, noise = float(survey.value[output]), float(survey.noise(slice(output, output + 1))[0])
    apart = {each: abs(float(quotient[output]) - value) for each, quotient in survey.ladder}
    scatter = [off * 2.0**-each for each, off in apart.items() if each >= rung]
    return max(noise, *scatter) * 2.0**rung + apart[rung]
