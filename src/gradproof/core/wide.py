"""Low precision through its twin: the derivative in low precision against the same derivative in double precision.

Where a low-precision function runs in float64, so does its derivative, at the very same point: the low-precision
numbers are float64 numbers too. With g and g64 the answers of the two to one question (a cotangent or a tangent that
the low precision stores exactly), each element of g may be off by round-off of its own and of its block's typical
element, and the sum <g - g64, g64> / <g64, g64>, in which round-off averages out, by less: it sees a common factor.
No difference quotient, no sum over elements in which an error of one could drown.

What exceeds that is an accusation. Cancellation, bad conditioning and kinks make a right derivative differ by more. How
much more shows in float64: the answers at points and for questions that differ by a little more than the low precision
rounds. Only what exceeds this too, for two questions, is called wrong.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass

import numpy as np

from gradproof.core.capabilities import Twin
from gradproof.core.compared import (
    BEYOND,
    FACTOR,
    GROSS,
    NARROW,
    Allowance,
    Comparison,
    along,
    parts_of,
)
from gradproof.core.draws import random_probe
from gradproof.core.investigation import Investigation
from gradproof.core.norm import norm, parts
from gradproof.core.options import Options
from gradproof.core.precision import DOUBLE, ENTRY_ROUND_OFF, default_rtol, largest_number
from gradproof.core.problem import Mode, Problem
from gradproof.core.responses import PAIRS, Responses, widen
from gradproof.core.space import Block, Space
from gradproof.core.types import Flags, Indices, Vector

Known = tuple[Vector, Vector]
"""A question and its answer."""

# The relative tolerance of a float64 derivative that is meant for a lower precision, in eps of that: 3e-5 in float32.
# Of 588 operators of JAX and torch in float32 none needs more.
_TWINNED = 256.0
# How much more all of them may show than one of them.
_MORE = 2.0
# A factor that fits all elements that are accused.
_FITS = 2.0
# Neighbours of one question; and how many are asked at last, where what they show is exceeded by no more than this: by
# chance, a few of them all round to the same number.
_FEW, _MANY, _NEARLY = 2 * PAIRS, 6 * PAIRS, 2.0**10
# What they allow, times this, no right derivative exceeds: the most of many is nearer to what there is than of few.
_GROSS_OF_MANY = 2.0


def widened(investigation: Investigation) -> Investigation | None:
    """The investigation of the Problem's twin, at the same cost; None: there is none, or it has no derivative.

    Asked through `Investigation.once`.
    """
    twin = investigation.problem.capability(Twin)
    if twin is None or not investigation.problem.connected or investigation.problem.vjp is None:
        return None
    made = twin.make()
    if made is None or made.problem.vjp is None:
        return None
    wide = Investigation(made.problem, investigation.seed, investigation.cost)
    if investigation.problem is investigation.made and made.problem.point is investigation.problem.point:
        wide.scale = investigation.scale
    question = rounded(investigation.problem.outputs, _question(investigation))
    investigation.propose_cotangent(question)
    try:
        wide.first_question = question, wide.share_cotangent(question)
    except Exception:  # a backward for one precision only
        return None
    return wide


def _question(investigation: Investigation) -> Vector:
    """The shared cotangent, if it has its answer; else random weights that know nothing of the direction of surveys."""
    asked, size = investigation.is_pulled, investigation.problem.outputs.size
    return investigation.cotangent if asked else investigation.draw(size, 1)


def rounded(space: Space, values: Vector) -> Vector:
    """The nearest numbers that the space can store."""
    nearest = np.array(values)
    for part in parts(space.size):
        space.round_in_place(nearest[part], part)
    return nearest


def wide_options(problem: Problem, options: Options) -> Options:
    """The options for the twin: tolerances are those of the precision that the derivative is meant for."""
    eps = problem.inputs.finest_eps
    least = _default(problem, eps) if options.rtol is None else options.rtol
    return dataclasses.replace(options, rtol=least if options.rtol == 0 else max(least, ENTRY_ROUND_OFF * eps))


def _default(problem: Problem, eps: float) -> float:
    """The relative tolerance of the twin's derivative: what differences in low precision would need, or less.

    A lower precision inside leaves less to see.
    """
    twin = problem.capability(Twin)
    made = None if twin is None else twin.make()
    usual = float(default_rtol(np.array([eps]))[0])
    return usual if made is None or made.inside > eps else min(usual, _TWINNED * eps)


@dataclass(frozen=True, slots=True)
class Deviation:
    """What is off in one block, beyond every explanation: elements, worst first, and the numbers of both sides."""

    block: Block
    elements: Indices
    low: Vector
    wide: Vector
    allowed: Vector
    is_wrong: bool
    """False: it may be round-off of a kind that was not seen, or the range of the precision."""
    factor: float | None
    """low / wide, where one factor fits."""
    question: Vector


class Comparer:
    """Asks both sides of one mode the same questions."""

    def __init__(
        self, low: Investigation, wide: Investigation, options: Options, mode: Mode, known: Known | None = None
    ) -> None:
        """`known`: a further question to the low side, and its answer."""
        self.low, self.wide, self.options, self.mode, self._known = low, wide, options, mode, known
        problem = low.problem
        reverse = mode is Mode.REVERSE
        self.asked, self.answered = (problem.outputs, problem.inputs) if reverse else (problem.inputs, problem.outputs)
        self._ask_low, self._ask_wide = (low.vjp, wide.vjp) if reverse else (low.jvp, wide.jvp)
        twinned = low.asks(Twin).make()
        assert twinned is not None, "there is no twin"
        self._value, self._inside = twinned.value, twinned.inside
        self.eps = problem.coarsest_eps
        """The precision that the derivative is judged by: that of the blocks, or a lower one inside that shows."""

    def compare(self, question: Vector, low: Vector | None = None, wide: Vector | None = None) -> Comparison:
        """Both answers to a question, rounded to what the low precision can hold; what is known is not asked."""
        exact = rounded(self.asked, question)
        answer = self._ask_low(exact) if low is None else low
        return self._compared(exact, answer, self._ask_wide(exact) if wide is None else wide)

    def _compared(self, exact: Vector, answer: Vector, wide: Vector) -> Comparison:
        if not math.isfinite(norm(answer)) and not np.isfinite(answer).all():
            answer = self._within_range(exact, answer, wide)
        return Comparison(self.answered, exact, answer, wide, Allowance.of(self.eps, self.options, exact))

    def _within_range(self, question: Vector, answer: Vector, wide: Vector) -> Vector:
        """The answer of the low side, with what is too large for its range by a part of the question."""
        room = np.concatenate([np.full(b.size, largest_number(b.eps)) for b in self.answered.blocks])
        with np.errstate(invalid="ignore"):
            excess = float((np.abs(wide) / room)[~np.isfinite(answer) & np.isfinite(wide)].max(initial=0.0))
        if excess <= 0.5:  # that is not what is too large
            return answer
        part = 2.0 ** -(math.ceil(math.log2(excess)) + 2)
        smaller = rounded(self.asked, part * question)
        if not np.array_equal(smaller, part * question):
            return answer
        return np.where(np.isfinite(answer), answer, self._ask_low(smaller) / part)

    def shared(self) -> Comparison:
        """For the question that properties share."""
        low = self.low
        reverse = self.mode is Mode.REVERSE
        question, answer = (low.cotangent, low.pullback) if reverse else (low.tangent, low.pushforward)
        known = self.wide.first_question if reverse else None
        if known is not None and (known[0] is question or np.array_equal(known[0], rounded(self.asked, question))):
            return self._compared(known[0], answer, known[1])
        return self.compare(question, answer)

    def second(self) -> Comparison:
        """For another question: one that the low side has answered anyway, or random signs."""
        return self.signs(2) if self._known is None else self.compare(*self._known)

    def signs(self, number: int) -> Comparison:
        """For random signs."""
        return self.compare(np.copysign(1.0, random_probe(self.asked.size, self.low.seed + number)))

    def responding(self, made: Comparison, which: range = range(_FEW), more: float = 1.0) -> Comparison:
        """The same comparison, knowing besides how the wide side responds to what the low precision rounds.

        `which` neighbours are asked, by their numbers; `more`: how much more others may show than these few.
        """
        responses = Responses(self.low, self.wide, self.mode, self.eps)
        if not responses.can_be_asked:
            return made
        factors = {block.start: made.spread_factor.get(block.start, 0.0) for block in self.answered.blocks}
        spread = made.spread.copy() if len(made.spread) else np.zeros(self.answered.size)
        for answer in responses.of(made.question, which):
            widen(spread, answer, made.wide, more)
            for block in self.answered.blocks:
                found = abs(along(answer[block.slice], made.wide[block.slice]))
                factors[block.start] = max(factors[block.start], found)
        for block, dust in () if len(made.spread) else responses.dust(made.question, made.wide):
            size = norm(made.wide[block.slice])
            factors[block.start] += norm(dust) / size if size else 0.0
            spread[block.slice] += dust
        return dataclasses.replace(made, spread=spread, spread_factor=factors, beyond=responses.beyond)

    def run(self) -> tuple[Comparison, list[Deviation]]:
        """The comparison that says what was seen, of a question without small weights; and what is off.

        Where the trials hold, the low side is linear in the question, so that one whose weights are all about alike
        shows what is off; another is asked where it does, or where nothing is known of laws.
        """
        first = self.shared()
        if self._known is not None and first.is_clean:
            return self._told(first)
        second = self.second()
        if self._inside > self.eps and not (first.is_clean and second.is_clean):
            self.eps = self._inside
            first, second = self._judged_anew(first), self._judged_anew(second)
        if first.is_clean and second.is_clean:
            return self._told(second if self._known is None else first)  # weights of what is known may be small
        made = [self._where_alike(each) for each in (first, second, self.signs(3))]
        if sum(each.is_clean for each in made) >= 2:
            return max(made[1:], key=lambda each: not each.is_clean), []
        explained = [self.responding(each) for each in made if not each.is_clean]
        found = self._deviations(explained)
        if found and all(map(_is_nearly_explained, found)):
            ways = [range(k * _MANY + _FEW, (k + 1) * _MANY) for k in range(len(explained))]
            explained = [self.responding(each, which) for each, which in zip(explained, ways, strict=True)]
            found = self._deviations(explained, _GROSS_OF_MANY)
        return explained[-1], found

    def _told(self, made: Comparison) -> tuple[Comparison, list[Deviation]]:
        """Nothing is off, as far as a comparison tells."""
        return self._excusing(made) if self.options.certify else made, []

    def _excusing(self, made: Comparison) -> Comparison:
        """The comparison with what would excuse a difference, as one neighbour shows it: others do more.

        Of outputs that are others in the two precisions nothing would be said.
        """
        found = self.responding(made, range(1), more=_MORE)
        return found if self._alike(made).all() else dataclasses.replace(found, spread=np.full_like(made.low, np.inf))

    def _judged_anew(self, made: Comparison) -> Comparison:
        return dataclasses.replace(made, allowance=Allowance.of(self.eps, self.options, made.question))

    def _where_alike(self, made: Comparison) -> Comparison:
        """The comparison without the outputs that are others in the two precisions: so may their derivatives be.

        An index that was rounded, a random number of another precision, the winner of a tie. What the low precision
        can hold to the last bit (a number that was picked, not computed) must be the same to the last bit.
        """
        alike = self._alike(made)
        if alike.all() or not alike.any():
            return made
        if self.mode is Mode.REVERSE:
            return self.compare(np.where(alike, made.question, 0.0))
        return dataclasses.replace(made, low=np.where(alike, made.low, made.wide))

    def _alike(self, made: Comparison) -> Flags:
        """Which outputs are the same in both precisions."""
        wide, value = self.wide.problem.value, self._value
        relative, outputs = max(FACTOR * self.eps, made.allowance.factor), self.low.problem.outputs
        alike, picked = np.empty(len(wide), dtype=np.bool_), np.empty(len(wide), dtype=np.bool_)
        for block in outputs.blocks:
            typical = 0.1 * norm(wide[block.slice]) / math.sqrt(block.size or 1)
            for part in parts_of(block):
                fine, coarse, stored = wide[part], value[part], np.array(wide[part])
                outputs.round_in_place(stored, part)
                size = np.abs(fine)
                size += typical
                with np.errstate(invalid="ignore"):
                    alike[part] = (np.abs(coarse - fine) <= relative * size) | (size == 0.0)
                picked[part] = (stored == fine) & (coarse != fine)
        if not alike.all():
            alike |= np.abs(value - wide) <= BEYOND * self._value_spread
        return alike & ~picked

    @functools.cached_property
    def _value_spread(self) -> Vector:
        """What round-off may change of the outputs."""
        return Responses(self.low, self.wide, self.mode, self.eps).value_spread()

    def _deviations(self, made: list[Comparison], gross: float = GROSS) -> list[Deviation]:
        """What two questions accuse after all: elements that both do, or blocks that are off as a whole."""
        guilty = np.sum([each.accused for each in made], axis=0) >= 2
        found: list[Deviation] = []
        for block in self.answered.blocks:
            elements = np.flatnonzero(guilty[block.slice]) + block.start
            scaled = sum(each.is_scaled(block, guilty) for each in made) >= 2
            if scaled:
                elements = np.arange(block.start, block.stop)
            if len(elements):
                clearest = max(made, key=lambda each: float((each.off / each.allowed)[elements].max()))
                found.append(self._deviation(block, elements, clearest, scaled, gross))
        return found

    def _deviation(self, block: Block, elements: Indices, made: Comparison, scaled: bool, gross: float) -> Deviation:
        excess = made.off[elements] / made.allowed[elements]
        elements = elements[np.argsort(-excess, kind="stable")]
        low, wide, allowed = made.low[elements], made.wide[elements], made.allowed[elements]
        if scaled:
            allowed = np.minimum(allowed, made.allowed_factor(block) * np.abs(wide))
        eps = self.eps
        factor = common_factor(low, wide, eps)
        finite = bool(np.isfinite(low).all())
        zero = bool((low == 0.0).all()) and bool((wide != 0.0).any())
        wrong = finite and (zero or factor is not None or float(excess.max()) > gross)
        if not finite:
            narrow = abs(math.log2(eps / NARROW)) < 1
            wrong = not narrow
        if scaled and factor is None and not zero:
            wrong = wrong or abs(made.factor(block)) > gross * made.allowed_factor(block)
        return Deviation(block, elements, low, wide, allowed, wrong, factor, made.question)


def _is_nearly_explained(found: Deviation) -> bool:
    """Whether what neighbours showed is exceeded by so little that more of them may explain it."""
    return bool((np.abs(found.low - found.wide) <= _NEARLY * found.allowed).all())


def common_factor(low: Vector, wide: Vector, eps: float) -> float | None:
    """The factor between two vectors, where one fits to within round-off and there are several elements.

    >>> common_factor(np.array([2.2, 4.4]), np.array([2.0, 4.0]), 2.0**-23)
    1.1
    """
    usable = np.isfinite(low) & np.isfinite(wide) & (wide != 0.0)
    if usable.sum() < 2:
        return None
    ratio = float(np.median(low[usable] / wide[usable]))
    size = np.abs(wide[usable]) + norm(wide[usable]) / math.sqrt(usable.sum())
    fits = np.abs(low[usable] - ratio * wide[usable]) <= _FITS * eps * max(abs(ratio), 1.0) * size
    if ratio == 0.0 or abs(ratio - 1.0) <= FACTOR * eps or fits.mean() < 0.9:
        return None
    return round(ratio, 2 if eps > 2.0**-10 else 3 if eps > DOUBLE * 2**30 else 6)  # as many digits as eps leaves
