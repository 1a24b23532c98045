"""Batches are trusted only after a witness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, Part, space

from gradproof.backends.torch.batch import Batch, Ways

MATRIX = np.random.default_rng(0).normal(size=(3, 4))
ROWS = np.random.default_rng(1).normal(size=(6, 4))
QUESTION = np.array([1.0, -1.0, 1.0, -1.0])


class Counted:
    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, 0

    def __call__(self, rows: Any) -> Any:
        self.calls += 1
        return self.answer(rows)


def right(rows: Any) -> Any:
    return rows @ MATRIX.T


class Asked:
    """A batch with its ways."""

    def __init__(self, batch: Batch, ways: Ways) -> None:
        self.batch, self.ways = batch, ways

    def __call__(self, rows: Any) -> Any:
        return self.batch.answer(rows, self.ways)

    def flaw(self) -> Any:
        return self.batch.flaw(self.ways)


def batch_of(batched: Any, *, least: int = 2, **options: Any) -> tuple[Asked, Counted, Counted]:
    loop, together = Counted(right), Counted(batched)
    target = space("output", Part((3,), **options))
    witness = (QUESTION, MATRIX @ QUESTION)
    return Asked(Batch(target, least), Ways(loop, together, lambda: witness)), loop, together


def test_a_batch_that_answers_the_witness_rightly_is_used() -> None:
    batch, loop, together = batch_of(right)
    for _ in range(3):
        np.testing.assert_allclose(batch(ROWS), right(ROWS))
    assert (loop.calls, together.calls) == (0, 3)
    assert batch.flaw() is None


def raising(rows: Any) -> Any:
    raise RuntimeError("no batching rule")


def off_by_one_output(rows: Any) -> Any:
    return right(rows) * np.array([1.0, 1.0, 1.5])


def one_answer_for_all(rows: Any) -> Any:
    return np.repeat(right(rows[:1]), len(rows), axis=0)


def nothing_but_nan(rows: Any) -> Any:
    return np.full((len(rows), 3), np.nan)


@pytest.mark.parametrize("wrong", [raising, off_by_one_output, one_answer_for_all, nothing_but_nan])
def test_a_batch_that_fails_the_witness_is_never_used(wrong: Any) -> None:
    batch, loop, together = batch_of(wrong)
    for _ in range(3):
        np.testing.assert_allclose(batch(ROWS), right(ROWS))
    assert (loop.calls, together.calls) == (3, 1)
    assert batch.flaw() is not None


def test_the_flaw_of_a_batch_that_raises_has_its_cause() -> None:
    flaw = batch_of(raising)[0].flaw()
    assert flaw is not None
    assert "no batching rule" in flaw.reason
    assert isinstance(flaw.cause, RuntimeError)


def test_the_flaw_of_a_batch_that_is_wrong_has_its_place_and_values() -> None:
    flaw = batch_of(off_by_one_output)[0].flaw()
    assert flaw is not None
    plain = (MATRIX @ QUESTION)[2]
    assert "output 0, element [2]" in flaw.reason
    assert f"({1.5 * plain:.9g} instead of {plain:.9g})" in flaw.reason


def test_a_flaw_can_be_asked_for_without_any_rows() -> None:
    assert batch_of(right)[0].flaw() is None
    assert batch_of(right, least=10**9)[0].flaw() is None
    assert batch_of(raising, least=10**9)[0].flaw() is not None


def test_few_rows_are_looped_over() -> None:
    batch, loop, together = batch_of(right, least=7)
    batch(ROWS)
    assert (loop.calls, together.calls) == (1, 0)


@pytest.mark.parametrize(("eps", "usable"), [(2.0**-52, False), (SINGLE, True)])
def test_a_batch_may_differ_by_round_off_of_its_precision(eps: float, usable: bool) -> None:
    batch, loop, _ = batch_of(lambda rows: right(rows) * (1 + 1e-7), eps=eps)
    batch(ROWS)
    assert (loop.calls == 0) is usable
    assert batch.flaw() is None  # neither is a mistake of the batching rule


def test_nan_where_the_plain_answer_is_nan_is_right() -> None:
    plain = np.array([np.nan, 1.0, 2.0])
    target = space("output", Part((3,)))

    def answer(rows: Any) -> Any:
        return np.repeat(plain[None], len(rows), axis=0)

    batch = Asked(Batch(target, 2), Ways(raising, answer, lambda: (QUESTION, plain)))
    np.testing.assert_array_equal(batch(ROWS), answer(ROWS))
    assert batch.flaw() is None
