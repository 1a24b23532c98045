"""Surveys: the numerical J u along one direction u, with an error bar for each output."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gradproof.core.directions import on_kinks
from gradproof.core.ladder import settle
from gradproof.core.norm import PART, norm, parts
from gradproof.core.precision import BEND_ALONG, DOUBLE, EVALUATION_ROUND_OFF, OWN_SIZE, STRAIGHT
from gradproof.core.seen import Entered
from gradproof.core.space import alike
from gradproof.core.stencil import Stencil
from gradproof.core.types import ALL, Flags, Vector

# Quotients of neighbouring rungs differ by no more than this part of what the coarser ones do: of smooth ones, by 1/64.
_DRAWS_TOGETHER = 0.25
# The finest rung of an ordinary one.
_ORDINARY = 26
# Rungs of a survey before something is in doubt: their bars are wide where a kink lies between them.
_RUNGS_AT_FIRST = 3
# A bend that differs by more than this part from what a smooth function's would be has lost a kink, or part of one.
_CROSSED = 0.5
# A bend that grows so much from a rung to the next is no kink. A jump is longer than so many times the noise.
_GROWS, _JUMP = 3.0, 128.0
# From so many rungs and outputs on, quotients tell how noisy a function is.
_RUNGS_TO_TELL, _MANY = 4, 256
_NO_BEND: Vector = np.zeros(0)


@dataclass(slots=True)
class Survey:
    """J u along one direction, by a ladder that grows as needed."""

    stencil: Stencil
    direction: Vector
    order: int = 2
    """The order of its difference quotients."""
    moving: int | None = None
    """How many coordinates move, once that is known."""
    _rungs: list[int] = field(default_factory=list[int])
    _quotients: list[Vector] = field(default_factory=list[Vector])
    _bends: list[Vector] = field(default_factory=list[Vector])
    _value: Vector = field(init=False)
    _error: Vector = field(init=False)
    _bent: Flags = field(init=False)
    is_settled: bool = field(default=True, init=False)
    """Whether `value`, `error` and `bent` are there; of many outputs they are found when they are asked for first."""
    asked_bent: bool = False
    """Whether the outputs on a kink were asked about all the same."""
    hides: Vector = field(init=False)
    """For each output, the largest lone error that the questions asked so far could have missed, times |u_i|."""
    entered: list[Entered] = field(default_factory=list[Entered])
    clear_from: float = math.inf
    """The smallest |u_i| for which no output hides an error beyond its tolerance any more."""

    aside: Flags = field(init=False)
    """Outputs that no further question along this survey asks about: they are looked at entry by entry."""
    verified: Flags = field(init=False)
    """Those of them whose rows were found to be right."""

    first: list[Vector] = field(default_factory=list[Vector], init=False)
    """The quotients of the rungs that were taken first, whatever came later."""
    _length: float | None = field(default=None, init=False)
    _blur: Vector = field(init=False)
    _typical: tuple[Vector, float] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        size = self.stencil.problem.outputs.size
        self._blur, self.hides = alike(size, 1.0), alike(size, np.inf)
        self.aside, self.verified = np.zeros((2, size), dtype=np.bool_)

    @property
    def length(self) -> float:
        """That of the direction, found when it is asked for first."""
        if self._length is None:
            self._length = norm(self.direction)
        return self._length

    @property
    def ladder(self) -> list[tuple[int, Vector]]:
        """The rungs, coarse to fine, each with its difference quotients."""
        return [*zip(self._rungs, self._quotients, strict=True)]

    @property
    def bends(self) -> bool:
        """Whether any output is `bent`: of the few that may be, by the finest quotients."""
        for part in parts(len(self._bends[-1])):
            coarse, fine = np.abs(self._bends[-2][part]), np.abs(self._bends[-1][part])
            coarse *= 0.5
            where = np.flatnonzero(~(fine <= coarse))
            floor = BEND_ALONG * self.stencil.noise[part][where] * self._blur[part][where] * 2.0**self.finest
            if not (fine[where] <= floor + STRAIGHT * np.abs(self._quotients[-1][part][where])).all():
                return True
        return False

    def has(self, exponent: int) -> bool:
        return exponent in self._rungs

    @property
    def finest(self) -> int:
        return self._rungs[-1]

    def noise(self, part: slice = ALL) -> Vector:
        """How noisy some outputs are, as far as the quotients tell."""
        return self.stencil.noise[part] * self._blur[part]

    @property
    def is_unsettled(self) -> Flags:
        """Outputs of which the finest quotients are no round-off, and still differ as steps longer than waves do."""
        coarse, fine = self._quotients[-2:]
        with np.errstate(invalid="ignore"):
            return np.abs(fine - coarse) > BEND_ALONG * self.noise() * 2.0 ** self._rungs[-1]

    @property
    def is_stepped_over(self) -> bool:
        """Whether quotients of some output draw together as no smooth function's do: something finer may be there."""
        if len(self._quotients) < _RUNGS_AT_FIRST:
            return False
        for part in parts(len(self.value)):
            before, coarse, fine = (quotient[part] for quotient in self._quotients[-3:])
            with np.errstate(invalid="ignore"):
                last = np.abs(fine - coarse)
                floor = BEND_ALONG * self._noise_of_finest(part) + STRAIGHT * np.abs(self.value[part])
                if ((last > _DRAWS_TOGETHER * np.abs(coarse - before)) & (last > floor)).any():
                    return True
        return False

    def between_sides(self) -> Vector:
        """How far apart the two sides of a kink may be along each coordinate alone, as far as the bend tells."""
        apart, reaching = np.zeros(len(self.direction)), self.reaches_over
        if reaching.any():
            where = on_kinks(self.stencil.problem.point) & (self.direction != 0)
            where = where if where.any() and not (reaching & ~self.bent).any() else self.direction != 0
            bend = self._bend[reaching]
            apart[where] = np.nanmax(bend, initial=0.0) / np.abs(self.direction[where])
        return apart

    @property
    def _bend(self) -> Vector:
        """How far apart the two sides of each output are, on either of the finest two rungs."""
        return np.fmax(np.abs(self._bends[-2]), np.abs(self._bends[-1]))

    @property
    def reaches_over(self) -> Flags:
        """Outputs with a kink or a jump at the point, or so near to it that one of the finest two steps reaches it."""
        return self.bent | self._are_crossed(slice(0, len(self.bent)))

    @property
    def curvature(self) -> Vector:
        """How large the second derivative of each output along the direction is, as far as the finest rung tells."""
        return np.abs(self._bends[-1]) * 2.0 ** self._rungs[-1]

    def enter(self, cotangent: Vector, shown: Entered) -> None:
        """Write down what a question that did not accuse has shown: its residual could be that large unnoticed.

        A lone error d of output j and input i moves the residual by |v_j d u_i|. Of an output that bends, the
        derivative is that of either side, or between.
        """
        self.entered.append(shown)
        self.hides = self.hides if self.hides.flags.writeable else self.hides.copy()
        for part in parts(len(self.hides)):
            hidden = np.abs(cotangent[part])
            np.divide(shown.hidden, hidden, out=hidden)
            if self.asked_bent:
                hidden += np.where(self.bent[part], self._bend[part], 0.0)
            np.fmin(self.hides[part], hidden, out=self.hides[part])

    def enter_jointly(self, shown: Entered, hides: float) -> None:
        """The same of a question that hides no more than this of any output, whichever it is."""
        self.entered.append(shown)
        self.hides = alike(len(self.hides), hides)

    def verify(self, output: int, hides: float) -> None:
        """Write that the row of an output was found to be right, with what could hide in it."""
        self.aside[output] = self.verified[output] = True
        self.hides = self.hides if self.hides.flags.writeable else self.hides.copy()
        self.hides[output] = hides

    def climb(self, *exponents: int, only: Flags | None = None) -> None:
        """Take more rungs and settle again, all outputs or `only` some."""
        before = None if only is None else (only, self.value, self.error)
        climbed = sorted([*self._rungs, *exponents])
        told = climbed[-(2 if len(climbed) <= _RUNGS_AT_FIRST else 3) :]  # only the finest tell
        self._take(exponents, self.along_each(self.direction, exponents, told), told, before)

    def begin(self, exponents: Sequence[int], found: Sequence[tuple[Vector, Vector]]) -> None:
        """The same for the first rungs, where difference quotients and bends along the direction were found before."""
        self._take(exponents, found, exponents, None)

    def _take(
        self,
        exponents: Sequence[int],
        found: Sequence[tuple[Vector, Vector]],
        told: Sequence[int],
        before: tuple[Flags, Vector, Vector] | None,
    ) -> None:
        self.first = self.first or [quotient for quotient, _ in found]
        for exponent, (quotient, bend) in zip(exponents, found, strict=True):
            at = bisect.bisect_left(self._rungs, exponent)
            self._rungs.insert(at, exponent)
            self._quotients.insert(at, quotient)
            self._bends.insert(at, bend)
        self._blur = self._find_blur()
        self._bends[: -len(told)] = [_NO_BEND] * len(self._bends[: -len(told)])
        self.is_settled = False
        if before is not None or len(self._quotients[0]) <= PART:
            self._settle_all(before)

    @property
    def value(self) -> Vector:
        """J u of each output."""
        if not self.is_settled:
            self._settle_all(None)
        return self._value

    @property
    def error(self) -> Vector:
        """The error bar of each output."""
        if not self.is_settled:
            self._settle_all(None)
        return self._error

    @property
    def bent(self) -> Flags:
        """The outputs on a kink or a jump along this direction."""
        if not self.is_settled:
            self._settle_all(None)
        return self._bent

    @property
    def about(self) -> Vector:
        """About J u, and of many outputs no pass over them: one of its quotients, if there are no values yet."""
        return self._value if self.is_settled else self._quotients[len(self._quotients) // 2]

    @property
    def typical_entry(self) -> float:
        """About how large an entry is, if all that move are alike: found once for the rungs there are."""
        about = self.about
        if self._typical is None or self._typical[0] is not about:
            if self.moving is None:
                self.moving = int(np.count_nonzero(self.direction))
            self._typical = about, norm(about) / math.sqrt(len(about)) / math.sqrt(self.moving or 1)
        return self._typical[1]

    def at(self, output: int) -> tuple[float, float]:
        """The value of one output and its error bar, which is in no doubt."""
        value, error = self._settle(slice(output, output + 1))
        return float(value[0]), float(error[0])

    def put_back(self, value: Vector, error: Vector) -> None:
        """Take these, which were found before, for values and error bars."""
        self._value, self._error = value, error

    def _settle_all(self, before: tuple[Flags, Vector, Vector] | None) -> None:
        """Values, error bars and kinks from the rungs there are; of some outputs only, if the others were known."""
        self.is_settled, size, only = True, len(self._quotients[0]), None if before is None else before[0]
        self._value, self._error, self._bent = np.empty(size), np.empty(size), np.empty(size, dtype=np.bool_)
        for part in parts(size):
            self._value[part], self._error[part] = self._settle(part)
        if before is not None:
            chosen, value, error = before
            self._value, self._error = np.where(chosen, self._value, value), np.where(chosen, self._error, error)
        for part in parts(size):
            self._bent[part] = self._find_bends(part)
            if len(self._rungs) > _RUNGS_AT_FIRST:
                self._believe_the_finest(part, True if only is None else only[part])

    def climb_again(self, *exponents: int) -> None:
        """Take more rungs, and forget what questions have shown of outputs that these contradict."""
        value, error = self.value, self.error
        self.climb(*exponents)
        with np.errstate(invalid="ignore"):
            contradicted = np.abs(self.value - value) > error
        if contradicted.any():
            self.hides = np.where(contradicted, np.inf, self.hides)
            self.entered.clear()

    def climb_unless_noisy(self, exponents: Sequence[int], most: int) -> bool:
        """Take more rungs, unless so many outputs seem to be on a kink by them: that is noise. Whether they stay."""
        ladder = self._rungs, self._quotients, self._bends
        told = self._blur, self.value, self.error, self.bent
        self._rungs, self._quotients, self._bends = list(self._rungs), list(self._quotients), list(self._bends)
        self.climb(*exponents)
        if int((self.bent & ~told[-1]).sum()) <= most:
            return True
        self._rungs, self._quotients, self._bends = ladder
        self._blur, self._value, self._error, self._bent = told
        return False

    def along(self, direction: Vector, exponent: int) -> tuple[Vector, Vector]:
        """The difference quotient along some direction by one rung, and how far the two sides bend."""
        return self.stencil.along(direction, exponent)

    def along_each(
        self, direction: Vector, exponents: Sequence[int], bending: Sequence[int]
    ) -> list[tuple[Vector, Vector]]:
        """The same by several rungs; how far the two sides bend, on some of them."""
        return self.stencil.along_each(direction, exponents, bending)

    def one_along(self, direction: Vector, exponent: int, output: int) -> float:
        """The same of one output alone, without two arrays as long as all of them."""
        if len(self.hides) <= PART:
            return float(self.along(direction, exponent)[0][output])
        above, below = (self.stencil.one_value(direction, side * 2.0**-exponent, output) for side in (1.0, -1.0))
        return (above - below) * 2.0 ** (exponent - 1)

    def ahead(self, direction: Vector, exponent: int, output: int) -> float:
        """The difference quotient of one output on one side, along some direction by one rung: one evaluation."""
        step = 2.0**-exponent
        return (self.stencil.one_value(direction, step, output) - float(self.stencil.problem.value[output])) / step

    def blunt(self, output: int, exponent: int) -> float | None:
        """How far off that may be, for a direction no longer than this survey's; None where nothing is known of it."""
        if exponent not in self._rungs[-2:] or self.bent[output]:
            return None
        bend = abs(float(self._bends[self._rungs.index(exponent)][output]))
        return 2.0 * float(self.stencil.noise[output]) * 2.0**exponent + bend if math.isfinite(bend) else None

    def _find_blur(self) -> Vector:
        """How many times noisier each output is than its precision explains, as the finest quotients of many show.

        Of thousands of outputs some have quotients that agree by luck. Where those of most drift apart as the steps
        shrink, all of the block are as noisy as these. What changes outputs by their own size is no noise: steps are
        longer than what the function does.
        """
        blur = alike(len(self._blur), 1.0)
        if len(self._rungs) < _RUNGS_TO_TELL or self.stencil.problem.coarsest_eps > DOUBLE:
            return blur
        for block in self.stencil.problem.outputs.blocks:
            if block.size < _MANY:
                continue
            before, coarse, fine = (quotient[block.slice] for quotient in self._quotients[-3:])
            with np.errstate(all="ignore"):
                first, last = np.nanmedian(np.abs(coarse - before)), np.nanmedian(np.abs(fine - coarse))
                own = np.median(self.stencil.noise[block.slice]) * 2.0 ** self._rungs[-1]
                most = OWN_SIZE * np.median(np.abs(self.stencil.problem.value[block.slice])) * 2.0 ** self._rungs[-1]
            if last > first and last > own > 0 and last < most:
                blur = blur if blur.flags.writeable else blur.copy()
                blur[block.slice] = np.fmax(blur[block.slice], last / own)
        return blur

    def _settle(self, part: slice) -> tuple[Vector, Vector]:
        """Values and error bars of some outputs by the ladder."""
        noise, sizes = self.noise(part), [2.0**-rung for rung in self._rungs]
        quotients = [quotient[part] for quotient in self._quotients]
        if self.finest > _ORDINARY and self.stencil.problem.coarsest_eps <= DOUBLE:
            # what a steep function makes of the round-off of its argument
            noise = np.fmax(noise, EVALUATION_ROUND_OFF * DOUBLE * np.abs(quotients[-1]))
        if len(sizes) == 2:
            coarse, fine = quotients
            correction = (fine - coarse) / ((sizes[0] / sizes[1]) ** self.order - 1.0)
            return fine + correction, 2.0 * np.abs(correction) + noise / sizes[1]
        floors = np.multiply.outer([1.0 / size for size in sizes], noise)[:, None, :]
        value, error = settle(np.stack(quotients)[:, None, :], floors, sizes, order=self.order)
        return value[0], error[0]

    def _find_bends(self, part: slice) -> Flags:
        """Outputs on a kink or a jump along this direction: the two sides do not flatten out as the step shrinks.

        What grows as the step shrinks is no kink. Round-off of terms that cancel in an output does so, too, beyond what
        the size of the output explains: a jump is told from it by its size alone.
        """
        coarse, fine = np.abs(self._bends[-2][part]), np.abs(self._bends[-1][part])
        floor = np.where(fine > _GROWS * coarse, _JUMP, BEND_ALONG) * self._noise_of_finest(part)
        return (fine > 0.5 * coarse) & (fine > floor + STRAIGHT * np.abs(self.value[part]))

    def _are_crossed(self, part: slice) -> Flags:
        """Outputs with a kink between the finest two steps, or so near that the finest is not much longer.

        There the bend does not fall in proportion to the step, as it does where a function is smooth.
        """
        coarse, fine = np.abs(self._bends[-2][part]), np.abs(self._bends[-1][part])
        noise = BEND_ALONG * self._noise_of_finest(part)
        smooth = coarse * 2.0 ** (self._rungs[-2] - self._rungs[-1])
        unlike = np.abs(fine - smooth) > _CROSSED * smooth + noise
        if len(self._bends) > 2 and len(self._bends[-3]):
            unlike |= coarse > 0.5 * np.abs(self._bends[-3][part])
        return unlike & ~self.bent[part] & (coarse > noise + STRAIGHT * np.abs(self.value[part]))

    def _believe_the_finest(self, part: slice, chosen: Flags | bool) -> None:
        """Take the finest quotient alone for the value of outputs with a kink between the steps, and that not far.

        Longer steps agree among themselves on the mean of the two sides, or on part of it, and a single finer one does
        not clearly contradict them.
        """
        crossed = self._are_crossed(part) & chosen
        if crossed.any():
            bar = np.abs(self._bends[-2][part]) + self._noise_of_finest(part)
            self._value[part] = np.where(crossed, self._quotients[-1][part], self._value[part])
            self._error[part] = np.where(crossed, bar, self._error[part])

    def _noise_of_finest(self, part: slice) -> Vector:
        return self.noise(part) * 2.0 ** self._rungs[-1]
