"""Kinks among many: the coordinates off them by themselves, and those on them together, by one side.

Most functions take one side's derivative at every kink (relu, abs, hinge, clamp): if the claim is that of the left or
of the right side for all of them together, one question verifies thousands.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradproof.core.directions import on_kinks
from gradproof.core.judge import Judge
from gradproof.core.ledger import Ledger
from gradproof.core.precision import BEND
from gradproof.core.probe import Accused
from gradproof.core.problem import Mode
from gradproof.core.side_survey import MiddleSurvey, SideSurvey
from gradproof.core.status import Status
from gradproof.core.survey import Survey
from gradproof.core.suspects import Judged, Suspects
from gradproof.core.types import Flags

# Coordinates looked at for a kink to show.
_SAMPLES = 8


def on_kinks_along(survey: Survey) -> Flags:
    """The coordinates that may sit on a kink: exact zeros and ties, where not all of the survey's are."""
    special = on_kinks(survey.stencil.problem.point) & (survey.direction != 0)
    return special if not isinstance(survey, SideSurvey) else np.zeros_like(special)


def look_around(
    ledger: Ledger, survey: Survey, special: Flags, look: Callable[[Survey, float], Accused | None]
) -> Accused | None:
    """`look` along the coordinates off the kinks, sharply; then along the `special` ones on them, by one side."""
    direction = np.where(special, 0.0, survey.direction)
    if direction.any():
        smooth = Survey(ledger.stencil, direction)
        smooth.climb(*ledger.rungs.base)
        accusation = look(smooth, float(np.abs(direction[direction != 0]).min()))
        if accusation is not None:
            return accusation
    away = np.where(special, np.abs(survey.direction), 0.0)
    sides = [SideSurvey(ledger.stencil, away, order=1, sign=sign) for sign in (-1.0, 1.0)]
    sides.append(MiddleSurvey(ledger.stencil, away))  # as for abs
    worst: list[Accused] = []
    for side in sides:
        side.climb(*ledger.rungs.base, *ledger.rungs.finer[:1])
        if side.leaps:
            continue  # no side of a jump has a derivative
        accusation = look(side, float(away[special].min()))
        if accusation is None:
            known = [each for each in ledger.sample if each.is_wrong]  # by its row, which was looked at alone
            ledger.sample[:] = [*known, *_sampled(ledger, survey, special)]
            ledger.between_sides = survey.between_sides()
            return None
        worst.append(accusation)
    return min(worst, key=lambda found: abs(found[1].residual), default=None)


def _sampled(ledger: Ledger, survey: Survey, special: Flags) -> list[Judged]:
    """One entry at a kink of each input, judged: of many that were verified together, the report names a place.

    Only where it can be judged alone: a pair of which nothing but zeros is claimed has no size to judge it by.
    """
    entries: list[tuple[int, int, float]] = []
    for block in ledger.problem.inputs.blocks:
        columns = block.start + np.flatnonzero(special[block.slice])
        found = (_kinked_entry(ledger, survey, int(column)) for column in columns[:_SAMPLES])
        entries += next((entry for entry in found if entry), list[tuple[int, int, float]]())
    if not entries:
        return []
    judged = Judge(ledger.stencil, ledger.tolerances).judge(Mode.REVERSE, Suspects.accused(entries), located=True)
    return [judged.take(np.flatnonzero(judged.status != Status.INCONCLUSIVE.rank))]


def _kinked_entry(ledger: Ledger, survey: Survey, column: int) -> list[tuple[int, int, float]]:
    """The output that bends most along a coordinate, if any does, with the claims for it."""
    along = np.zeros_like(survey.direction)
    along[column] = survey.direction[column]
    _, bend = ledger.stencil.along(along, survey.finest)
    bend = np.where(np.isfinite(bend), np.abs(bend), 0.0)
    output = int(np.argmax(bend))
    if bend[output] <= BEND * ledger.stencil.noise[output] * 2.0**survey.finest:
        return []
    row = ledger.row(output)
    return [(output, part, float(row[part])) for part in ledger.parts(column)]
