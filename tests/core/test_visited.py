"""Points along single coordinates are evaluated once."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_problem import investigation

from gradproof.core.investigation import Investigation
from gradproof.core.stencil import Stencil
from gradproof.core.types import Indices


def cubes(size: int = 5) -> Investigation:
    return investigation(lambda x: x**3, np.linspace(0.5, 2.0, size), vjp=lambda v: v)


def some(*numbers: int) -> Indices:
    return np.array(numbers, dtype=np.intp)


def test_what_was_seen_of_an_output_costs_nothing_again() -> None:
    case = cubes()
    values, reached = Stencil(case).moved(some(1, 1), np.array([0.1, -0.1]), some(1, 2))
    before = case.cost.evaluations
    again, there = Stencil(case).moved(some(1), np.array([-0.1]), some(2))
    assert case.cost.evaluations == before
    assert (again[0, 0], there[0]) == (values[1, 1], reached[1])


def test_other_outputs_steps_and_coordinates_are_evaluated() -> None:
    case = cubes()
    stencil = Stencil(case)
    stencil.moved(some(1), np.array([0.1]), some(1))
    for column, step, output in ((1, 0.1, 3), (1, 0.2, 1), (2, 0.1, 1)):
        before = case.cost.evaluations
        values, reached = stencil.moved(some(column), np.array([step]), some(output))
        assert case.cost.evaluations == before + 1
        expected = reached[0] ** 3 if output == column else case.problem.value[output]
        assert values[0, 0] == expected


def test_many_outputs_are_not_kept() -> None:
    case = cubes(40)
    for count in (1, 2):
        Stencil(case).moved(some(1), np.array([0.1]), np.arange(40))
        assert case.cost.evaluations == 1 + count


def test_what_was_refused_is_asked_again() -> None:
    refused: list[Any] = []

    def narrow(x: Any) -> Any:
        if x[0] > 1.5:
            refused.append(x)
            raise ValueError("too far")
        return x

    case = investigation(narrow, [1.0, 1.0], vjp=lambda v: v)
    for _ in range(2):
        assert np.isnan(Stencil(case).moved(some(0), np.array([1.0]), some(0))[0]).all()
    assert len(refused) == 4  # each time once in the batch, once alone
