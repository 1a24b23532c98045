"""Columns that share no output are measured together, and nothing wrong hides in a group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, Part, investigation
from hypothesis import given, settings
from hypothesis import strategies as st

from gradproof.core.colours import colour, confirmed
from gradproof.core.entries import every_entry
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.tolerances import Tolerances

SIZE = 200
OPTIONS = Options(atol=1e-5, rtol=1e-3)
POINT = np.random.default_rng(3).uniform(0.5, 1.5, SIZE)


def diagonal() -> Any:
    return np.diag(np.cos(POINT))


def sine(claimed: Any, **options: Any) -> Investigation:
    return investigation(np.sin, POINT, claimed, **options)


def found(case: Investigation, options: Options = OPTIONS) -> set[tuple[int, int]]:
    """The wrong entries of the Jacobian."""
    return {
        (int(row), int(column))
        for judged in every_entry(case, options, (Mode.REVERSE,)).judged
        for row, column, status in zip(judged.suspects.rows, judged.suspects.columns, judged.status, strict=True)
        if status == Status.WRONG.rank
    }


@given(st.integers(1, 40), st.integers(2, 40), st.floats(0.0, 0.3), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_no_row_has_two_columns_of_one_group(height: int, width: int, density: float, seed: int) -> None:
    pattern = np.random.default_rng(seed).random((height, width)) < density
    groups = colour(pattern)
    if groups is not None:
        assert groups.max() < width / 2
        for group in range(groups.max() + 1):
            assert pattern[:, groups == group].sum(axis=1).max(initial=0) <= 1


def test_a_dense_pattern_is_not_grouped() -> None:
    assert colour(np.ones((5, 20), dtype=bool)) is None


def test_equal_patterns_are_spread_over_as_many_groups_as_there_are() -> None:
    blocks = np.kron(np.eye(8, dtype=bool), np.ones((3, 5), dtype=bool))
    groups = colour(blocks)
    assert groups is not None
    assert sorted(set(groups.tolist())) == [0, 1, 2, 3, 4]


SURVEY = 4  # evaluations that tell a certificate whether there are kinks


def test_a_right_diagonal_costs_two_evaluations() -> None:
    case = sine(diagonal())
    before = case.cost.evaluations
    assert found(case) == set()
    assert case.cost.evaluations - before == 2 + SURVEY


def test_a_dense_jacobian_costs_two_evaluations_for_each_input() -> None:
    matrix = np.random.default_rng(0).normal(size=(30, 40))
    case = investigation(lambda x: matrix @ x, np.ones(40), matrix)
    before = case.cost.evaluations
    assert found(case) == set()
    assert case.cost.evaluations - before == 80 + SURVEY


@pytest.mark.parametrize("entry", [(7, 7), (7, 8), (199, 0)], ids=["on the diagonal", "beside it", "in a corner"])
@pytest.mark.parametrize("off", [2.5e-3, -1.0, np.nan])
def test_one_wrong_claim_is_found(entry: tuple[int, int], off: float) -> None:
    claimed = diagonal()
    claimed[entry] += off
    assert found(sine(claimed)) == {entry}


def test_a_derivative_that_is_not_claimed_at_all_is_found() -> None:
    def leaks(x: Any) -> Any:
        y = np.sin(x)
        y[3] += 0.01 * x[150]
        return y

    assert found(investigation(leaks, POINT, diagonal())) == {(3, 150)}


def test_two_claims_in_each_others_place_do_not_cancel() -> None:
    """Row 5 claims the derivative of input 6 in place of 5, for every pair of neighbours."""
    claimed = diagonal()
    for k in range(SIZE - 1):
        swapped = claimed.copy()
        swapped[k, k], swapped[k, k + 1] = 0.0, claimed[k, k]
        assert found(sine(swapped)) == {(k, k), (k, k + 1)}


def test_errors_within_tolerance_are_forgiven_entry_by_entry() -> None:
    claimed = diagonal()
    claimed[20, 20] += 0.5e-5
    assert found(sine(claimed)) == set()


@pytest.mark.parametrize(
    ("case", "options"),
    [
        (sine(diagonal()), Options(atol=1e-5, rtol=1e-3, step=1e-6)),
        (sine(diagonal()), Options()),
        (sine(diagonal(), inputs=[Part((SIZE,), eps=SINGLE)]), OPTIONS),
    ],
    ids=["a fixed step", "no tolerance yet", "single precision"],
)
def test_what_is_measured_one_by_one(case: Investigation, options: Options) -> None:
    stencil = Stencil(case, options.step)
    assert confirmed(stencil, Tolerances(stencil, options), diagonal(), slice(0, SIZE), 64) is None


def test_a_kink_sends_its_group_to_single_measurements() -> None:
    point = POINT.copy()
    point[11] = 0.0
    claimed = np.diag(np.sign(point))
    stencil = Stencil(investigation(np.abs, point, claimed), None)
    claimed[11, 11] = 1.0
    settled = confirmed(stencil, Tolerances(stencil, OPTIONS), claimed, slice(0, SIZE), 64)
    assert settled is not None
    assert not settled.columns.any()


def test_some_rows_and_few_groups_at_a_time_give_the_same() -> None:
    matrix = np.kron(np.eye(20), np.random.default_rng(0).normal(size=(3, 4)))
    stencil = Stencil(investigation(lambda x: matrix @ x, np.ones(80), matrix), None)
    tolerances = Tolerances(stencil, OPTIONS)
    rows = slice(15, 45)
    settled = confirmed(stencil, tolerances, matrix[rows], rows, 2)
    assert settled is not None
    assert settled.columns.all()
    wrong = matrix[rows].copy()
    wrong[0, 20] += 1.0
    settled = confirmed(stencil, tolerances, wrong, rows, 2)
    assert settled is not None
    assert not settled.columns[20]
    assert settled.columns.any()


FORGOTTEN = {
    "a sum of small multiples": lambda x: np.arange(1.0, len(x) + 1) @ x,
    "an equal sum": lambda x: x.sum(),
    "a difference": lambda x: 5 * x[0] - 3 * x[1],
    "a product": lambda x: np.prod(x),
    "a product with a square": lambda x: np.prod(x) * x[-1],
    "a quotient": lambda x: x[0] / x[1] ** 2,
    "a quotient of powers": lambda x: x[0] ** 5 / x[1] ** 3,
}


@pytest.mark.parametrize("size", range(2, 9))
@pytest.mark.parametrize("name", FORGOTTEN)
def test_errors_that_are_small_multiples_of_each_other_do_not_cancel(name: str, size: int) -> None:
    """A claim that forgets a term is wrong in every column at once, by numbers with simple ratios."""
    for point in (np.ones(size), POINT[:size]):
        for seed in range(3):
            diagonal_only = investigation(
                lambda x: np.sin(x) + FORGOTTEN[name](x), point, np.diag(np.cos(point)), seed=seed
            )
            assert found(diagonal_only), (name, size, seed)
            nothing = investigation(FORGOTTEN[name], point, np.zeros((1, size)), seed=seed)
            assert found(nothing), (name, size, seed)
