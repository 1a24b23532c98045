"""The gradient does not depend on the memory layout of the cotangent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import Part, investigation, rounded_waves

from gradproof.core.capabilities import MemoryLayout, MemoryLayouts
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.status import Status
from gradproof.properties import DEFAULT
from gradproof.properties.layout import layout
from gradproof.results.finding import Finding

STRANGE = [MemoryLayout.EXPANDED, MemoryLayout.SLICED, MemoryLayout.TRANSPOSED, MemoryLayout.CHANNELS_LAST]


def case_with(vjp_in: Any = None, **options: Any) -> Investigation:
    inputs = [Part((1,)), Part((2,), name="w")]
    return investigation(lambda x: x, np.ones(3), np.eye(3), inputs=inputs, layouts=STRANGE, vjp_in=vjp_in, **options)


def find(vjp_in: Any, **options: Any) -> list[Finding]:
    return list(layout(case_with(vjp_in), Options(properties=DEFAULT, **options)))


def test_a_backward_that_respects_strides_has_no_finding() -> None:
    assert find(None) == []


@pytest.mark.parametrize("arrangement", STRANGE)
def test_the_layout_that_is_misread_is_named_with_the_place(arrangement: MemoryLayout) -> None:
    (finding,) = find(lambda v, given: v * np.array([1.0, 1.0, 2.0]) if given is arrangement else v)
    assert (finding.property, finding.status) == ("layout", Status.WRONG)
    assert (finding.input, finding.input_element) == (1, (1,))
    assert f"with one that is {arrangement.value}, the gradient of input 1 `w`, element [1]" in finding.message
    assert finding.analytic == 2 * finding.numeric
    assert finding.kind == arrangement.name.lower()
    assert "contiguous" in finding.hint


@pytest.mark.parametrize("arrangement", STRANGE)
def test_a_backward_that_raises_for_a_layout_is_found_with_its_cause(arrangement: MemoryLayout) -> None:
    error = RuntimeError("view size is not compatible")

    def vjp_in(v: Any, given: MemoryLayout) -> Any:
        if given is arrangement:
            raise error
        return v

    (finding,) = find(vjp_in)
    assert (finding.property, finding.status, finding.cause) == ("layout", Status.WRONG, error)
    assert f"with one that is {arrangement.value}, it raised RuntimeError: view size" in finding.message


def test_all_layouts_that_are_misread_are_named() -> None:
    findings = find(lambda v, given: v if given is MemoryLayout.CONTIGUOUS else 2 * v)
    assert len(findings) == len(STRANGE)


def test_round_off_of_another_order_of_summation_is_forgiven() -> None:
    assert find(lambda v, given: v * (1 + 1e-14)) == []


def test_a_backward_that_is_not_repeatable_is_not_taken_for_a_misread_layout() -> None:
    generator = np.random.default_rng(0)

    def vjp(v: Any) -> Any:
        return v * (1 + 0.1 * generator.random())

    case = investigation(lambda x: x, np.ones(3), vjp=vjp, layouts=STRANGE)
    assert list(layout(case, Options(properties=DEFAULT))) == []


@pytest.mark.parametrize(("error", "is_explained"), [(1e-3, True), (1e-1, False)])
def test_what_round_off_makes_of_an_ill_conditioned_gradient_is_no_matter_of_layout(
    error: float, is_explained: bool
) -> None:
    layouts = MemoryLayouts(frozenset(STRANGE), lambda v, layout: (1.0 + error) * case.vjp(v))
    case = rounded_waves({MemoryLayouts: layouts})
    assert len(list(layout(case, Options(properties=DEFAULT)))) == (0 if is_explained else len(STRANGE))
