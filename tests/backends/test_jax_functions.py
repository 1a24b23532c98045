"""The most used functions of JAX pass at ordinary points, in single and in double precision."""

from __future__ import annotations

from typing import Any

import jax
import pytest
from jax_functions import CASES, Case, draw

import gradproof


def test_there_are_enough() -> None:
    assert len(CASES) >= 80
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_function_of_jax_passes(case: Case, dtype: Any) -> None:
    with jax.enable_x64(dtype == "float64"):
        arguments = tuple(draw(kind, dtype, seed) for seed, kind in enumerate(case.arguments))
        assert all(str(argument.dtype) == dtype for argument in arguments)
        report = gradproof.check(case.function, arguments)
    assert report.ok, str(report)
    assert [mode.value for mode in report.modes] == ["reverse", "forward"]
