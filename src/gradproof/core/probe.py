"""Probes: one random direction and one random cotangent see every entry of the Jacobian at once.

A `Survey` is the numerical J u along a direction u, with an error bar e_j for each output. The cotangent is aimed with
it: v_j ∝ sign_j / e_j, so that a noisy output cannot drown the others. Then the two numbers

    <v, J_num u>   and   <vjp(v), u>

must agree. The signs of v do not know the errors, so by Hoeffding's inequality the numerical side is off by more than
7.55 * sqrt(sum (v_j e_j)^2) with a probability below 1e-12. That is the threshold, not a tolerance: a single wrong
entry of size d moves the difference by at least |v_j d u_i|, and so the threshold says how small an entry can still be
seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from gradproof.core.investigation import random_probe
from gradproof.core.norm import norm
from gradproof.core.precision import BEND_ALONG, CONFIDENCE, DOUBLE, INNER_PRODUCT_ROUND_OFF
from gradproof.core.stencil import Stencil, rungs, settle
from gradproof.core.types import Flags, Vector

# A second difference below this part of the derivative is no bend: extrapolation leaves as much.
_STRAIGHT = 1e-7
# The finest rung of a survey in double precision: fine enough to step over few of a hundred thousand kinks.
_FINEST = 32
# The weight of an output with a wide error bar, relative to the sharpest one, at least.
_LEAST_WEIGHT = 2.0**-40


def draw_direction(stencil: Stencil) -> Vector:
    """Random signs and magnitudes in units of each coordinate's scale, such that every step is exact."""
    problem = stencil.problem
    direction = random_probe(problem.inputs.size, stencil.investigation.seed) * stencil.scale
    return _quantised(direction, problem.point, stencil.eps)


def _quantised(direction: Vector, point: Vector, eps: Vector) -> Vector:
    """Rounded so that point + step * direction can be stored exactly for every step of the ladder."""
    finest = np.zeros_like(eps)
    for value in np.unique(eps):
        finest[eps == value] = 2.0 ** (max(rungs(float(value))[-1], _FINEST if value <= DOUBLE else 0) + 1)
    _, exponent = np.frexp(np.maximum(np.abs(point), np.abs(direction)))
    quantum = np.ldexp(eps * finest, exponent)
    rounded = np.rint(direction / quantum) * quantum
    return np.where(np.isfinite(rounded) & (rounded != 0), rounded, direction)


