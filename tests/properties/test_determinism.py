"""The same question twice gets the same answer."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest
from array_problem import ArrayProblem, Part

from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.properties import PROPERTIES

TWO = [Part((2,)), Part((2, 2), name="weight")]


def find(problem: ArrayProblem, **options: Any) -> list[Finding]:
    names = ("repeatability", "determinism")  # of the forward, of the backward
    return [finding for name in names for finding in PROPERTIES[name](problem, Options(**options))]


def drifting(jump: float, at: int) -> Any:
    """A vjp whose answer at one coordinate grows by `jump` with every call."""
    calls = count()

    def vjp(cotangent: Any) -> Any:
        answer = np.ones(6)
        answer[at] += jump * next(calls)
        return answer

    return vjp


def problem_with(vjp: Any) -> ArrayProblem:
    return ArrayProblem(lambda x: x.sum(), np.ones(6), inputs=TWO, vjp=vjp)


def test_a_repeatable_function_has_no_finding() -> None:
    assert find(ArrayProblem(np.sin, np.ones(3), np.eye(3))) == []


def test_a_noisy_forward_is_found_where_it_is_noisy() -> None:
    calls = count()

    def function(x: Any) -> Any:
        return x + np.array([0.0, 0.25 * next(calls), 0.0])

    (finding,) = find(ArrayProblem(function, np.ones(3), np.eye(3)))
    assert (finding.status, finding.output, finding.output_element) == (Status.WRONG, 0, (1,))
    assert "output 0, element [1] was 1, then 1.25" in finding.message
    assert "not deterministic" in finding.message


def test_a_forward_that_is_nan_every_other_time_is_found() -> None:
    calls = count()
    (finding,) = find(ArrayProblem(lambda x: x if next(calls) % 2 == 0 else x * np.nan, np.ones(3), np.eye(3)))
    assert "then nan" in finding.message


def test_a_forward_that_is_always_nan_is_repeatable() -> None:
    assert find(ArrayProblem(lambda x: x * np.nan, np.ones(3), np.eye(3))) == []


@pytest.mark.parametrize(("at", "input_", "element"), [(1, 0, (1,)), (4, 1, (1, 0))])
def test_a_backward_that_changes_is_not_reentrant(at: int, input_: int, element: tuple[int, ...]) -> None:
    (finding,) = find(problem_with(drifting(0.5, at)))
    assert (finding.status, finding.input, finding.input_element) == (Status.WRONG, input_, element)
    assert "not reentrant" in finding.message
    assert "was 2, then 2.5" in finding.message


@pytest.mark.parametrize(("nondet_tol", "found"), [(0.0, 1), (0.4, 1), (0.6, 0)])
def test_nondet_tol_allows_noise_up_to_its_size(nondet_tol: float, found: int) -> None:
    assert len(find(problem_with(drifting(0.5, 2)), nondet_tol=nondet_tol)) == found


def test_even_round_off_between_two_backwards_is_noise() -> None:
    assert len(find(problem_with(drifting(1e-15, 2)))) == 1


def test_a_backward_that_is_nan_every_other_time_is_not_reentrant() -> None:
    calls = count()
    (finding,) = find(problem_with(lambda v: np.full(6, np.nan if next(calls) % 2 else 1.0)))
    assert "not reentrant" in finding.message


def test_a_backward_that_is_always_nan_is_repeatable() -> None:
    assert find(problem_with(lambda v: np.full(6, np.nan))) == []


def test_the_backward_is_not_asked_in_forward_mode_or_without_a_graph() -> None:
    assert find(problem_with(drifting(0.5, 0)), modes=(Mode.FORWARD,)) == []
    problem = ArrayProblem(np.sin, np.ones(3), vjp=drifting(0.5, 0), has_graph=False)
    assert find(problem) == []
