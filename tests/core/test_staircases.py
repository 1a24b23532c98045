"""Steps of one width are told from those of a number format, from smooth functions and from kinks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from array_problem import investigation

from gradproof.core.staircases import step_width

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
