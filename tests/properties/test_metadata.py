"""The form of gradients and tangents besides their values."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from array_problem import Part, investigation

from gradproof.core.capabilities import Form
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.properties.metadata import dtypes, metadata
from gradproof.results.finding import Finding

EXAMINE = {"metadata": metadata, "dtypes": dtypes}
EXPECTED = Form(shape=(2, 2), dtype="float64", layout="strided", device="cpu")
OTHER: dict[str, Any] = {"shape": (4,), "dtype": "float32", "layout": "sparse_coo", "device": "cuda:0"}


def find(name: str, mode: Mode, *aspects: str) -> list[Finding]:
    """The findings where the second input's gradient (or second output's tangent) is other in these aspects."""
    actual = dataclasses.replace(EXPECTED, **{aspect: OTHER[aspect] for aspect in aspects})
    case = investigation(
        lambda x: x,
        np.ones(5),
        np.eye(5),
        inputs=[Part((1,)), Part((2, 2), name="w")],
        outputs=[Part((1,)), Part((2, 2))],
        misshapen=[(1, EXPECTED, actual)] if aspects else [],
    )
    return list(EXAMINE[name](case, Options(modes=(mode,))))


@pytest.mark.parametrize("name", ["metadata", "dtypes"])
@pytest.mark.parametrize("mode", Mode)
def test_the_expected_form_has_no_finding(name: str, mode: Mode) -> None:
    assert find(name, mode) == []


@pytest.mark.parametrize("aspect", ["shape", "layout", "device"])
def test_another_shape_layout_or_device_is_found(aspect: str) -> None:
    (finding,) = find("metadata", Mode.REVERSE, aspect)
    assert (finding.property, finding.status, finding.input) == ("metadata", Status.WRONG, 1)
    assert f"A gradient has another {aspect}: input 1 `w` has {aspect}" in finding.message
    assert (finding.kind, finding.mode) == (aspect, Mode.REVERSE)
    assert str(OTHER[aspect]) in finding.message
    assert find("dtypes", Mode.REVERSE, aspect) == []


def test_another_dtype_is_found_by_its_own_property() -> None:
    (finding,) = find("dtypes", Mode.REVERSE, "dtype")
    assert (finding.property, finding.input, finding.output) == ("dtypes", 1, None)
    assert "A gradient has another dtype: input 1 `w` has dtype float64, its gradient float32" in finding.message
    assert (finding.kind, finding.mode) == ("dtype", Mode.REVERSE)
    assert find("metadata", Mode.REVERSE, "dtype") == []


def test_another_dtype_of_a_tangent_is_found_at_its_output() -> None:
    (finding,) = find("dtypes", Mode.FORWARD, "dtype")
    assert (finding.input, finding.output) == (None, 1)
    assert finding.message.startswith("A tangent has another dtype: output 1 has dtype float64, its tangent float32")
    assert (finding.kind, finding.mode) == ("dtype", Mode.FORWARD)


def test_every_aspect_at_fault_has_its_finding() -> None:
    assert len(find("metadata", Mode.REVERSE, "shape", "layout", "device", "dtype")) == 3
