"""The worked example: a backend for HIPS autograd in about sixty lines conforms, and finds a wrong rule of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import autograd.numpy as anp
import numpy as np
import pytest
from adapters.autograd_adapter import ADAPTER, backend
from autograd.extend import defvjp, primitive

from gradproof import Verdict
from gradproof.testing import Case, conformance

EXAMPLE = Path(__file__).parents[1] / "examples" / "autograd_backend.py"


@pytest.mark.parametrize("case", conformance(ADAPTER), ids=lambda case: case.name)
def test_it_conforms(case: Case) -> None:
    case()


def test_it_has_sixty_lines() -> None:
    lines = [line for line in EXAMPLE.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(lines) <= 60


def test_functions_of_autograd_pass() -> None:
    x, w = np.linspace(0.5, 2.0, 6).reshape(2, 3), np.linspace(-1.0, 1.0, 12).reshape(3, 4)
    report = backend.check(lambda x, w: anp.tanh(anp.dot(x, w)) * anp.sum(x), x, w)
    assert report.verdict is Verdict.PASS, str(report)
    assert report.cost.jvps > 0


def test_a_wrong_defvjp_is_found_in_the_words_of_autograd() -> None:
    @primitive
    def logsumexp(x: Any) -> Any:
        top = np.max(x, axis=-1, keepdims=True)
        return np.log(np.sum(np.exp(x - top), axis=-1)) + top[..., 0]

    # the last column is left out
    defvjp(logsumexp, lambda ans, x: lambda v: np.exp(x - ans[..., None]) * v[..., None] * (np.arange(4) < 3))
    report = backend.check(logsumexp, np.linspace(0.0, 1.0, 12).reshape(3, 4))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].input_element is not None
    assert report.findings[0].input_element[-1] == 3
    assert "wrong only at index 3 of 4 (the last) along axis 1 of input 0" in report.findings[0].hint

    defvjp(logsumexp, lambda ans, x: lambda v: np.exp(x - ans[..., None]) * np.abs(v)[..., None])
    report = backend.check(logsumexp, np.linspace(0.0, 1.0, 12).reshape(3, 4))
    assert any(finding.headline.startswith("defvjp is not linear") for finding in report.findings)
