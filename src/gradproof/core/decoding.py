"""Reading the place of a lone error off a ratio.

A lone error at place p contributes w_p c to a question in which the places have the weights w, and c to the question
that accused, which weighs all places alike. The ratio of the two answers is w_p. Places share a few weights, run by
run, so that the ratio is a digit: it tells the run that the error lies in, and the next question asks about that run
alone. How many digits can be told apart depends on how sharp the answers are: a residual of a million times its error
bar carries ten bits, a weak one carries one, which is halving. A ratio that is no digit comes from several errors.

Nothing that was decoded is believed before the places it leads to were asked about by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gradproof.core.types import Indices, Vector


class Answer(NamedTuple):
    """A residual, and how large it may be by round-off and error bars alone."""

    residual: float
    bar: float


class Window(NamedTuple):
    """Places from `low` to `high` - 1, and the residual of them together."""

    low: int
    high: int
    residual: float


Question = Callable[[int, Vector], Answer]
"""What the places from the first on contribute, each times its weight; the others do not count."""

# Digits that one question tells apart at most, on either side of zero: with more, steps along an input that is weighted
# so would no longer be exact.
_MOST = 2**9
# Neighbouring digits are this many error bars of the ratio apart: it must lie within one of a digit.
_APART = 4.0
EVERY_DIGIT = 4.0 * _APART * _MOST
"""How many times its error bar a residual is that tells all of them apart."""
# A window that is left when a ratio is no digit is worth a question of its own if it is narrower by this factor.
_NARROWER = 8
NOWHERE: Indices = np.zeros(0, dtype=np.intp)
# How often decoding may lead nowhere before the rest is left to halving.
_FAILURES = 3


class Decoder:
    """Narrows a stretch of places down to those that contribute all of it, by one question for each digit."""

    def __init__(self, ask: Question, element_of: Callable[[Indices], Indices], likely: Indices = NOWHERE) -> None:
        """`element_of` tells the first place of the element that each place belongs to: an element is not divided.

        Of a few places that are `likely` each has a digit of its own: one question tells which of them it is, if any.
        """
        self._ask, self._element_of, self._likely = ask, element_of, np.unique(element_of(likely))
        self._failures = 0

    def __call__(self, low: int, high: int, answer: Answer) -> Window | None:
        """A narrower window that contributes the whole answer of these places, as was asked; None: none was found."""
        if self._failures >= _FAILURES or high - low < _NARROWER or _digits(answer) < 2 or not _is_sure(answer):
            return None
        first, stop = self._decode(low, high, answer)
        if _NARROWER * (stop - first) <= high - low:
            inside = self._ask(first, np.ones(stop - first))
            if abs(inside.residual - answer.residual) <= inside.bar + answer.bar:
                return Window(first, stop, inside.residual)
        self._failures += 1
        return None

    def _decode(self, low: int, high: int, answer: Answer) -> tuple[int, int]:
        """The places that are left when every digit is read, or when a ratio is none."""
        elements = self._elements(low, high)
        while len(elements) > 1 and (digits := _digits(answer)) > 1:
            weights = _weights(len(elements), digits, self._likely_among(elements))
            alone = len(elements) == high - low
            asked = self._ask(low, weights if alone else np.repeat(weights, np.diff(elements, append=high)))
            ratio = asked.residual / answer.residual
            bar = (asked.bar + abs(ratio) * answer.bar) / abs(answer.residual)
            where = np.flatnonzero(np.abs(weights - ratio) <= bar)
            if not len(where) or weights[where[0]] != weights[where[-1]]:
                break
            digit = float(weights[where[0]])
            beyond = elements[where[-1] + 1 :]
            low, high = int(elements[where[0]]), int(beyond[0]) if len(beyond) else high
            elements = elements[where]
            answer = min(answer, Answer(asked.residual / digit, asked.bar / abs(digit)), key=lambda known: known.bar)
        return low, high

    def _likely_among(self, elements: Indices) -> Indices:
        """Which of some elements, by their numbers among these, are likely."""
        number = np.minimum(np.searchsorted(elements, self._likely), len(elements) - 1)
        return number[elements[number] == self._likely]

    def _elements(self, low: int, high: int) -> Indices:
        """The first places of all elements."""
        places = np.arange(low, high)
        first = self._element_of(places) == places
        return places if first.all() else places[first]


def _is_sure(answer: Answer) -> bool:
    return math.isfinite(answer.residual) and math.isfinite(answer.bar) and answer.residual != 0


def _digits(answer: Answer) -> int:
    """How many weights, of either sign, an answer of this sharpness tells apart: a power of two; 1: none."""
    if not _is_sure(answer):
        return 1
    # weights of one sign lie in a half: the ratio has the bars of both answers
    most = abs(answer.residual) / max(4.0 * _APART * answer.bar, abs(answer.residual) / _MOST)
    return 2 * 2 ** int(math.log2(most)) if most >= 1.0 else 1


def _weights(count: int, digits: int, likely: Indices = NOWHERE) -> Vector:
    """A weight for each of so many elements, run by run: between 1/2 and 1, half of them negative.

    No weight is small, so that every answer is as sharp as the one that it is compared with. The last digits are those
    of the likely elements, unless these are too many.

    >>> _weights(8, 4)
    array([-1.  , -1.  , -0.75, -0.75,  0.75,  0.75,  1.  ,  1.  ])
    >>> _weights(8, 4, np.array([1]))
    array([-1.  ,  1.  , -1.  , -0.75, -0.75, -0.75,  0.75,  0.75])
    """
    half, own = digits // 2, len(likely) if 2 * len(likely) <= digits else 0
    digit = np.arange(count)
    digit *= digits - own
    digit //= count
    if own:
        digit[likely] = np.arange(digits - own, digits)
    sizes = 0.5 + 0.5 * (np.arange(half) + 1) / half
    return np.concatenate([-sizes[::-1], sizes])[digit]
