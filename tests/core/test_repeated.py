"""Many segments instead of one: what they differ by is their round-off, and a wrong factor is the same in all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_problem import BRAIN, HALF, SINGLE, Part, array_problem

from gradproof.core.capabilities import Elsewhere
from gradproof.core.investigation import Investigation
from gradproof.core.precision import UNSEEN_SHARE
from gradproof.core.repeated import repeat

N = 512
OF_ONE_LENGTH = 8 * 2 * 3 + 2 * 3
"""The vjps along eight segments of two panels, two of which are looked at whole too."""
Function = Callable[[Any], Any]
PRECISIONS = pytest.mark.parametrize("eps", [BRAIN, HALF, SINGLE])


def to_precision(values: Any, eps: float) -> Any:
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(mantissa * 2 / eps) * eps / 2, exponent)


def kernel(function: Function, derivative: Function, eps: float) -> Investigation:
    """An elementwise function at one, that knows one precision only."""
    point, part = np.ones(N), [Part((N,), eps=eps)]

    def vjp(x: Any, v: Any) -> Any:
        return to_precision(v * to_precision(derivative(x), eps), eps)

    return Investigation(
        array_problem(
            lambda x: to_precision(function(x), eps),
            point,
            inputs=part,
            outputs=part,
            vjp=lambda v: vjp(point, v),
            capabilities={Elsewhere: Elsewhere(vjp, vjp)},
        )
    )


@PRECISIONS
@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_a_factor_is_told_from_round_off(factor: float, eps: float) -> None:
    case = kernel(np.sin, lambda x: factor * np.cos(x), eps)
    found = repeat(case, slice(0, N))
    assert found is not None
    assert found.tells
    assert case.cost.vjps == OF_ONE_LENGTH
    assert (abs(found.mean) <= found.bar) == (factor == 1.0)
    assert found.mean == pytest.approx(factor - 1.0, abs=0.01)


FAST: dict[str, tuple[Function, Function]] = {
    "tanh": (lambda x: np.tanh(10 * (x - 1)), lambda x: 10 / np.cosh(10 * (x - 1)) ** 2),
    "waves": (lambda x: np.sin(20 * x), lambda x: 20 * np.cos(20 * x)),
}


@PRECISIONS
@pytest.mark.parametrize("name", FAST)
def test_what_quadrature_may_be_off_by_is_in_the_bar(name: str, eps: float) -> None:
    """It is the same along all segments, and so no part of what these differ by."""
    case = kernel(*FAST[name], eps)
    found = repeat(case, slice(0, N))
    assert found is not None
    assert abs(found.mean) <= found.bar
    assert found.bar > UNSEEN_SHARE
    assert case.cost.vjps == 2 * OF_ONE_LENGTH


@PRECISIONS
def test_what_segments_differ_by_is_in_the_bar(eps: float) -> None:
    """There is nothing else of a straight line, of which quadrature is exact."""
    found = repeat(kernel(lambda x: 1.5 * x, lambda x: np.full(N, 1.5), eps), slice(0, N))
    assert found is not None
    assert 0.0 < abs(found.mean) <= found.bar < 0.01


@PRECISIONS
def test_a_change_by_a_few_steps_is_not_looked_at(eps: float) -> None:
    """Its round-off is not random, and the same along all segments."""
    size = 2.0 * eps
    case = kernel(lambda x: 1.0 + size * np.sin(x), lambda x: size * np.cos(x), eps)
    assert repeat(case, slice(0, N)) is None
    assert case.cost.vjps == 0
    assert repeat(kernel(lambda x: 1.0 + 64 * size * np.sin(x), lambda x: 64 * size * np.cos(x), eps), slice(0, N))
