"""Reverse and forward mode apply one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, Part, investigation

from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.properties.adjoint import adjoint
from gradproof.results.finding import Finding

MATRIX = np.arange(1.0, 7.0).reshape(2, 3)


def find(forward: Any, *, eps: float | None = None, **options: Any) -> list[Finding]:
    parts: dict[str, Any] = {} if eps is None else {"inputs": [Part((3,), eps=eps)], "outputs": [Part((2,), eps=eps)]}
    case = investigation(lambda x: MATRIX @ x, np.ones(3), MATRIX, jvp=lambda u: forward @ u, **parts)
    return list(adjoint(case, Options(modes=tuple(Mode), **options)))


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


def test_it_costs_nothing_where_both_answers_are_known() -> None:
    case = investigation(lambda x: MATRIX @ x, np.ones(3), MATRIX)
    _ = case.pullback, case.pushforward
    before = case.cost.calls
    assert list(adjoint(case, Options(modes=tuple(Mode)))) == []
    assert case.cost.calls == before
