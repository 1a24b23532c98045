"""Euclid's norm, at any size."""

from __future__ import annotations

import numpy as np
import pytest

from gradproof.core.norm import PART, norm, products


def test_the_norm_is_euclids() -> None:
    assert norm(np.array([3.0, 4.0])) == 5.0
    assert norm(np.empty(0)) == 0.0
    assert norm(np.zeros(3)) == 0.0


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e-150, 1e150, 1e200, 1e307])
def test_squares_beyond_the_range_of_numbers_do_no_harm(size: float) -> None:
    assert norm(size * np.array([3.0, -4.0])) == pytest.approx(5.0 * size, rel=1e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_so(value: float) -> None:
    assert not np.isfinite(norm(np.array([1.0, value])))


@pytest.mark.parametrize("size", [10, 3 * PART + 5])
def test_products_of_long_vectors_are_those_of_short_ones(size: int) -> None:
    left, right = np.random.default_rng(0).standard_normal((2, size))
    total, length = products(left, right)
    assert total == pytest.approx(float((left * right).sum()), abs=1e-12 * size)
    assert length == pytest.approx(float(np.sqrt(((left * right) ** 2).sum())), rel=1e-12)


@pytest.mark.parametrize("size", [10, 3 * PART + 5])
def test_what_is_not_asked_about_may_be_infinite_and_nothing_else(size: int) -> None:
    left, right = np.ones(size), np.ones(size)
    left[size // 2], right[size // 2] = 0.0, np.inf
    assert products(left, right) == (size - 1.0, pytest.approx(np.sqrt(size - 1.0)))
    left[size // 2] = 1.0
    assert products(left, right)[0] == np.inf
