"""Questions to one Problem: counted, shared, asked once."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from array_problem import array_problem, investigation
from hypothesis import given
from hypothesis import strategies as st

from gradproof.core.capabilities import Inspection, MemoryLayout, MemoryLayouts, MemoryWatch, Omission, Watched
from gradproof.core.cost import BudgetExhausted, Cost
from gradproof.core.draws import basis, random_probe
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Problem
from gradproof.core.space import vector_space

MATRIX = np.arange(6.0).reshape(2, 3)


def linear(**more: Any) -> Investigation:
    return investigation(lambda x: MATRIX @ x, np.ones(3), MATRIX, **more)


# probes


@given(size=st.integers(0, 3000), seed=st.integers(0, 2**31))
def test_a_probe_hides_no_coordinate_and_repeats_for_its_seed(size: int, seed: int) -> None:
    probe = random_probe(size, seed)
    assert probe.shape == (size,)
    assert ((np.abs(probe) >= 0.5) & (np.abs(probe) <= 1.5)).all()
    np.testing.assert_array_equal(probe, random_probe(size, seed))


def test_probes_have_both_signs_and_depend_on_the_seed() -> None:
    probe = random_probe(100, 0)
    assert (probe > 0).any()
    assert (probe < 0).any()
    assert (probe != random_probe(100, 1)).any()


def test_a_lone_coordinate_is_probed_by_one() -> None:
    assert random_probe(1, 5).tolist() == [1.0]


@pytest.mark.parametrize("size", [5, 5000])
def test_a_shared_probe_cannot_be_overwritten(size: int) -> None:
    with pytest.raises(ValueError, match="read-only"):
        random_probe(size, 0)[0] = 7.0


def test_drawing_a_probe_leaves_numpys_random_state_alone() -> None:
    before = np.random.get_state()
    random_probe(5000, 3)
    after = np.random.get_state()
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_unit_vectors_of_a_run() -> None:
    np.testing.assert_array_equal(basis(slice(1, 3), 4), np.eye(4)[1:3])


# many questions


def test_many_questions_are_answered_row_by_row() -> None:
    case = linear()
    np.testing.assert_array_equal(case.vjp_many(np.eye(2)), MATRIX)
    np.testing.assert_array_equal(case.jvp_many(np.eye(3)), MATRIX.T)
    np.testing.assert_array_equal(case.evaluate_many(np.eye(3)), MATRIX.T)
    assert case.vjp_many(np.empty((0, 2))).shape == (0, 3)


def test_rows_may_hold_some_coordinates_only() -> None:
    matrix = np.arange(8.0).reshape(2, 4)
    case = investigation(lambda x: matrix @ x, np.ones(4), matrix)
    rows = np.array([[5.0, 6.0], [7.0, 8.0]])
    whole = np.array([[1.0, 5.0, 6.0, 1.0], [1.0, 7.0, 8.0, 1.0]])
    np.testing.assert_array_equal(case.points(rows, slice(1, 3)), whole)
    np.testing.assert_array_equal(case.evaluate_many(rows, slice(1, 3)), whole @ matrix.T)


# shared answers


def test_the_shared_answers_are_asked_for_once() -> None:
    case = linear()
    assert not case.is_pulled
    assert case.pullback is case.pullback
    assert case.is_pulled
    assert case.pushforward is case.pushforward
    np.testing.assert_allclose(case.pullback, MATRIX.T @ case.cotangent)
    np.testing.assert_allclose(case.pushforward, MATRIX @ case.tangent)
    assert (case.cost.vjps, case.cost.jvps) == (1, 1)


def test_the_seed_draws_the_shared_questions() -> None:
    first, again, other = linear(seed=4), linear(seed=4), linear(seed=5)
    assert (first.cotangent == again.cotangent).all()
    assert (first.tangent == again.tangent).all()
    assert (first.cotangent != other.cotangent).any()
    assert (first.tangent != other.tangent).any()


def test_a_better_question_replaces_the_shared_one_and_its_answer() -> None:
    case = linear()
    before = case.pullback, case.pushforward
    v, u = np.array([3.0, -1.0]), np.array([1.0, 2.0, 4.0])
    assert (case.share_cotangent(v) == MATRIX.T @ v).all()
    assert (case.share_tangent(u) == MATRIX @ u).all()
    assert (case.cotangent is v, case.tangent is u) == (True, True)
    assert case.pullback is not before[0]
    assert case.pushforward is not before[1]
    assert (case.cost.vjps, case.cost.jvps) == (2, 2)


def test_work_that_several_want_is_done_once() -> None:
    case, done = linear(), []

    def work(asked: Investigation, factor: int) -> list[int]:
        assert asked is case
        done.append(factor)
        return [factor]

    assert case.once(work, 3) is case.once(work, 3)
    assert done == [3]
    assert linear().once(lambda asked, factor: factor, 7) == 7


def test_two_investigations_of_one_problem_share_nothing() -> None:
    problem = array_problem(lambda x: MATRIX @ x, np.ones(3), MATRIX)
    first, second = Investigation(problem), Investigation(problem)
    first.share_cotangent(np.array([9.0, 9.0]))
    assert not second.is_pulled
    assert second.cotangent.max() < 9.0
    assert (first.cost.vjps, second.cost.vjps) == (1, 0)
    assert first.once(lambda asked: object()) is not second.once(lambda asked: object())


# rows of the Jacobian


@pytest.mark.parametrize("length", [1, 2, 100])
def test_all_rows_of_the_jacobian_are_kept(length: int) -> None:
    case = linear()
    assert case.rows is None
    assert (case.jacobian_rows(slice(0, 2), length) == MATRIX).all()
    assert case.rows is not None
    assert (case.rows == MATRIX).all()
    assert case.cost.vjps == 2


def test_some_rows_of_the_jacobian_are_not() -> None:
    case = linear()
    assert (case.jacobian_rows(slice(1, 2), 10) == MATRIX[1:]).all()
    assert case.rows is None


def test_the_only_row_is_the_shared_answer() -> None:
    case = investigation(lambda x: (x**2).sum(), np.ones(3), np.full((1, 3), 2.0))
    assert case.jacobian_rows(slice(0, 1), 10)[0].tolist() == case.pullback.tolist() == [2.0, 2.0, 2.0]
    assert case.cost.vjps == 1


def test_a_problem_that_claims_no_derivative_is_not_asked_for_it() -> None:
    def raising(v: Any) -> Any:
        raise AssertionError("asked")

    case = investigation(np.sin, np.ones(3), vjp=raising, connected=False)
    assert case.jacobian_rows(slice(0, 3), 2).tolist() == np.zeros((3, 3)).tolist()
    assert case.cost.vjps == 0


# counting


def test_making_the_problem_was_an_evaluation() -> None:
    assert linear().cost.evaluations == 1


def test_every_question_is_counted() -> None:
    case = linear(layouts=[MemoryLayout.SLICED])
    u, v = case.tangent, case.cotangent
    case.evaluate(u)
    case.evaluate_many(np.eye(3))
    assert case.cost.evaluations == 5
    case.vjp(v)
    case.vjp_many(np.eye(2))
    case.vjp_in(v, MemoryLayout.SLICED)
    case.watched_vjp(v, MemoryLayout.CONTIGUOUS)
    case.vjp_without(v, frozenset({0}))
    assert case.cost.vjps == 6
    case.jvp(u)
    case.jvp_many(np.eye(3))
    case.jvp_without(u, frozenset({0}))
    assert case.cost.jvps == 5
    assert case.cost.calls == 16


def test_evaluations_end_with_the_budget() -> None:
    called: list[float] = []

    def counted(x: Any) -> Any:
        called.append(x[0])
        return x

    case = investigation(counted, np.ones(3), np.eye(3), cost=Cost(most_evaluations=3))
    case.evaluate_many(np.eye(3)[:2])
    with pytest.raises(BudgetExhausted):
        case.evaluate(np.ones(3))
    assert (len(called), case.cost.evaluations) == (3, 3)


@pytest.mark.parametrize("ask", [lambda case: case.vjp(case.cotangent), lambda case: case.jvp(case.tangent)])
def test_derivatives_end_with_the_time(ask: Any) -> None:
    case = linear(cost=Cost(deadline=time.perf_counter() - 1.0))
    with pytest.raises(BudgetExhausted):
        ask(case)


# what a backend can do besides


def plain() -> Investigation:
    """A linear map whose backend can do nothing but what it must."""
    spaces = {"inputs": vector_space("input", 3), "outputs": vector_space("output", 2)}
    return Investigation(
        Problem(
            **spaces,
            point=np.ones(3),
            value=MATRIX @ np.ones(3),
            evaluate=lambda x: MATRIX @ x,
            vjp=lambda v: MATRIX.T @ v,
            jvp=lambda u: MATRIX @ u,
        )
    )


def test_a_backend_that_can_do_nothing_else_is_asked_plainly() -> None:
    case = plain()
    assert (case.pullback == MATRIX.T @ case.cotangent).all()
    assert (case.pushforward == MATRIX @ case.tangent).all()
    assert (case.gradients, case.tangents, case.memory_layouts) == (None, None, frozenset())
    watched = case.watched_vjp(case.cotangent, MemoryLayout.CONTIGUOUS)
    assert (watched.gradient == case.pullback).all()
    assert watched.overwritten == ()


@pytest.mark.parametrize(
    "ask",
    [
        lambda case: case.asks(Omission),
        lambda case: case.vjp_without(case.cotangent, frozenset({0})),
        lambda case: case.jvp_without(case.tangent, frozenset({0})),
        lambda case: case.vjp_in(case.cotangent, MemoryLayout.SLICED),
        lambda case: case.some_gradients(),
        lambda case: case.some_tangents(),
    ],
)
def test_what_is_not_there_cannot_be_asked(ask: Any) -> None:
    with pytest.raises(AssertionError, match=r"missing|no such|cannot show"):
        ask(plain())


def test_what_a_plain_vjp_returned_can_be_looked_at_without_another() -> None:
    case = linear(aliased=[(0, "the input")])
    shown = case.some_gradients()
    assert [what for _, what in shown.aliased()] == ["the input"]
    assert case.cost.vjps == 1
    assert case.some_gradients() is shown
    assert case.cost.vjps == 1
    assert case.some_tangents() is case.some_tangents()
    assert case.cost.jvps == 1


def test_a_contiguous_cotangent_is_no_special_layout() -> None:
    def never(v: Any, layout: MemoryLayout) -> Any:
        raise AssertionError("asked")

    layouts = MemoryLayouts(frozenset({MemoryLayout.SLICED}), never)
    case = linear(capabilities={MemoryLayouts: layouts})
    assert (case.vjp_in(case.cotangent, MemoryLayout.CONTIGUOUS) == case.pullback).all()


def test_a_cotangent_that_was_written_to_shows_in_the_vjp_before() -> None:
    """A cotangent in another layout may have been copied before it was written to."""

    class Shown:
        coordinates = np.zeros(3)

        def misshapen(self) -> list[Any]:
            return []

        def aliased(self) -> list[Any]:
            return []

        def share_memory(self, later: Any) -> bool:
            return False

        def overwritten(self) -> list[Any]:
            return []

        def overwritten_cotangents(self) -> list[str]:
            return ["the cotangent of output 0", "a saved array"]

    offered = {
        Inspection: Inspection(lambda v: Shown(), None),
        MemoryWatch: MemoryWatch(lambda v, layout: Watched(MATRIX.T @ v, ("a saved array",)), ()),
    }
    case = linear(capabilities=offered)
    v = case.cotangent
    assert case.watched_vjp(v, MemoryLayout.TRANSPOSED).overwritten == ("a saved array",)
    case.vjp(v)
    found = case.watched_vjp(v, MemoryLayout.TRANSPOSED).overwritten
    assert found == ("a saved array", "the cotangent of output 0")
    assert case.watched_vjp(v, MemoryLayout.CONTIGUOUS).overwritten == ("a saved array",)
