"""What the rungs of a ladder say together."""

from __future__ import annotations

import numpy as np
import pytest
from array_problem import BRAIN, DOUBLE, HALF, SINGLE

from gradproof.core.ladder import bits, relative_steps, rungs, settle


@pytest.mark.parametrize(("eps", "digits"), [(DOUBLE, 52), (SINGLE, 23), (HALF, 10), (BRAIN, 7)])
def test_bits_are_the_binary_digits_of_a_dtype(eps: float, digits: int) -> None:
    assert bits(eps) == digits


@pytest.mark.parametrize("eps", [DOUBLE, SINGLE, HALF, BRAIN])
def test_rungs_descend_from_coarse_to_fine_and_stay_above_round_off(eps: float) -> None:
    ladder = rungs(eps)
    assert len(ladder) >= 2
    assert list(ladder) == sorted(set(ladder))
    assert 2.0 ** -ladder[0] <= 0.5
    assert 2.0 ** -ladder[-1] >= 4 * eps


@pytest.mark.parametrize("eps", [DOUBLE, SINGLE, HALF, BRAIN])
def test_no_step_is_a_power_of_two_of_the_next(eps: float) -> None:
    steps = np.array(relative_steps(eps))
    assert len(steps) == len(rungs(eps))
    assert (np.diff(steps) < 0).all()
    ratios = np.log2(steps[:-1] / steps[1:])
    assert (np.abs(ratios - np.rint(ratios)) > 0.01).all()


@pytest.mark.parametrize("digits", range(4, 53))
def test_a_brief_ladder_has_the_ends_of_the_whole_one_in_any_precision(digits: int) -> None:
    whole, brief = relative_steps(2.0**-digits), relative_steps(2.0**-digits, brief=True)
    assert set(brief) <= set(whole)
    assert (brief[:2], brief[-2:]) == (whole[:2], whole[-2:])
    assert len(brief) == min(len(whole), 5)


def settled(*quotients: float, floor: float = 1e-12) -> tuple[float, float]:
    """Value and error bar from a ladder of central differences, each step an eighth of the one before."""
    ladder = np.array(quotients)[:, None, None]
    value, error = settle(ladder, np.full_like(ladder, floor), [8.0**-k for k in range(len(ladder))], order=2)
    return value.item(), error.item()


def test_settle_prefers_a_clear_fine_rung_to_a_smooth_coarse_one() -> None:
    value, error = settled(1.0, 1.0, 1.0, 5.0, 5.0, 5.0)
    assert value == 5.0
    assert error <= 1e-8


def test_settle_prefers_a_smooth_coarse_rung_to_noise() -> None:
    value, error = settled(1.0, 1.0 + 1e-9, 1.0 - 1e-8, 1.0 + 1e-5, 1.01, 0.2)
    assert abs(value - 1.0) <= error <= 1e-2


def test_settle_extrapolates_the_truncation_away() -> None:
    value, error = settled(*(1.0 + 64.0**-k for k in range(5)))
    assert value == pytest.approx(1.0, abs=1e-12)
    assert error <= 1e-5


def test_settle_ignores_rungs_without_a_value() -> None:
    value, error = settled(np.nan, np.inf, 2.0, 2.0)
    assert value == 2.0
    assert np.isfinite(error)
