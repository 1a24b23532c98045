"""Calls are counted, and stop where the budget ends."""

from __future__ import annotations

import time

import pytest

from gradproof.core.cost import BudgetExhausted, Cost


def test_calls_are_counted_by_kind() -> None:
    cost = Cost()
    cost.evaluate()
    cost.evaluate(5)
    cost.pull(2)
    cost.push(3)
    assert (cost.evaluations, cost.vjps, cost.jvps, cost.calls) == (6, 2, 3, 11)


def test_what_is_announced_comes_on_top_of_what_was_spent() -> None:
    cost = Cost(evaluations=4, vjps=1)
    cost.expect(10)
    assert cost.expected == 15


def test_evaluations_beyond_the_limit_are_refused_and_not_counted() -> None:
    cost = Cost(most_evaluations=5)
    cost.evaluate(5)
    with pytest.raises(BudgetExhausted):
        cost.evaluate()
    assert cost.evaluations == 5


def test_a_batch_that_is_too_large_is_refused_as_a_whole() -> None:
    cost = Cost(most_evaluations=5)
    with pytest.raises(BudgetExhausted):
        cost.evaluate(6)
    assert cost.evaluations == 0


def test_a_limit_on_evaluations_is_none_on_derivatives() -> None:
    cost = Cost(most_evaluations=0)
    cost.pull()
    cost.push()
    assert cost.calls == 2


@pytest.mark.parametrize("kind", ["evaluate", "pull", "push"])
def test_after_the_deadline_nothing_is_called(kind: str) -> None:
    cost = Cost(deadline=time.perf_counter() + 3600.0)
    getattr(cost, kind)()
    cost.deadline = time.perf_counter() - 1e-3
    with pytest.raises(BudgetExhausted):
        getattr(cost, kind)()
    assert cost.calls == 1


def test_user_code_that_catches_exceptions_does_not_catch_the_end_of_the_budget() -> None:
    assert not issubclass(BudgetExhausted, Exception)


def test_a_vjp_that_calls_the_function_counts_as_an_evaluation_too() -> None:
    anew = False
    cost = Cost(most_evaluations=3, calls_anew=lambda: anew)
    cost.pull(5)
    assert (cost.evaluations, cost.vjps) == (0, 5)
    anew = True
    cost.pull(2)
    assert (cost.evaluations, cost.vjps) == (2, 7)
    with pytest.raises(BudgetExhausted):
        cost.pull(2)
    assert (cost.evaluations, cost.vjps) == (2, 7)
