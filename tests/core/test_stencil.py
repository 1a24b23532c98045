"""Numerical derivatives and their error bars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_problem import BRAIN, DOUBLE, SINGLE, Part, investigation
from hypothesis import given
from hypothesis import strategies as st

from gradproof.core.ladder import Estimate
from gradproof.core.norm import norm
from gradproof.core.precision import EVALUATION_ROUND_OFF, least_spacing
from gradproof.core.problem import OutputChangedError
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.suspects import rank


def strict(value: Any) -> Any:
    """Ask for as much as the ladder has."""
    return 1e-10 * np.abs(value)


def loose(value: Any) -> Any:
    """A tenth of torch's tolerance."""
    return 0.1 * (1e-5 + 1e-3 * np.abs(value))


def measure(
    function: Callable[[Any], Any], point: Any, tolerance: Callable[[Any], Any] = strict, **options: Any
) -> Estimate:
    case = investigation(function, point, **options)
    return Stencil(case).measure(range(case.problem.inputs.size), tolerance)


def diagonal(estimate: Estimate) -> tuple[np.ndarray, np.ndarray]:
    return np.diag(estimate.value), np.diag(estimate.error)


SMOOTH = {
    "sin": (np.sin, np.cos),
    "exp": (np.exp, np.exp),
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    "log": (np.log, lambda x: 1 / x),
    "inverse": (lambda x: 1 / x, lambda x: -1 / x**2),
    "cube": (lambda x: x**3, lambda x: 3 * x**2),
    "gaussian": (lambda x: np.exp(-x * x), lambda x: -2 * x * np.exp(-x * x)),
}


