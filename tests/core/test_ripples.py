"""Ripples that are finer than the steps that noise is measured with."""

from __future__ import annotations

import numpy as np
import pytest
from array_problem import investigation

from gradproof.core.along import Along
from gradproof.core.noise import measured
from gradproof.core.ripples import ripples
from gradproof.core.types import Vector

x: Vector = np.random.default_rng(0).standard_normal(24)


def waves(length: float, size: float = 1e-7):
    return lambda y: np.sin(y) + size * np.sin(y / length)


def found(function, noise: float) -> np.ndarray:
    """Which outputs are taken for ripples."""
    case = investigation(function, x)
    return ripples(Along(case, 0), case.problem.outputs.blocks, np.full(len(x), noise), first=15)


@pytest.mark.parametrize("length", [1e-5, 1e-6, 1e-7, 1e-8])
def test_a_wave_that_short_steps_resolve_is_no_noise(length: float) -> None:
    assert measured(investigation(waves(length), x)) is None


@pytest.mark.parametrize(
    "function",
    [
        waves(1e-13),
        lambda y: np.sin(y).astype(np.float32).astype(float),
        lambda y: y + np.sin(y).astype(np.float32),
        lambda y: np.sin(y) + 1e-7 * np.round(y / 1e-7) % 2,
    ],
)
def test_what_no_step_resolves_is_noise(function) -> None:
    assert measured(investigation(function, x)) is not None


def test_a_staircase_beside_something_smooth_is_no_ripple() -> None:
    assert found(waves(1e-6), 1e-7).any()
    assert not found(lambda y: np.sin(y) + 1e-7 * np.floor(y / 1e-6), 1e-7).any()
