"""Surveys: which outputs are on a kink or a jump, and which are only noisier than their size explains."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gradproof.core.directions import draw_direction
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Problem
from gradproof.core.space import vector_space
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey
from gradproof.core.types import Vector

OUTPUTS = 40


def surveyed(evaluate: Callable[[Vector], Vector], seed: int) -> Survey:
    point = np.zeros(3)
    value = evaluate(point)
    spaces = {"inputs": vector_space("input", 3), "outputs": vector_space("output", len(value))}
    problem = Problem(point=point, value=value, evaluate=evaluate, vjp=lambda v: 0 * point, **spaces)
    stencil = Stencil(Investigation(problem, seed))
    survey = Survey(stencil, draw_direction(stencil))
    survey.climb(14, 17)
    return survey


def cancelling(seed: int) -> Callable[[Vector], Vector]:
    """Outputs of 0.03 that stand still but for the round-off of terms a hundred times larger."""
    generator = np.random.default_rng(seed)
    weights, offset = generator.normal(size=(OUTPUTS, 3)), 0.03 + 0.01 * generator.normal(size=OUTPUTS)

    def evaluate(x: Vector) -> Vector:
        terms = weights @ x + weights[:, 0]
        return ((terms + 3.0) - 3.0) - terms + offset

    return evaluate


def test_round_off_of_terms_that_cancel_is_hardly_ever_a_kink() -> None:
    bent = sum(int(surveyed(cancelling(seed), seed).bent.sum()) for seed in range(20))
    assert bent < 0.05 * 20 * OUTPUTS  # by the size of the outputs alone it would be four of ten


@pytest.mark.parametrize("seed", range(5))
def test_kinks_and_jumps_are_told_from_it(seed: int) -> None:
    noisy = cancelling(seed)
    kinks = surveyed(lambda x: noisy(x) + np.abs(x).sum(), seed)
    assert kinks.bent.all()
    jumps = surveyed(lambda x: noisy(x) + 1e-13 * (x[0] > 0), seed)
    assert jumps.bent.all()
