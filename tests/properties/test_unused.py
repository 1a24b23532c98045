"""Outputs without a graph must not depend on the inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, ArrayProblem, Part

from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.properties.unused import unused


def find(function: Any, point: Any, *, has_graph: bool = False, eps: float | None = None) -> list[Finding]:
    problem = ArrayProblem(function, point, has_graph=has_graph)
    if eps is not None:
        sizes = problem.inputs.size, problem.outputs.size
        parts = [[Part((size,), eps=eps)] for size in sizes]
        problem = ArrayProblem(function, point, has_graph=has_graph, inputs=parts[0], outputs=parts[1])
    return list(unused(problem, Options(atol=1e-5, rtol=1e-3)))


@pytest.mark.parametrize("eps", [None, SINGLE])
@pytest.mark.parametrize(
    "constant", [lambda x: np.ones(2), lambda x: np.zeros(2), lambda x: np.round(x), lambda x: np.sign(x) * 1e6]
)
def test_outputs_that_do_not_move_have_no_finding(constant: Any, eps: float | None) -> None:
    assert find(constant, [0.75, 1.75], eps=eps) == []


@pytest.mark.parametrize("size", [1e-8, 1e-3, 1.0, 1e8])
def test_an_output_that_moves_is_found_whatever_its_size(size: float) -> None:
    (finding,) = find(lambda x: size * np.array([1.0, x[1] ** 2]), [0.75, 1.75])
    assert (finding.property, finding.status) == ("unused", Status.WRONG)
    assert (finding.output_element, finding.input_element) == ((1,), (1,))
    assert "Numerical gradient for function expected to be zero" in finding.message
    assert "output 0 depends on input 0" in finding.message
    assert finding.numeric == pytest.approx(size * 3.5, rel=1e-6)
    assert finding.analytic == 0.0


def test_with_a_graph_the_jacobian_is_asked_instead() -> None:
    assert find(lambda x: x**2, [1.0], has_graph=True) == []
