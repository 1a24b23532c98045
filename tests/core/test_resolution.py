"""Kinks, jumps, waves and staircases are told apart by the shortest steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from array_problem import investigation

from gradproof.core.resolution import Shape, is_kink, look_finely
from gradproof.core.stencil import Stencil

FIRST = np.zeros(1, dtype=np.intp)
Function = Callable[[np.ndarray], np.ndarray]


def stencil(function: Function, point: float) -> Stencil:
    return Stencil(investigation(function, np.array([point]), vjp=lambda v: v))


@pytest.mark.parametrize(
    ("function", "point", "shape"),
    [
        (np.sin, 1.0, Shape.SMOOTH),
        (lambda x: np.sin(1e7 * x), 1.0, Shape.SMOOTH),
        (lambda x: np.sin(1e9 * x), 0.3, Shape.SMOOTH),
        (lambda x: np.abs(x - 1.0), 1.0, Shape.KINK),
        (lambda x: np.maximum(x - 1.0, 0.0) + x**2, 1.0, Shape.KINK),
        (lambda x: np.sign(x - 1.0) + x, 1.0, Shape.JUMP),
        (lambda x: np.floor(x) + x, 2.0, Shape.JUMP),
        (lambda x: x.astype(np.float32).astype(np.float64), 1.1, Shape.UNCLEAR),
    ],
)
def test_shapes(function: Function, point: float, shape: Shape) -> None:
    assert look_finely(stencil(function, point), 0, FIRST).shape == [shape]


@pytest.mark.parametrize("k", [1e6, 1e7, 1e8, 1e9])
@pytest.mark.parametrize("point", [0.3, 1.1, 2.7])
def test_the_error_bar_of_a_wave_is_honest_and_narrow(k: float, point: float) -> None:
    look = look_finely(stencil(lambda x: np.sin(k * x), point), 0, FIRST).estimate
    off = abs(float(look.value[0]) - k * np.cos(k * point))
    assert off <= look.error[0] <= 0.05 * k


def test_a_kink_is_confirmed_by_one_short_step() -> None:
    case = stencil(lambda x: np.abs(x - 1.0), 1.0)
    before = case.investigation.cost.evaluations
    assert is_kink(case, 0, FIRST, np.array([-1.0]), np.array([1.0])).all()
    assert case.investigation.cost.evaluations - before == 2
    smoothed = stencil(lambda x: np.sqrt((x - 1.0) ** 2 + 1e-20), 1.0)
    assert not is_kink(smoothed, 0, FIRST, np.array([-1.0]), np.array([1.0])).any()
