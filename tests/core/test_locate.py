"""Halving: the worst place first, with as few questions as there are binary digits."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from array_problem import investigation
from hypothesis import given
from hypothesis import strategies as st

from gradproof.core.directions import draw_direction
from gradproof.core.locate import halve, worst_columns
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey
from gradproof.core.types import Vector

SIZES = [1, 2, 3, 7, 8, 100, 1000, 4097]


class Questions:
    """A vector of contributions that counts how often it is asked."""

    def __init__(self, contributions: Any) -> None:
        self.contributions = np.asarray(contributions, dtype=float)
        self.asked = 0

    def residual(self, low: int, high: int) -> float:
        assert 0 <= low < high <= len(self.contributions)
        self.asked += 1
        return float(self.contributions[low:high].sum())

    def search(self, threshold: float = 1e-9) -> Any:
        contributions = self.contributions
        return halve(len(contributions), float(contributions.sum()), self.residual, lambda low, high: threshold)


def sparse(size: int, places: dict[int, float]) -> Questions:
    contributions = np.zeros(size)
    for place, value in places.items():
        contributions[place] = value
    return Questions(contributions)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("where", [0.0, 0.37, 0.5, 0.999])
def test_a_lone_culprit_takes_as_many_questions_as_binary_digits(size: int, where: float) -> None:
    place = int(where * size)
    questions = sparse(size, {place: -0.3})
    assert list(questions.search()) == [place]
    assert questions.asked <= math.log2(size) + 1


def test_of_several_culprits_the_worst_comes_first_and_none_is_left_out() -> None:
    culprits = {3: 0.5, 400: -8.0, 401: 2.0, 999: 1.0}
    found = list(sparse(1000, culprits).search())
    assert found[:2] == [400, 401]  # the worst, and its neighbour
    assert sorted(found) == sorted(culprits)


def test_several_culprits_cost_a_descent_each() -> None:
    questions = sparse(1024, {place: 1.0 + place for place in (5, 300, 700, 1000)})
    assert sorted(questions.search()) == [5, 300, 700, 1000]
    assert questions.asked <= 4 * 10


@pytest.mark.parametrize("size", [8, 1000, 4096])
def test_where_everything_is_wrong_the_first_one_costs_no_more(size: int) -> None:
    questions = Questions(np.random.default_rng(0).uniform(0.5, 1.5, size))
    (first,) = itertools.islice(questions.search(), 1)
    assert 0 <= first < size
    assert questions.asked <= math.log2(size) + 1


def test_where_everything_is_wrong_every_place_is_found_once() -> None:
    questions = Questions(np.random.default_rng(0).uniform(0.5, 1.5, 64))
    assert sorted(questions.search()) == list(range(64))
    assert questions.asked == 63


def test_a_pair_that_cancels_in_one_half_leaves_the_other_culprits_to_be_found() -> None:
    assert list(sparse(16, {0: 1.0, 1: -1.0, 12: 0.25}).search()) == [12]


def test_a_pair_that_nearly_cancels_is_found() -> None:
    assert sorted(sparse(64, {20: 1.0, 50: -0.999}).search()) == [20, 50]


def test_a_pair_across_the_middle_that_cancels_is_found_though_the_total_is_zero() -> None:
    """Whoever asks does so because something accused; a total of zero is then no reason to stop."""
    assert sorted(sparse(64, {20: 1.0, 50: -1.0}).search()) == [20, 50]


def test_what_is_below_the_threshold_is_not_followed() -> None:
    questions = sparse(1000, {137: 2.0, 800: 1e-3})
    assert list(questions.search(threshold=1e-2)) == [137]
    assert questions.asked == 10
    assert list(sparse(1000, {137: 2.0, 800: 1e-3}).search(threshold=1e-4)) == [137, 800]


def test_the_threshold_is_asked_for_the_places_in_question() -> None:
    """Places of the right half are noisy: what shows there is round-off."""
    questions = sparse(8, {1: 2.0, 6: 1.0})
    found = halve(8, 3.0, questions.residual, lambda low, high: 5.0 if low >= 4 else 1e-9)
    assert list(found) == [1]


def test_nothing_is_asked_before_the_first_place_is_wanted() -> None:
    questions = sparse(8, {5: 1.0})
    questions.search()
    assert questions.asked == 0


@given(
    size=st.integers(1, 600),
    seed=st.integers(0, 2**20),
    count=st.integers(1, 6),
)
def test_every_place_of_a_random_sparse_vector_is_found_once(size: int, seed: int, count: int) -> None:
    draw = np.random.default_rng(seed)
    places = draw.choice(size, min(count, size), replace=False)
    questions = sparse(size, {int(place): draw.normal() + np.sign(draw.normal()) for place in places})
    found = list(questions.search(threshold=1e-12))
    assert sorted(found) == sorted(places.tolist())
    assert questions.asked <= len(places) * (math.ceil(math.log2(size)) if size > 1 else 0)


@given(size=st.integers(2, 300), seed=st.integers(0, 2**20))
def test_with_one_sign_the_places_come_in_an_order_that_puts_the_worst_half_first(size: int, seed: int) -> None:
    contributions = np.random.default_rng(seed).exponential(size=size)
    contributions[np.argmax(contributions)] += contributions.sum()  # more than all others together
    (first,) = itertools.islice(Questions(contributions).search(), 1)
    assert first == np.argmax(contributions)


def test_the_worst_inputs_of_an_output_are_found_by_its_row() -> None:
    matrix = np.random.default_rng(0).normal(size=(3, 50))
    row = matrix[1].copy()
    row[17] += 0.5
    row[40] -= 0.25
    stencil = Stencil(investigation(lambda x: np.tanh(matrix @ x), np.zeros(50)))
    survey = Survey(stencil, draw_direction(stencil))
    survey.climb(14, 17)

    def claim(part: Vector, run: slice) -> float:
        assert not np.delete(part, np.arange(50)[run]).any()
        return float(row[run] @ part[run])

    found = worst_columns(survey, 1, survey.finest, float(row @ survey.direction), claim)
    assert set(found) == {17, 40}
