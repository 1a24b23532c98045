"""What every Problem shares: probes, cached answers, loops."""

from __future__ import annotations

import numpy as np
import pytest
from array_problem import ArrayProblem, Part
from hypothesis import given
from hypothesis import strategies as st

from gradproof.core.problem import by_rows, random_probe


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


def test_many_questions_are_answered_row_by_row() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    problem = ArrayProblem(lambda x: matrix @ x, np.ones(3), matrix)
    np.testing.assert_array_equal(problem.vjp_many(np.eye(2)), matrix)
    np.testing.assert_array_equal(problem.jvp_many(np.eye(3)), matrix.T)
    np.testing.assert_array_equal(problem.evaluate_many(np.eye(3)), matrix.T)
    assert by_rows(problem.vjp, np.empty((0, 2)), 3).shape == (0, 3)


def test_rows_may_hold_some_coordinates_only() -> None:
    matrix = np.arange(8.0).reshape(2, 4)
    problem = ArrayProblem(lambda x: matrix @ x, np.ones(4), matrix)
    rows = np.array([[5.0, 6.0], [7.0, 8.0]])
    whole = np.array([[1.0, 5.0, 6.0, 1.0], [1.0, 7.0, 8.0, 1.0]])
    np.testing.assert_array_equal(problem.points(rows, slice(1, 3)), whole)
    np.testing.assert_array_equal(problem.evaluate_many(rows, slice(1, 3)), whole @ matrix.T)


def test_the_scale_of_a_point_is_never_zero() -> None:
    problem = ArrayProblem(np.sin, np.array([3.0, -4.0, 0.0, 0.0]), inputs=[Part((2,)), Part((2,))])
    np.testing.assert_array_equal(problem.scale, [3.0, 4.0, 1.0, 1.0])


def test_the_shared_answers_are_asked_for_once() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    problem = ArrayProblem(lambda x: matrix @ x, np.ones(3), matrix)
    assert problem.pullback is problem.pullback
    assert problem.pushforward is problem.pushforward
    np.testing.assert_allclose(problem.pullback, matrix.T @ problem.cotangent)
    np.testing.assert_allclose(problem.pushforward, matrix @ problem.tangent)
    assert (problem.cost.vjps, problem.cost.jvps) == (1, 1)
