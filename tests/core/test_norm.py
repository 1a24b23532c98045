"""Euclid's norm, at any size."""

from __future__ import annotations

import numpy as np
import pytest

from gradproof.core.norm import norm


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
