"""A cotangent or tangent that is not there counts as zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from array_problem import Part, investigation
from functions import custom

import gradproof
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.words import PLAIN
from gradproof.properties.undefined import undefined
from gradproof.results.finding import Finding

MATRIX = np.random.default_rng(0).normal(size=(5, 6))


def case_with(**answers: Any) -> Investigation:
    return investigation(
        lambda x: MATRIX @ x,
        np.ones(6),
        MATRIX,
        inputs=[Part((2,), name="a"), Part((4,), name="b")],
        outputs=[Part((2,)), Part((3,))],
        **answers,
    )


def find(case: Investigation, mode: Mode = Mode.REVERSE, **options: Any) -> list[Finding]:
    return list(undefined(case, Options(modes=(mode,), **options)))


@pytest.mark.parametrize("mode", Mode)
def test_none_taken_for_zeros_has_no_finding(mode: Mode) -> None:
    assert find(case_with(), mode) == []


def test_each_pattern_is_tried_with_zeros_in_its_place() -> None:
    asked: list[tuple[frozenset[int], list[float]]] = []

    def vjp_undefined(v: Any, absent: frozenset[int]) -> Any:
        asked.append((absent, v.tolist()))
        return MATRIX.T @ v

    assert find(case_with(vjp_undefined=vjp_undefined)) == []
    assert [absent for absent, _ in asked] == [{0}, {1}, {0, 1}]
    assert asked[0][1][:2] == [0.0, 0.0]
    assert 0.0 not in asked[0][1][2:]
    assert asked[2][1] == [0.0] * 5


@pytest.mark.parametrize(
    ("mode", "answer", "headline"),
    [
        (Mode.REVERSE, "vjp_undefined", "In reverse mode, a cotangent that is left out does not count as zeros"),
        (Mode.FORWARD, "jvp_undefined", "In forward mode, a tangent that is left out does not count as zeros"),
    ],
)
def test_an_exception_is_a_finding_with_its_cause(mode: Mode, answer: str, headline: str) -> None:
    error = TypeError("unsupported operand: NoneType")

    def raising(v: Any, absent: frozenset[int]) -> Any:
        if 1 in absent:
            raise error
        return MATRIX.T @ v if mode is Mode.REVERSE else MATRIX @ v

    findings = find(case_with(**{answer: raising}), mode)
    assert {finding.status for finding in findings} == {Status.WRONG}
    assert all(finding.cause is error for finding in findings)
    assert findings[0].message.startswith(headline)
    assert {finding.mode for finding in findings} == {mode}
    assert findings[0].hint == PLAIN.omitted
    label = "output 1" if mode is Mode.REVERSE else "input 1 `b`"
    assert f"with none for {label} it raised TypeError: unsupported operand" in findings[0].message


def test_a_result_other_than_that_of_zeros_is_found_for_its_pattern() -> None:
    def vjp_undefined(v: Any, absent: frozenset[int]) -> Any:
        return MATRIX.T @ v + (1.0 if absent == {0} else 0.0)

    (finding,) = find(case_with(vjp_undefined=vjp_undefined))
    assert "with none for output 0 the result differs" in finding.message


def test_all_undefined_must_give_zeros() -> None:
    def vjp_undefined(v: Any, absent: frozenset[int]) -> Any:
        return MATRIX.T @ v if len(absent) < 2 else np.full(6, 0.5)

    (finding,) = find(case_with(vjp_undefined=vjp_undefined))
    assert "with none for output 0, output 1" in finding.message
    assert "0.5 instead of 0" in finding.message


def test_a_nan_for_an_undefined_cotangent_is_found() -> None:
    def vjp_undefined(v: Any, absent: frozenset[int]) -> Any:
        return np.full(6, np.nan) if 0 in absent else MATRIX.T @ v

    findings = find(case_with(vjp_undefined=vjp_undefined))
    assert [finding.status for finding in findings] == [Status.WRONG, Status.WRONG]
    assert "nan instead of" in findings[0].message


def test_noise_allowed_elsewhere_is_allowed_here() -> None:
    def vjp_undefined(v: Any, absent: frozenset[int]) -> Any:
        return MATRIX.T @ v + 0.01

    assert find(case_with(vjp_undefined=vjp_undefined), nondet_tol=0.1) == []
    assert len(find(case_with(vjp_undefined=vjp_undefined), nondet_tol=0.001)) == 3


def test_a_lone_output_has_one_pattern_and_a_lone_input_none() -> None:
    asked: list[frozenset[int]] = []

    def record(v: Any, absent: frozenset[int]) -> Any:
        asked.append(absent)
        return v

    case = investigation(np.sin, 1.0, vjp_undefined=record, jvp_undefined=record)
    assert find(case) == []
    assert asked == [{0}]
    assert find(case, Mode.FORWARD) == []
    assert asked == [{0}]


def test_a_right_derivative_costs_one_call_for_each_block_and_one_for_all() -> None:
    case = case_with()
    assert case.pullback is case.pullback  # the answer that others have asked for
    spent = case.cost.vjps
    assert find(case) == []
    assert case.cost.vjps - spent == 3


@pytest.mark.parametrize("mode", Mode)
def test_what_is_off_by_opposite_amounts_does_not_cancel(mode: Mode) -> None:
    """Together the answers are compared by one sum, in which each has another weight."""

    def off(v: Any, absent: frozenset[int]) -> Any:
        right = MATRIX.T @ v if mode is Mode.REVERSE else MATRIX @ v
        return right + {frozenset({0}): 1.0, frozenset({1}): -1.0}.get(absent, 0.0)

    name = "vjp_undefined" if mode is Mode.REVERSE else "jvp_undefined"
    assert len(find(case_with(**{name: off}), mode)) == 2


def test_an_answer_that_changes_from_call_to_call_is_told_as_such() -> None:
    calls = iter(range(100))

    def changing(v: Any, absent: frozenset[int]) -> Any:
        return MATRIX.T @ v * (2.0 if next(calls) == 0 else 1.0)

    (finding,) = find(case_with(vjp_undefined=changing))
    assert finding.property == "determinism"
    assert "is not deterministic" in finding.headline


def test_what_is_no_number_for_zeros_either_is_no_matter_of_what_is_left_out() -> None:
    x = torch.tensor([0.5, 2.0, 0.0], dtype=torch.float64, requires_grad=True)
    divided = custom(torch.log, lambda saved, g: g / saved[0])
    assert "undefined" not in {finding.property for finding in gradproof.check(divided, x, modes="reverse").findings}
    assert "linearity" in {finding.property for finding in gradproof.check(divided, x, modes="reverse").findings}