@pytest.mark.parametrize("height", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("width", [1e-8, 1e-4, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_are_measured_well_at_every_scale(name: str, width: float, height: float) -> None:
    function, derivative = SMOOTH[name]
    estimate = measure(lambda x: height * function(x / width), 0.7 * width)
    truth = height * derivative(0.7) / width
    assert abs(estimate.value[0, 0] - truth) <= 1e-9 * abs(truth)
    assert abs(estimate.value[0, 0] - truth) <= estimate.error[0, 0] <= 1e-8 * abs(truth)


@given(
    coefficients=st.lists(st.floats(-10, 10), min_size=1, max_size=6),
    point=st.floats(-3, 3).filter(lambda x: abs(x) > 1e-3),
)
def test_the_error_bar_bounds_the_error_of_polynomials(coefficients: list[float], point: float) -> None:
    polynomial = np.polynomial.Polynomial(coefficients)
    estimate = measure(polynomial, point, loose)
    assert abs(estimate.value[0, 0] - polynomial.deriv()(point)) <= estimate.error[0, 0] + 1e-300


@given(
    frequency=st.floats(0.1, 30),
    phase=st.floats(0, 6),
    shift=st.floats(-100, 100),
    point=st.floats(0.1, 3),
    data=st.data(),
)
def test_the_error_bar_bounds_the_error_of_sines(
    frequency: float, phase: float, shift: float, point: float, data: st.DataObject
) -> None:
    tolerance = data.draw(st.sampled_from([strict, loose]))
    estimate = measure(lambda x: shift + np.sin(frequency * x + phase), point, tolerance)
    truth = frequency * np.cos(frequency * point + phase)
    # Round-off of the sine's argument does not show in its value: dust, far below every tolerance.
    assert abs(estimate.value[0, 0] - truth) <= estimate.error[0, 0] + 1e-10 * frequency


@given(seed=st.integers(0, 999))
def test_the_error_bar_bounds_the_error_in_single_precision(seed: int) -> None:
    draw = np.random.default_rng(seed)
    weights = draw.normal(size=4)
    point = np.float32(draw.normal(size=4)).astype(float)

    def function(x: Any) -> Any:
        return np.tanh(np.float32(x) * np.float32(weights)).astype(float)

    estimate = measure(function, point, loose, inputs=[Part((4,), eps=SINGLE)], outputs=[Part((4,), eps=SINGLE)])
    value, error = diagonal(estimate)
    single = np.float32(weights).astype(float)
    assert (np.abs(value - single / np.cosh(single * point) ** 2) <= error).all()


@pytest.mark.parametrize("frequency", [1e5, 1e6, 1e7, 1e8, 1e9])
@pytest.mark.parametrize("seed", range(4))
def test_a_fast_oscillation_is_measured_by_its_own_length(frequency: float, seed: int) -> None:
    """From afar, the quotients of a fast oscillation agree with each other on something else."""
    point = np.random.default_rng(seed).uniform(0.2, 1.0, 3)
    stencil = Stencil(investigation(lambda x: np.sin(frequency * x), point))
    estimate = stencil.measure([0, 1, 2], lambda value: 1e-6 * (1.0 + np.abs(value)))
    true = np.diag(frequency * np.cos(frequency * point))
    off = np.abs(estimate.value - true)
    hidden = 64 * DOUBLE * frequency**2  # the product with x is rounded, which no formula for the bar knows
    assert (off <= estimate.error + hidden).all()
    assert (off <= 1e-4 * frequency).all()


def test_a_function_of_ordinary_length_is_not_asked_for_its_own() -> None:
    case = investigation(np.sin, np.ones(1))
    assert Stencil(case).measure([0], lambda value: 1e-6 * np.abs(value)).evaluations == 14


def test_a_function_that_varies_faster_than_its_point_is_large_is_resolved() -> None:
    estimate = measure(np.sin, 1e6)
    assert abs(estimate.value[0, 0] - np.cos(1e6)) <= 1e-8


STAIRS = {
    "round to 3 decimals": lambda x: np.round(x, 3),
    "floor of 1000 x": lambda x: np.floor(1000 * x),
}


@pytest.mark.parametrize("name", STAIRS)
def test_a_staircase_is_flat_although_it_looks_like_a_slope_from_afar(name: str) -> None:
    points = np.random.default_rng(0).uniform(0.1, 3.0, 50)
    points = points[np.abs(points * 1000 % 0.5) > 0.01]  # not on an edge of a stair
    for point in points:
        estimate = measure(STAIRS[name], point, loose)
        assert abs(estimate.value[0, 0]) <= estimate.error[0, 0] <= 1e-4


@pytest.mark.parametrize("frequency", [1e3, 1e5, 1e6])
def test_a_ripple_that_is_invisible_from_afar_is_seen_from_near(frequency: float) -> None:
    for point in np.random.default_rng(0).uniform(0.1, 3.0, 20):
        estimate = measure(lambda x: x + np.sin(frequency * x) / frequency, point, loose)
        truth = 1.0 + np.cos(frequency * point)
        assert abs(estimate.value[0, 0] - truth) <= estimate.error[0, 0] + 1e-5 + 1e-3 * truth
        assert estimate.error[0, 0] <= 0.1


def verdicts(estimate: Estimate, *claims: float) -> list[Status]:
    """What torch's tolerance says of claimed derivatives."""
    value, error = estimate.value[0, 0], estimate.error[0, 0]
    ranks = [rank(abs(claim - value), error, 1e-5 + 1e-3 * abs(value)).item() for claim in claims]
    return [list(Status)[number] for number in ranks]


KINKS = {"abs": (np.abs, -1.0, 1.0), "relu": (lambda x: np.maximum(x, 0.0), 0.0, 1.0)}


@pytest.mark.parametrize("distance", [1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize("name", KINKS)
def test_beside_a_kink_the_derivative_is_that_of_the_side_the_point_is_on(name: str, distance: float) -> None:
    kink, left, right = KINKS[name]
    above = measure(lambda x: kink(x - 1.0), 1.0 + distance, loose)
    assert verdicts(above, right, left, (left + right) / 2) == [Status.RIGHT, Status.WRONG, Status.WRONG]
    below = measure(lambda x: kink(x - 1.0), 1.0 - distance, loose)
    assert verdicts(below, left, right, (left + right) / 2) == [Status.RIGHT, Status.WRONG, Status.WRONG]


@pytest.mark.parametrize("distance", [3e-7, 1e-7])
@pytest.mark.parametrize("name", KINKS)
def test_close_to_a_kink_a_right_derivative_is_not_called_wrong_nor_a_wrong_one_right(
    name: str, distance: float
) -> None:
    kink, left, right = KINKS[name]
    estimate = measure(lambda x: kink(x - 1.0), 1.0 + distance, loose)
    good, bad, mean = verdicts(estimate, right, left, (left + right) / 2)
    assert good is not Status.WRONG
    assert Status.RIGHT not in (bad, mean)


CANCELLING = np.random.default_rng(0).uniform(0.1, 3.0, 40)


def test_hidden_cancellation_leaves_the_value_within_torchs_tolerance() -> None:
    for point in CANCELLING:
        estimate = measure(lambda x: (x + 1e8) - 1e8, point, loose)
        assert abs(estimate.value[0, 0] - 1.0) <= 1e-5 + 1e-3 + estimate.error[0, 0]


def test_hidden_cancellation_is_in_the_error_bar() -> None:
    for point in CANCELLING:
        estimate = measure(lambda x: (x + 1e8) - 1e8, point, loose)
        assert abs(estimate.value[0, 0] - 1.0) <= estimate.error[0, 0]


NARROW = {
    "log": (np.log, [1.0, 1e-8], lambda x: 1 / x),
    "square root": (np.sqrt, [1.0, 1e-10], lambda x: 0.5 / np.sqrt(x)),
    "arcsine": (np.arcsin, [0.5, 1 - 2e-6], lambda x: 1 / np.sqrt(1 - x * x)),
    "logit": (lambda p: np.log(p / (1 - p)), [0.5, 1e-9], lambda p: 1 / (p * (1 - p))),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", NARROW)
def test_a_step_out_of_the_domain_is_too_coarse_not_a_verdict(name: str) -> None:
    function, point, derivative = NARROW[name]
    value, error = diagonal(measure(function, point, loose))
    truth = derivative(np.array(point))
    assert (np.abs(value - truth) <= error).all()
    assert (error <= 1e-3 * truth).all()


def guarded(limit: float, centre: float) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        if abs(x[0] - centre) > limit:
            raise ValueError("too far")
        return x**2

    return function


@pytest.mark.parametrize("limit", [1e-2, 1e-5, 1e-6])
def test_a_guard_that_raises_is_stepped_under(limit: float) -> None:
    estimate = measure(guarded(limit, 0.5), 0.5, loose)
    assert abs(estimate.value[0, 0] - 1.0) <= estimate.error[0, 0] <= 1e-3


def refusing(side: float, how: str) -> Callable[[Any], Any]:
    """x² on one side of 1 only."""

    def function(x: Any) -> Any:
        if side * (x[0] - 1.0) < 0:
            if how == "raises":
                raise ValueError("out of domain")
            return np.full(1, np.nan if how == "NaN" else np.inf)
        return x**2

    return function


@pytest.mark.parametrize("how", ["raises", "NaN", "infinite"])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_function_defined_on_one_side_only_is_measured_there(side: float, how: str) -> None:
    estimate = measure(refusing(side, how), 1.0, loose)
    assert abs(estimate.value[0, 0] - 2.0) <= estimate.error[0, 0] <= 1e-3


def test_a_function_that_refuses_every_move_raises_its_own_exception() -> None:
    class OwnError(Exception):
        pass

    refusal = OwnError("do not move me")

    def unmoved(x: Any) -> Any:
        if x[0] != 0.3:
            raise refusal
        return np.sin(x)

    with pytest.raises(OwnError) as caught:
        measure(unmoved, 0.3, loose)
    assert caught.value is refusal


def test_a_function_that_is_nan_wherever_it_is_moved_has_no_derivative() -> None:
    estimate = measure(lambda x: np.where(x == 0.5, x, np.nan), 0.5, loose)
    assert np.isnan(estimate.value[0, 0])
    assert np.isinf(estimate.error[0, 0])


@pytest.mark.parametrize("ask", [lambda s: s.screen(slice(0, 1)), lambda s: s.measure([0], loose)])
def test_another_form_of_output_always_propagates(ask: Callable[[Stencil], Any]) -> None:
    case = investigation(lambda x: x if x[0] == 0.5 else np.ones(3), 0.5)
    with pytest.raises(OutputChangedError):
        ask(Stencil(case))


@pytest.mark.parametrize("ask", [lambda s: s.screen(slice(0, 1)), lambda s: s.measure([0], loose)])
def test_an_interrupt_is_not_taken_for_a_refusal(ask: Callable[[Stencil], Any]) -> None:
    def interrupted(x: Any) -> Any:
        if x[0] != 0.5:
            raise KeyboardInterrupt
        return np.sin(x)

    with pytest.raises(KeyboardInterrupt):
        ask(Stencil(investigation(interrupted, 0.5)))


def test_a_fixed_step_is_a_plain_central_difference() -> None:
    seen: list[float] = []

    def cube(x: Any) -> Any:
        seen.append(float(x[0]))
        return x**3

    case = investigation(cube, 0.5)
    seen.clear()
    found = Stencil(case, step=0.25).screen(slice(0, 1))
    assert sorted(seen) == [0.25, 0.75]
    assert found[0, 0] == (0.75**3 - 0.25**3) / 0.5


def test_screening_gives_one_row_per_column_asked_for() -> None:
    matrix = np.arange(12.0).reshape(3, 4)
    case = investigation(lambda x: matrix @ x, np.ones(4))
    np.testing.assert_allclose(Stencil(case).screen(slice(1, 3)), matrix.T[1:3], atol=1e-9)


def test_the_estimate_counts_its_evaluations() -> None:
    case = investigation(np.sin, np.ones(3))
    before = case.cost.evaluations
    estimate = Stencil(case).measure([0, 2], loose)
    assert estimate.value.shape == (2, 3)
    assert 0 < estimate.evaluations == case.cost.evaluations - before < 100


def test_the_steps_of_a_low_precision_are_larger() -> None:
    steps = []
    for eps in (DOUBLE, SINGLE, BRAIN):
        case = investigation(lambda x: x, 1.0, inputs=[Part((1,), eps=eps)])
        steps.append(float(Stencil(case).step[0]))
    assert steps == sorted(steps)
    assert steps[0] < 1e-4 < 1e-3 < steps[1]


@pytest.mark.parametrize("small", [1e-3, 1e-290, 0.0])
@pytest.mark.parametrize("size", [40, 2**15 + 3])
def test_the_noise_of_many_outputs_is_at_least_that_of_the_smallest_numbers(size: int, small: float) -> None:
    values = np.random.default_rng(0).standard_normal(size) * small
    case = investigation(lambda x: x[0] * values, np.ones(1))
    stencil = Stencil(case)
    unit = EVALUATION_ROUND_OFF * DOUBLE
    typical = case.problem.outputs.typical(case.problem.value)
    noise = np.where(typical > 0, np.maximum(unit * typical, EVALUATION_ROUND_OFF * least_spacing(DOUBLE)), 0.0)
    np.testing.assert_array_equal(stencil.noise, noise)
    assert stencil.least_noise <= norm(stencil.noise) * (1 + 1e-12)
    if small == 1e-3:
        assert stencil.least_noise >= 0.9 * norm(stencil.noise)
