"""Every entry of a small Jacobian that a probe accuses: by one step for each input, as fine as round-off allows.

An accusation says how far derivative and function differ, so it is known how fine a step may be for round-off not to
hide that. The finest ones are taken to one side only: F at the point is known, and what truncation adds is no more than
round-off, so that each input costs one evaluation. A survey, by far longer steps and with error bars, confirms what is
wrong; entries at kinks, of which it says nothing, are looked at from both sides by two steps each.

Where nothing is confirmed so, every entry is compared as ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gradproof.core.draws import basis
from gradproof.core.entries import KEPT, EveryEntry, Known, length_of, seen_of, suspects_of
from gradproof.core.failing import evaluations_left
from gradproof.core.investigation import Investigation
from gradproof.core.jacobians import Screened
from gradproof.core.judge import Judge
from gradproof.core.options import Options
from gradproof.core.precision import CLEAR
from gradproof.core.probe import Probe
from gradproof.core.problem import Mode
from gradproof.core.screened import Surveyed, can_confirm, fine_rung
from gradproof.core.seen import Seen
from gradproof.core.sides import FINEST
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey
from gradproof.core.suspects import Judged, Suspects
from gradproof.core.together import joined
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Matrix

# The coarsest rung that one step of a pair says enough on; and those on which one side does, whatever the round-off.
_COARSEST, _ONE_SIDED = 9, 24
# How many times its round-off a lone error must be on the rung that is chosen.
_VISIBLE = 32.0
# Elements that are looked at from both sides, the worst first, until one is wrong; what one of them takes, and what is
# kept for the questions whether the function is noisy, and repeatable.
_ELEMENTS, _OF_ELEMENT, _KEPT_BACK = 4, 4, 3
# So many of them in vain, before any is settled, end that.
_IN_VAIN = 4


@dataclass(frozen=True, slots=True)
class Against:
    """What a mode is accused by: a survey, and how many times the round-off of an evaluation it is off by."""

    mode: Mode
    survey: Survey
    clarity: float

    @staticmethod
    def probe(survey: Survey, made: Probe) -> Against:
        """Of reverse mode, by a probe along some survey; `survey` is the one that moves every input."""
        with np.errstate(invalid="ignore"):
            blur = float((np.abs(made.cotangent) * survey.stencil.noise).max())
        return Against(Mode.REVERSE, survey, abs(made.residual) / blur if blur else math.inf)

    @property
    def rung(self) -> int:
        """The finest rung on which a lone error as large as the accusation shows beyond round-off."""
        return self._at_most(fine_rung(self.survey))

    @property
    def is_one_sided(self) -> bool:
        """Whether a step to one side tells as much as one to both: truncation adds no more than round-off hides."""
        truncation = self.survey.curvature * 2.0 ** -(self.rung + 1)
        with np.errstate(invalid="ignore"):
            return self.rung >= _ONE_SIDED or bool((truncation <= self.survey.stencil.noise * 2.0**self.rung).all())

    @property
    def of_sides(self) -> int:
        """The same of slopes to one side, which are taken where a survey says nothing."""
        return self._at_most(FINEST)

    def _at_most(self, finest: int) -> int:
        told = self.clarity / _VISIBLE
        return finest if not told < 2.0**finest else max(0, math.floor(math.log2(max(told, 1.0))))


def accused_entries(
    investigation: Investigation, options: Options, against: Against, known: Known
) -> EveryEntry | None:
    """The wrong entries, confirmed by two looks; None where that does not tell: nothing is said of any then."""
    problem, stencil = investigation.problem, Stencil(investigation)
    size = problem.inputs.size * problem.outputs.size
    if options.step is not None or not can_confirm(problem) or size > KEPT or against.rung < _COARSEST:
        return None
    tolerances = Tolerances(stencil, options)
    tolerances.bound(known.largest)
    claimed = _claims(investigation, options, against.mode)
    stencil.step = stencil.scale * 2.0**-against.rung
    one_sided = against.is_one_sided
    numeric = _numeric(stencil, options, one_sided=one_sided)
    everywhere = slice(0, problem.outputs.size), slice(0, problem.inputs.size)
    tolerances.learn_analytic(claimed, *everywhere)
    tolerances.learn_numeric(numeric, *everywhere)
    suspects = suspects_of(stencil, tolerances, numeric, claimed)
    if suspects is None:
        return None
    investigation.screened = Screened(
        numeric, stencil.step, against.survey.curvature * 2.0 ** -(against.rung + 1) if one_sided else None
    )
    judge, survey = Judge(stencil, tolerances), against.survey
    found = judge.confirm(against.mode, suspects, Surveyed(numeric, survey, stencil))
    if found is None or found.located:
        rest = suspects if found is None else _without(suspects, found.suspects)
        room = evaluations_left(investigation, options) - _KEPT_BACK
        found = _with_kinks(judge, found, rest, against, max(1, room // _OF_ELEMENT))
    if found is None:
        investigation.screened = None
        return None
    seen = seen_of(tolerances, [found], survey) if options.certify else None
    return EveryEntry([found], None if seen is None else seen & Seen(_hidden(stencil), 0.0))


def _claims(investigation: Investigation, options: Options, mode: Mode) -> Matrix:
    problem = investigation.problem
    if mode is Mode.REVERSE:
        return investigation.jacobian_rows(slice(0, problem.outputs.size), length_of(problem, options))
    return investigation.jvp_many(basis(slice(0, problem.inputs.size), problem.inputs.size)).T


def _numeric(stencil: Stencil, options: Options, *, one_sided: bool) -> Matrix:
    """The numerical Jacobian, by one evaluation for each input or by two."""
    screen = stencil.screen_ahead if one_sided else stencil.screen
    chunks = stencil.problem.inputs.chunks(length_of(stencil.problem, options))
    return np.concatenate([screen(columns) for columns in chunks]).T


def _without(suspects: Suspects, known: Suspects) -> Suspects:
    """The suspects that are not among others."""
    width = int(suspects.columns.max()) + 1
    return suspects.take(
        np.flatnonzero(~np.isin(suspects.rows * width + suspects.columns, known.rows * width + known.columns))
    )


def _with_kinks(judge: Judge, known: Judged | None, rest: Suspects, against: Against, most: int) -> Judged | None:
    """What is known to be wrong, and of the rest what is settled from both sides, so many of the worst elements.

    Where nothing was known, until entries of one element are wrong; None: none is.
    """
    columns, parts = judge.worst_first(rest)[: max(most, _ELEMENTS if known is None else 0)], [known] if known else []
    in_vain = 0
    for column in columns.tolist():
        found = judge.from_both_sides(against.mode, rest, column, against.of_sides)
        parts += [found] if found is not None else []
        in_vain += found is None
        if in_vain >= _IN_VAIN and not parts:  # it is not kinks that hide here
            return None
        if known is None and found is not None and found.is_wrong:
            break
    if not any(part.is_wrong for part in parts):
        return None
    settled = sum(len(part.suspects) for part in parts) - (len(known.suspects) if known else 0)
    return replace(joined(parts), located=settled < len(rest))


def _hidden(stencil: Stencil) -> tuple[float, ...]:
    """What round-off of its one step hides of each input."""
    noise, blocks = float(stencil.noise.max()) / CLEAR, stencil.problem.inputs.blocks
    return tuple(noise / float(stencil.step[block.slice].min()) if block.size else 0.0 for block in blocks)
