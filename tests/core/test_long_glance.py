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
from gradproof.core.glance import RUNGS, unit_noise
from gradproof.core.investigation import Investigation
from gradproof.core.long_glance import acquits_many
from gradproof.core.norm import PART, norm
from gradproof.core.options import Options, Strategy
from gradproof.core.precision import CONFIDENCE
from gradproof.core.problem import Mode, OutputChangedError
from gradproof.core.types import Vector

ATOL, SIZE = 1e-5, PART + 1000
POINT = np.linspace(-1.0, 1.2, SIZE)
AT_THE_POINT = 1


def options(**more: Any) -> Options:
    given = {"strategy": Strategy.PROBES, "modes": (Mode.REVERSE,), "atol": ATOL, "rtol": 1e-3, "certify": False}
    return Options(**{**given, **more})


def pointwise(
    function: Callable[[Vector], Vector],
    claimed: Any,
    seed: int = 0,
    walks: bool = True,
    belongs: Callable[[Any], Any] | None = None,
    **more: Any,
) -> Investigation:
    """A function of each element by itself, with the slopes that are claimed; its walk `belongs` to it, or to another.

    The first value is one to keep, the other one is not.
    """
    problem = array_problem(function, POINT, **{"vjp": lambda v: claimed * v, **more})

    def visit(direction: Vector, steps: Iterable[float], take: Callable[[Vector], None]) -> None:
        for step in steps:
            value = problem.evaluate(problem.point + step * direction)
            value.flags.writeable = step < 0
            take(value)

    offered = {**problem.capabilities, **({Walk: Walk(belongs or problem.evaluate, visit)} if walks else {})}
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


def test_what_round_off_makes_of_both_rungs_and_no_more_is_allowed_for() -> None:
    """Errors of one entry that are acquitted by two rungs make an interval, as wide as what is allowed twice."""
    place = SIZE // 2

    def case(error: float) -> Investigation:
        claimed = 10.0 * np.cos(10.0 * POINT)
        claimed[place] += error
        return pointwise(lambda x: np.sin(10.0 * x), claimed)

    right = case(0.0)
    direction, cotangent = right.direction, right.draw(SIZE, 1)
    assert direction is not None
    weight = abs(float(direction[place] * cotangent[place]))
    allowed = CONFIDENCE * unit_noise(right.problem) * norm(cotangent) * 2.0 ** RUNGS[-1] / weight

    def edge(sign: float) -> float:
        inside, outside = 0.0, 3.0 * allowed
        while outside - inside > 1e-3 * allowed:
            middle = (inside + outside) / 2.0
            inside, outside = (middle, outside) if acquits_many(case(sign * middle), options()) else (inside, middle)
        return inside

    assert edge(1.0) + edge(-1.0) == pytest.approx(2.0 * allowed * (1.0 + 2.0 / 63.0), rel=5e-3)


@pytest.mark.parametrize("part", [0.55, 0.65, 0.75])
@pytest.mark.parametrize("seed", range(3))
def test_no_lone_error_is_settled_that_round_off_makes_up_for(seed: int, part: float) -> None:
    """It is where both weights are smallest, and some outputs are rounded against it: nine tenths of what may be.

    `part` is what round-off may make of the sum, as a part of what must be seen.
    """
    value, ulp = np.full(SIZE, 128.0), 2.0**-45  # of numbers from 128 on
    plain = pointwise(lambda x: value, 0.0, seed)
    direction, cotangent = plain.direction, plain.draw(SIZE, 1)
    assert direction is not None
    row, column = int(np.argmin(np.abs(cotangent))), int(np.argmin(np.abs(direction)))
    weight = float(cotangent[row] * direction[column])
    open_ = CONFIDENCE * unit_noise(plain.problem) * norm(cotangent)
    tolerance = open_ * 2.0 ** RUNGS[-1] / (part * abs(weight))
    against = np.copysign(ulp, weight * cotangent * direction) * (np.cumsum(np.abs(cotangent)) * ulp <= 0.9 * open_)

    def case(error: float) -> Investigation:
        claimed = np.where(np.arange(SIZE) == column, error, 0.0)
        return pointwise(lambda x: value + against * np.sign(x - POINT), 0.0, seed, vjp=lambda v: v[row] * claimed)

    assert not acquits_many(case(1.001 * tolerance), options(atol=tolerance))
    assert acquits_many(case(0.5 * tolerance), options(atol=1.5 * tolerance))


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


@pytest.mark.parametrize("factor", [1.0, 1.05])
@pytest.mark.parametrize("cancels", [False, True])
def test_nor_of_one_whose_entries_cancel_which_would_hide_it(cancels: bool, factor: float) -> None:
    """Along the direction that is looked at: no residual tells, then, and each error is below the tolerance."""
    inputs, last = [Part((SIZE - 1000,)), Part((1000,))], slice(SIZE - 1000, SIZE)
    plain = pointwise(np.sin, slopes(), inputs=inputs)
    assert plain.direction is not None
    shares = (plain.draw(SIZE, 1) * slopes() * plain.direction)[last]
    scales = np.ones(SIZE)
    scales[last] = 1e-4
    if cancels:
        scales[last][shares < 0.0] *= shares[shares > 0.0].sum() / -shares[shares < 0.0].sum()
    assert np.abs(0.05 * (scales * slopes())[last]).max() < ATOL
    claimed = scales * slopes()
    claimed[last] *= factor
    case = pointwise(lambda x: scales * np.sin(x), claimed, inputs=inputs)
    assert acquits_many(case, options()) == (factor == 1.0 and not cancels)
    assert case.cost.vjps == 1


def test_an_input_that_moves_nothing_is_none_whose_entries_cancel() -> None:
    scales = (np.arange(SIZE) < SIZE - 1000).astype(float)
    inputs = [Part((SIZE - 1000,)), Part((1000,))]
    assert acquits_many(pointwise(lambda x: scales * np.sin(x), scales * slopes(), inputs=inputs), options())


@pytest.mark.parametrize("offset", [20.0, 40.0, 70.0, 1e6])
def test_of_large_outputs_nothing_is_looked_at(offset: float) -> None:
    """A rung of which round-off leaves enough would be too coarse."""
    case = pointwise(lambda x: offset + np.sin(x), slopes())
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


def test_nor_where_these_belong_to_another_problem() -> None:
    case = pointwise(np.sin, slopes(), belongs=np.sin)
    assert not acquits_many(case, options())
    assert (case.cost.evaluations, case.cost.vjps) == (AT_THE_POINT, 0)


@pytest.mark.parametrize("error", [0.0, 1.001 * ATOL])
def test_values_in_the_memory_of_the_function_are_not_kept(error: float) -> None:
    """They are read only, and the next value takes the room of the one before."""
    room = np.empty(SIZE)
    shown = room.view()
    shown.flags.writeable = False
    problem = array_problem(np.sin, POINT, vjp=lambda v: slopes({99: error}) * v)

    def visit(direction: Vector, steps: Iterable[float], take: Callable[[Vector], None]) -> None:
        for step in steps:
            room[:] = np.sin(POINT + step * direction)
            take(shown)

    offered = {**problem.capabilities, Walk: Walk(problem.evaluate, visit)}
    case = Investigation(dataclasses.replace(problem, capabilities=offered), 0, Cost())
    assert acquits_many(case, options()) == (error == 0.0)