@dataclass(slots=True)
class Survey:
    """J u along one direction, by a ladder that grows as needed."""

    stencil: Stencil
    direction: Vector
    order: int = 2
    """The order of its difference quotients."""
    _rungs: list[int] = field(default_factory=list[int])
    _quotients: list[Vector] = field(default_factory=list[Vector])
    _bends: list[Vector] = field(default_factory=list[Vector])
    value: Vector = field(init=False)
    error: Vector = field(init=False)
    bent: Flags = field(init=False)
    asked_bent: bool = False
    """Whether the outputs on a kink were asked about all the same."""
    hides: Vector = field(init=False)
    """For each output, the largest lone error that the questions asked so far could have missed, times |u_i|."""

    aside: Flags = field(init=False)
    """Outputs that no further question along this survey asks about: they are looked at entry by entry."""
    verified: Flags = field(init=False)
    """Those of them whose rows were found to be right."""

    def __post_init__(self) -> None:
        self.hides = np.full(self.stencil.problem.outputs.size, np.inf)
        self.aside, self.verified = (np.zeros(self.stencil.problem.outputs.size, dtype=np.bool_) for _ in range(2))

    def has(self, exponent: int) -> bool:
        return exponent in self._rungs

    @property
    def finest(self) -> int:
        return self._rungs[-1]

    def enter(self, made: Probe) -> None:
        """Write into the ledger what a question that did not accuse has shown.

        A lone error d of output j and input i moves the residual by |v_j d u_i|, which is then at most the threshold
        and what was seen of the residual.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            hidden = (made.threshold + abs(made.residual)) / np.abs(made.cotangent)
        self.hides = np.fmin(self.hides, hidden)

    def climb(self, *exponents: int, only: Flags | None = None) -> None:
        """Take more rungs and settle again, all outputs or `only` some."""
        before = None if only is None else (only, self.value, self.error)
        for exponent in exponents:
            quotient, bend = self.along(self.direction, exponent)
            at = sum(rung < exponent for rung in self._rungs)
            self._rungs.insert(at, exponent)
            self._quotients.insert(at, quotient)
            self._bends.insert(at, bend)
        self._settle()
        if before is not None:
            chosen, value, error = before
            self.value, self.error = np.where(chosen, self.value, value), np.where(chosen, self.error, error)
        self.bent = self._find_bends()

    def along(self, direction: Vector, exponent: int) -> tuple[Vector, Vector]:
        """The difference quotient along some direction by one rung, and how far the two sides bend."""
        return self.stencil.along(direction, exponent)

    def _settle(self) -> None:
        noise, sizes = self.stencil.noise, [2.0**-rung for rung in self._rungs]
        if len(sizes) == 2:
            coarse, fine = self._quotients
            correction = (fine - coarse) / ((sizes[0] / sizes[1]) ** self.order - 1.0)
            self.value = fine + correction
            self.error = 2.0 * np.abs(correction) + noise / sizes[1]
        else:
            floors = np.stack([noise / size for size in sizes])[:, None, :]
            value, error = settle(np.stack(self._quotients)[:, None, :], floors, sizes, order=self.order)
            self.value, self.error = value[0], error[0]

    def _find_bends(self) -> Flags:
        """Outputs on a kink or a jump along this direction: the two sides do not flatten out as the step shrinks."""
        with np.errstate(invalid="ignore"):
            coarse, fine = np.abs(self._bends[-2]), np.abs(self._bends[-1])
            floor = BEND_ALONG * self.stencil.noise * 2.0 ** self._rungs[-1] + _STRAIGHT * np.abs(self.value)
            return (fine > 0.5 * coarse) & (fine > floor)


@dataclass(slots=True)
class SideSurvey(Survey):
    """The derivative of one side: along a direction from the point on, or from the other side up to it (`sign` -1)."""

    sign: float = 1.0

    def along(self, direction: Vector, exponent: int) -> tuple[Vector, Vector]:
        step = self.sign * 2.0**-exponent
        problem = self.stencil.problem
        there = self.stencil.attempt((problem.point + step * direction)[None, :])[0]
        with np.errstate(all="ignore"):
            return (there - problem.value) / step, np.zeros_like(there)


@dataclass(frozen=True, slots=True)
class Probe:
    """A cotangent, and how far apart the two sides are for it: `residual` is <v, J_num u> - <vjp(v), u>.

    Round-off and error bars alone explain a residual of up to `threshold`. What exceeds it accuses.
    """

    cotangent: Vector
    residual: float
    threshold: float

    @property
    def accuses(self) -> bool:
        return not (math.isfinite(self.threshold) and abs(self.residual) <= self.threshold)


def aim(survey: Survey, *, only: Flags | None = None, bent: bool = False) -> Vector:
    """The cotangent for a survey: each output weighs what its error bar allows; outputs without a value nothing.

    So do outputs on a kink or a jump along the survey, unless `bent` asks for them, and those that are not in `only`.
    """
    problem, seed = survey.stencil.problem, survey.stencil.investigation.seed
    seen = np.isfinite(survey.value) & np.isfinite(survey.error) & (bent | ~survey.bent) & ~survey.aside
    seen = seen if only is None else seen & only
    size = np.where(seen, np.abs(survey.value), 0.0)
    # the derivative under test is no sharper than its precision, relative to the larger of its numbers
    typical = size + norm(size) / math.sqrt(len(size) or 1)
    floor = survey.stencil.noise + problem.coarsest_eps * typical + np.finfo(np.float64).tiny
    bars = np.where(seen, survey.error + floor, np.inf)
    smallest = bars.min(initial=np.inf)
    if not math.isfinite(smallest):
        return np.zeros(problem.outputs.size)
    weights = np.maximum(smallest / bars, _LEAST_WEIGHT * seen)
    cotangent = random_probe(problem.outputs.size, seed + 1) * weights
    problem.outputs.round_in_place(cotangent)
    return cotangent


def probe(survey: Survey, cotangent: Vector, pullback: Vector) -> Probe:
    """Both sides for one cotangent, and how far apart round-off and error bars alone may bring them."""
    inputs, outputs = survey.stencil.problem.inputs, survey.stencil.problem.outputs
    used = cotangent != 0
    v, d, e = cotangent[used], survey.value[used], survey.error[used]
    left, right = v * d, pullback * survey.direction
    noise = CONFIDENCE * norm(v * e)
    size = outputs.coarsest_eps * norm(left) + inputs.coarsest_eps * norm(right)
    return Probe(cotangent, float(left.sum() - right.sum()), noise + INNER_PRODUCT_ROUND_OFF * size)
