"""How still small outputs are beside large ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from array_problem import investigation

from gradproof.core.stillness import stillness
from gradproof.core.types import Vector

EPS = 2.0**-52


def measured(function: Callable[[Vector], Vector], x: Vector) -> Vector | None:
    return stillness(investigation(function, x, vjp=lambda v: v))


def beside(small: Callable[[Vector], Vector]) -> Callable[[Vector], Vector]:
    """A function of small numbers, and a huge one for each of them in the same array."""
    return lambda x: np.concatenate([small(x), 1e9 * np.cos(x)])


x = np.random.default_rng(0).uniform(0.5, 1.5, 500)


def test_outputs_of_about_one_size_are_not_measured() -> None:
    case = investigation(np.sin, x, vjp=lambda v: v)
    before = case.cost.evaluations
    assert stillness(case) is None
    assert case.cost.evaluations == before


def test_a_few_thousand_times_smaller_is_about_one_size() -> None:
    """So is a softmax, or a loss that happens to be small: what the larger guess excuses there is 2e-4 of it."""
    few = investigation(lambda x: np.array([1e-4, 1.0, 1.0]) * np.sin(x), x[:3], vjp=lambda v: v)
    assert stillness(few) is None
    assert stillness(investigation(lambda x: np.array([1e-6, 1, 1]) * np.sin(x), x[:3], vjp=lambda v: v)) is not None


def test_what_owes_nothing_to_others_is_as_still_as_its_own_size() -> None:
    noise = measured(beside(np.exp), x)
    assert noise is not None
    assert (noise[:500] <= 1e4 * EPS * np.exp(x)).all()


@pytest.mark.parametrize(
    "shares",
    [
        lambda x: (np.sin(x) + 1e6) - 1e6,
        lambda x: (x + 1e8) - 1e8,
        lambda x: np.diff(np.cumsum(x + 1e5), prepend=0.0) - 1e5,
    ],
)
def test_what_shares_the_round_off_of_large_numbers_is_seen_to(shares: Callable[[Vector], Vector]) -> None:
    noise = measured(beside(shares), x)
    assert noise is not None
    assert (noise[:500] >= 1e-11).all(), "they lie on a grid of 1e-10 at least"


def test_nothing_is_learnt_where_nothing_moves_or_points_are_refused() -> None:
    stuck = measured(beside(lambda x: np.round(x, 3)), x)
    assert stuck is not None
    assert np.isinf(stuck[:500]).all()

    def refuses(moved: Vector) -> Vector:
        if (moved != x).any():
            raise ValueError("outside")
        return beside(np.exp)(moved)

    assert measured(refuses, x) is None
