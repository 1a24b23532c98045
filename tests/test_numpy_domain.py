"""The numerical side of NumPy functions: bounds that no evaluation leaves, and the complex step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradproof
from gradproof import Status, Verdict
from gradproof.backends.numpy.bounds import Box, OutsideBoundsError, read_bounds


class Guarded:
    """A function that notes where it is evaluated, and refuses what lies outside."""

    def __init__(self, function: Any, lower: Any, upper: Any) -> None:
        self._function, self._lower, self._upper = function, np.asarray(lower), np.asarray(upper)
        self.points: list[Any] = []

    def __call__(self, x: Any) -> Any:
        assert (x.real >= self._lower).all(), f"{x} is below {self._lower}"
        assert (x.real <= self._upper).all(), f"{x} is above {self._upper}"
        self.points.append(x)
        return self._function(x)


def root(x: Any) -> Any:
    return np.sqrt(x + 0.1) @ np.arange(1, 5)


def root_grad(x: Any) -> Any:
    return 0.5 / np.sqrt(x + 0.1) * np.arange(1, 5)


def real_only(x: Any) -> Any:
    return root(np.asarray(x).astype(np.float64, casting="safe"))


POINTS = {
    "inside": [0.3, 0.4, 0.5, 0.6],
    "at a bound": [0.0, 0.4, 0.5, 0.6],
    "at both bounds": [0.0, 1.0, 0.5, 0.6],
    "in a corner": [0.0, 0.0, 1.0, 1.0],
    "near bounds": [1e-5, 1 - 1e-9, 1e-12, 0.6],
}


@pytest.mark.parametrize("function", [root, real_only])
@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("x", POINTS.values(), ids=POINTS)
def test_no_evaluation_leaves_the_bounds(function: Any, strategy: str, x: Any) -> None:
    guarded = Guarded(function, np.zeros(4), np.ones(4))
    report = gradproof.check(guarded, x, grad=root_grad, bounds=[(0, 1)] * 4, strategy=strategy)
    assert report.verdict is Verdict.PASS, str(report)
    assert len(guarded.points) > 3


@pytest.mark.parametrize("function", [root, real_only])
@pytest.mark.parametrize("element", range(4))
@pytest.mark.parametrize("x", POINTS.values(), ids=POINTS)
def test_errors_at_bounds_are_named(function: Any, element: int, x: Any) -> None:
    def wrong(x: Any) -> Any:
        gradient = root_grad(x)
        gradient[element] *= 1 + 1e-4
        return gradient

    report = gradproof.check(Guarded(function, np.zeros(4), np.ones(4)), x, grad=wrong, bounds=[(0, 1)] * 4)
    assert report.verdict is Verdict.FAIL, str(report)
    assert report.findings[0].input_element == (element,)


@pytest.mark.parametrize("n", [300, 5000])
def test_many_elements_at_bounds(n: int) -> None:
    draw = np.random.default_rng(0)
    x = draw.choice([0.0, 1.0, 0.3], size=n)
    weights = draw.uniform(0.5, 1.5, n)

    def function(x: Any) -> Any:
        return np.log1p(x.astype(np.float64, casting="safe")) * weights

    def wrong(x: Any, v: Any) -> Any:
        gradient = weights / (1 + x) * v
        gradient[n // 2] *= 1.001
        return gradient

    guarded = Guarded(function, np.zeros(n), np.ones(n))
    assert gradproof.check(guarded, x, vjp=lambda x, v: weights / (1 + x) * v, bounds=[(0, 1)] * n)
    report = gradproof.check(guarded, x, vjp=wrong, bounds=[(0, 1)] * n)
    assert report.findings[0].input_element == (n // 2,)


def test_a_narrow_box_takes_shorter_steps() -> None:
    width = 1e-5
    x = np.array([0.5, 0.5])
    lower, upper = x - np.array([0, width]), x + np.array([width, 0])
    guarded = Guarded(lambda x: np.exp(x.astype(np.float64, casting="safe")).sum(), lower, upper)
    report = gradproof.check(guarded, x, grad=np.exp, bounds=list(zip(lower, upper, strict=True)))
    assert report.verdict is Verdict.PASS, str(report)


def test_elements_with_equal_bounds_are_not_covered() -> None:
    guarded = Guarded(real_only, [0, 0.4, 0, 0], [1, 0.4, 1, 1])
    bounds = [(0, 1), (0.4, 0.4), (0, 1), (0, 1)]

    def wrong_there(x: Any) -> Any:
        gradient = root_grad(x)
        gradient[1] = 77.0
        return gradient

    report = gradproof.check(guarded, POINTS["inside"], grad=wrong_there, bounds=bounds)
    assert report.verdict is Verdict.PASS
    assert "1 elements of input 0 `x` (their bounds are equal)" in report.not_covered or (
        "1 elements of input 0 (their bounds are equal)" in report.not_covered
    )
    report = gradproof.check(guarded, POINTS["inside"], grad=lambda x: root_grad(x) * [1, 1, 1, 2], bounds=bounds)
    assert report.findings[0].input_element == (3,)


def test_bounds_are_announced() -> None:
    (note,) = gradproof.check(real_only, POINTS["at a bound"], grad=root_grad, bounds=[(0, 1)] * 4).notes
    assert note.startswith("no evaluation left the bounds")
    assert not gradproof.check(real_only, POINTS["inside"], grad=root_grad, bounds=[(-5, 5)] * 4).notes


def test_extrapolation_is_a_parabola() -> None:
    box = Box(np.zeros(2), np.ones(2), np.array([0.0, 0.5]))
    guarded = box.guarding(lambda x: np.array([3 * x[0] ** 2 - x[0] + x[1]]))
    assert guarded(np.array([-0.01, 0.6])) == pytest.approx(3 * 0.01**2 + 0.01 + 0.6)
    with pytest.raises(OutsideBoundsError):
        guarded(np.array([-0.7, 0.6]))


def test_bounds_are_read_in_every_form() -> None:
    class Like:
        lb, ub = 0.0, np.array([1.0, 2.0])

    for given in ([(0, 1), (0, 2)], Like(), np.array([[0, 1], [0, 2]])):
        lower, upper = read_bounds(given, 2)
        assert lower.tolist() == [0, 0]
        assert upper.tolist() == [1, 2]


def test_directions_are_turned_to_where_there_is_room() -> None:
    box = Box(np.array([0.0, 0.0, -np.inf]), np.array([1.0, 1.0, np.inf]), np.array([0.1, 0.9, 0.5]))
    assert box.turned(np.array([-2.0, 3.0, -4.0])).tolist() == [2.0, -3.0, -4.0]
    assert box.holds(np.array([0.0, 1.0, 7.0]))
    assert not box.holds(np.array([0.0, 1.1, 7.0]))


def test_no_evaluation_in_low_precision_leaves_the_bounds() -> None:
    x = np.array([0.0, 1.0, 0.5, 0.6], dtype=np.float32)
    guarded = Guarded(lambda x: np.sqrt(x + x.dtype.type(0.1)), np.zeros(4), np.ones(4))
    report = gradproof.check(guarded, x, jac=lambda x: np.diag(0.5 / np.sqrt(x + 0.1)), bounds=[(0, 1)] * 4)
    assert report.verdict is Verdict.PASS, str(report)
    report = gradproof.check(guarded, x, jac=lambda x: np.diag(0.6 / np.sqrt(x + 0.1)), bounds=[(0, 1)] * 4)
    assert report.verdict is Verdict.FAIL


# what is extrapolated beyond a bound is not the function's: neither a jump of it nor noise


def sines(x: Any) -> Any:
    return np.sin(np.sin(np.abs(x)))


def sines_slope(x: Any) -> Any:
    return np.cos(np.sin(np.abs(x))) * np.cos(np.abs(x)) * np.sign(x)


@pytest.mark.parametrize("room", [None, 0.5, 0.1, 0.03, 1e-3, 1e-6, 0.0])
@pytest.mark.parametrize("error", [0.0, 1e-6, 1e-3, 6e-3])
def test_errors_near_a_bound_are_no_noise(room: float | None, error: float) -> None:
    x = np.array([0.1257302210933933])
    bounds = None if room is None else [((1 - room) * x[0], None)]
    report = gradproof.check(sines, x, jac=lambda x: np.diag(sines_slope(x) + error), bounds=bounds)
    assert report.verdict is (Verdict.FAIL if error else Verdict.PASS), str(report)
    assert not any("bits inside" in note for note in report.notes)
    if error:
        assert report.findings[0].status is Status.WRONG
        assert report.findings[0].numeric == pytest.approx(sines_slope(x)[0], abs=1e-7)


@pytest.mark.parametrize("seed", range(8))
def test_certificates_near_bounds(seed: int) -> None:
    draw = np.random.default_rng(seed)
    x = draw.standard_normal(1)
    bounds = [(x[0] - draw.choice([0.0, 0.1]) * abs(x[0]), x[0] + draw.choice([0.1, 1.0]) * abs(x[0]))]
    report = gradproof.check(sines, x, jac=lambda x: np.diag(sines_slope(x)), bounds=bounds)
    assert report.verdict is Verdict.PASS, str(report)
    size = report.pairs[0].smallest
    assert size is not None
    for error in (1.2 * size, -1.2 * size):
        wrong = gradproof.check(sines, x, jac=lambda x, e=error: np.diag(sines_slope(x) + e), bounds=bounds)
        assert wrong.verdict is Verdict.FAIL, str(wrong)


def stopping(matrix: Any, tolerance: float) -> Any:
    """The solution of linear equations by an iteration that stops at a tolerance: one more or less for other b."""

    def solve(b: Any) -> Any:
        x = np.zeros_like(b)
        for _ in range(400):
            residual = b - matrix @ x
            if np.abs(residual).max() <= tolerance:
                break
            x = x + 0.3 * residual
        return x

    return solve


@pytest.mark.parametrize("room", [None, 0.0, 0.1, 0.5])
@pytest.mark.parametrize("tolerance", [1e-5, 1e-7])
def test_a_solver_that_stops_at_a_tolerance_may_start_at_its_bounds(room: float | None, tolerance: float) -> None:
    draw = np.random.default_rng(0)
    part, b = draw.standard_normal((4, 4)), draw.uniform(1, 2, 4)
    matrix = part @ part.T / 4 + np.eye(4)
    bounds, inverse = None if room is None else [((1 - room) * each, None) for each in b], np.linalg.inv(matrix)
    report = gradproof.check(stopping(matrix, tolerance), b, jac=lambda b: inverse, bounds=bounds)
    assert report.verdict is Verdict.PASS, str(report)
    report = gradproof.check(stopping(matrix, tolerance), b, jac=lambda b: 1.05 * inverse, bounds=bounds)
    assert report.verdict is Verdict.FAIL


# numbers of fewer bits inside


def single(x: Any) -> Any:
    return x.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("room", [None, 0.0, 1e-2, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_single_precision_inside_at_bounds(room: float | None, seed: int) -> None:
    draw = np.random.default_rng(seed)
    weights, x = draw.standard_normal((1, 20)), 1000 * draw.standard_normal(20)
    bounds = None if room is None else [(each - room * abs(each), each + abs(each)) for each in x]

    def wrong(x: Any) -> Any:
        return weights * np.where(np.arange(20) == 7, 1.5, 1.0)

    report = gradproof.check(lambda x: weights @ single(x), x, jac=lambda x: weights, bounds=bounds)
    assert report.verdict is not Verdict.FAIL, str(report)
    report = gradproof.check(lambda x: weights @ single(x), x, jac=wrong, bounds=bounds)
    assert report.verdict is Verdict.FAIL, str(report)
    assert report.findings[0].input_element == (7,)


@pytest.mark.parametrize("x", [-1.324358995628145, -0.17315522486203205, 0.0007917134608118956, 1.6347830429585775])
def test_noise_that_is_as_large_on_every_rung_is_no_jump(x: float) -> None:
    """Steps of a staircase that is met in the same phase by several rungs."""
    report = gradproof.check(lambda x: single(1e5 * x), np.array([x]), jac=lambda x: np.eye(1) * 1e5)
    assert report.verdict is Verdict.PASS, str(report)
    report = gradproof.check(lambda x: single(1e5 * x), np.array([x]), jac=lambda x: np.eye(1) * 1.01e5)
    assert report.verdict is Verdict.FAIL


# the complex step


def uses_complex_steps(report: Any) -> bool:
    return any("are complex steps" in note for note in report.notes)


def test_a_complex_step_is_announced() -> None:
    report = gradproof.check(lambda x: np.sin(x).sum(), np.ones(3), grad=np.cos)
    assert report.verdict is Verdict.PASS
    assert uses_complex_steps(report)
    assert "agree with a difference quotient to" in report.notes[0]


NOT_HOLOMORPHIC = {
    "abs": (lambda x: np.abs(x).sum(), np.sign),
    "norm": (lambda x: np.linalg.norm(x), lambda x: x / np.linalg.norm(x)),
    "real": (lambda x: (np.real(x) ** 2).sum(), lambda x: 2 * x),
    "conjugate": (lambda x: np.vdot(x, x), lambda x: 2 * x),
    "casts": (lambda x: np.sin(np.asarray(x, dtype=np.float64)).sum(), np.cos),
    "raises": (lambda x: sum(float(each) ** 2 for each in x), lambda x: 2 * x),
    "beside what is": (lambda x: np.sin(x).sum() + 1e-3 * np.abs(x).sum(), lambda x: np.cos(x) + 1e-3 * np.sign(x)),
}


@pytest.mark.parametrize("name", NOT_HOLOMORPHIC)
def test_functions_that_a_complex_step_gets_wrong_are_checked_with_differences(name: str) -> None:
    function, gradient = NOT_HOLOMORPHIC[name]
    x = np.array([0.5, -1.2, 2.0])
    report = gradproof.check(function, x, grad=gradient)
    assert report.verdict is Verdict.PASS, str(report)
    assert not uses_complex_steps(report)
    report = gradproof.check(function, x, grad=lambda x: 1.01 * gradient(x))
    assert report.verdict is Verdict.FAIL


@pytest.mark.parametrize("size", [1e-6, 1e-9])
def test_a_small_part_that_a_complex_step_loses_is_no_false_alarm(size: float) -> None:
    """What the difference cannot see beside 1e6: nothing is called wrong by a complex step alone."""
    x = np.array([0.5, -1.2, 2.0])
    report = gradproof.check(
        lambda x: 1e6 * (x[0] ** 2) + size * np.abs(x).sum(),
        x,
        grad=lambda x: np.array([2e6 * x[0], 0, 0]) + size * np.sign(x),
    )
    assert report.verdict is not Verdict.FAIL, str(report)


@pytest.mark.parametrize("size", [1e-2, 1e-4, 1e-6, 1e-8])
def test_the_certificate_reckons_with_what_a_complex_step_may_lose(size: float) -> None:
    """A forgotten part that the complex step loses too: caught, or no larger than the certificate says."""
    x = np.array([0.5, -1.2, 2.0])
    report = gradproof.check(
        lambda x: 1e3 * np.exp(x[0]) + size * np.abs(x).sum(), x, grad=lambda x: [1e3 * np.exp(x[0]), 0, 0]
    )
    if report.verdict is Verdict.PASS:
        assert report.certificate is not None
        (line,) = report.pairs
        assert line.smallest is not None
        assert line.smallest >= size


def test_a_wrong_derivative_is_never_judged_by_a_complex_step() -> None:
    report = gradproof.check(lambda x: np.sin(x).sum(), np.ones(3), grad=lambda x: 1.1 * np.cos(x))
    assert report.verdict is Verdict.FAIL
    assert not uses_complex_steps(report)
    (finding,) = report.findings
    assert finding.status is Status.WRONG
    assert report.exhibits
    values = report.exhibits[0].values
    assert values[len(values) // 2] == pytest.approx(3 * np.sin(1.0))  # the function itself is drawn


def test_a_complex_step_sees_through_cancellation() -> None:
    """Beside 1e8, differences see little of a derivative of size 1."""
    x = np.array([0.5, 1.5, 2.5])

    def function(x: Any) -> Any:
        return 1e8 + np.sin(x).sum()

    assert uses_complex_steps(gradproof.check(function, x, grad=np.cos))


def test_kinks_are_left_to_differences() -> None:
    def ramp(x: Any) -> Any:
        return x * (np.real(x) > 0)

    report = gradproof.check(ramp, np.array([0.5, 0.0, -1.0]), jac=lambda x: np.diag(1.0 * (x > 0)))
    assert not uses_complex_steps(report)
    assert report.verdict is Verdict.PASS
    assert [finding.status for finding in report.findings] == [Status.KINK]


def loses_a_part(x: Any) -> Any:
    return np.sin(np.sin(x)) + 1e-7 * np.real(np.sin(x)) ** 2


def loses_a_part_jac(x: Any) -> Any:
    return np.diag(np.cos(np.sin(x)) * np.cos(x) + 2e-7 * np.sin(x) * np.cos(x))


@pytest.mark.parametrize("x", [-585.3259945314638, 640.422650, -535.669373, 123.4, 0.7])
def test_what_a_complex_step_accuses_is_judged_by_differences(x: float) -> None:
    """A part that it loses is as large as what is tolerated, and smaller than what a certificate would say."""
    point = np.array([x])
    report = gradproof.check(loses_a_part, point, jac=loses_a_part_jac)
    assert report.verdict is Verdict.PASS, str(report)
    report = gradproof.check(loses_a_part, point, jac=lambda x: loses_a_part_jac(x) + 1e-5)
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].numeric == pytest.approx(loses_a_part_jac(point)[0, 0], abs=2e-8)


def test_an_entry_that_a_probe_is_too_blunt_for_is_found_by_what_a_complex_step_accuses() -> None:
    """Beside 1e6, differences of all entries see little of a small one; of one by itself they do."""
    sizes, x = np.array([1e6, 1.0, 1.0, 1.0]), np.array([0.3, 0.5, 0.7, 0.9])

    def function(x: Any) -> Any:
        return sizes * np.sin(x)

    report = gradproof.check(function, x, jac=lambda x: np.diag(sizes * np.cos(x)))
    assert report.verdict is Verdict.PASS
    size = report.pairs[0].smallest
    assert size is not None
    error = np.zeros((4, 4))
    error[0, 0] = 1.2 * size
    report = gradproof.check(function, x, jac=lambda x: np.diag(sizes * np.cos(x)) + error)
    assert report.verdict is Verdict.FAIL, str(report)
    assert report.findings[0].input_element == (0,)
    assert not uses_complex_steps(report)
