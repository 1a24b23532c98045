"""The Hessian of a scalar function is symmetric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import Part, investigation

from gradproof.core.options import Options
from gradproof.core.status import Status
from gradproof.properties.symmetry import symmetry
from gradproof.results.finding import Finding

SIZE = 12
HESSIAN = np.random.default_rng(1).normal(size=(SIZE, SIZE))
HESSIAN = HESSIAN + HESSIAN.T


def find(claimed: Any, **options: Any) -> list[Finding]:
    """A gradient with respect to all inputs but the first two, which are no part of the Hessian."""
    whole = np.hstack([np.ones((SIZE, 2)), claimed])
    inputs, outputs = [Part((2,)), Part((3, 4), name="w")], [Part((3, 4))]
    pairs = np.arange(2, SIZE + 2)
    case = investigation(lambda x: whole @ x, np.ones(SIZE + 2), whole, inputs=inputs, outputs=outputs, pairs=pairs)
    return list(symmetry(case, Options(**options)))


def spoiled(row: int, column: int, by: float) -> Any:
    claimed = HESSIAN.copy()
    claimed[row, column] += by
    return claimed


def test_a_symmetric_hessian_has_no_finding() -> None:
    assert find(HESSIAN) == []


@pytest.mark.parametrize(("row", "column"), [(0, 1), (7, 3), (11, 0), (4, 11)])
@pytest.mark.parametrize("by", [1e-4, -2.0])
def test_the_entry_that_differs_is_placed(row: int, column: int, by: float) -> None:
    (finding,) = find(spoiled(row, column, by))
    assert (finding.property, finding.status, finding.input, finding.output) == ("symmetry", Status.WRONG, 1, 0)
    element = {tuple(map(int, np.unravel_index(k, (3, 4)))) for k in (row, column)}
    assert {finding.input_element, finding.output_element} == element
    assert finding.analytic is not None
    assert finding.numeric is not None
    assert abs(finding.analytic - finding.numeric) == pytest.approx(abs(by))
    assert "The Hessian is not symmetric" in finding.message
    assert "input 1 `w`, element" in finding.message


def test_many_entries_that_differ_are_one_finding() -> None:
    skewed = np.triu(HESSIAN)
    (finding,) = find(skewed)
    assert finding.numeric != finding.analytic


def test_what_the_tolerance_allows_is_no_finding() -> None:
    assert find(spoiled(7, 3, 1e-4), atol=1e-3) == []
    assert find(spoiled(7, 3, 1e-9 * HESSIAN[7, 3])) == []
