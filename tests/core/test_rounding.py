"""Numbers of fewer bits than they are stored in."""

from __future__ import annotations

import numpy as np
import pytest

from gradproof.core.rounding import rounded_to

VALUES = np.random.default_rng(0).normal(size=200)


def to_bits(values: np.ndarray, bits: int) -> np.ndarray:
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(mantissa * 2.0**bits) / 2.0**bits, exponent)


@pytest.mark.parametrize("bits", [8, 11, 24])
@pytest.mark.parametrize("scale", [1.0, 2.0**-30, -3.0])
def test_the_format_is_told(bits: int, scale: float) -> None:
    values = to_bits(VALUES, bits) if scale == -3.0 else to_bits(VALUES * scale, bits)
    assert rounded_to(values) == bits


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        np.arange(20.0),
        np.zeros(9),
        np.array([0.5, 0.25, 1.0, 2.0, -1.0]),
        to_bits(VALUES, 8)[:3],
        np.full(9, np.inf),
    ],
    ids=["all bits", "integers", "zeros", "powers of two", "too few", "infinite"],
)
def test_of_others_nothing_is_said(values: np.ndarray) -> None:
    assert rounded_to(values) is None


def test_one_number_of_more_bits_is_enough() -> None:
    values = to_bits(VALUES, 24)
    values[7] = 1.0 / 3.0
    assert rounded_to(values) is None
