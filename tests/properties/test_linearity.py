"""The backward is a linear map of the cotangent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import ArrayProblem, Part

from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.properties.linearity import linearity


def find(vjp: Any, **options: Any) -> list[Finding]:
    problem = ArrayProblem(lambda x: x[:2], np.ones(6), inputs=[Part((2,)), Part((2, 2), name="w")], vjp=vjp)
    return list(linearity(problem, Options(properties=frozenset({"linearity"}), **options)))


def widened(cotangent: Any) -> Any:
    return np.concatenate([cotangent, np.zeros(4)])


def test_a_linear_backward_has_no_finding() -> None:
    assert find(widened) == []


@pytest.mark.parametrize(
    ("at", "value", "input_", "element"),
    [(0, 2.5, 0, (0,)), (5, -1e-12, 1, (1, 1)), (3, np.nan, 1, (0, 1)), (2, np.inf, 1, (0, 0))],
)
def test_a_gradient_for_a_cotangent_of_zeros_is_found(
    at: int, value: float, input_: int, element: tuple[int, ...]
) -> None:
    def vjp(cotangent: Any) -> Any:
        answer = widened(cotangent)
        answer[at] += value
        return answer

    (finding,) = find(vjp)
    assert (finding.property, finding.status) == ("linearity", Status.WRONG)
    assert (finding.input, finding.input_element) == (input_, element)
    assert "backward not multiplied by grad_output" in finding.message
    np.testing.assert_equal(finding.analytic, value)


def test_forward_mode_alone_does_not_ask_the_backward() -> None:
    assert find(lambda v: np.ones(6), modes=(Mode.FORWARD,)) == []
