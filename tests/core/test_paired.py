"""Products of a question with an answer are found once while the same are asked for."""

from __future__ import annotations

import numpy as np
import pytest
from array_problem import investigation

from gradproof.core import paired
from gradproof.core.paired import Paired


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    products = paired.products

    def counting(left: np.ndarray, right: np.ndarray) -> tuple[float, float]:
        calls.append(len(left))
        return products(left, right)

    monkeypatch.setattr(paired, "products", counting)
    return calls


def test_the_same_vectors_are_multiplied_once(counted: list[int]) -> None:
    kept = investigation(np.sin, np.ones(2), np.eye(2)).once(Paired)
    left, right = np.array([1.0, 2.0]), np.array([3.0, 2.0])
    assert kept.of(left, right) == kept.of(left, right) == (7.0, 5.0)
    assert counted == [2]


def test_other_vectors_with_the_same_numbers_or_in_another_order_are_not_taken_for_these(counted: list[int]) -> None:
    kept = investigation(np.sin, np.ones(2), np.eye(2)).once(Paired)
    left, right = np.array([0.0, 2.0]), np.array([np.inf, 2.0])
    assert kept.of(left, right) == (4.0, 4.0)
    assert kept.of(right, left)[0] != 4.0  # infinity times zero is no number
    assert kept.of(left.copy(), right) == (4.0, 4.0)
    assert len(counted) == 3
