"""The gradient does not depend on the memory layout of the cotangent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import ArrayProblem, Part

from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Layout, Mode
from gradproof.properties import DEFAULT
from gradproof.properties.layout import layout

STRANGE = [Layout.EXPANDED, Layout.SLICED, Layout.TRANSPOSED, Layout.CHANNELS_LAST]


def problem_with(vjp_in: Any = None, **options: Any) -> ArrayProblem:
    inputs = [Part((1,)), Part((2,), name="w")]
    return ArrayProblem(lambda x: x, np.ones(3), np.eye(3), inputs=inputs, layouts=STRANGE, vjp_in=vjp_in, **options)


def find(vjp_in: Any, **options: Any) -> list[Finding]:
    return list(layout(problem_with(vjp_in), Options(properties=DEFAULT, **options)))


def test_a_backward_that_respects_strides_has_no_finding() -> None:
    assert find(None) == []


@pytest.mark.parametrize("arrangement", STRANGE)
def test_the_layout_that_is_misread_is_named_with_the_place(arrangement: Layout) -> None:
    (finding,) = find(lambda v, given: v * np.array([1.0, 1.0, 2.0]) if given is arrangement else v)
    assert (finding.property, finding.status) == ("layout", Status.WRONG)
    assert (finding.input, finding.input_element) == (1, (1,))
    assert f"with one that is {arrangement.value}, the gradient of input 1 `w`, element [1]" in finding.message
    assert finding.analytic == 2 * finding.numeric
    assert "contiguous()" in finding.hint


@pytest.mark.parametrize("arrangement", STRANGE)
def test_a_backward_that_raises_for_a_layout_is_found_with_its_cause(arrangement: Layout) -> None:
    error = RuntimeError("view size is not compatible")

    def vjp_in(v: Any, given: Layout) -> Any:
        if given is arrangement:
            raise error
        return v

    (finding,) = find(vjp_in)
    assert (finding.property, finding.status, finding.cause) == ("layout", Status.WRONG, error)
    assert f"With a grad_output that is {arrangement.value}, backward raised RuntimeError: view size" in finding.message


def test_all_layouts_that_are_misread_are_named() -> None:
    findings = find(lambda v, given: v if given is Layout.CONTIGUOUS else 2 * v)
    assert len(findings) == len(STRANGE)


def test_round_off_of_another_order_of_summation_is_forgiven() -> None:
    assert find(lambda v, given: v * (1 + 1e-14)) == []


def test_a_backward_that_is_not_repeatable_is_not_taken_for_a_misread_layout() -> None:
    generator = np.random.default_rng(0)

    def vjp(v: Any) -> Any:
        return v * (1 + 0.1 * generator.random())

    problem = ArrayProblem(lambda x: x, np.ones(3), vjp=vjp, layouts=STRANGE)
    assert list(layout(problem, Options(properties=DEFAULT))) == []


def test_only_reverse_mode_and_a_graph_are_asked() -> None:
    assert list(layout(problem_with(lambda v, given: 2 * v), Options(properties=DEFAULT, modes=(Mode.FORWARD,)))) == []
    assert list(layout(problem_with(lambda v, given: 2 * v, has_graph=False), Options(properties=DEFAULT))) == []
