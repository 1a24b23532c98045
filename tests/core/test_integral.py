"""The integral form: long segments, in precisions in which nothing shorter is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_problem import BRAIN, HALF, SINGLE, Part, array_problem

from gradproof.core.capabilities import Elsewhere
from gradproof.core.integral import Course, balance, follow, has_jumps, is_staircase, lay
from gradproof.core.investigation import Investigation

N = 4096
ALL = slice(0, N)


def to_precision(values: Any, eps: float) -> Any:
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(mantissa * 2 / eps) * eps / 2, exponent)


def kernel(
    function: Callable[[Any], Any], derivative: Callable[[Any], Any], eps: float, *, count: int = N, total: bool = False
) -> Investigation:
    """An elementwise function, or its sum, that knows one precision only."""
    point = to_precision(np.random.default_rng(1).standard_normal(count), eps)

    def evaluate(x: Any) -> Any:
        value = to_precision(function(x), eps)
        return to_precision(value.sum(), eps) if total else value

    def vjp(x: Any, v: Any) -> Any:
        return to_precision(v * to_precision(derivative(x), eps), eps)

    return Investigation(
        array_problem(
            evaluate,
            point,
            inputs=[Part((count,), eps=eps)],
            outputs=[Part((1,) if total else (count,), eps=eps)],
            vjp=lambda v: vjp(point, v),
            capabilities={Elsewhere: Elsewhere(vjp, vjp)},
        )
    )


RIGHT: dict[str, tuple[Any, Any]] = {
    "sin": (np.sin, np.cos),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "cube": (lambda x: x**3, lambda x: 3 * x**2),
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(float)),
    "log": (lambda x: np.log(np.abs(x)), lambda x: 1 / x),
}


@pytest.mark.parametrize("is_aimed", [True, False])
@pytest.mark.parametrize("total", [True, False])
@pytest.mark.parametrize("eps", [BRAIN, HALF, SINGLE])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_derivative_is_never_accused_beyond_doubt(name: str, eps: float, total: bool, is_aimed: bool) -> None:
    outcome = follow(kernel(*RIGHT[name], eps, total=total), Course(ALL, 3, is_aimed))
    assert outcome is None or not outcome.surely


@pytest.mark.parametrize("eps", [BRAIN, HALF, SINGLE])
@pytest.mark.parametrize("factor", [0.0, -1.0, 2.0, 1.2])
def test_a_common_factor_is_seen(factor: float, eps: float) -> None:
    outcome = follow(kernel(np.sin, lambda x: factor * np.cos(x), eps), Course(ALL, 3, is_aimed=True))
    assert outcome is not None
    assert outcome.surely
    assert outcome.factor == pytest.approx(factor, abs=0.02)


def test_the_right_one_is_seen_to_two_percent_in_bfloat16() -> None:
    outcome = follow(kernel(np.sin, np.cos, BRAIN), Course(ALL, 3, is_aimed=True))
    assert outcome is not None
    assert not outcome.accuses
    assert outcome.balance.tells
    assert outcome.factor == pytest.approx(1, abs=0.02)


def test_three_points_are_exact_for_a_quintic() -> None:
    case = kernel(lambda x: x**6, lambda x: 6 * x**5, 2.0**-52, count=3)
    segment = lay(case, Course(slice(0, 3), 3, is_aimed=False).direction(case, tight=False), 0.5)
    assert segment is not None
    found = balance(case, segment, np.ones(3), is_aimed=False)
    assert found is not None
    assert found.claimed == pytest.approx(found.changed, rel=1e-12)


def test_only_the_coordinates_of_the_course_are_moved() -> None:
    case = kernel(np.sin, np.cos, HALF, count=10)
    direction = Course(slice(2, 5), 3, is_aimed=True).direction(case, tight=True)
    assert np.flatnonzero(direction).tolist() == [2, 3, 4]


def test_jumps_and_staircases_are_known() -> None:
    fraction = kernel(lambda x: 4 * x - np.floor(4 * x), lambda x: np.full_like(x, 4.0), HALF)
    outcome = follow(fraction, Course(ALL, 3, is_aimed=True))
    assert outcome is not None
    assert not outcome.surely
    assert has_jumps(fraction, outcome.balance.segment)
    assert is_staircase(kernel(np.round, np.zeros_like, HALF), ALL)
    assert not is_staircase(kernel(np.sin, np.zeros_like, HALF), ALL)
