"""A function against a reference, with the reference in higher precision as the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, Part, investigation

from gradproof.core.capabilities import Reference, Side
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.status import Status
from gradproof.properties.reference import reference
from gradproof.results.finding import Finding

MATRIX = np.random.default_rng(0).normal(size=(4, 6))
POINT = np.linspace(0.5, 2.0, 6)
PARTS: dict[str, Any] = {
    "inputs": [Part((2,), eps=SINGLE), Part((2, 2), eps=SINGLE, name="w")],
    "outputs": [Part((4,), eps=SINGLE)],
}


def side(value: Any = 0.0, gradient: Any = 0.0) -> Side:
    """The right answers, off by so much."""
    return Side(MATRIX @ POINT + value, lambda v: MATRIX.T @ v + gradient)


def case_of(
    value: Any = 0.0, gradient: Any = 0.0, *, against: Side | None = None, truth: Side | None = None, **more: Any
) -> Investigation:
    """A function whose value and gradient are off by so much."""
    known = Reference(against or side(), truth, more.pop("misfits", ()))
    return investigation(
        lambda x: MATRIX @ x + value,
        POINT,
        vjp=lambda v: MATRIX.T @ v + gradient,
        capabilities={Reference: known},
        **PARTS,
        **more,
    )


def find(case: Investigation) -> list[Finding]:
    return list(reference(case, Options()))


def only(size: int, at: int, by: float) -> Any:
    return by * (np.arange(size) == at)


@pytest.mark.parametrize("truth", [None, side()])
def test_the_same_answers_have_no_finding(truth: Side | None) -> None:
    case = case_of(truth=truth)
    assert find(case) == []
    sides = 1 if truth is None else 2
    assert (case.cost.evaluations, case.cost.vjps) == (1, 1 + sides)  # the reference says what it took to make


@pytest.mark.parametrize("by", [0.01, -1.0, np.nan, np.inf])
def test_a_wrong_output_is_placed(by: float) -> None:
    (finding,) = find(case_of(value=only(4, 2, by) if np.isfinite(by) else np.where(np.arange(4) == 2, by, 0.0)))
    assert (finding.property, finding.status) == ("compare", Status.WRONG)
    assert (finding.output, finding.output_element, finding.input) == (0, (2,), None)
    assert (finding.wrong, finding.total) == (1, 4)
    np.testing.assert_equal(finding.analytic, (MATRIX @ POINT)[2] + by)
    assert finding.numeric == (MATRIX @ POINT)[2]


def test_a_wrong_gradient_is_placed_in_its_input() -> None:
    (finding,) = find(case_of(gradient=only(6, 4, 0.5)))
    assert (finding.input, finding.input_element, finding.output) == (1, (1, 0), None)
    assert finding.message.startswith("the gradient of input 1 `w`, element [1, 0] is")
    assert (finding.wrong, finding.total) == (1, 4)


def test_each_block_that_differs_has_its_finding() -> None:
    found = find(case_of(value=0.5, gradient=0.5))
    assert [(finding.output, finding.input) for finding in found] == [(0, None), (None, 0), (None, 1)]


def test_round_off_of_the_precision_is_allowed() -> None:
    assert find(case_of(value=1e-7)) == []


def test_a_function_may_be_a_few_times_as_far_from_the_truth_as_the_reference() -> None:
    off = {"against": side(value=only(4, 0, 0.01)), "truth": side()}
    assert find(case_of(value=only(4, 0, 0.03), **off)) == []
    (finding,) = find(case_of(value=0.05, **off))
    assert finding.allowed == pytest.approx(0.04, rel=1e-2)
    assert "the function is further from it (off by 0.05 and" in finding.message


def test_what_each_number_is_excused_is_too_much_for_all_of_them() -> None:
    off = {"against": side(value=only(4, 0, 0.01)), "truth": side()}
    (finding,) = find(case_of(value=np.array([0.03, -0.03, 0.03, -0.03]), **off))
    assert finding.kind == "length"
    assert "in all, where the reference is off by" in finding.headline


def test_without_a_truth_the_reference_is_taken_for_it() -> None:
    (finding,) = find(case_of(value=0.05))
    assert "so it was taken for the truth" in finding.message


def test_nan_where_the_truth_is_nan_is_right() -> None:
    nowhere = np.where(np.arange(4) == 1, np.nan, 0.0)
    assert find(case_of(value=nowhere, against=side(value=nowhere), truth=side(value=nowhere))) == []


def test_what_cannot_be_compared_at_all_is_said_and_nothing_else_asked() -> None:
    case = case_of(value=5.0, misfits=((1, "output 1 has another shape"), (None, "there are 2 outputs instead of 1")))
    found = find(case)
    assert [(finding.output, finding.message) for finding in found] == [
        (1, "output 1 has another shape"),
        (None, "there are 2 outputs instead of 1"),
    ]
    assert case.cost.calls == 1
