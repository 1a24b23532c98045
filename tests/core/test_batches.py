"""Batches are trusted only after a witness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, Part, investigation, space

from gradproof.core.batches import Trust, Ways
from gradproof.core.capabilities import Batching
from gradproof.core.cost import BudgetExhausted, Cost
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Mode

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
    """Trust in a batch, with its ways."""

    def __init__(self, trust: Trust, ways: Ways) -> None:
        self.trust, self.ways = trust, ways

    def __call__(self, rows: Any) -> Any:
        return self.trust.answer(rows, self.ways)

    def flaw(self) -> Any:
        return self.trust.flaw(self.ways)


def batch_of(batched: Any, **options: Any) -> tuple[Asked, Counted, Counted]:
    loop, together = Counted(right), Counted(batched)
    target = space("output", Part((3,), **options))
    witness = (QUESTION, MATRIX @ QUESTION)
    return Asked(Trust(target), Ways(loop, together, lambda: witness)), loop, together


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


WRONG = pytest.mark.parametrize("wrong", [raising, off_by_one_output, one_answer_for_all, nothing_but_nan])


@WRONG
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
    for batched, flawed in ((right, False), (raising, True)):
        batch, _, together = batch_of(batched)
        assert (batch.flaw() is not None) is flawed
        assert together.calls == 1


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

    batch = Asked(Trust(target), Ways(raising, answer, lambda: (QUESTION, plain)))
    np.testing.assert_array_equal(batch(ROWS), answer(ROWS))
    assert batch.flaw() is None


# batches of an investigation


class Backend:
    """sin(A x) of three blocks, one call at a time and in batches; each call is written down.

    `spoil` is done to whatever a batch answers.
    """

    inputs = (Part((2,)), Part((1,)), Part((3,)))
    point = np.linspace(0.2, 1.2, 6)
    matrix = np.random.default_rng(2).normal(size=(4, 6))

    def __init__(self, spoil: Callable[[Any], Any] = lambda answers: answers, *, least: int = 2, **more: Any) -> None:
        self.spoil = spoil
        self.single = self.vjps = self.jvps = 0
        self.evaluations: list[tuple[tuple[int, ...], slice, frozenset[int]]] = []
        self.cotangents: list[int] = []
        self.tangents: list[int] = []
        self.jacobian = np.cos(self.matrix @ self.point)[:, None] * self.matrix
        batching = Batching(self._evaluate_many, self._vjp_many, self._jvp_many, least, least)
        self.case = investigation(
            self._evaluate,
            self.point,
            vjp=self._vjp,
            jvp=self._jvp,
            inputs=self.inputs,
            capabilities={Batching: batching._replace(**more)},
        )
        self.single = 0

    def _evaluate(self, x: Any) -> Any:
        self.single += 1
        return np.sin(self.matrix @ x)

    def _vjp(self, v: Any) -> Any:
        self.vjps += 1
        return self.jacobian.T @ v

    def _jvp(self, u: Any) -> Any:
        self.jvps += 1
        return self.jacobian @ u

    def _evaluate_many(self, rows: Any, run: slice, still: frozenset[int]) -> Any:
        self.evaluations.append((rows.shape, run, still))
        points = np.repeat(self.point[None], len(rows), axis=0)
        points[:, run] = rows
        for k in still:
            block = self.case.problem.inputs.blocks[k].slice
            points[:, block] = self.point[block]
        return self.spoil(np.sin(points @ self.matrix.T))

    def _vjp_many(self, rows: Any) -> Any:
        self.cotangents.append(len(rows))
        return self.spoil(rows @ self.jacobian)

    def _jvp_many(self, rows: Any) -> Any:
        self.tangents.append(len(rows))
        return self.spoil(rows @ self.jacobian.T)

    def truth(self, points: Any) -> Any:
        return np.stack([np.sin(self.matrix @ x) for x in points])


POINTS = Backend.point + 0.1 * np.random.default_rng(3).normal(size=(5, 6))


def doubled(answers: Any) -> Any:
    return 2.0 * answers


def swapped(answers: Any) -> Any:
    return answers[::-1]


def missing(answers: Any) -> Any:
    raise NotImplementedError("no batching rule")


SPOILED = pytest.mark.parametrize("spoil", [doubled, swapped, missing])


def test_points_are_evaluated_in_batches_after_one_witness() -> None:
    backend = Backend()
    case = backend.case
    for _ in range(3):
        np.testing.assert_allclose(case.evaluate_many(POINTS), backend.truth(POINTS))
    assert [shape for shape, _, _ in backend.evaluations] == [(6, 6), (5, 6), (5, 6)]
    assert backend.single == 1  # the witness
    assert case.cost.evaluations == 1 + 1 + 6 + 5 + 5


@SPOILED
def test_points_are_evaluated_one_by_one_where_the_batch_is_wrong(spoil: Any) -> None:
    backend = Backend(spoil)
    case = backend.case
    for _ in range(3):
        np.testing.assert_array_equal(case.evaluate_many(POINTS), backend.truth(POINTS))
    assert len(backend.evaluations) == 1
    assert backend.single == 1 + 3 * 5
    ran = 0 if spoil is missing else 6  # a batch that could not run is not counted
    assert case.cost.evaluations == 1 + 1 + ran + 3 * 5


@pytest.mark.parametrize("mode", Mode)
def test_derivatives_are_applied_in_batches_after_one_witness(mode: Mode) -> None:
    backend = Backend()
    reverse = mode is Mode.REVERSE
    many = backend.case.vjp_many if reverse else backend.case.jvp_many
    for _ in range(3):
        np.testing.assert_allclose(
            many(np.eye(4 if reverse else 6)), backend.jacobian if reverse else backend.jacobian.T
        )
    cost = backend.case.cost
    if reverse:
        assert (backend.cotangents, backend.vjps, cost.vjps, cost.jvps) == ([5, 4, 4], 1, 1 + 13, 0)
    else:
        assert (backend.tangents, backend.jvps, cost.jvps, cost.vjps) == ([7, 6, 6], 1, 1 + 19, 0)


@SPOILED
@pytest.mark.parametrize("mode", Mode)
def test_derivatives_are_applied_one_by_one_where_the_batch_is_wrong(mode: Mode, spoil: Any) -> None:
    backend = Backend(spoil)
    reverse = mode is Mode.REVERSE
    many = backend.case.vjp_many if reverse else backend.case.jvp_many
    for _ in range(2):
        np.testing.assert_allclose(
            many(np.eye(4 if reverse else 6)), backend.jacobian if reverse else backend.jacobian.T
        )
    tries = 1 if spoil is missing else 2  # a batch of vjps that is wrong may be so once only, and is asked again
    assert (len(backend.cotangents), len(backend.tangents)) == ((tries, 0) if reverse else (0, 1))
    assert (backend.vjps, backend.jvps) == ((1 + 8, 0) if reverse else (0, 1 + 12))
    assert backend.case.batch_flaw(mode) is not None


def test_the_witness_is_the_shared_question_and_costs_nothing_where_it_is_known() -> None:
    backend = Backend()
    shared = backend.case.pullback
    backend.case.vjp_many(np.eye(4))
    assert backend.vjps == 1
    assert backend.case.pullback is shared


def test_a_wrong_batch_of_one_kind_says_nothing_of_the_others() -> None:
    backend = Backend()
    backend.spoil = doubled
    backend.case.vjp_many(np.eye(4))
    backend.spoil = lambda answers: answers
    backend.case.jvp_many(np.eye(6))
    backend.case.evaluate_many(POINTS)
    assert backend.case.batch_flaw(Mode.REVERSE) is not None
    assert backend.case.batch_flaw(Mode.FORWARD) is None
    assert backend.single == 1


def test_few_rows_are_looped_over() -> None:
    backend = Backend(least=7)
    backend.case.evaluate_many(POINTS)
    backend.case.vjp_many(np.eye(4))
    backend.case.jvp_many(np.eye(6))
    assert (backend.evaluations, backend.cotangents, backend.tangents) == ([], [], [])
    assert (backend.single, backend.vjps, backend.jvps) == (5, 4, 6)


def test_a_flaw_is_found_however_many_rows_a_batch_needs() -> None:
    assert Backend(least=10**9).case.batch_flaw(Mode.REVERSE) is None
    flaw = Backend(missing, least=10**9).case.batch_flaw(Mode.REVERSE)
    assert flaw is not None
    assert "no batching rule" in flaw.reason


@pytest.mark.parametrize(("mode", "name"), [(Mode.REVERSE, "vjp"), (Mode.FORWARD, "jvp")])
def test_a_derivative_that_has_no_batches_is_looped_over_and_has_that_flaw(mode: Mode, name: str) -> None:
    backend = Backend(**{name: None})
    if mode is Mode.REVERSE:
        np.testing.assert_allclose(backend.case.vjp_many(np.eye(4)), backend.jacobian)
    else:
        np.testing.assert_allclose(backend.case.jvp_many(np.eye(6)), backend.jacobian.T)
    flaw = backend.case.batch_flaw(mode)
    assert flaw is not None
    assert "not all inputs and outputs can be batched" in flaw.reason


def test_evaluations_that_have_no_batches_are_looped_over() -> None:
    backend = Backend(evaluate=None)
    np.testing.assert_array_equal(backend.case.evaluate_many(POINTS), backend.truth(POINTS))
    assert backend.single == 5


# blocks that do not move


def moved(*blocks: int) -> Any:
    """Points of which only these blocks differ from the point."""
    points = np.repeat(Backend.point[None], 5, axis=0)
    for k in blocks:
        columns = [slice(0, 2), slice(2, 3), slice(3, 6)][k]
        points[:, columns] = POINTS[:, columns]
    return points


@pytest.mark.parametrize(
    ("blocks", "still"),
    [((0,), {1, 2}), ((1,), {0, 2}), ((0, 2), {1}), ((0, 1, 2), set()), ((), set())],
)
def test_blocks_that_no_row_moves_are_left_single(blocks: tuple[int, ...], still: set[int]) -> None:
    backend = Backend()
    points = moved(*blocks)
    np.testing.assert_allclose(backend.case.evaluate_many(points), backend.truth(points))
    assert backend.evaluations == [((6, 6), slice(None), still)]


@pytest.mark.parametrize(
    ("run", "widened", "still"),
    [
        (slice(2, 3), slice(2, 3), {0, 2}),
        (slice(0, 2), slice(0, 2), {1, 2}),
        (slice(1, 2), slice(0, 2), {1, 2}),  # a part of a block: the rest of it is at the point
        (slice(4, 5), slice(3, 6), {0, 1}),
        (slice(0, 3), slice(0, 3), {2}),
        (slice(1, 5), slice(0, 6), set()),
    ],
)
def test_a_run_of_coordinates_moves_whole_blocks_only(run: slice, widened: slice, still: set[int]) -> None:
    backend = Backend()
    points = np.repeat(Backend.point[None], 5, axis=0)
    points[:, run] = POINTS[:, run]
    np.testing.assert_allclose(backend.case.evaluate_many(POINTS[:, run], run), backend.truth(points))
    ((shape, asked, single),) = backend.evaluations
    assert (asked, single) == (widened, still)
    assert shape == (6, widened.stop - widened.start)


def test_each_set_of_single_blocks_has_a_witness_of_its_own() -> None:
    backend = Backend()
    backend.case.evaluate_many(moved(0))
    backend.case.evaluate_many(moved(1))
    backend.case.evaluate_many(moved(0))
    assert [shape[0] for shape, _, _ in backend.evaluations] == [6, 6, 5]
    assert backend.single == 2


def test_where_single_blocks_make_a_batch_wrong_all_blocks_are_batched() -> None:
    """A batching rule may be wrong for a function of which only some arguments are batched."""
    backend = Backend()
    right_batch = backend._evaluate_many

    def confused(rows: Any, run: slice, still: frozenset[int]) -> Any:
        answers = right_batch(rows, run, still)
        return 2.0 * answers if still else answers

    case = Investigation(
        investigation(
            backend._evaluate,
            backend.point,
            inputs=backend.inputs,
            capabilities={Batching: Batching(confused, None, None, 2, 2)},
        ).problem
    )
    backend.single = 0
    for _ in range(2):
        np.testing.assert_allclose(case.evaluate_many(moved(0)), backend.truth(moved(0)))
    assert [still for _, _, still in backend.evaluations] == [{1, 2}, set(), set()]
    assert backend.single == 2  # the two witnesses


def test_the_witness_moves_all_coordinates_but_those_of_single_blocks() -> None:
    """Else a batch that reads its first row only would be trusted."""
    asked: list[Any] = []
    backend = Backend()

    def written_down(rows: Any, run: slice, still: frozenset[int]) -> Any:
        asked.append(rows[-1])
        return backend.truth(rows)

    case = investigation(
        backend._evaluate,
        backend.point,
        inputs=backend.inputs,
        capabilities={Batching: Batching(written_down, None, None, 2, 2)},
    )
    case.evaluate_many(POINTS)
    case.evaluate_many(moved(0))
    assert (asked[0] != backend.point).all()
    assert ((asked[1] != backend.point) == [True, True, False, False, False, False]).all()
    np.testing.assert_allclose(asked, [backend.point] * 2, rtol=1e-5)


def test_a_batch_that_the_budget_does_not_allow_is_not_run() -> None:
    backend = Backend()
    case = Investigation(backend.case.problem, cost=Cost(most_evaluations=6))
    with pytest.raises(BudgetExhausted):
        case.evaluate_many(POINTS)
    assert backend.evaluations == []


def test_a_function_that_refuses_a_point_raises_for_the_one_who_asked() -> None:
    """In a batch the refusal of one row is that of all; the loop then meets it again."""

    def guarded(x: Any) -> Any:
        if x[0] > 2.0:
            raise ValueError("too far")
        return x

    def batched(rows: Any, run: slice, still: frozenset[int]) -> Any:
        return np.stack([guarded(row) for row in rows])

    case = investigation(guarded, np.ones(2), capabilities={Batching: Batching(batched, None, None, 2, 2)})
    with pytest.raises(ValueError, match="too far"):
        case.evaluate_many(np.array([[1.0, 1.5], [3.0, 1.5], [1.0, 1.1]]))


def test_a_batch_that_rounds_otherwise_has_no_flaw_where_that_much_was_measured() -> None:
    batch, _, _ = batch_of(lambda rows: right(rows) * 1.001)
    trust, ways = batch.trust, batch.ways
    assert trust.flaw(ways, 1e-4) is not None
    assert trust.flaw(ways, 1e-2) is None


@pytest.mark.parametrize("wrong", [raising, nothing_but_nan])
def test_a_batch_without_an_answer_is_a_flaw_however_noisy_the_function(wrong: Any) -> None:
    batch, _, _ = batch_of(wrong)
    assert batch.trust.flaw(batch.ways, 1.0) is not None
