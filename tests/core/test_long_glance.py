"""A glance at many numbers acquits them of every error that is to be seen, by one rung, and leaves all others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from array_problem import Part, array_problem

from gradproof.core.capabilities import Walk
from gradproof.core.cost import Cost
from gradproof.core.investigation import Investigation
from gradproof.core.long_glance import acquits_many
from gradproof.core.norm import PART
from gradproof.core.options import Options, Strategy
from gradproof.core.problem import Mode, OutputChangedError
from gradproof.core.types import Vector

ATOL, SIZE = 1e-5, PART + 1000
POINT = np.linspace(-1.0, 1.2, SIZE)
AT_THE_POINT = 1


def options(**more: Any) -> Options:
    given = {"strategy": Strategy.PROBES, "modes": (Mode.REVERSE,), "atol": ATOL, "rtol": 1e-3, "certify": False}
    return Options(**{**given, **more})


def pointwise(
    function: Callable[[Vector], Vector], claimed: Any, seed: int = 0, walks: bool = True, **more: Any
) -> Investigation:
    """A function of each element by itself, with the slopes that are claimed."""
    problem = array_problem(function, POINT, vjp=lambda v: claimed * v, **more)

    def visit(direction: Vector, steps: Iterable[float], take: Callable[[Vector], None]) -> None:
        for step in steps:
            value = problem.evaluate(problem.point + step * direction)
            value.flags.writeable = step < 0
            take(value)

    offered = {**problem.capabilities, **({Walk: Walk(problem.evaluate, visit)} if walks else {})}
    return Investigation(dataclasses.replace(problem, capabilities=offered), seed, Cost())


def slopes(errors: dict[int, float] | None = None) -> Vector:
    claimed = np.cos(POINT)
    for where, error in (errors or {}).items():
        claimed[where] += error
    return claimed


@pytest.mark.parametrize("seed", range(5))
def test_what_is_right_is_settled_by_two_evaluations_and_one_question(seed: int) -> None:
    case = pointwise(np.sin, slopes(), seed)
    assert acquits_many(case, options())
    assert (case.cost.evaluations, case.cost.vjps) == (AT_THE_POINT + 2, 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1.001 * ATOL, -1.001 * ATOL, 1e-3, 1e9])
@pytest.mark.parametrize("where", [0, SIZE // 2, SIZE - 1])
def test_no_lone_error_above_the_tolerance_is_settled(where: int, size: float, seed: int) -> None:
    assert not acquits_many(pointwise(np.sin, slopes({where: size}), seed), options())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("error", [0.0, 1.001 * ATOL, -1e-3])
def test_where_the_step_is_off_by_more_than_round_off_a_second_one_tells_by_how_much(error: float, seed: int) -> None:
    claimed = 10.0 * np.cos(10.0 * POINT)
    claimed[99] += error
    case = pointwise(lambda x: np.sin(10.0 * x), claimed, seed)
    assert acquits_many(case, options()) == (error == 0.0)
    assert (case.cost.evaluations, case.cost.vjps) == (AT_THE_POINT + 4, 1)


def test_a_factor_of_all_entries_of_an_input_is_not_settled_though_each_is_below_the_tolerance() -> None:
    cases = [pointwise(lambda x: 1e-7 * np.sin(x), factor * 1e-7 * np.cos(POINT)) for factor in (1.0, 1.05)]
    assert [acquits_many(case, options()) for case in cases] == [True, False]


def test_nor_of_one_of_several() -> None:
    inputs = [Part((SIZE - 1000,)), Part((1000,))]
    scales = np.where(np.arange(SIZE) < SIZE - 1000, 1.0, 1e-5)
    found = [
        acquits_many(pointwise(lambda x: scales * np.sin(x), factor * scales * np.cos(POINT), inputs=inputs), options())
        for factor in (1.0, np.where(scales == 1.0, 1.0, 1.5))
    ]
    assert found == [True, False]


def test_of_large_outputs_nothing_is_looked_at() -> None:
    case = pointwise(lambda x: 1e6 + np.sin(x), slopes())
    assert not acquits_many(case, options())
    assert (case.cost.evaluations, case.cost.vjps) == (AT_THE_POINT, 0)


def lone_kink(x: Vector) -> Vector:
    values = np.sin(x)
    values[7] += np.abs(x[7] - POINT[7])
    return values


def refuses(x: Vector) -> Vector:
    if (x != POINT).any():
        raise ValueError("not away from the point")
    return np.sin(x)


def no_number(x: Vector) -> Vector:
    values = np.sin(x)
    values[3] = np.nan
    return values


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * np.cos(POINT) + np.abs(x - POINT),
        lone_kink,
        lambda x: np.sin(x) + 1e-6 * np.sin(1e5 * x),
        lambda x: np.sin(x) + 1e-9 * np.sin(1e13 * x),
        refuses,
        no_number,
    ],
    ids=["kinks", "one kink", "waves", "noise", "raises", "NaN"],
)
def test_what_is_not_smooth_is_looked_at_in_full(function: Callable[[Vector], Vector]) -> None:
    assert not acquits_many(pointwise(function, slopes()), options())


def test_an_output_of_another_shape_is_told() -> None:
    with pytest.raises(OutputChangedError):
        acquits_many(pointwise(lambda x: np.sin(x) if (x == POINT).all() else x[:-1], slopes()), options())


@pytest.mark.parametrize("more", [{"certify": True}, {"step": 1e-6}, {"atol": 0.0}, {"modes": tuple(Mode)}])
def test_it_is_not_for_certificates_steps_that_were_given_and_forward_mode(more: dict[str, Any]) -> None:
    case = pointwise(np.sin, slopes())
    assert not acquits_many(case, options(**more))
    assert case.cost.evaluations == AT_THE_POINT


def test_nor_where_evaluations_need_arrays_of_their_own() -> None:
    assert not acquits_many(pointwise(np.sin, slopes(), walks=False), options())
