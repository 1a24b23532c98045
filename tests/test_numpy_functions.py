"""gradproof.check of NumPy functions: every way to give a derivative, right and wrong."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import Bounds, rosen, rosen_der, rosen_hess, rosen_hess_prod
from scipy.sparse.linalg import LinearOperator

import gradproof
from gradproof import Report, Status, Verdict
from gradproof.core.problem import Mode, NothingToCheckError

X = np.array([1.3, 0.7, 0.8, 1.9, 1.2])
A = np.random.default_rng(0).normal(size=(4, 5))


def f(x: Any) -> Any:
    return np.tanh(A @ x)


def jac(x: Any) -> Any:
    return A / np.cosh(A @ x)[:, None] ** 2


def properties(report: Report) -> set[str]:
    return {finding.property for finding in report.findings if finding.status is Status.WRONG}


def differences(function: Any) -> Any:
    """The same function, which takes no complex numbers: then differences are the numerical side."""

    def real(x: Any, *args: Any) -> Any:
        return function(np.asarray(x).astype(np.float64, casting="safe"), *args)

    return real


# ways to give a derivative

RIGHT = {
    "jac": {"jac": jac},
    "nested lists": {"jac": lambda x: jac(x).tolist()},
    "a sparse array": {"jac": lambda x: scipy.sparse.coo_array(jac(x))},
    "a sparse matrix": {"jac": lambda x: scipy.sparse.csc_matrix(jac(x))},
    "an operator": {
        "jac": lambda x: LinearOperator((4, 5), matvec=lambda u: jac(x) @ u, rmatvec=lambda v: jac(x).T @ v)
    },
    "an operator without adjoint": {"jac": lambda x: LinearOperator((4, 5), matvec=lambda u: jac(x) @ u)},
    "vjp": {"vjp": lambda x, v: jac(x).T @ v},
    "jvp": {"jvp": lambda x, u: jac(x) @ u},
    "vjp and jvp": {"vjp": lambda x, v: jac(x).T @ v, "jvp": lambda x, u: jac(x) @ u},
    "jac and jvp": {"jac": jac, "jvp": lambda x, u: jac(x) @ u},
    "jac and vjp": {"jac": jac, "vjp": lambda x, v: jac(x).T @ v},
}


def spoilt(x: Any) -> Any:
    wrong = jac(x)
    wrong[2, 3] += 1e-4
    return wrong


WRONG = {
    "jac": {"jac": spoilt},
    "a sparse array": {"jac": lambda x: scipy.sparse.coo_array(spoilt(x))},
    "rmatvec": {
        "jac": lambda x: LinearOperator((4, 5), matvec=lambda u: jac(x) @ u, rmatvec=lambda v: spoilt(x).T @ v)
    },
    "matvec": {"jac": lambda x: LinearOperator((4, 5), matvec=lambda u: spoilt(x) @ u, rmatvec=lambda v: jac(x).T @ v)},
    "matvec without adjoint": {"jac": lambda x: LinearOperator((4, 5), matvec=lambda u: spoilt(x) @ u)},
    "vjp": {"vjp": lambda x, v: spoilt(x).T @ v},
    "jvp": {"jvp": lambda x, u: spoilt(x) @ u},
    "jvp beside a right jac": {"jac": jac, "jvp": lambda x, u: spoilt(x) @ u},
    "jac beside a right vjp": {"jac": spoilt, "vjp": lambda x, v: jac(x).T @ v},
}
BOTH = pytest.mark.parametrize("function", [f, differences(f)], ids=["complex step", "differences"])


@BOTH
@pytest.mark.parametrize("given", RIGHT.values(), ids=RIGHT)
def test_a_right_derivative_passes(function: Any, given: dict[str, Any]) -> None:
    report = gradproof.check(function, X, **given)
    assert report.verdict is Verdict.PASS, str(report)
    assert report.certificate is not None


@BOTH
@pytest.mark.parametrize("given", WRONG.values(), ids=WRONG)
def test_a_wrong_entry_is_named(function: Any, given: dict[str, Any]) -> None:
    report = gradproof.check(function, X, **given)
    assert report.verdict is Verdict.FAIL, str(report)
    (finding, *_) = [finding for finding in report.findings if finding.property == "jacobian"]
    assert (finding.output_element, finding.input_element) == ((2,), (3,))
    assert "row 2, column 3 of" in finding.message


def test_the_modes_follow_from_what_is_given() -> None:
    assert gradproof.check(f, X, jac=jac).modes == (Mode.REVERSE,)
    assert gradproof.check(f, X, jvp=RIGHT["jvp"]["jvp"]).modes == (Mode.FORWARD,)
    assert gradproof.check(f, X, **RIGHT["an operator"]).modes == (Mode.REVERSE, Mode.FORWARD)
    assert gradproof.check(f, X, **RIGHT["an operator without adjoint"]).modes == (Mode.FORWARD,)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"jac": lambda x: jac(x).T}, r"jac has shape \(5, 4\) where it should have shape \(4, 5\).* transpose"),
        ({"jac": lambda x: scipy.sparse.csr_array(jac(x).T)}, "It is the transpose of that"),
        ({"jac": lambda x: jac(x)[:3]}, r"jac has shape \(3, 5\)"),
        ({"vjp": lambda x, v: np.ones(4)}, r"vjp returned shape \(4,\) where it should return shape \(5,\)"),
        ({"jac": lambda x: "abc"}, "not an array of numbers"),
    ],
)
def test_a_wrong_shape_is_a_finding(given: Any, sentence: str) -> None:
    report = gradproof.check(f, X, **given)
    assert report.verdict is Verdict.FAIL
    import re

    assert re.search(sentence, report.findings[0].message), report.findings[0].message


def test_a_derivative_that_raises_is_a_finding() -> None:
    def raises(x: Any) -> Any:
        raise RuntimeError("no derivative today")

    report = gradproof.check(f, X, jac=raises)
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].status is Status.RAISED
    assert "no derivative today" in str(report)


def test_a_vjp_that_is_not_linear() -> None:
    report = gradproof.check(f, X, vjp=lambda x, v: jac(x).T @ np.abs(v))
    assert "linearity" in properties(report)
    assert "vjp is not linear in the cotangent" in str(report)


def test_a_jac_that_changes_from_call_to_call() -> None:
    draw = np.random.default_rng(0)
    report = gradproof.check(f, X, jac=lambda x: jac(x) * (1 + 1e-7 * draw.random()))
    assert "determinism" in properties(report)


# gradients and Hessians


def test_rosen() -> None:
    report = gradproof.check(rosen, X, grad=rosen_der, hess=rosen_hess, hessp=rosen_hess_prod)
    assert report.verdict is Verdict.PASS, str(report)
    assert report.entries == 5 + 25
    assert report.cost.jvps > 0


@pytest.mark.parametrize("n", [2, 50, 400])
@pytest.mark.parametrize("second", ["hess", "hessp"])
def test_rosen_of_many_numbers(n: int, second: str) -> None:
    x = np.random.default_rng(0).uniform(-2, 2, n)
    report = gradproof.check(
        rosen, x, grad=rosen_der, **{second: {"hess": rosen_hess, "hessp": rosen_hess_prod}[second]}
    )
    assert report.verdict is Verdict.PASS, str(report)


def test_a_wrong_gradient_is_named() -> None:
    def wrong(x: Any) -> Any:
        gradient = rosen_der(x)
        gradient[3] += 1e-2
        return gradient

    report = gradproof.check(rosen, X, grad=wrong)
    assert report.findings[0].input_element == (3,)
    assert "the worst is element 3 of grad" in report.findings[0].message


@pytest.mark.parametrize("entry", [(1, 3), (3, 1), (2, 2)])
def test_a_wrong_hessian_is_named(entry: tuple[int, int]) -> None:
    def wrong(x: Any) -> Any:
        hessian = rosen_hess(x)
        hessian[entry] += 0.1
        return hessian

    report = gradproof.check(rosen, X, grad=rosen_der, hess=wrong)
    (finding,) = [each for each in report.findings if each.property == "jacobian"]
    assert (finding.output_element, finding.input_element) == ((entry[0],), (entry[1],))
    assert finding.message.startswith("Second order: ")
    assert f"row {entry[0]}, column {entry[1]} of hess" in finding.message
    assert ("symmetry" in properties(report)) is (entry[0] != entry[1])


def test_a_wrong_hessp_is_named() -> None:
    def wrong(x: Any, p: Any) -> Any:
        product = rosen_hess_prod(x, p)
        product[0] += 0.01 * p[4]
        return product

    report = gradproof.check(rosen, X, grad=rosen_der, hessp=wrong)
    assert report.verdict is Verdict.FAIL
    assert (report.findings[0].output_element, report.findings[0].input_element) == ((0,), (4,))


def test_hess_and_hessp_that_contradict_each_other() -> None:
    report = gradproof.check(rosen, X, grad=rosen_der, hess=rosen_hess, hessp=lambda x, p: 2 * rosen_hess_prod(x, p))
    assert {"jacobian", "adjoint"} <= properties(report)


def test_the_hessian_of_a_gradient_that_is_itself_wrong() -> None:
    """Both are judged: the Hessian is that of the gradient that was given."""
    report = gradproof.check(rosen, X, grad=lambda x: 2 * rosen_der(x), hess=lambda x: 2 * rosen_hess(x))
    assert [finding.message.startswith("Second order") for finding in report.findings] == [False]


@pytest.mark.parametrize("given", [{"jac": rosen_der}, {"vjp": lambda x, v: v * rosen_der(x)}])
def test_the_gradient_may_be_a_jac_or_a_vjp(given: Any) -> None:
    assert gradproof.check(rosen, X, **given, hess=rosen_hess)
    assert not gradproof.check(rosen, X, **given, hess=lambda x: 1.01 * rosen_hess(x))


def test_a_sparse_hessian_and_an_operator() -> None:
    assert gradproof.check(rosen, X, grad=rosen_der, hess=lambda x: scipy.sparse.csr_array(rosen_hess(x)))

    def operator(x: Any) -> Any:
        return LinearOperator((5, 5), matvec=lambda p: rosen_hess_prod(x, p), rmatvec=lambda p: rosen_hess_prod(x, p))

    assert gradproof.check(rosen, X, grad=rosen_der, hess=operator)


def test_large_sparse_jacobians() -> None:
    n = 20_000

    def residuals(x: Any) -> Any:
        return x[1:] ** 2 - x[:-1]

    def sparse(x: Any) -> Any:
        return scipy.sparse.diags_array([-np.ones(n - 1), 2 * x[1:]], offsets=[0, 1], shape=(n - 1, n)).tocsr()

    def holey(x: Any) -> Any:
        matrix = sparse(x)
        matrix[1234, 1235] = 0.0
        matrix.eliminate_zeros()
        return matrix

    x = np.random.default_rng(0).normal(size=n)
    assert gradproof.check(residuals, x, jac=sparse)
    report = gradproof.check(residuals, x, jac=holey)
    assert report.findings[0].hint == "it is missing from the sparsity pattern of jac: row 1234, column 1235"


# inputs


def test_arguments_beside_x_are_constants() -> None:
    report = gradproof.check(lambda x, a, b: a * x**2 + b, (X, 3.0, np.ones(5)), jac=lambda x, a, b: np.diag(2 * a * x))
    assert report.verdict is Verdict.PASS, str(report)
    assert [line for line in report.not_covered if line.startswith("input 1 `a` (constant")]


def test_keywords_reach_both() -> None:
    def powered(x: Any, *, p: int) -> Any:
        return (x**p).sum()

    def powered_grad(x: Any, *, p: int) -> Any:
        return p * x ** (p - 1)

    assert gradproof.check(powered, X, {"p": 3}, grad=powered_grad)


@pytest.mark.parametrize("x", [0.7, np.float64(0.7), np.array(0.7), [0.7, 2], (np.array([0.7, 2]),), np.arange(1, 4)])
def test_numbers_lists_and_integers(x: Any) -> None:
    assert gradproof.check(lambda x: np.sum(np.asarray(x) ** 3), x, grad=lambda x: 3 * np.asarray(x) ** 2)
    assert not gradproof.check(lambda x: np.sum(np.asarray(x) ** 3), x, grad=lambda x: 2 * np.asarray(x) ** 2)


def test_matrices_as_inputs() -> None:
    x = np.arange(1.0, 7.0).reshape(2, 3)

    def wrong(x: Any) -> Any:
        gradient = 3 * x**2
        gradient[1, 2] = 0
        return gradient

    assert gradproof.check(lambda x: (x**3).sum(), x, grad=lambda x: 3 * x**2)
    report = gradproof.check(lambda x: (x**3).sum(), x, grad=wrong)
    assert report.findings[0].input_element == (1, 2)
    assert "element [1, 2] of grad" in report.findings[0].message


def test_several_inputs() -> None:
    x, w = np.random.default_rng(0).normal(size=(2, 3)), np.random.default_rng(1).normal(size=(3, 2))
    report = gradproof.check(
        np.matmul, (x, w), vjp=lambda x, v, w: (v @ w.T, x.T @ v), jvp=lambda x, u, w: u[0] @ w + x @ u[1], wrt=(0, 1)
    )
    assert report.verdict is Verdict.PASS, str(report)
    report = gradproof.check(np.matmul, (x, w), vjp=lambda x, v, w: (v @ w.T, v.T @ x), wrt=(0, 1))
    assert "vjp returned shape (2, 3) where it should return shape (3, 2)" in str(report)
    report = gradproof.check(np.matmul, (x, w), vjp=lambda x, v, w: v @ w.T, wrt=(0, 1))
    assert "vjp should return a tuple of 2" in str(report)
    assert gradproof.check(np.matmul, (x, w), vjp=lambda x, v, w: x.T @ v, wrt=1).covered == ("input 1",)


def test_complex_numbers() -> None:
    z = np.exp(1j * np.arange(4.0)) * np.arange(1, 5)
    assert gradproof.check(lambda z: z**2, z, jac=lambda z: np.diag(2 * z))  # holomorphic
    assert gradproof.check(lambda z: (np.abs(z) ** 2).sum(), z, grad=lambda z: 2 * z)
    assert gradproof.check(lambda x: np.exp(1j * x), X, jac=lambda x: np.diag(1j * np.exp(1j * x)))
    assert not gradproof.check(lambda z: z**2, z, jac=lambda z: np.diag(2 * z.conj()))
    assert not gradproof.check(lambda z: (np.abs(z) ** 2).sum(), z, grad=lambda z: 2 * z.conj())


def test_low_precision() -> None:
    x = X.astype(np.float32)
    assert gradproof.check(rosen, x, grad=rosen_der)
    report = gradproof.check(rosen, x, grad=lambda x: rosen_der(x) * np.float32(1.01))
    assert report.verdict is Verdict.FAIL


# never hurt the user


def test_nothing_is_changed() -> None:
    x, data = X.copy(), np.arange(5.0)
    generator = np.random.default_rng(0)
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist(), generator.bit_generator.state

    def careless(x: Any, data: Any, generator: Any) -> Any:
        value = (data * x**2).sum() + 0 * (np.random.rand() + random.random() + generator.random())
        x[:] = 7
        data[:] = 7
        return value

    report = gradproof.check(careless, (x, data, generator), grad=lambda x, data, generator: 2 * data * x)
    assert np.array_equal(x, X)
    assert np.array_equal(data, np.arange(5.0))
    assert (random.getstate(), np.random.get_state()[1].tolist(), generator.bit_generator.state) == before
    told = [finding.headline for finding in report.findings if finding.property == "mutation"]
    assert "The function overwrote input 1 `data` without declaring it." in told[0]
    assert "The function overwrote input 0 `x` without declaring it." in told[1]


@pytest.mark.parametrize("where", ["function", "gradient"])
def test_nothing_is_changed_by_an_exception(where: str) -> None:
    x, data, calls = X.copy(), np.arange(5.0), [0]

    def failing(x: Any, data: Any) -> Any:
        calls[0] += 1
        x[0] = data[0] = 9.0
        if calls[0] > 3 and where == "function":
            raise KeyboardInterrupt
        return (x**2).sum()

    def gradient(x: Any, data: Any) -> Any:
        data[1] = 9.0
        if where == "gradient":
            raise KeyboardInterrupt
        return 2 * x

    with pytest.raises(KeyboardInterrupt):
        gradproof.check(failing, (x, data), grad=gradient)
    assert np.array_equal(x, X)
    assert np.array_equal(data, np.arange(5.0))


def test_random_numbers_are_replayed() -> None:
    def noisy(x: Any) -> Any:
        return (np.random.default_rng if False else np.random.rand)(5) @ x

    np.random.seed(0)
    weights = np.random.RandomState(0).rand(5)
    assert gradproof.check(noisy, X, grad=lambda x: weights)


def test_a_grad_that_overwrites_x_is_named() -> None:
    def gradient(x: Any) -> Any:
        x *= 2
        return x

    report = gradproof.check(lambda x: (x**2).sum(), X, grad=gradient)
    assert properties(report) == {"mutation"}
    assert report.findings[0].headline.startswith("grad overwrote input 0 `x`")
    assert "x.copy()" not in report.findings[0].hint
    assert gradproof.check(lambda x: (x**2).sum(), X, grad=gradient, allow="mutation")


def test_a_function_that_is_not_deterministic() -> None:
    draw = np.random.default_rng(0)
    report = gradproof.check(lambda x: (x**2).sum() + draw.random(), X, grad=lambda x: 2 * x)
    assert "repeatability" in properties(report)


# the same report


def test_the_same_seed_gives_the_same_report() -> None:
    one, other = (gradproof.check(f, X, jac=spoilt, seed=4) for _ in range(2))
    assert one.findings == other.findings
    assert Report.from_json(one.to_json()).findings[0].message == one.findings[0].message


def test_budgets_bound_the_evaluations() -> None:
    counted = [0]

    def counting(x: Any) -> Any:
        counted[0] += 1
        return rosen(x)

    report = gradproof.check(counting, X, grad=lambda x: rosen_der(x) * 1.1, budget=5, strategy="entries")
    assert report.verdict is not Verdict.PASS


# what is refused


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"grad": rosen_der, "jac": rosen_der}, ValueError, "grad= and jac= are the same thing"),
        ({"grad": rosen_der, "vjp": rosen_der}, ValueError, "both derivatives in reverse mode"),
        ({"jac": 1.0, "vjp": rosen_der, "jvp": rosen_der}, ValueError, "three derivatives for two modes"),
        ({"hess": rosen_hess}, ValueError, "give grad= too"),
        ({"grad": 3.0}, TypeError, "grad= must be a function"),
        ({"grad": rosen_der, "order": 2}, ValueError, "order=2 needs the second derivative"),
        ({"grad": rosen_der, "intended": rosen}, ValueError, "pass the intended function itself"),
        ({"grad": rosen_der, "wrt": "y"}, ValueError, "wrt='y' selects nothing"),
        ({"grad": rosen_der, "bounds": [(0, 1)] * 3}, ValueError, "bounds has 3 pairs, but x has 5"),
        ({"grad": rosen_der, "bounds": [(2, 3)] * 5}, ValueError, "x is outside its bounds: element 0 is 1.3"),
        ({"grad": rosen_der, "bounds": 7}, ValueError, "bounds must be pairs"),
        ({"grad": rosen_der, "bounds": list(zip(X, X, strict=True))}, NothingToCheckError, "are equal"),
    ],
)
def test_what_is_refused(given: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        gradproof.check(rosen, X, **given)


def test_a_gradient_of_a_vector_is_refused() -> None:
    with pytest.raises(NothingToCheckError, match=r"the function returned shape \(4,\): give jac="):
        gradproof.check(f, X, grad=rosen_der)


def test_bounds_without_a_derivative_are_refused() -> None:
    with pytest.raises(ValueError, match="bounds= go with"):
        gradproof.check(f, X, bounds=[(0, 1)])


def test_arrays_without_a_derivative_are_told_what_to_give() -> None:
    with pytest.raises(TypeError, match=r"its derivative: grad=, jac=, vjp= or jvp="):
        gradproof.check(f, X)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError, match="must be an array of numbers"):
        gradproof.check(f, "abc", grad=rosen_der)
    with pytest.raises(NothingToCheckError, match="no elements"):
        gradproof.check(f, np.zeros(0), grad=rosen_der)


def test_bounds_objects_of_scipy() -> None:
    assert gradproof.check(rosen, X, grad=rosen_der, bounds=Bounds(0.5, 2.0))
