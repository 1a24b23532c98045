"""Thirty-five test problems of optimisation: their Jacobians and gradients pass, and planted errors are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from more_garbow_hillstrom import PROBLEMS, Nonlinear

import gradproof
from gradproof import Verdict

EACH = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


def start(problem: Nonlinear) -> Any:
    return np.asarray(problem.start, dtype=float)


def elsewhere(problem: Nonlinear) -> Any:
    x = start(problem)
    return x + 0.05 * np.where(x == 0, 1.0, x) * np.random.default_rng(3).uniform(-1, 1, x.shape)


def test_there_are_thirty_five() -> None:
    assert len(PROBLEMS) == 35


@EACH
@pytest.mark.parametrize("point", [start, elsewhere])
def test_a_jacobian_passes(problem: Nonlinear, point: Any) -> None:
    report = gradproof.check(problem.residuals, point(problem), jac=problem.jacobian)
    assert report.verdict is Verdict.PASS, str(report)


@EACH
def test_a_sparse_jacobian_passes(problem: Nonlinear) -> None:
    def sparse(x: Any) -> Any:
        return scipy.sparse.csr_array(problem.jacobian(x))

    report = gradproof.check(problem.residuals, elsewhere(problem), jac=sparse)
    assert report.verdict is Verdict.PASS, str(report)


@EACH
@pytest.mark.parametrize("point", [start, elsewhere])
def test_a_gradient_passes(problem: Nonlinear, point: Any) -> None:
    def energy(x: Any) -> Any:
        return 0.5 * (problem.residuals(x) ** 2).sum()

    def gradient(x: Any) -> Any:
        return problem.jacobian(x).T @ problem.residuals(x)

    report = gradproof.check(energy, point(problem), grad=gradient)
    assert report.verdict is Verdict.PASS, str(report)


@EACH
def test_a_wrong_entry_is_named_by_row_and_column(problem: Nonlinear) -> None:
    x = elsewhere(problem)
    right = problem.jacobian(x)
    row, column = (int(k) for k in np.unravel_index(np.argsort(np.abs(right), axis=None)[-3], right.shape))

    def wrong(x: Any) -> Any:
        jac = problem.jacobian(x)
        jac[row, column] *= 1.001
        return jac

    report = gradproof.check(problem.residuals, x, jac=wrong)
    assert report.verdict is Verdict.FAIL, str(report)
    finding = report.findings[0]
    assert (finding.output_element, finding.input_element) == ((row,), (column,))
    assert f"the worst is row {row}, column {column} of jac" in finding.message
    assert finding.wrong == 1


@EACH
def test_an_entry_that_is_missing_from_the_pattern_is_named_as_such(problem: Nonlinear) -> None:
    x = elsewhere(problem)
    right = problem.jacobian(x)
    row, column = (int(k) for k in np.unravel_index(np.argsort(np.abs(right), axis=None)[-3], right.shape))

    def holey(x: Any) -> Any:
        jac = problem.jacobian(x)
        jac[row, column] = 0.0
        return scipy.sparse.csr_array(jac)

    report = gradproof.check(problem.residuals, x, jac=holey)
    assert report.verdict is Verdict.FAIL, str(report)
    assert f"missing from the sparsity pattern of jac: row {row}, column {column}" in report.findings[0].hint


@EACH
def test_an_error_just_above_the_certificate_fails(problem: Nonlinear) -> None:
    x = elsewhere(problem)
    report = gradproof.check(problem.residuals, x, jac=problem.jacobian)
    (pair,) = report.pairs
    assert pair.smallest is not None
    draw = np.random.default_rng(1)
    row, column = draw.integers(report.outputs[0].size), draw.integers(x.size)

    def wrong(x: Any) -> Any:
        jac = problem.jacobian(x)
        jac[row, column] += 1.2 * pair.smallest
        return jac

    report = gradproof.check(problem.residuals, x, jac=wrong)
    assert report.verdict is Verdict.FAIL, str(report)
