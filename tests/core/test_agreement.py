"""When two answers to one question count as the same."""

from __future__ import annotations

import numpy as np
import pytest
from array_problem import DOUBLE, SINGLE, array_problem

from gradproof.core.agreement import adds_up, is_linear, is_sum, largest_of, same, smallest_of, within
from gradproof.core.norm import PART

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.0], [1.0, 2.0 + 1e-14], True),
        ([1.0, 2.0], [1.0, 2.0 + 1e-11], False),
        ([1e-20, 1e6], [2e-20, 1e6], True),
        ([NAN, 1.0], [NAN, 1.0], True),
        ([NAN, 1.0], [0.0, 1.0], False),
        ([0.0, 1.0], [NAN, 1.0], False),
        ([INF, 1.0], [INF, 1.0], True),
        ([INF, 1.0], [-INF, 1.0], False),
        ([INF, 1.0], [1.0, 1.0], False),
        ([], [], True),
    ],
)
def test_answers_may_differ_by_round_off_only(first: list[float], second: list[float], alike: bool) -> None:
    assert same(np.array(first), np.array(second), DOUBLE) is alike


def test_round_off_is_that_of_the_precision() -> None:
    first, second = np.array([1.0]), np.array([1.0 + 1e-6])
    assert not same(first, second, DOUBLE)
    assert same(first, second, SINGLE)


def test_slack_is_allowed_on_top() -> None:
    first, second = np.array([1.0]), np.array([1.05])
    assert not same(first, second, DOUBLE, slack=0.01)
    assert same(first, second, DOUBLE, slack=0.1)


def test_a_sum_may_lose_what_its_parts_cancel() -> None:
    problem = array_problem(np.sin, np.ones(2), np.eye(2))
    expected = np.array([1.0, -2.0]) + np.array([-1.0 - 2e-16, 2.0])
    assert is_sum(np.zeros(2), expected, 2.0, problem)
    assert not is_sum(np.array([1e-3, 0.0]), expected, 2.0, problem)
    assert not is_sum(np.array([np.nan, 0.0]), expected, 2.0, problem)


def test_a_matrix_is_linear_and_a_power_is_not() -> None:
    matrix, question = np.array([[1.0, 2.0], [3.0, -4.0]]), np.array([0.3, -0.7])
    assert is_linear(lambda v: matrix @ v, question, matrix @ question, DOUBLE)
    assert not is_linear(np.square, question, np.square(question), DOUBLE)
    assert is_linear(np.square, question, np.square(question), DOUBLE, slack=2.0)


@pytest.mark.parametrize("size", [3, 3 * PART + 1])
def test_the_smallest_value_counts_by_its_size(size: int) -> None:
    values = np.full(size, -2.0)
    values[size // 2] = 0.5
    assert smallest_of(values) == 0.5
    assert smallest_of(np.empty(0)) == np.inf


def test_long_answers_are_compared_in_all_parts() -> None:
    first = np.ones(3 * PART + 1)
    assert within(first, first + 1e-9, 1e-8)
    second = first.copy()
    second[-1] += 1.0
    assert not within(first, second, 1e-8)
    assert within(first, second, np.where(first != second, 2.0, 0.0))


@pytest.mark.parametrize("size", [7, 2 * PART + 7])
def test_a_sum_is_compared_in_all_parts(size: int) -> None:
    problem = array_problem(np.sin, np.ones(2), np.eye(2))
    first, second = np.linspace(1.0, 2.0, size), np.linspace(-0.25, 0.5, size)
    first[3], first[4] = INF, NAN
    total = first + second / 0.125
    assert adds_up(total, first, second, 0.125, problem)
    assert adds_up(total * (1.0 + 1e-15), first, second, 0.125, problem)
    for place in (0, 3, size - 1):
        wrong = total.copy()
        wrong[place] = 0.25
        assert not adds_up(wrong, first, second, 0.125, problem)


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("place", [0, -1])
def test_the_largest_of_a_long_vector_is_that_of_its_finite_values(bad: float, place: int) -> None:
    values = np.linspace(-3.0, 2.0, 2 * PART + 7)
    assert largest_of(values) == 3.0
    values[place] = bad
    assert 2.9 < largest_of(values) <= 3.0
    assert largest_of(values.reshape(-1, 1)) == largest_of(values)
