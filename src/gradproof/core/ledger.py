"""The ledger of the probe strategy: what was surveyed, what was asked and answered, and how much must be seen.

A survey costs evaluations and an answer costs a vjp; each answer serves every survey. What a question that does not
accuse has shown is entered: for each output of a survey, the largest error that could still hide.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gradproof.core.agreement import smallest_of
from gradproof.core.directions import draw_direction
from gradproof.core.draws import basis
from gradproof.core.flags import some
from gradproof.core.glance import RUNGS, Glance
from gradproof.core.investigation import Investigation
from gradproof.core.ladder import rungs
from gradproof.core.norm import highest, norm, parts
from gradproof.core.options import Options
from gradproof.core.precision import CONFIDENCE, DERIVATIVE_ROUND_OFF, DOUBLE, UNSEEN_SHARE
from gradproof.core.probe import Probe, probe
from gradproof.core.rows import SeenRow
from gradproof.core.seen import Entered
from gradproof.core.space import Block, alike, rms
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey
from gradproof.core.suspects import Judged
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Vector

# Where no tolerance is given, no output need be seen below this many times its noise.
_FLOOR = 4.0
# The part of all that moves an output which must not hide in it, however noisy the rungs are that a survey starts with.
_OWN_SHARE = 0.25
# The part of all that moves an output below which a weak input need not be seen: a bias before a batch norm is as weak.
_DUST = 1e-7
# Outputs up to which two rungs see well enough for torch's tolerances; relative ones from which on they do so, too, and
# outputs up to which they see as much of entries about as large as the outputs: 1e-5 of a million elements of sin.
_FEW, _LOOSE, _FEW_LOOSELY = 2**17, 1e-5, 2**20


@dataclass(frozen=True, slots=True)
class ProbeRungs:
    """The rungs of a probe: coarser ones in reserve, the two it starts with, the finer ones in reserve."""

    coarser: tuple[int, ...]
    base: tuple[int, ...]
    finer: tuple[int, ...]

    @staticmethod
    @functools.cache
    def of(eps: float) -> ProbeRungs:
        """Those for a precision."""
        if eps <= DOUBLE:
            return ProbeRungs((11, 8), RUNGS, (20, 23, 26))
        exponents = rungs(eps)
        middle = len(exponents) // 2
        return ProbeRungs(exponents[: middle - 1][::-1], exponents[middle - 1 : middle + 1], exponents[middle + 1 :])


class _Moved(NamedTuple):
    """By how much each coordinate moves what was asked about, along a survey; their length, and how many move."""

    survey: Survey
    shares: Vector
    length: float
    moving: int

    @classmethod
    def by(cls, survey: Survey, pullback: Vector) -> _Moved:
        shares = pullback * survey.direction
        return cls(survey, shares, norm(shares), int(np.count_nonzero(survey.direction)))


class Ledger:
    """The surveys of a Problem, the first of which moves every input, and all questions with their answers."""

    def __init__(self, investigation: Investigation, options: Options, glanced: Glance | None = None) -> None:
        """What a glance has shown and asked is where it begins."""
        self.investigation, self.options = investigation, options
        self.problem = problem = investigation.problem
        self.precise = problem.coarsest_eps <= DOUBLE
        self.explicit = options.atol is not None and self.precise
        self.stencil = Stencil(investigation, excused=options.atol or 0.0)
        self.tolerances = Tolerances(self.stencil, options)
        self.searches = self.precise or problem.noise is not None
        """Whether what is not seen is asked again: in low precision as such, error bars tell too little for that."""
        self.direction = draw_direction(self.stencil) if glanced is None else glanced.direction
        self.survey = Survey(self.stencil, self.direction)
        self.rungs = ProbeRungs.of(self.stencil.only_eps or float(self.stencil.eps.max()))
        loose = self.precise and (options.rtol or 0.0) >= _LOOSE and not self.explicit
        few = (self.explicit or loose) and problem.outputs.size <= (_FEW_LOOSELY if loose else _FEW)
        if glanced is None:
            self.survey.climb(*(self.rungs.base if few else (*self.rungs.coarser[:1], *self.rungs.base)))
        else:
            self.survey.begin(self.rungs.base, glanced.found)
        self.steps: list[tuple[Block, float]] = [
            (block, smallest_of(self.direction[block.slice])) for block in problem.inputs.blocks if block.size
        ]
        """The smallest |u_i| of each input."""
        self.smallest_step = min([step for _, step in self.steps], default=1.0)
        if self.smallest_step > 0.0:
            self.survey.moving = problem.inputs.size
        self.surveys: list[Survey] = []
        self.questions = [] if glanced is None else [*glanced.questions]
        """Every cotangent asked, with its answer: used again with every new direction, for nothing."""
        self.sample: list[Judged] = []
        """An entry at a kink, of those that were verified together; and entries of rows that were looked at alone."""
        self.wrong: list[Judged] = []
        """What was found to be wrong in reverse mode."""
        self.between_sides: Vector = alike(problem.inputs.size, 0.0)
        """How far apart the two sides of a kink may be along each coordinate, where kinks were verified together."""
        self.seen_rows: dict[int, SeenRow] = {}
        self._moved: _Moved | None = None
        self._least_of: tuple[Vector, float] | None = None
        self.is_settled = False
        """Whether reverse mode was found to be right, with nothing left unseen."""
        self._shared = bool(self.questions)
        self._wanted: tuple[tuple[Any, ...], Vector] | None = None
        """What was wanted last, and of what."""
        self.largest: tuple[tuple[Any, ...], list[float]] | None = None
        """The largest entry of each input, and by what was `known` of them."""
        self.bounds: tuple[tuple[Any, ...], list[float]] | None = None
        """More than that, by the answers alone, and by which."""
        self.even: tuple[Vector, float] | None = None
        """The answer to a cotangent that weighs all outputs about alike, and the least of its weights."""

    @property
    def known(self) -> tuple[Any, ...]:
        """All that was asked and measured so far."""
        return (len(self.questions), *(survey.about for survey in self.surveys))

    @property
    def easiest_step(self) -> float:
        """The smallest |u_i| of the input that is easiest to see."""
        return max([step for _, step in self.steps], default=1.0)

    @functools.cached_property
    def is_affordable(self) -> bool:
        """Whether every entry may be compared."""
        n, m = self.problem.inputs.size, self.problem.outputs.size
        return n <= self.options.affordable_columns and n * m <= self.options.affordable_entries

    @property
    def is_small(self) -> bool:
        """Whether every entry costs no more than a search for the wrong ones."""
        return self.is_affordable and self.problem.inputs.size <= self.options.few_columns

    def parts(self, column: int) -> list[int]:
        """All coordinates of the element that a coordinate belongs to: they are judged by one modulus."""
        return self.problem.inputs.parts_of(np.array([column])).tolist()

    # questions and answers

    def ask(self, survey: Survey, cotangent: Vector) -> Probe | None:
        """Ask one cotangent; the probe if it accuses. What does not is entered."""
        if not some(cotangent):
            return None
        return self._entered(survey, cotangent, self.answered(cotangent))

    def answered(self, cotangent: Vector) -> Vector:
        """The answer to a cotangent, which is kept; the first of them becomes the shared one."""
        if self._shared:
            return self.pull(cotangent)
        self._shared, pullback = True, self.investigation.share_cotangent(cotangent)
        self.questions.append((cotangent, pullback))
        return pullback

    def again(self, survey: Survey) -> Probe | None:
        """Use every answer there is again, for nothing; the worst probe that accuses."""
        made = [self._entered(survey, cotangent, pullback) for cotangent, pullback in self.questions]
        accusing = [each for each in made if each is not None]
        return max(accusing, key=lambda each: abs(each.residual) / each.threshold, default=None)

    def pull(self, cotangent: Vector) -> Vector:
        """The answer to one cotangent, kept with the others."""
        pullback = self.investigation.vjp(cotangent)
        self.questions.append((cotangent, pullback))
        return pullback

    def row(self, output: int) -> Vector:
        """What is claimed of one output; not kept, since it says nothing of the others."""
        return self.in_passing(basis(slice(output, output + 1), self.problem.outputs.size)[0])

    def in_passing(self, cotangent: Vector) -> Vector:
        """The answer to a cotangent; neither is kept, nor what there is to be looked at: three more long arrays."""
        investigation, before = self.investigation, self.investigation.gradients
        answer = investigation.vjp(cotangent)
        if before is not None:
            investigation.gradients = before
        return answer

    def least_of(self, cotangent: Vector) -> float:
        """The smallest weight of a cotangent, found once for the one that was looked at last."""
        if self._least_of is None or self._least_of[0] is not cotangent:
            self._least_of = cotangent, smallest_of(cotangent)
        return self._least_of[1]

    def answer(self, made: Probe) -> Vector:
        """The answer that a probe was made of."""
        return next(answer for question, answer in self.questions if question is made.cotangent)

    @staticmethod
    def _entered(survey: Survey, cotangent: Vector, pullback: Vector) -> Probe | None:
        apart = survey.aside if survey.asked_bent else survey.aside | survey.bent
        if some(apart) and some(cotangent[apart]):
            return None  # at a kink the two sides need not agree
        made = probe(survey, cotangent, pullback)
        if made.accuses:
            return made
        survey.enter(cotangent, Entered(made.threshold + abs(made.residual), pullback, made.moved, made.size))
        return None

    # how much must be seen

    def wanted(self, survey: Survey, step: float) -> Vector:
        """How small an error of each output must be seen, times |u_i|. Not to be written to: it is kept."""
        known = survey.value, self.survey.value, step, survey is self.survey or bool(self.questions)
        if self._wanted is None or not are_same(self._wanted[0], known):
            self._wanted = known, self._find_wanted(survey, step)
        return self._wanted[1]

    def _find_wanted(self, survey: Survey, step: float) -> Vector:
        if self.explicit:
            wanted, relative = np.empty_like(survey.value), step / survey.length
            rtol, low = self.tolerances.least_rtol, self.tolerances.has_low_rows
            for part in parts(len(wanted)):
                here = np.abs(survey.value[part], out=wanted[part])
                if not math.isfinite(highest(here)):
                    here[~np.isfinite(here)] = 0.0
                here *= relative * (rtol + self.tolerances.row_rtol[part] if low else rtol)
                here += step * self.tolerances.least_atol
            return wanted
        share = self._moves(survey)
        # what drowns in noise that was measured is not seen
        least = self._least(survey, share) if self.problem.noise is None else 0.0
        share *= UNSEEN_SHARE / math.sqrt(int(np.count_nonzero(survey.direction)) or 1)
        return np.maximum(share, least, out=share)

    def _moves(self, survey: Survey) -> Vector:
        """How far each output moves along a survey, or a typical one of its block does, as far as that is excused."""
        size, still = np.abs(survey.value), self.tolerances.still
        for block in self.problem.outputs.blocks:
            part = size[block.slice]
            typical = rms(part)
            np.maximum(part, typical if still is None else typical * still[block.slice], out=part)
        return size

    def wanted_of(self, survey: Survey, block: Block, step: float) -> Vector:
        """What must be seen of one input: of its own typical entry, which the answers there are tell."""
        wanted = self.wanted(survey, step)
        if len(self.problem.inputs.blocks) == 1 or not self.questions:
            return wanted
        share = self._share(survey, block)
        least: Vector | float = step * self.tolerances.least_atol if self.explicit else self._excused(0.0)
        if not self.explicit and not self.is_dust(block):
            least = np.minimum(least, _OWN_SHARE * share * self._moves(survey))
        return np.maximum(wanted * share, least)

    def is_dust(self, block: Block) -> bool:
        """Whether what is claimed of an input may be round-off of what is claimed of others, per unit and per step.

        So that of a bias before a batch norm, which should be zero.
        """
        if not self.questions:
            return True
        gradient, whole = self.questions[0][1], _Moved.by(self.survey, self.questions[0][1])
        least = DERIVATIVE_ROUND_OFF * self.problem.coarsest_eps
        return norm(gradient[block.slice]) <= least * norm(gradient) and (
            norm(whole.shares[block.slice]) <= least * whole.length
        )

    def _share(self, survey: Survey, block: Block) -> float:
        """How large the typical entry of an input is beside that of all that a survey moves, by the first answer.

        A survey of this input alone shows what is typical of it: there the share is 1.
        """
        if self._moved is None or self._moved.survey is not survey:
            self._moved = _Moved.by(survey, self.questions[0][1])
        whole, count = self._moved, int(np.count_nonzero(survey.direction[block.slice]))
        return min(
            1.0, math.sqrt(whole.moving / (count or 1)) * norm(whole.shares[block.slice]) / (whole.length or 1.0)
        )

    def _least(self, survey: Survey, size: Vector) -> Vector:
        """What noise excuses from being seen: that of the first rungs, unless it would hide all that moves an output.

        `size` is how far each output moves along the survey; where that cancels, the first survey knows better.
        """
        if survey is not self.survey and self.questions:
            moved = [block for block, _ in self.steps if survey.direction[block.slice].any()]
            share = max([self._share(self.survey, block) for block in moved], default=0.0)
            whole = self._moves(self.survey)
            size = np.fmax(size, share * whole)
            excused = self._excused(size, whole)
            if not all(self.is_dust(block) for block in moved):
                np.minimum(excused, _OWN_SHARE * size, out=excused, where=size > 0)
            return excused
        return self._excused(size, size if survey is self.survey else None)

    def _excused(self, size: Vector | float, whole: Vector | None = None) -> Vector:
        """The same of outputs that move so far along some inputs, and `whole` along the first survey."""
        whole = self._moves(self.survey) if whole is None else whole
        base = max(self.rungs.base)
        excused, first = np.empty(len(whole)), 2.0 ** (self._longest - base)
        for part in parts(len(whole)):
            own = _OWN_SHARE * (size[part] if isinstance(size, np.ndarray) else size)
            own = own if size is whole else np.fmax(own, _DUST * whole[part])
            floor = self._floor(base, part)
            np.minimum(floor, np.maximum(first * floor, own), out=excused[part])
        for block in filter(self._stands_still, self.problem.outputs.blocks):
            excused[block.slice] = _FLOOR * math.sqrt(self.problem.outputs.size) * self._floor(base, block.slice)
        return excused

    def _stands_still(self, block: Block) -> bool:
        """Whether nothing moves an output at all. There is no entry then to measure errors by.

        What one question about all outputs leaves of the noise is enough: every entry would be seen no better.
        """
        value = self.survey.value[block.slice]
        return bool(block.size) and value[0] == 0.0 and not value.any()

    @property
    def _longest(self) -> int:
        """The rung of the longest steps that there are."""
        return min(*self.rungs.coarser, *self.rungs.base)

    def _floor(self, rung: int, outputs: slice) -> Vector:
        """What noise hides of each of these outputs on a rung."""
        return self.stencil.noise[outputs] * (_FLOOR * CONFIDENCE * 2.0**rung)

    def tolerable_sum(self, relative: Vector | float, weight: float = 1.0) -> Vector | float:
        """How large a sum of many deviations along the first survey may be, each within its tolerance.

        `relative` is what the relative tolerances come to, `weight` the size of the cotangent.
        """
        absolute = self.tolerances.least_atol * norm(self.direction) * weight
        return CONFIDENCE * (relative + absolute)


def are_same(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    """Whether these are the same objects, or numbers that are equal: what arrays hold is not looked at."""
    pairs = zip(first, second, strict=False)
    return len(first) == len(second) and all(
        one is other or (not isinstance(one, np.ndarray) and one == other) for one, other in pairs
    )
