"""A kink beside the point is found, and told from stairs, waves, noise and curvature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from array_problem import investigation

from gradproof.core.beside import look_beside
from gradproof.core.resolution import Shape, look_finely
from gradproof.core.stencil import Stencil

Function = Callable[[np.ndarray], np.ndarray]
FIRST = np.zeros(1, dtype=np.intp)
SIZES = tuple(2.0**-rung for rung in range(24, 46, 3))


def stencil(function: Function, point: float) -> Stencil:
    return Stencil(investigation(function, np.array([point]), vjp=lambda v: v))


@pytest.mark.parametrize("distance", [10.0**-k for k in range(7, 13)])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(
    ("function", "left", "right"),
    [
        (lambda x: np.maximum(1.0 - x, 0.0), -1.0, 0.0),
        (lambda x: np.abs(x - 1.0) + 3.0, -1.0, 1.0),
        (lambda x: np.maximum(x - 1.0, 0.0) * np.exp(x) + x**2, 2.0, 2.0 + np.e),
    ],
    ids=["hinge", "abs", "curved"],
)
def test_the_slope_is_that_of_the_side_within_its_bar(
    function: Function, left: float, right: float, sign: float, distance: float
) -> None:
    point = 1.0 + sign * distance
    seen = look_beside(stencil(function, point), 0, FIRST, SIZES)
    slope = right if sign > 0 else left
    off = abs(float(seen.estimate.value[0]) - slope)
    assert seen.found.all()
    assert abs(seen.by[0] - (right - left)) <= 1e-2
    assert off <= seen.estimate.error[0] + 8.0 * distance  # curvature moves the slope itself
    assert seen.estimate.error[0] <= 0.01


@pytest.mark.parametrize(
    "function",
    [
        np.sin,
        np.square,
        lambda x: np.abs(x - 1.0 - 2.0**-35) + np.abs(x - 1.0),
        lambda x: np.maximum(1.0 - np.round(x * 2.0**33) / 2.0**33, 0.0),
        lambda x: np.round(x * 1e9) / 1e9,
        lambda x: np.maximum((x + 1e6) - 1e6, 1.0),
        lambda x: x + 1e-9 * np.sin(1e9 * x),
        lambda x: x.astype(np.float32).astype(np.float64),
        lambda x: np.sign(x - 1.0 - 1e-10),
    ],
    ids=[
        "sine",
        "square",
        "one of two kinks is at the point",
        "a hinge of stairs",
        "stairs",
        "rounded inside",
        "waves",
        "float32",
        "a jump beside",
    ],
)
@pytest.mark.parametrize("point", [1.0, 1.0 + 2.0**-35])
def test_nothing_else_is_taken_for_one(function: Function, point: float) -> None:
    assert not look_beside(stencil(function, point), 0, FIRST, SIZES).found.any()


def test_a_point_beside_a_kink_is_an_ordinary_one() -> None:
    look = look_finely(stencil(lambda x: np.maximum(1.0 - x, 0.0), 1.0 + 1e-10), 0, FIRST)
    assert look.shape == [Shape.SMOOTH]
    assert look.plain.all()
    assert look.nearby == pytest.approx([1.0])


def test_two_kinks_of_two_outputs_are_found() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        return np.concatenate([np.abs(x - 1.0), np.maximum(x, 1.0 + 1e-8)])

    case = Stencil(investigation(function, np.array([1.0 + 1e-9]), vjp=lambda v: v[:1]))
    seen = look_beside(case, 0, np.arange(2), SIZES)
    assert seen.found.all()
    assert np.abs(seen.estimate.value - [1.0, 0.0]).max() <= 1e-4
