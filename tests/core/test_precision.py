"""The numbers that everything is judged by are what their reasons say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from array_problem import BRAIN, DOUBLE, SINGLE

from gradproof.core import precision

PRECISIONS = {"float64": np.float64, "float32": np.float32, "float16": np.float16}


def test_the_spacings_are_those_of_the_dtypes() -> None:
    assert np.finfo(np.float64).eps == precision.DOUBLE
    assert np.finfo(np.float32).eps == precision.SINGLE
    assert precision.SINGLE < precision.HALF_OR_LESS < np.finfo(np.float16).eps


@pytest.mark.parametrize(("eps", "rtol"), [(DOUBLE, 2.5e-7), (SINGLE, 1.2e-4), (BRAIN, 0.031)])
def test_the_default_rtol_is_as_documented(eps: float, rtol: float) -> None:
    assert precision.default_rtol(np.array([eps])) == pytest.approx([rtol], rel=0.02)


def test_another_order_of_summation_is_allowed_as_documented() -> None:
    assert precision.reordered(DOUBLE) == pytest.approx(4e-10, rel=0.05)


@pytest.mark.parametrize("name", PRECISIONS)
def test_sums_in_another_order_differ_by_less(name: str) -> None:
    """A thousand numbers of random signs, summed from both ends."""
    dtype = PRECISIONS[name]
    for seed in range(20):
        terms = np.random.default_rng(seed).uniform(-1, 1, 1000).astype(dtype)
        one, other = (float(np.cumsum(order, dtype=dtype)[-1]) for order in (terms, terms[::-1]))
        assert abs(one - other) <= precision.reordered(float(np.finfo(dtype).eps)) * float(np.abs(terms).sum())


def test_the_confidence_has_the_probability_of_a_miss() -> None:
    assert 2 * math.exp(-(precision.CONFIDENCE**2) / 2) < precision.MISS
    assert 2 * math.exp(-((precision.CONFIDENCE - 0.1) ** 2) / 2) > precision.MISS  # and no more than it needs


def test_batches_are_of_use_only_far_below_what_is_a_flaw() -> None:
    assert 100 * precision.BATCH_ROUND_OFF * DOUBLE < precision.BATCH_FLAW


def test_a_nearby_point_is_another_one_in_single_precision_too() -> None:
    for x in np.random.default_rng(0).uniform(-3.0, 3.0, 100).astype(np.float32):
        assert np.float32(x + 0.5 * precision.NEARBY * abs(x)) != x
