"""Every entry of a small Jacobian that a probe accuses, by one fine step for each input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, Part, investigation

from gradproof.core.accused import Against, accused_entries
from gradproof.core.directions import draw_direction
from gradproof.core.entries import EveryEntry, Known
from gradproof.core.investigation import Investigation
from gradproof.core.ledger import ProbeRungs
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey

POINT = np.array([0.7, -1.1, 1.9, 0.4])
WRONG, KINK = Status.WRONG.rank, Status.KINK.rank


def made(function: Callable[..., Any], slopes: Any, point: Any = POINT, **options: Any) -> Investigation:
    """An elementwise function, with what is claimed for the diagonal."""
    return investigation(function, np.asarray(point), np.diag(slopes), **options)


def accused(case: Investigation, clarity: float = np.inf, mode: Mode = Mode.REVERSE) -> tuple[EveryEntry | None, int]:
    """What is found, and the evaluations beyond the survey."""
    stencil = Stencil(case)
    survey = Survey(stencil, draw_direction(stencil))
    survey.climb(*ProbeRungs.of(2.0**-52).coarser[:1], *ProbeRungs.of(2.0**-52).base)
    before = case.cost.evaluations
    found = accused_entries(case, Options(), Against(mode, survey, clarity), Known(survey))
    return found, case.cost.evaluations - before


def guilty(found: EveryEntry | None) -> dict[tuple[int, int], int]:
    assert found is not None
    (judged,) = found.judged
    places = zip(judged.suspects.rows.tolist(), judged.suspects.columns.tolist(), strict=True)
    return {place: status for place, status in zip(places, judged.status.tolist(), strict=True) if status}


@pytest.mark.parametrize("mode", Mode)
def test_wrong_entries_cost_one_evaluation_an_input(mode: Mode) -> None:
    slopes = np.cos(POINT) * [1.0, 1.5, 1.0, 0.5]
    found, evaluations = accused(made(np.sin, slopes), mode=mode)
    assert guilty(found) == {(1, 1): WRONG, (3, 3): WRONG}
    assert evaluations == len(POINT)


def test_nothing_is_said_where_nothing_is_wrong() -> None:
    found, _ = accused(made(np.sin, np.cos(POINT)))
    assert found is None


def test_steps_are_as_fine_as_round_off_allows() -> None:
    """Of 1e6 + sin, a step of 2**-25 would show nothing."""
    case = made(lambda x: np.sin(x) + 1e6, 1.2 * np.cos(POINT))
    found, evaluations = accused(case, clarity=0.2 / 4e-10)
    assert set(guilty(found)) == {(k, k) for k in range(4)}
    assert evaluations == len(POINT)  # to one side: truncation is far below the round-off of such numbers
    assert case.screened is not None
    assert 2.0**-25 < float((case.screened.step / case.scale).max()) < 2.0**-12


def test_what_is_too_faint_for_any_step_is_left_to_others() -> None:
    found, evaluations = accused(made(np.sin, 1.2 * np.cos(POINT)), clarity=100.0)
    assert found is None
    assert evaluations == 0


def test_in_low_precision_one_step_says_too_little() -> None:
    case = made(np.sin, 1.2 * np.cos(POINT), inputs=[Part((4,), eps=SINGLE)])
    assert accused(case) == (None, 0)


def test_at_kinks_both_sides_are_looked_at() -> None:
    point = [0.7, 0.0, 1.9, -0.4]
    found, evaluations = accused(made(np.abs, [1.0, 1.3, 1.0, -1.0], point))
    assert guilty(found) == {(1, 1): WRONG}
    assert evaluations <= len(point) + 4
    found, _ = accused(made(np.abs, [1.0, -1.3, 1.0, -1.0], point))
    assert guilty(found) == {(1, 1): WRONG}


def test_a_kink_beside_a_wrong_entry_is_told_with_its_sides() -> None:
    found, _ = accused(made(np.abs, [1.2, 0.3, 1.0, -1.0], [0.7, 0.0, 1.9, -0.4]))
    assert guilty(found) == {(0, 0): WRONG, (1, 1): KINK}
    assert found is not None
    (judged,) = found.judged
    assert not judged.located
    (sides,) = judged.sides.values()
    assert sides == pytest.approx((-1.0, 1.0))


def test_valid_subgradients_alone_are_no_finding() -> None:
    found, _ = accused(made(np.abs, [1.0, 0.3, 1.0, -1.0], [0.7, 0.0, 1.9, -0.4]))
    assert found is None


def test_a_jump_is_not_settled_by_two_steps() -> None:
    found, _ = accused(made(lambda x: (x >= 0.0) + 0.0 * x, [0.0, 3.0, 0.0, 0.0], [0.7, 0.0, 1.9, -0.4]))
    assert found is None
