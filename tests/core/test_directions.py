"""Directions whose steps are exact, and the one that all share where there are many numbers."""

from __future__ import annotations

import numpy as np
import pytest
from array_problem import DOUBLE, SINGLE, Part, investigation

from gradproof.core.directions import draw_direction, is_long, stretched
from gradproof.core.draws import random_probe
from gradproof.core.investigation import Investigation
from gradproof.core.ladder import rungs
from gradproof.core.ledger import Ledger
from gradproof.core.norm import PART
from gradproof.core.options import Options, Strategy
from gradproof.core.problem import Mode
from gradproof.core.push import Push
from gradproof.core.stencil import Stencil

OPTIONS = Options(strategy=Strategy.PROBES, modes=(Mode.FORWARD,))


def sines(size: int, **options: object) -> Investigation:
    point = np.random.default_rng(3).standard_normal(size)
    return investigation(np.sin, point, jvp=lambda u: np.cos(point) * u, **options)  # type: ignore[arg-type]


def test_a_shared_direction_is_the_one_that_a_survey_draws() -> None:
    case = sines(PART + 1)
    direction = case.direction
    assert direction is draw_direction(Stencil(case))
    for rung in rungs(DOUBLE):
        step = 2.0**-rung * direction
        assert (
            (case.problem.point + step) - case.problem.point == step
        ).mean() > 0.99  # not where the exponent changes


@pytest.mark.parametrize(("size", "jvps"), [(PART + 1, 1), (PART, 2)])
def test_of_many_numbers_the_shared_tangent_is_the_direction_of_the_survey(size: int, jvps: int) -> None:
    case = sines(size)
    _ = case.pushforward  # as whoever wants to know whether there is a jvp
    Push(Ledger(case, OPTIONS))
    assert case.cost.jvps == jvps


def test_of_numbers_of_lower_precision_it_is_not() -> None:
    assert is_long(sines(PART + 1).problem)
    assert not is_long(sines(PART + 1, inputs=[Part((PART + 1,), eps=SINGLE)]).problem)


def test_a_long_direction_is_the_rounded_product_of_a_probe_and_the_scale_and_has_no_zeros() -> None:
    draw, size = np.random.default_rng(3), PART + 11
    point = draw.standard_normal(size) * 10.0 ** draw.uniform(-30, 30, size)
    point[:5] = 0.0
    point[5] = 1e300
    scale = np.maximum(np.abs(point), 0.1)
    direction, whole = stretched(7, scale, point), random_probe(size, 7) * scale
    np.testing.assert_allclose(direction, whole, rtol=2.0**-10)
    assert direction[5] == whole[5], "what is too large to be rounded stays whole"
    for step in (2.0**-8, 2.0**-17, 2.0**-35, -(2.0**-35)):
        moved = step * direction
        stored = np.frexp(point + moved)[1] <= np.frexp(point)[1]  # with no bit less
        stored[5] = False
        assert stored.mean() > 0.4
        np.testing.assert_array_equal(((point + moved) - point)[stored], moved[stored])
