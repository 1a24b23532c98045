"""How much difference is allowed, and what a difference means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import BRAIN, DOUBLE, SINGLE, ArrayProblem, Part

from gradproof.core.finding import Status
from gradproof.core.judge import Judge, judge
from gradproof.core.options import Options
from gradproof.core.stencil import Stencil

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("difference", "error", "tolerance", "status"),
    [
        (0.0, 0.0, 0.0, Status.RIGHT),
        (1.0, 0.0, 1.0, Status.RIGHT),
        (1.0, 0.1, 0.95, Status.RIGHT),
        (1.0, 0.1, 0.5, Status.WRONG),
        (1.0, 0.0, 0.999, Status.WRONG),
        (0.0, 2.0, 1.0, Status.INCONCLUSIVE),
        (2.9, 2.0, 1.0, Status.INCONCLUSIVE),
        (3.1, 2.0, 1.0, Status.WRONG),
        (0.0, INF, 1.0, Status.INCONCLUSIVE),
        (NAN, 0.0, 1.0, Status.WRONG),
        (NAN, INF, 1.0, Status.WRONG),
        (INF, 0.0, 1.0, Status.WRONG),
    ],
)
def test_an_entry_is_judged_by_tolerance_and_error_bar(
    difference: float, error: float, tolerance: float, status: Status
) -> None:
    rank = judge(np.array([difference]), np.array([error]), np.array([tolerance]))
    assert list(Status)[rank[0]] is status


@pytest.mark.parametrize(
    "values", [(NAN, 0.0, 1.0), (0.0, NAN, 1.0), (0.0, 0.0, NAN), (NAN, NAN, NAN), (NAN, 0.0, INF)]
)
def test_a_nan_anywhere_is_never_right(values: tuple[float, float, float]) -> None:
    difference, error, tolerance = (np.array([value]) for value in values)
    assert judge(difference, error, tolerance)[0] != Status.RIGHT.rank


def test_statuses_rank_from_right_to_raised() -> None:
    ranks = [s.rank for s in (Status.RIGHT, Status.INCONCLUSIVE, Status.WRONG, Status.RAISED)]
    assert ranks == sorted(set(ranks))


def judge_of(eps: float = DOUBLE, step: float | None = None, **options: Any) -> Judge:
    part = Part((1,), eps=eps)
    problem = ArrayProblem(lambda x: x, 1.0, inputs=[part], outputs=[part])
    return Judge(Stencil(problem, step), Options(**options))


def test_tolerances_given_are_used_as_they_are() -> None:
    judgement = judge_of(atol=1e-5, rtol=1e-3)
    assert judgement.atol.tolist() == [1e-5]
    assert judgement.rtol.tolist() == [1e-3]


def test_default_tolerances_follow_the_dtype() -> None:
    rtol = [float(judge_of(eps).rtol[0]) for eps in (DOUBLE, SINGLE, BRAIN)]
    assert rtol == sorted(rtol)
    assert rtol[0] < 1e-6 < 1e-5 < rtol[1] < 1e-3 < 1e-2 < rtol[2] < 0.5


def test_a_tolerance_below_the_precision_is_lifted_to_it_unless_it_is_zero() -> None:
    assert judge_of(BRAIN, rtol=1e-6).rtol[0] >= BRAIN
    assert judge_of(BRAIN, rtol=0.0).rtol[0] == 0.0


def test_with_a_fixed_step_nothing_is_lifted_or_excused() -> None:
    judgement = judge_of(BRAIN, step=0.1, atol=0.0, rtol=1e-6)
    assert judgement.rtol.tolist() == [1e-6]
    assert judgement.unresolvable.tolist() == [0.0]


def test_dust_next_to_a_large_entry_is_excused_only_by_default() -> None:
    default, given = judge_of(), judge_of(atol=0.0)
    for judgement in (default, given):
        judgement.allow_dust(np.array([[1.0, -100.0, np.nan]]))
    assert 0 < default.atol[0] <= 1e-6 * 100
    assert given.atol[0] == 0.0


def test_sharpness_asks_for_less_than_the_tolerance() -> None:
    judgement = judge_of(atol=1e-5, rtol=1e-3)
    wanted = judgement.sharpness(np.array([0]))(np.array([[2.0]]))[0, 0]
    assert 0 < wanted < 1e-5 + 1e-3 * 2.0
