"""gradproof.scipy: check_grad beside SciPy's own, and whole problems of its solvers."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from scipy.integrate import solve_ivp
from scipy.optimize import (
    Bounds,
    LinearConstraint,
    NonlinearConstraint,
    least_squares,
    minimize,
    root,
    rosen,
    rosen_der,
    rosen_hess,
    rosen_hess_prod,
)
from scipy.sparse.linalg import LinearOperator

import gradproof.scipy
from gradproof import CheckFailedError, Verdict
from gradproof.core.problem import NothingToCheckError
from gradproof.scipy import ProblemReport, check_grad, check_problem

X = np.array([1.3, 0.7, 0.8, 1.9, 1.2])


# check_grad


def test_the_signature_is_scipys() -> None:
    theirs = inspect.signature(scipy.optimize.check_grad).parameters
    mine = inspect.signature(check_grad).parameters
    assert [(p.name, p.kind) for p in mine.values()] == [(p.name, p.kind) for p in theirs.values()]
    assert mine["epsilon"].default == theirs["epsilon"].default
    assert mine["direction"].default == theirs["direction"].default


@pytest.mark.parametrize("function", [rosen, lambda x: rosen(x.astype(float, casting="safe"))])
def test_a_right_gradient_leaves_nothing(function: Any) -> None:
    mine, theirs = check_grad(function, rosen_der, X), scipy.optimize.check_grad(function, rosen_der, X)
    assert type(mine) is float
    assert mine < 1e-7 < theirs


@pytest.mark.parametrize("direction", ["all", "random"])
@pytest.mark.parametrize("error", [1e-2, 1.0, 30.0])
def test_of_a_wrong_gradient_the_norm_of_the_difference(direction: str, error: float) -> None:
    def wrong(x: Any) -> Any:
        return rosen_der(x) + error * np.array([1, 0, 0, -1, 0])

    mine = check_grad(rosen, wrong, X, direction=direction, rng=np.random.default_rng(5))
    theirs = scipy.optimize.check_grad(rosen, wrong, X, direction=direction, rng=np.random.default_rng(5))
    assert mine == pytest.approx(theirs, rel=1e-2)
    if direction == "all":
        assert mine == pytest.approx(error * np.sqrt(2), rel=1e-9)


def test_a_jacobian_and_arguments() -> None:
    def scaled(x: Any, factor: float) -> Any:
        return factor * rosen_der(x)

    assert check_grad(scaled, lambda x, factor: factor * rosen_hess(x), X, 3.0) < 1e-6
    wrong = check_grad(scaled, lambda x, factor: factor * rosen_hess(x) + 1.0, X, 3.0)
    assert wrong == pytest.approx(5.0)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-4, np.array([1e-6, 1e-5, 1e-6, 1e-4, 1e-6])])
def test_another_epsilon_is_a_forward_difference(epsilon: Any) -> None:
    mine = check_grad(rosen, rosen_der, X, epsilon=epsilon)
    assert mine == pytest.approx(scipy.optimize.check_grad(rosen, rosen_der, X, epsilon=epsilon), rel=1e-2)
    assert mine > 1e-6


def test_what_scipy_refuses() -> None:
    with pytest.raises(ValueError, match="north is not a valid string for ``direction`` argument"):
        check_grad(rosen, rosen_der, X, direction="north")
    with pytest.raises(ValueError, match="'random' can only be used with scalar valued func"):
        check_grad(rosen_der, rosen_hess, X, direction="random")


# check_problem


def circle(x: Any) -> Any:
    return np.array([x[0] ** 2 + x[1] ** 2, x[0] * x[1]])


def circle_jac(x: Any) -> Any:
    return np.array([[2 * x[0], 2 * x[1]], [x[1], x[0]]])


def circle_hess(x: Any, v: Any) -> Any:
    return v[0] * np.array([[2.0, 0.0], [0.0, 2.0]]) + v[1] * np.array([[0.0, 1.0], [1.0, 0.0]])


def residuals(x: Any) -> Any:
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def residuals_jac(x: Any) -> Any:
    return np.array([[-20 * x[0], 10], [-1, 0]])


def oscillator(t: float, y: Any, mu: float) -> Any:
    return [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0] + t]


def oscillator_jac(t: float, y: Any, mu: float) -> Any:
    return [[0, 1], [-2 * mu * y[0] * y[1] - 1, mu * (1 - y[0] ** 2)]]


def cauchy(z: Any) -> Any:
    return np.stack([np.log1p(z), 1 / (1 + z), -1 / (1 + z) ** 2])


def plus(matrix: Any, *entry: int) -> Any:
    matrix = np.array(matrix, dtype=float)
    matrix[entry] += 0.01
    return matrix


START = [0.5, 0.25]
RIGHT: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "jac": ((minimize, rosen, START), {"jac": rosen_der}),
    "jac=True": ((minimize, lambda x: (rosen(x), rosen_der(x)), START), {"jac": True}),
    "hess and hessp": ((minimize, rosen, START), {"jac": rosen_der, "hess": rosen_hess, "hessp": rosen_hess_prod}),
    "hess alone": ((minimize, rosen, START), {"jac": "2-point", "hess": rosen_hess}),
    "args": ((minimize, lambda x, a: a * rosen(x), START, (3.0,)), {"jac": lambda x, a: a * rosen_der(x)}),
    "one argument": ((minimize, lambda x, a: a * rosen(x), START), {"args": 3.0, "jac": lambda x, a: a * rosen_der(x)}),
    "bounds": ((minimize, rosen, [0.0, 1.0]), {"jac": rosen_der, "bounds": [(0, None), (None, 1)]}),
    "dictionaries": (
        (minimize, rosen, START),
        {
            "constraints": [
                {"type": "eq", "fun": lambda x: x[0] ** 2 + x[1], "jac": lambda x: [2 * x[0], 1]},
                {"type": "ineq", "fun": circle, "jac": circle_jac},
                {
                    "type": "ineq",
                    "fun": lambda x, a: a * circle(x),
                    "jac": lambda x, a: a * circle_jac(x),
                    "args": (2,),
                },
            ]
        },
    ),
    "nonlinear": (
        (minimize, rosen, START),
        {"constraints": NonlinearConstraint(circle, 0, 1, jac=circle_jac, hess=circle_hess)},
    ),
    "sparse": (
        (minimize, rosen, START),
        {
            "constraints": NonlinearConstraint(
                circle,
                0,
                1,
                jac=lambda x: scipy.sparse.csr_array(circle_jac(x)),
                hess=lambda x, v: LinearOperator((2, 2), matvec=lambda p: circle_hess(x, v) @ p),
            )
        },
    ),
    "hess of a constraint alone": (
        (minimize, rosen, START),
        {"constraints": NonlinearConstraint(circle, 0, 1, jac="2-point", hess=circle_hess)},
    ),
    "linear": ((minimize, rosen, START), {"jac": rosen_der, "constraints": [LinearConstraint([[1, 2]], 0, 1)]}),
    "least squares": ((least_squares, residuals, START, residuals_jac), {}),
    "least squares in bounds": (
        (least_squares, residuals, [0.0, 1.0]),
        {"jac": lambda x: scipy.sparse.csr_array(residuals_jac(x)), "bounds": ([0, -np.inf], 1)},
    ),
    "loss": ((least_squares, residuals, START), {"loss": cauchy, "f_scale": 0.5}),
    "kwargs": (
        (least_squares, lambda x, *, a: a * residuals(x), START),
        {"jac": lambda x, *, a: a * residuals_jac(x), "kwargs": {"a": 2}},
    ),
    "root": ((root, residuals, START), {"jac": residuals_jac}),
    "root, jac=True": ((root, lambda x: (residuals(x), residuals_jac(x)), START), {"jac": True}),
    "col_deriv": ((root, residuals, START), {"jac": lambda x: residuals_jac(x).T, "options": {"col_deriv": 1}}),
    "solve_ivp": ((solve_ivp, oscillator, (0.0, 1.0), [2.0, 0.5]), {"jac": oscillator_jac, "args": (5.0,)}),
    "a constant jac": (
        (solve_ivp, lambda t, y: [y[1], -y[0]], (0.0, 1.0), [2.0, 0.5]),
        {"jac": [[0, 1], [-1, 0]], "method": "BDF"},
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_problem_passes(name: str) -> None:
    arguments, keywords = RIGHT[name]
    report = check_problem(*arguments, **keywords)
    assert isinstance(report, ProblemReport)
    assert report.verdict is Verdict.PASS, str(report)
    assert not report.not_covered
    assert len(report.cases) % 2 == 0


@pytest.mark.parametrize("name", RIGHT)
def test_the_solvers_take_the_same_arguments(name: str) -> None:
    """So that what is checked is a call that SciPy would understand."""
    (solver, *arguments), keywords = RIGHT[name]
    named = {**keywords, "method": "trust-constr"} if solver is minimize else keywords
    named = {**named, "method": "BDF"} if solver is solve_ivp else named
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if solver is minimize:
            named = {**named, "options": {"maxiter": 2}}
            if name == "hess and hessp":
                named.pop("hessp")
        solver(*arguments, **named)


def nonlinear(**changed: Any) -> Any:
    return NonlinearConstraint(circle, 0, 1, **{"jac": circle_jac, "hess": circle_hess, **changed})


WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any], str, str]] = {
    "jac": ((minimize, rosen, START), {"jac": lambda x: plus(rosen_der(x), 1)}, "fun", "element 1 of jac"),
    "jac=True": (
        (minimize, lambda x: (rosen(x), plus(rosen_der(x), 0)), START),
        {"jac": True},
        "fun",
        "element 0 of jac",
    ),
    "hess": (
        (minimize, rosen, START),
        {"jac": rosen_der, "hess": lambda x: plus(rosen_hess(x), 0, 1)},
        "fun",
        "row 0, column 1 of hess",
    ),
    "hess alone": (
        (minimize, rosen, START),
        {"hess": lambda x: plus(rosen_hess(x), 0, 1)},
        "hess of fun",
        "row 0, column 1 of",
    ),
    "hessp": (
        (minimize, rosen, START),
        {"jac": rosen_der, "hessp": lambda x, p: plus(rosen_hess(x), 1, 0) @ p},
        "fun",
        "row 1, column 0 of",
    ),
    "a dictionary": (
        (minimize, rosen, START),
        {"jac": rosen_der, "constraints": {"type": "ineq", "fun": circle, "jac": lambda x: plus(circle_jac(x), 1, 0)}},
        "constraints[0]",
        "row 1, column 0 of jac",
    ),
    "the second constraint": (
        (minimize, rosen, START),
        {"constraints": [nonlinear(), nonlinear(jac=lambda x: plus(circle_jac(x), 0, 1), hess="2-point")]},
        "constraints[1]",
        "row 0, column 1 of jac",
    ),
    "hess of a constraint": (
        (minimize, rosen, START),
        {"constraints": [nonlinear(hess=lambda x, v: plus(circle_hess(x, v), 0, 0))]},
        "constraints[0].hess",
        "row 0, column 0 of hess",
    ),
    "least squares": (
        (least_squares, residuals, START),
        {"jac": lambda x: plus(residuals_jac(x), 1, 1), "bounds": (0, 1)},
        "fun",
        "row 1, column 1 of jac",
    ),
    "loss": (
        (least_squares, residuals, START),
        {"loss": lambda z: cauchy(z) * [[1], [1], [2]]},
        "loss, row 1",
        "row 1, column 1 of",
    ),
    "root": (
        (root, residuals, START),
        {"jac": lambda x: plus(residuals_jac(x), 1, 0)},
        "fun",
        "row 1, column 0 of jac",
    ),
    "root, transposed": ((root, residuals, START), {"jac": lambda x: residuals_jac(x).T}, "fun", "of jac"),
    "solve_ivp": (
        (solve_ivp, oscillator, (0.0, 1.0), [2.0, 0.5]),
        {"jac": lambda t, y, mu: plus(oscillator_jac(t, y, mu), 1, 1), "args": (5.0,)},
        "fun",
        "row 1, column 1 of jac",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_derivative_is_named(name: str) -> None:
    arguments, keywords, subject, place = WRONG[name]
    report = check_problem(*arguments, **keywords)
    assert report.verdict is Verdict.FAIL, str(report)
    first = report.failures[0]
    assert first.name.startswith(f"{subject} ")
    assert place in str(report)
    assert {case.name.rsplit(" ", 2)[0] for case in report.failures} == {subject}
    with pytest.raises(CheckFailedError, match="FAIL"):
        report.raise_for_failure()


def test_at_zero_many_wrong_derivatives_are_right() -> None:
    report = check_problem(minimize, lambda x: (x**3).sum(), np.zeros(3), jac=lambda x: 30 * x**2)
    assert [case.name for case in report.failures] == ["fun near x0"]


def test_points_can_be_chosen() -> None:
    report = check_problem(minimize, rosen, START, jac=rosen_der, points=[[0, 0], [1, 2]])
    assert [case.name for case in report.cases] == ["fun at points[0]", "fun at points[1]"]


def test_a_start_outside_of_the_bounds_is_moved_into_them() -> None:
    report = check_problem(minimize, rosen, [5.0, 0.0], jac=rosen_der, bounds=Bounds(0, 1))
    assert report.ok
    assert "fun at x0, moved into the bounds" in [case.name for case in report.cases]


def test_a_point_without_a_value_is_told() -> None:
    def only_here(x: Any) -> Any:
        if not np.allclose(x, START, atol=1e-2):
            raise ValueError("elsewhere")
        return rosen(x)

    def nowhere_else(x: Any) -> Any:
        return rosen(x) if np.allclose(x, START, atol=1e-6) else np.nan

    report = check_problem(minimize, only_here, START, jac=rosen_der)
    assert report.ok
    assert not report.not_covered  # a hundredth away there is a value
    report = check_problem(minimize, nowhere_else, START, jac=rosen_der)
    assert report.not_covered == ("fun near x0 (it has no finite value there)",)
    assert "not covered: fun near x0" in str(report)


@pytest.mark.parametrize(
    ("fun", "keywords", "solver"),
    [
        (rosen, {"x0": START, "jac": rosen_der}, "minimize"),
        (residuals, {"x0": START, "jac": residuals_jac}, "root"),
        (residuals, {"x0": START, "jac": residuals_jac, "bounds": (-1, 1)}, "least_squares"),
        (residuals, {"x0": START, "jac": residuals_jac, "loss": "huber"}, "least_squares"),
        (rosen, {"x0": START, "jac": rosen_der, "hess": rosen_hess}, "minimize"),
        (lambda x: (rosen(x), rosen_der(x)), {"x0": START, "jac": True}, "minimize"),
        (oscillator, {"t_span": (0, 1), "y0": [2, 0.5], "args": (5.0,), "jac": oscillator_jac}, "solve_ivp"),
    ],
)
def test_the_solver_is_told_by_the_arguments(fun: Any, keywords: Any, solver: str) -> None:
    for report in (check_problem(fun, **keywords), check_problem(fun, solver=solver, **keywords)):
        assert report.subject == f"{solver} problem"
        assert report.ok, str(report)


def test_positional_arguments_need_a_solver() -> None:
    with pytest.raises(TypeError, match="which solver are these arguments for"):
        check_problem(rosen, START, (), jac=rosen_der)
    assert check_problem(rosen, START, (), jac=rosen_der, solver="minimize")
    assert check_problem(rosen, START, jac=rosen_der)
    with pytest.raises(ValueError, match="unknown solver 'maximize'"):
        check_problem(rosen, START, solver="maximize")


@pytest.mark.parametrize("keywords", [{}, {"jac": "3-point"}, {"jac": None, "hess": scipy.optimize.BFGS()}])
def test_a_problem_without_derivatives_is_an_error(keywords: Any) -> None:
    with pytest.raises(NothingToCheckError, match="no derivative was given as a function"):
        check_problem(minimize, rosen, START, **keywords)


def test_what_is_no_constraint_is_refused() -> None:
    with pytest.raises(TypeError, match=r"constraints\[0\] is no constraint"):
        check_problem(minimize, rosen, START, constraints=[3])


def test_reports_have_every_form(tmp_path: Any) -> None:
    arguments, keywords, _, _ = WRONG["hess of a constraint"]
    report = check_problem(*arguments, **keywords)
    report.to_html(tmp_path / "problem.html")
    page = (tmp_path / "problem.html").read_text(encoding="utf-8")
    assert "constraints[0].hess at x0" in page
    assert "constraints[0].hess near x0" in report.to_json()


def test_nothing_is_changed() -> None:
    x0, before = np.array(START), np.random.get_state()[1].tolist()

    def careless(x: Any) -> Any:
        value = rosen(x) + 0 * np.random.rand()
        x[:] = 9
        return value

    report = check_problem(minimize, careless, x0, jac=rosen_der)
    assert x0.tolist() == START
    assert np.random.get_state()[1].tolist() == before
    assert report.failures[0].report.findings[0].property == "mutation"


def test_what_is_exported() -> None:
    assert sorted(gradproof.scipy.__all__) == ["ProblemReport", "check_grad", "check_problem"]


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(TypeError, match=r"minimize has no argument hes: it has .*hess, hessp, jac"):
        check_problem(minimize, rosen, START, jac=rosen_der, hes=lambda x: x)
    assert check_problem(minimize, rosen, START, jac=rosen_der, tol=1e-3, options={}, callback=None)
    assert check_problem(solve_ivp, oscillator, (0.0, 1.0), [2.0, 0.5], jac=oscillator_jac, args=(5.0,), max_step=0.1)


@pytest.mark.parametrize(("points", "sentence"), [([], "points is empty"), ([[1.0] * 7], r"points\[0\] has shape")])
def test_points_that_are_none_are_refused(points: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_problem(minimize, rosen, START, jac=rosen_der, points=points)


def test_a_jac_that_is_wrong_at_later_times_is_found() -> None:
    def fun(t: Any, y: Any) -> Any:
        return -y + t * y**2

    right = check_problem(solve_ivp, fun, (0.0, 1.0), [2.0], jac=lambda t, y: [[-1 + 2 * t * y[0]]])
    assert right.verdict is Verdict.PASS, str(right)
    wrong = check_problem(solve_ivp, fun, (0.0, 1.0), [2.0], jac=lambda t, y: [[-1 + t * y[0]]])
    assert [case.name for case in wrong.failures] == ["fun near x0"]


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-8, -1e-8, 1e-10, -1e-10, 1e-12])
@pytest.mark.parametrize("direction", ["all", "random"])
def test_check_grad_beside_a_kink_takes_the_slope_of_the_side_that_the_point_is_on(
    distance: float, direction: str
) -> None:
    def hinge(x: Any) -> Any:
        return np.maximum(x, 0.0).sum() + np.abs(x - 1.0).sum()

    def right(x: Any) -> Any:
        return 1.0 * (x > 0) + np.sign(x - 1.0)

    def mean(x: Any) -> Any:
        return np.where(x == 1.0 + distance, 1.0, right(x))

    x = np.array([0.7, 1.0 + distance, -1.3])
    assert check_grad(hinge, right, x, direction=direction, rng=1) < 1e-3
    assert check_grad(hinge, mean, x, direction=direction, rng=1) > 0.1


@pytest.mark.parametrize("distance", [0.0, 1e-15, -1e-15, 1e-16, -1e-20, 1e-300])
@pytest.mark.parametrize("direction", ["all", "random"])
def test_check_grad_at_a_kink_or_nearer_to_it_than_round_off_excuses_what_lies_between_the_sides(
    distance: float, direction: str
) -> None:
    def lasso(x: Any) -> Any:
        return (x**2).sum() + np.abs(x).sum()

    def right(x: Any) -> Any:
        return 2.0 * x + np.sign(x)

    def beyond(x: Any) -> Any:
        return 2.0 * x + np.where(x == distance, 1.25, np.sign(x))

    x = np.array([1.0, distance, -1.3])
    assert check_grad(lasso, right, x, direction=direction, rng=1) < 1e-6
    along = np.random.default_rng(1).standard_normal(3)[1] if direction == "random" else 1.0
    assert check_grad(lasso, beyond, x, direction=direction, rng=1) == pytest.approx(0.25 * abs(along), rel=1e-3)


def test_check_grad_excuses_nothing_at_a_jump() -> None:
    def step(x: Any) -> Any:
        return np.where(x < 1.0, 0.0, 1.0 + x).sum()

    assert not check_grad(step, np.ones_like, np.array([1.0])) < 1.0
