"""Thousands of suspects at kinks, verified together."""

from __future__ import annotations

import numpy as np
import pytest
from array_problem import investigation

from gradproof.core.entries import every_entry
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.suspects import Judged

N = 400
POINT = np.random.default_rng(0).normal(size=N)
POINT[::2] = 0.0
LEFT, RIGHT = 0.0, 1.0


def summed(at_zero: float, errors: dict[int, float], mode: Mode = Mode.REVERSE) -> tuple[Judged, int]:
    """relu summed, which claims `at_zero` at each kink, and is wrong by `errors`; what is judged, and evaluations."""
    slope = np.where(POINT > 0, 1.0, 0.0)
    slope[POINT == 0] = at_zero
    for place, error in errors.items():
        slope[place] += error
    case = investigation(
        lambda x: np.array([np.maximum(x, 0).sum()]),
        POINT,
        vjp=lambda v: slope * v[0],
        jvp=lambda u: np.array([slope @ u]),
    )
    (judged,) = every_entry(case, Options(atol=1e-5, rtol=1e-3), (mode,)).judged
    return judged, case.cost.evaluations


def statuses(judged: Judged) -> dict[Status, int]:
    return {status: n for status in Status if (n := int((judged.status == status.rank).sum()))}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("at_zero", [LEFT, RIGHT])
def test_one_side_verifies_all_kinks_for_a_few_evaluations(at_zero: float, mode: Mode) -> None:
    judged, evaluations = summed(at_zero, {}, mode)
    assert statuses(judged) == {Status.KINK: N // 2}
    assert evaluations < 2 * N + 16 * 100


def test_a_few_of_those_verified_are_measured_for_the_report() -> None:
    judged, _ = summed(LEFT, {})
    sides = np.array(list(judged.sides.values()))
    assert len(sides) >= 5
    assert np.allclose(sides, [0.0, 1.0], atol=1e-6)
    worst = np.argsort(-judged.suspects.excess)[:5]
    assert set(worst.tolist()) <= set(judged.sides)


@pytest.mark.parametrize("place", [100, 101])
def test_a_wrong_entry_on_a_kink_or_beside_them_is_the_only_one_blamed(place: int) -> None:
    judged, _ = summed(LEFT, {place: 3.0})
    wrong = judged.suspects.columns[judged.status == Status.WRONG.rank]
    assert wrong.tolist() == [place]


def test_errors_that_cancel_in_a_plain_sum_do_not_pass() -> None:
    judged, _ = summed(LEFT, {100: -0.5, 102: 0.5})
    assert statuses(judged)[Status.WRONG] >= 1


def test_functions_that_mix_sides_are_judged_one_by_one() -> None:
    judged, _ = summed(LEFT, dict.fromkeys(range(0, N, 4), 1.0))
    assert statuses(judged) == {Status.KINK: N // 2}


def test_ties_that_are_valid_one_by_one_only_stay_wrong() -> None:
    case = investigation(lambda x: np.array([x.max()]), np.ones(N), np.ones((1, N)))
    (judged,) = every_entry(case, Options(atol=1e-5, rtol=1e-3), (Mode.REVERSE,)).judged
    assert statuses(judged)[Status.WRONG] >= 1
