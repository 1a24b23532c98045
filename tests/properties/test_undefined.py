"""A cotangent or tangent that is not there counts as zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import ArrayProblem, Part

from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.properties.undefined import undefined

MATRIX = np.random.default_rng(0).normal(size=(5, 6))


def problem_with(**answers: Any) -> ArrayProblem:
    return ArrayProblem(
        lambda x: MATRIX @ x,
        np.ones(6),
        MATRIX,
        inputs=[Part((2,), name="a"), Part((4,), name="b")],
        outputs=[Part((2,)), Part((3,))],
        **answers,
    )


def find(problem: ArrayProblem, mode: Mode = Mode.REVERSE, **options: Any) -> list[Finding]:
    return list(undefined(problem, Options(modes=(mode,), **options)))


@pytest.mark.parametrize("mode", Mode)
def test_none_taken_for_zeros_has_no_finding(mode: Mode) -> None:
    assert find(problem_with(), mode) == []


def test_each_pattern_is_tried_with_zeros_in_its_place() -> None:
    asked: list[tuple[frozenset[int], list[float]]] = []

    def vjp_undefined(v: Any, absent: frozenset[int]) -> Any:
        asked.append((absent, v.tolist()))
        return MATRIX.T @ v

    assert find(problem_with(vjp_undefined=vjp_undefined)) == []
    assert [absent for absent, _ in asked] == [{0}, {1}, {0, 1}]
    assert asked[0][1][:2] == [0.0, 0.0]
    assert 0.0 not in asked[0][1][2:]
    assert asked[2][1] == [0.0] * 5


@pytest.mark.parametrize(
    ("mode", "answer", "headline"),
    [
        (Mode.REVERSE, "vjp_undefined", "Expected backward function to handle undefined output grads"),
        (Mode.FORWARD, "jvp_undefined", "Expected forward AD to treat an undefined tangent as zeros"),
    ],
)
def test_an_exception_is_a_finding_with_its_cause(mode: Mode, answer: str, headline: str) -> None:
    error = TypeError("unsupported operand: NoneType")

    def raising(v: Any, absent: frozenset[int]) -> Any:
        if 1 in absent:
            raise error
        return MATRIX.T @ v if mode is Mode.REVERSE else MATRIX @ v

    findings = find(problem_with(**{answer: raising}), mode)
    assert {finding.status for finding in findings} == {Status.WRONG}
    assert all(finding.cause is error for finding in findings)
    assert findings[0].message.startswith(headline)
    label = "output 1" if mode is Mode.REVERSE else "input 1 `b`"
    assert f"with none for {label} it raised TypeError: unsupported operand" in findings[0].message


def test_a_result_other_than_that_of_zeros_is_found_for_its_pattern() -> None:
    def vjp_undefined(v: Any, absent: frozenset[int]) -> Any:
        return MATRIX.T @ v + (1.0 if absent == {0} else 0.0)

    (finding,) = find(problem_with(vjp_undefined=vjp_undefined))
    assert "with none for output 0 the result differs" in finding.message


def test_all_undefined_must_give_zeros() -> None:
    def vjp_undefined(v: Any, absent: frozenset[int]) -> Any:
        return MATRIX.T @ v if len(absent) < 2 else np.full(6, 0.5)

    (finding,) = find(problem_with(vjp_undefined=vjp_undefined))
    assert "with none for output 0, output 1" in finding.message
    assert "0.5 instead of 0" in finding.message


def test_a_nan_for_an_undefined_cotangent_is_found() -> None:
    def vjp_undefined(v: Any, absent: frozenset[int]) -> Any:
        return np.full(6, np.nan) if 0 in absent else MATRIX.T @ v

    findings = find(problem_with(vjp_undefined=vjp_undefined))
    assert [finding.status for finding in findings] == [Status.WRONG, Status.WRONG]
    assert "nan instead of" in findings[0].message


def test_noise_allowed_elsewhere_is_allowed_here() -> None:
    def vjp_undefined(v: Any, absent: frozenset[int]) -> Any:
        return MATRIX.T @ v + 0.01

    assert find(problem_with(vjp_undefined=vjp_undefined), nondet_tol=0.1) == []
    assert len(find(problem_with(vjp_undefined=vjp_undefined), nondet_tol=0.001)) == 3


def test_a_lone_output_has_one_pattern_and_a_lone_input_none() -> None:
    asked: list[frozenset[int]] = []

    def record(v: Any, absent: frozenset[int]) -> Any:
        asked.append(absent)
        return v

    problem = ArrayProblem(np.sin, 1.0, vjp_undefined=record, jvp_undefined=record)
    assert find(problem) == []
    assert asked == [{0}]
    assert find(problem, Mode.FORWARD) == []
    assert asked == [{0}]


def test_without_a_graph_nothing_is_asked() -> None:
    def raising(v: Any, absent: frozenset[int]) -> Any:
        raise AssertionError("asked")

    assert find(ArrayProblem(np.sin, 1.0, vjp_undefined=raising, has_graph=False)) == []
