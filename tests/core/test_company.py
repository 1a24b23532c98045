"""A lone entry among others that agree is not excused by noise; entries that noise has spoiled alike are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import investigation

from gradproof.core.company import sticks_out
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Mode

POINT = np.linspace(0.4, 1.6, 12)
MIXED = np.random.default_rng(0).normal(size=(12, 12))


def dense(x: Any) -> Any:
    return MIXED @ np.sin(x)


def single(x: Any) -> Any:
    return np.float32(MIXED) @ np.float32(np.sin(x))


def case(function: Any, jacobian: Any) -> Investigation:
    return investigation(function, POINT, vjp=lambda v: v @ jacobian, jvp=lambda u: jacobian @ u)


def asked(at: Investigation, mode: Mode, difference: float) -> bool:
    return sticks_out(at, mode, (at.problem.outputs.place(3), at.problem.inputs.place(5)), MIXED[3, 5], difference)


@pytest.mark.parametrize("mode", Mode)
def test_one_that_differs_among_others_that_agree_sticks_out(mode: Mode) -> None:
    jacobian = MIXED * np.cos(POINT)
    jacobian[3, 5] += 1e-6
    at = case(dense, jacobian)
    assert asked(at, mode, 1e-6)
    assert not asked(at, mode, 1e-11), "others are no closer"
    assert at.cost.evaluations <= 80


@pytest.mark.parametrize("mode", Mode)
def test_in_noise_nothing_sticks_out(mode: Mode) -> None:
    assert not asked(case(single, MIXED * np.cos(POINT)), mode, 1e-4)


def test_where_all_are_inexact_none_sticks_out() -> None:
    assert not asked(case(dense, 1.000002 * MIXED * np.cos(POINT)), Mode.REVERSE, 1e-6)


def test_kinks_of_a_few_others_are_no_noise() -> None:
    place = int(np.argmin(np.abs(POINT - 1.0)))
    jacobian = MIXED * np.cos(POINT)
    jacobian[3, 5] += 1e-4
    at = case(lambda x: dense(x) + 0.3 * np.abs(x[place] - POINT[place]), jacobian)
    assert asked(at, Mode.REVERSE, 1e-4)


@pytest.mark.parametrize("mode", Mode)
def test_one_between_two_steps_of_a_staircase_does_not_stick_out(mode: Mode) -> None:
    """Short steps see nothing of the slope, and the whole of it is the difference; longer ones see it."""
    jacobian = MIXED * np.cos(POINT)
    assert not asked(case(dense, jacobian), mode, abs(float(jacobian[3, 5])))


def test_without_others_nothing_is_known() -> None:
    alone = investigation(lambda x: np.sin(x[:1]), POINT[:1], vjp=lambda v: v * 0.5)
    place = alone.problem.outputs.place(0), alone.problem.inputs.place(0)
    assert not sticks_out(alone, Mode.REVERSE, place, 0.9, 0.3)
