"""Subgradients along joint directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import investigation

from gradproof.core.kinks import Kinks, disproved
from gradproof.core.stencil import Stencil

ROOT = np.sqrt(0.5)


def kinks(claim: list[float], left: list[float], right: list[float]) -> Kinks:
    count = len(claim)
    rows = np.zeros(count, dtype=np.intp)
    sides = np.array(left, dtype=float), np.array(right, dtype=float)
    return Kinks(rows, np.arange(count), np.array(claim), *sides, np.full(count, 1e-6))


def is_disproved(function: Any, point: list[float], found: Kinks) -> bool:
    case = investigation(lambda x: np.atleast_1d(function(x)), np.array(point))
    wrong = disproved(Stencil(case), found)
    assert len(wrong) in (0, len(found.rows))
    assert case.cost.evaluations < 100
    return len(wrong) > 0


@pytest.mark.parametrize(
    ("claim", "wrong"),
    [([1, 0, 0], False), ([1 / 3] * 3, False), ([0.2, 0.5, 0.3], False), ([1] * 3, True), ([0] * 3, True)],
)
def test_a_subgradient_of_a_maximum_sums_to_one(claim: list[float], wrong: bool) -> None:
    assert is_disproved(np.max, [2, 2, 2], kinks(claim, [0] * 3, [1] * 3)) is wrong
    assert is_disproved(np.min, [2, 2, 2], kinks(claim, [1] * 3, [0] * 3)) is wrong


@pytest.mark.parametrize(
    ("claim", "wrong"), [([ROOT, ROOT], False), ([0.1, -0.6], False), ([1, 1], True), ([0.9, -0.9], True)]
)
def test_a_subgradient_of_a_norm_at_zero_is_no_longer_than_one(claim: list[float], wrong: bool) -> None:
    assert is_disproved(np.linalg.norm, [0, 0], kinks(claim, [-1, -1], [1, 1])) is wrong


def test_conventions_that_differ_are_not_asked_about_together() -> None:
    def function(x: Any) -> Any:
        return np.maximum(x[0], 0) - np.maximum(x[1], 0)

    assert not is_disproved(function, [0, 0], kinks([0, -1], [0, 0], [1, -1]))


def test_a_function_that_bends_one_way_along_each_coordinate_only_is_left_alone() -> None:
    def function(x: Any) -> Any:
        return np.abs(x).sum() - 3 * np.abs(x.sum() - 0.0) * (np.abs(x) > 0).all()

    assert not is_disproved(function, [0, 0], kinks([1, 1], [-1, -1], [1, 1]))
