"""The same forward twice gives the same values."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from array_problem import investigation

from gradproof.core.capabilities import Repeated
from gradproof.core.cost import Cost
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.status import Status
from gradproof.properties.repeatability import repeatability
from gradproof.results.finding import Finding


def find(case: Investigation) -> list[Finding]:
    return list(repeatability(case, Options()))


def test_a_repeatable_function_has_no_finding() -> None:
    case = investigation(np.sin, np.ones(3), np.eye(3))
    assert find(case) == []
    assert case.cost.calls == 2


def test_a_noisy_forward_is_found_where_it_is_noisy() -> None:
    calls = count()

    def function(x: Any) -> Any:
        return x + np.array([0.0, 0.25 * next(calls), 0.0])

    (finding,) = find(investigation(function, np.ones(3), np.eye(3)))
    assert (finding.status, finding.output, finding.output_element) == (Status.WRONG, 0, (1,))
    assert "output 0, element [1] was 1, then 1.25" in finding.message
    assert "not deterministic" in finding.message


def test_a_forward_that_is_nan_every_other_time_is_found() -> None:
    calls = count()
    (finding,) = find(investigation(lambda x: x if next(calls) % 2 == 0 else x * np.nan, np.ones(3), np.eye(3)))
    assert "then nan" in finding.message


def test_a_forward_that_is_always_nan_is_repeatable() -> None:
    assert find(investigation(lambda x: x * np.nan, np.ones(3), np.eye(3))) == []


def test_a_call_that_was_made_for_something_else_is_a_second_one() -> None:
    case = investigation(np.sin, np.ones(3), np.eye(3))

    def given(value: Any) -> Investigation:
        capabilities = {**case.problem.capabilities, Repeated: Repeated(value)}
        return Investigation(replace(case.problem, capabilities=capabilities), 0, Cost())

    right = given(np.sin(np.ones(3)))
    assert find(right) == []
    assert right.cost.calls == 1
    other = given(np.sin(np.ones(3)) + 0.5 * np.eye(3)[2])  # in another precision, say: so the function is asked
    assert find(other) == []
    assert other.cost.calls == right.cost.calls + 1
