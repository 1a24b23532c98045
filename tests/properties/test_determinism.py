"""The same question to the derivative twice gets the same answer."""

from __future__ import annotations

import dataclasses
from itertools import count
from typing import Any

import numpy as np
import pytest
from array_problem import Part, investigation

from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.words import PLAIN
from gradproof.properties.determinism import determinism
from gradproof.results.finding import Finding

TWO = [Part((2,)), Part((2, 2), name="weight")]


def find(case: Investigation, **options: Any) -> list[Finding]:
    return list(determinism(case, Options(**options)))


def drifting(jump: float, at: int) -> Any:
    """A vjp whose answer at one coordinate grows by `jump` with every call."""
    calls = count()

    def vjp(cotangent: Any) -> Any:
        answer = np.ones(6)
        answer[at] += jump * next(calls)
        return answer

    return vjp


def case_with(vjp: Any) -> Investigation:
    return investigation(lambda x: x.sum(), np.ones(6), inputs=TWO, vjp=vjp)


def test_a_repeatable_function_has_no_finding() -> None:
    assert find(investigation(np.sin, np.ones(3), np.eye(3))) == []


@pytest.mark.parametrize(("at", "input_", "element"), [(1, 0, (1,)), (4, 1, (1, 0))])
def test_a_backward_that_changes_is_not_deterministic(at: int, input_: int, element: tuple[int, ...]) -> None:
    (finding,) = find(case_with(drifting(0.5, at)))
    assert (finding.status, finding.input, finding.input_element) == (Status.WRONG, input_, element)
    assert finding.mode is Mode.REVERSE
    assert finding.hint.startswith(PLAIN.nondeterministic)
    assert "far more than sums in another order differ by" in finding.hint
    assert "the vjp is not deterministic" in finding.message
    assert "was 2, then 2.5" in finding.message


@pytest.mark.parametrize(("nondet_tol", "found"), [(0.0, 1), (0.4, 1), (0.6, 0)])
def test_nondet_tol_allows_noise_up_to_its_size(nondet_tol: float, found: int) -> None:
    calls = count()
    noisy = investigation(lambda x: x, np.ones(3), vjp=lambda v: v + 0.5 * (next(calls) % 2))
    assert len(find(noisy, nondet_tol=nondet_tol)) == found


def test_even_round_off_between_two_backwards_is_noise() -> None:
    assert len(find(case_with(drifting(1e-15, 2)))) == 1


def test_a_backward_that_is_nan_every_other_time_is_not_deterministic() -> None:
    calls = count()
    (finding,) = find(case_with(lambda v: np.full(6, np.nan if next(calls) % 2 else 1.0)))
    assert "the vjp is not deterministic" in finding.message


def test_a_backward_that_is_always_nan_is_repeatable() -> None:
    assert find(case_with(lambda v: np.full(6, np.nan))) == []


def test_forward_mode_alone_does_not_ask_the_vjp_where_there_is_one() -> None:
    assert find(case_with(drifting(0.5, 0)), modes=(Mode.FORWARD,)) == []


def test_where_there_is_no_vjp_the_jvp_is_asked_twice() -> None:
    calls = count()
    case = investigation(lambda x: x, np.ones(3), jvp=lambda u: u + 0.5 * next(calls) * (np.arange(3) == 1))
    case = Investigation(dataclasses.replace(case.problem, vjp=None))
    (finding,) = find(case, modes=(Mode.FORWARD,))
    assert (finding.mode, finding.output, finding.output_element, finding.input) == (Mode.FORWARD, 0, (1,), None)
    assert "the jvp is not deterministic" in finding.message
    assert case.cost.vjps == 0
    steady = Investigation(dataclasses.replace(investigation(lambda x: x, np.ones(3), np.eye(3)).problem, vjp=None))
    assert find(steady, modes=(Mode.FORWARD,)) == []


# every vjp of a check agrees with every other


def changing(factor: Any, size: int = 3) -> Investigation:
    """sin with a vjp that is multiplied by `factor(number of the call)`."""
    calls = count(1)
    x = np.linspace(0.2, 0.9, size)
    return investigation(np.sin, x, vjp=lambda v: v * np.cos(x) * factor(next(calls)))


@pytest.mark.parametrize(("size", "number"), [(1, 2), (3, 2), (3, 3), (100, 2), (100, 3)])
def test_one_call_that_differs_from_all_others_is_found(size: int, number: int) -> None:
    (finding,) = find(changing(lambda n: 2.0 if n == number else 1.0, size))
    assert (finding.property, finding.status, finding.mode) == ("determinism", Status.WRONG, Mode.REVERSE)
    assert "not deterministic" in finding.message


def test_the_only_output_is_asked_again_if_all_answers_had_an_evaluation_between_them() -> None:
    case = changing(lambda n: 2.0 if n == 3 else 1.0, 1)
    assert case.pullback[0] == pytest.approx(np.cos(0.2))
    case.evaluate(case.problem.point)
    (finding,) = find(case)
    assert "not deterministic" in finding.message


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_new_answer_is_compared_with_the_remembered_one(size: int) -> None:
    (finding,) = find(changing(lambda n: 1.0 if n == 1 else 2.0, size))
    assert finding.input_element is not None
    assert "then" in finding.message


@pytest.mark.parametrize("size", [1, 3, 100])
def test_noise_within_nondet_tol_is_no_change(size: int) -> None:
    assert find(changing(lambda n: 1.0 + 1e-9 * (n % 3), size), nondet_tol=1e-8) == []


def test_a_broken_law_is_not_taken_for_a_change() -> None:
    assert find(investigation(np.sin, np.ones(3), vjp=lambda v: np.cos(1.0) * np.abs(v))) == []
