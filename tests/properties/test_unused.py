"""Outputs without a graph must not depend on the inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import DOUBLE, SINGLE, Part, findings, investigation

from gradproof.core.options import Options
from gradproof.core.seen import Seen
from gradproof.core.status import Status
from gradproof.properties.unused import unused
from gradproof.results.finding import Finding


def find(function: Any, point: Any, *, eps: float = DOUBLE) -> list[Finding]:
    parts = [Part((len(array),), eps=eps) for array in (point, function(np.array(point)))]
    case = investigation(function, point, inputs=parts[:1], outputs=parts[1:], connected=False)
    return findings(unused(case, Options(atol=1e-5, rtol=1e-3)))


@pytest.mark.parametrize("eps", [DOUBLE, SINGLE])
@pytest.mark.parametrize(
    "constant", [lambda x: np.ones(2), lambda x: np.zeros(2), lambda x: np.round(x), lambda x: np.sign(x) * 1e6]
)
def test_outputs_that_do_not_move_have_no_finding(constant: Any, eps: float) -> None:
    assert find(constant, [0.75, 1.75], eps=eps) == []


@pytest.mark.parametrize("size", [1e-8, 1e-3, 1.0, 1e8])
def test_an_output_that_moves_is_found_whatever_its_size(size: float) -> None:
    (finding,) = find(lambda x: size * np.array([1.0, x[1] ** 2]), [0.75, 1.75])
    assert (finding.property, finding.status) == ("unused", Status.WRONG)
    assert (finding.output_element, finding.input_element) == ((1,), (1,))
    assert "No output is connected to an input, yet output 0 depends on input 0" in finding.message
    assert finding.numeric == pytest.approx(size * 3.5, rel=1e-6)
    assert finding.analytic == 0.0


def test_the_derivative_that_is_not_there_is_not_asked_for() -> None:
    def asked(v: Any) -> Any:
        raise AssertionError("asked")

    case = investigation(np.sign, np.ones(3), vjp=asked, jvp=asked, connected=False)
    (seen,) = unused(case, Options())
    assert isinstance(seen, Seen)
    assert case.cost.vjps == 0
