"""A glance acquits small Problems in double precision of every error that is to be seen, and hands on all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, Part, investigation
from hypothesis import given
from hypothesis import strategies as st

from gradproof.core.capabilities import Stateless
from gradproof.core.glance import Glance, acquits, glance
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options, Strategy
from gradproof.core.probing import Prober
from gradproof.core.problem import Mode
from gradproof.core.types import Matrix, Vector

ATOL = 1e-5
AT_THE_POINT = 1
"""The evaluation that every investigation begins with."""
QUESTIONS = pytest.mark.parametrize("questions", [1, 2])


def options(**more: Any) -> Options:
    return Options(
        **{"strategy": Strategy.PROBES, "modes": (Mode.REVERSE,), "atol": ATOL, "rtol": 1e-3, "certify": False, **more}
    )


def layer(
    offset: float = 0.0, errors: dict[tuple[int, int], float] | None = None, seed: int = 0, **more: Any
) -> Investigation:
    """offset + tanh(W x) with four outputs and five inputs, whose claimed Jacobian has these errors."""
    weights, point = np.random.default_rng(seed).normal(size=(4, 5)), np.linspace(-0.5, 0.7, 5)
    matrix = weights / np.cosh(weights @ point)[:, None] ** 2
    for where, error in (errors or {}).items():
        matrix[where] += error
    return investigation(lambda x: offset + np.tanh(weights @ x), point, matrix, seed=seed, **more)


def glanced(case: Investigation, questions: int = 1, **more: Any) -> Glance:
    found = glance(case, options(**more), questions)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(10))
@QUESTIONS
def test_what_is_right_is_settled_by_four_evaluations_and_one_question(seed: int, questions: int) -> None:
    case = layer(seed=seed)
    assert glanced(case, questions).settles
    assert (case.cost.evaluations, case.cost.vjps) == (AT_THE_POINT + 4, 1)


@given(
    st.tuples(st.integers(0, 3), st.integers(0, 4)),
    st.floats(1.0001, 1e6),
    st.sampled_from([-1.0, 1.0]),
    st.integers(1, 2),
    st.integers(0, 1000),
)
def test_no_lone_error_above_the_tolerance_is_settled(
    place: tuple[int, int], size: float, sign: float, questions: int, seed: int
) -> None:
    assert not glanced(layer(errors={place: sign * size * ATOL}, seed=seed), questions).settles


@QUESTIONS
def test_a_factor_of_all_entries_of_an_input_is_not_settled_though_each_is_below_the_tolerance(questions: int) -> None:
    point = np.linspace(0.5, 1.0, 8)
    found = [
        glanced(investigation(lambda x: 1e-6 * np.sin(x), point, np.diag(factor * 1e-6 * np.cos(point))), questions)
        for factor in (1.0, 1.05)
    ]
    assert [each.settles for each in found] == [True, False]


def test_a_second_question_is_asked_where_much_is_hidden() -> None:
    case = layer(offset=100.0)
    assert glanced(case, 2).settles
    assert (case.cost.evaluations, case.cost.vjps) == (AT_THE_POINT + 4, 2)


def test_errors_that_cancel_in_the_first_question_show_in_the_second() -> None:
    cotangent, direction = layer(offset=100.0).draw(4, 1), glanced(layer(offset=100.0)).direction
    errors = {(0, 2): 1e-2, (1, 3): -1e-2 * cotangent[0] * direction[2] / (cotangent[1] * direction[3])}
    assert glanced(layer(100.0, errors), 1).settles, "with weights that are known beforehand, errors can cancel"
    assert not glanced(layer(100.0, errors), 2).settles


def bends(x: Vector) -> Vector:
    return np.abs(x - 0.5)


def noisy(x: Vector) -> Vector:
    return x + 1e-7 * np.sin(1e12 * x)


def wiggles(x: Vector) -> Vector:
    return x + 1e-6 * np.sin(1e5 * x)


@pytest.mark.parametrize("function", [bends, noisy, wiggles])
@QUESTIONS
def test_kinks_and_noise_are_looked_at_in_full(function: Callable[[Vector], Vector], questions: int) -> None:
    case = investigation(function, np.full(3, 0.5), np.eye(3))
    assert not glanced(case, questions).settles


@pytest.mark.parametrize("matrix", [np.full((3, 3), np.nan), np.diag([1.0, np.inf, 1.0])])
@QUESTIONS
def test_gradients_that_are_no_numbers_are_looked_at_in_full(matrix: Matrix, questions: int) -> None:
    case = investigation(np.sin, np.zeros(3), vjp=lambda v: matrix.T @ v)
    with np.errstate(invalid="ignore"):
        assert not glanced(case, questions).settles


def test_a_tolerance_below_round_off_is_not_settled() -> None:
    case = layer(offset=100.0)
    assert not glanced(case, atol=1e-9).settles
    assert case.cost.vjps == 0


@pytest.mark.parametrize(
    "more",
    [
        {"atol": None},
        {"atol": 0.0},
        {"certify": True},
        {"modes": (Mode.FORWARD,)},
        {"modes": tuple(Mode)},
        {"step": 1e-6},
    ],
)
def test_what_wants_more_than_an_acquittal_gets_no_glance(more: dict[str, Any]) -> None:
    case = layer()
    assert glance(case, options(**more)) is None
    assert case.cost.evaluations == AT_THE_POINT


def test_nor_does_low_precision() -> None:
    case = investigation(
        np.sin, np.zeros(3), np.eye(3), inputs=[Part((3,), eps=SINGLE)], outputs=[Part((3,), eps=SINGLE)]
    )
    assert glance(case, options()) is None


def test_a_function_that_raises_away_from_the_point_is_looked_at_in_full() -> None:
    def only_here(x: Vector) -> Vector:
        if x.any():
            raise ValueError("not here")
        return np.sin(x)

    assert glance(investigation(only_here, np.zeros(3), np.eye(3)), options()) is None


def test_what_was_measured_and_asked_is_not_measured_and_asked_again() -> None:
    wrong = {(1, 1): 1e-2}
    alone = layer(errors=wrong)
    assert Prober(alone, options()).run(Mode.REVERSE).judged
    case = layer(errors=wrong)
    found = glanced(case)
    assert Prober(case, options(), found).run(Mode.REVERSE).judged
    assert case.cost.evaluations <= alone.cost.evaluations
    assert case.cost.vjps <= alone.cost.vjps


WAYS = pytest.mark.parametrize("way", [{}, {Stateless: Stateless()}], ids=["written by hand", "the framework's own"])


def entries(**more: Any) -> Options:
    return options(strategy=Strategy.ENTRIES, **more)


@WAYS
def test_where_every_entry_is_wanted_what_is_right_is_acquitted(way: dict[type, Any]) -> None:
    case = layer(capabilities=way)
    assert acquits(case, entries(), 4)
    assert case.cost.evaluations == AT_THE_POINT + 4
    assert case.cost.vjps == (1 if way else 4)


@given(
    st.tuples(st.integers(0, 3), st.integers(0, 4)),
    st.floats(1.0001, 1e6),
    st.sampled_from([{}, {Stateless: Stateless()}]),
    st.integers(0, 1000),
)
def test_and_no_lone_error_is(place: tuple[int, int], size: float, way: dict[type, Any], seed: int) -> None:
    assert not acquits(layer(errors={place: size * ATOL}, seed=seed, capabilities=way), entries(), 4)


def test_what_is_written_by_hand_may_be_wrong_for_one_element_alone() -> None:
    def pull(v: Vector) -> Vector:
        return np.cos(point) * v * (1.5 if np.count_nonzero(v) == 1 else 1.0)

    point = np.linspace(0.1, 1.0, 4)
    assert glanced(investigation(np.sin, point, vjp=pull)).settles
    assert not acquits(investigation(np.sin, point, vjp=pull), entries(), 4)


@WAYS
def test_many_entries_are_not_asked_for_row_by_row(way: dict[type, Any]) -> None:
    point = np.linspace(0.1, 1.0, 1500)
    case = investigation(np.sin, point, vjp=lambda v: np.cos(point) * v, capabilities=way)
    assert acquits(case, entries(), 100) == bool(way)
    assert case.cost.vjps <= 2
