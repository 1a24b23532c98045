"""Probes: one random direction and one random cotangent see every entry of the Jacobian at once.

A `Survey` is the numerical J u along a direction u, with an error bar e_j for each output. The cotangent is aimed with
it: v_j ∝ sign_j / e_j, so that a noisy output cannot drown the others. Then the two numbers

    <v, J_num u>   and   <vjp(v), u>

must agree. The signs of v do not know the errors, so by Hoeffding's inequality the numerical side is off by more than
7.5 * sqrt(sum (v_j e_j)^2) with a probability below 1e-12. That is the threshold, not a tolerance: a single wrong entry
of size d moves the difference by at least |v_j d u_i|, and so the threshold says how small an entry can still be seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from gradproof.core.norm import norm
from gradproof.core.problem import Problem, random_probe
from gradproof.core.stencil import Stencil, rungs, settle
from gradproof.core.types import Flags, Vector

CONFIDENCE = 7.5
"""Hoeffding: 2 exp(-7.5**2 / 2) < 1e-12."""

# Round-off of an inner product and of the derivative under test, in units of eps.
_ROUND_OFF = 32.0
# A bend this many times the round-off is no round-off.
_BENT = 16.0


def draw_direction(problem: Problem, stencil: Stencil) -> Vector:
    """Random signs and magnitudes in units of each coordinate's scale, such that every step is exact."""
    direction = random_probe(problem.inputs.size, problem.seed) * stencil.scale
    return _quantised(direction, problem.point, stencil.eps)


def _quantised(direction: Vector, point: Vector, eps: Vector) -> Vector:
    """Rounded so that point + step * direction can be stored exactly for every step of the ladder."""
    finest = np.zeros_like(eps)
    for value in np.unique(eps):
        finest[eps == value] = 2.0 ** (rungs(float(value))[-1] + 1)
    _, exponent = np.frexp(np.maximum(np.abs(point), np.abs(direction)))
    quantum = np.ldexp(eps * finest, exponent)
    rounded = np.rint(direction / quantum) * quantum
    return np.where(np.isfinite(rounded) & (rounded != 0), rounded, direction)


@dataclass(slots=True)
class Survey:
    """J u along one direction, by a ladder that grows as needed."""

    stencil: Stencil
    direction: Vector
    _rungs: list[int] = field(default_factory=list[int])
    _quotients: list[Vector] = field(default_factory=list[Vector])
    _bends: list[Vector] = field(default_factory=list[Vector])
    value: Vector = field(init=False)
    error: Vector = field(init=False)
    bent: Flags = field(init=False)

    def has(self, exponent: int) -> bool:
        return exponent in self._rungs

    def climb(self, *exponents: int) -> None:
        """Take more rungs and settle again."""
        for exponent in exponents:
            quotient, bend = self.stencil.along(self.direction, exponent)
            at = sum(rung < exponent for rung in self._rungs)
            self._rungs.insert(at, exponent)
            self._quotients.insert(at, quotient)
            self._bends.insert(at, bend)
        self._settle()
        self.bent = self._find_bends()

    def _settle(self) -> None:
        noise, sizes = self.stencil.noise, [2.0**-rung for rung in self._rungs]
        if len(sizes) == 2:
            coarse, fine = self._quotients
            correction = (fine - coarse) / ((sizes[0] / sizes[1]) ** 2 - 1.0)
            self.value = fine + correction
            self.error = 2.0 * np.abs(correction) + noise / sizes[1]
        else:
            floors = np.stack([noise / size for size in sizes])[:, None, :]
            value, error = settle(np.stack(self._quotients)[:, None, :], floors, sizes, order=2)
            self.value, self.error = value[0], error[0]

    def _find_bends(self) -> Flags:
        """Outputs on a kink or a jump along this direction: the two sides do not flatten out as the step shrinks."""
        with np.errstate(invalid="ignore"):
            coarse, fine = np.abs(self._bends[-2]), np.abs(self._bends[-1])
            floor = _BENT * self.stencil.noise * 2.0 ** self._rungs[-1] + 1e-7 * np.abs(self.value)
            return (fine > 0.5 * coarse) & (fine > floor)


@dataclass(frozen=True, slots=True)
class Aim:
    """A cotangent with the threshold of its comparison.

    `residual` is <v, J_num u> - <vjp(v), u>; it accuses if it exceeds `threshold`.
    """

    cotangent: Vector
    residual: float
    threshold: float

    @property
    def accuses(self) -> bool:
        return not (math.isfinite(self.threshold) and abs(self.residual) <= self.threshold)


def aim(problem: Problem, survey: Survey, *, bent: bool = False) -> Vector:
    """The cotangent for a survey: each output weighs what its error bar allows; outputs without a value nothing.

    So do outputs on a kink or a jump along the survey, unless `bent` asks for them.
    """
    seen = np.isfinite(survey.value) & np.isfinite(survey.error) & (bent | ~survey.bent)
    eps = max(problem.inputs.coarsest_eps, problem.outputs.coarsest_eps)
    size = np.where(seen, np.abs(survey.value), 0.0)
    # the derivative under test is no sharper than its precision, relative to the larger of its numbers
    floor = survey.stencil.noise + eps * (size + norm(size) / math.sqrt(len(size) or 1)) + 1e-300
    bars = np.where(seen, survey.error + floor, np.inf)
    smallest = bars.min(initial=np.inf)
    if not math.isfinite(smallest):
        return np.zeros(problem.outputs.size)
    weights = np.maximum(smallest / bars, 2.0**-40 * seen)
    cotangent = random_probe(problem.outputs.size, problem.seed + 1) * weights
    problem.outputs.round_in_place(cotangent)
    return cotangent


def compare(problem: Problem, survey: Survey, cotangent: Vector, pullback: Vector) -> Aim:
    """Both sides of a probe, and how far apart round-off and error bars alone may bring them."""
    used = cotangent != 0
    v, d, e = cotangent[used], survey.value[used], survey.error[used]
    left, right = v * d, pullback * survey.direction
    noise = CONFIDENCE * norm(v * e)
    round_off = _ROUND_OFF * (problem.outputs.coarsest_eps * norm(left) + problem.inputs.coarsest_eps * norm(right))
    return Aim(cotangent, float(left.sum() - right.sum()), noise + round_off)
