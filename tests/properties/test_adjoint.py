"""Reverse and forward mode apply one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, ArrayProblem, Part

from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.properties.adjoint import adjoint

MATRIX = np.arange(1.0, 7.0).reshape(2, 3)
BOTH = (Mode.REVERSE, Mode.FORWARD)


def find(forward: Any, *, modes: tuple[Mode, ...] = BOTH, eps: float | None = None, **options: Any) -> list[Finding]:
    parts: dict[str, Any] = {} if eps is None else {"inputs": [Part((3,), eps=eps)], "outputs": [Part((2,), eps=eps)]}
    problem = ArrayProblem(lambda x: MATRIX @ x, np.ones(3), MATRIX, jvp=lambda u: forward @ u, **parts)
    return list(adjoint(problem, Options(modes=modes, **options)))


def spoiled(by: float) -> Any:
    matrix = MATRIX.copy()
    matrix[1, 2] += by
    return matrix


def test_a_matrix_and_its_transpose_have_no_finding() -> None:
    assert find(MATRIX) == []


@pytest.mark.parametrize("by", [1.0, -1e-3, 1e-6])
def test_modes_that_contradict_each_other_are_found_with_both_numbers(by: float) -> None:
    (finding,) = find(spoiled(by))
    assert (finding.property, finding.status) == ("adjoint", Status.WRONG)
    assert "Reverse and forward mode contradict each other" in finding.message
    assert "<v, jvp(u)> is" in finding.message
    assert "<vjp(v), u> is" in finding.message


def test_round_off_of_the_dtype_is_allowed() -> None:
    assert find(spoiled(1e-13)) == []
    assert find(spoiled(1e-6), eps=SINGLE) == []
    assert len(find(spoiled(1e-2), eps=SINGLE)) == 1


def test_a_wider_tolerance_is_honoured() -> None:
    assert find(spoiled(1e-6), rtol=1e-3, atol=0.0) == []


def test_derivatives_that_are_not_finite_are_left_to_the_jacobian() -> None:
    assert find(spoiled(np.nan)) == []


@pytest.mark.parametrize("mode", Mode)
def test_one_mode_alone_has_nothing_to_fit(mode: Mode) -> None:
    assert find(spoiled(1.0), modes=(mode,)) == []


def test_without_a_graph_nothing_is_asked() -> None:
    problem = ArrayProblem(lambda x: x, np.ones(3), np.eye(3), jvp=lambda u: 5 * u, has_graph=False)
    assert list(adjoint(problem, Options(modes=BOTH))) == []
