"""Steps of one width are told from those of a number format, from smooth functions and from kinks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from array_problem import DOUBLE, SINGLE, investigation

from gradproof.core.noise import measured
from gradproof.core.staircases import is_made_of_steps, step_width

Function = Callable[[np.ndarray], np.ndarray]


def width(function: Function, point: np.ndarray) -> float | None:
    case = investigation(function, point, vjp=lambda v: v)
    return step_width(case, case.problem.outputs.blocks[0], case.problem.inputs.blocks[0])


def normal(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("step", [2.0**-6, 2.0**-20, 1e-3, 1e-6, 1e-8, 1e-10])
def test_the_width_of_steps(step: float, seed: int) -> None:
    found = width(lambda x: np.round(np.sin(x) / step) * step, normal(60, seed))
    assert found == pytest.approx(step, rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "function",
    [
        np.sin,
        lambda x: np.sin(x) + 1e6,
        lambda x: np.sin(x).astype(np.float32).astype(np.float64),
        lambda x: np.sin(x).astype(np.float16).astype(np.float64),
        lambda x: np.maximum(x, 0.0),
        np.zeros_like,
        lambda x: np.where(x.sum() == x.sum(), x, np.nan) ** 2,
    ],
)
def test_what_is_not_made_of_steps_of_one_width_has_none(function: Function, seed: int) -> None:
    assert width(function, normal(60, seed)) is None


def test_too_few_small_values_tell_nothing() -> None:
    assert width(lambda x: np.round(x * 64) / 64, np.array([1.01, 1.3])) is None


def test_a_function_that_refuses_long_steps_has_none() -> None:
    point = normal(20, 0)

    def guarded(x: np.ndarray) -> np.ndarray:
        if not np.array_equal(x, point):
            raise ValueError("elsewhere")
        return x

    assert width(guarded, point) is None


@pytest.mark.parametrize(
    ("function", "made_of_steps"),
    [
        (lambda x: np.round(100 * x), True),
        (lambda x: np.round(np.sin(x), 3), True),
        (lambda x: np.floor(1000 * x) / 1000, True),
        (lambda x: np.sin(x.astype(np.float16).astype(float)), False),
        (lambda x: np.round(np.sin(x) * 2**16) / 2**16, False),
        (lambda x: x.astype(np.float32), False),
    ],
)
def test_steps_of_decimal_places_are_no_format_s(function: Function, made_of_steps: bool) -> None:
    case = measured(investigation(function, np.linspace(0.3, 2.1, 24) + 0.01 / 7))
    assert case is not None
    assert is_made_of_steps(case, case.outputs.blocks[0], DOUBLE) is made_of_steps


def test_steps_of_numbers_of_order_one_inside_are_not_meant() -> None:
    def leveled(x: np.ndarray) -> np.ndarray:
        return (np.float32(1.0) - np.cos(x.astype(np.float32))).astype(float)

    case = measured(investigation(leveled, np.linspace(0.8e-3, 1.2e-3, 24)))
    assert case is not None
    assert is_made_of_steps(case, case.outputs.blocks[0], DOUBLE)
    assert not is_made_of_steps(case, case.outputs.blocks[0], SINGLE)
