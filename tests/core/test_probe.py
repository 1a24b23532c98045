"""One probe: a survey with error bars, an aimed cotangent, a comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, Part, investigation
from hypothesis import given
from hypothesis import strategies as st

from gradproof.core.directions import draw_direction
from gradproof.core.investigation import Investigation
from gradproof.core.ladder import rungs
from gradproof.core.probe import Probe, aim, probe
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey

TWO, THREE = (14, 17), (11, 14, 17)


def survey_of(case: Investigation, ladder: tuple[int, ...] = TWO) -> Survey:
    stencil = Stencil(case)
    survey = Survey(stencil, draw_direction(stencil))
    survey.climb(*ladder)
    return survey


def probed(case: Investigation, ladder: tuple[int, ...] = TWO) -> Probe:
    survey = survey_of(case, ladder)
    cotangent = aim(survey)
    return probe(survey, cotangent, case.vjp(cotangent))


def elementwise(function: Callable[[Any], Any], slopes: Any, point: Any, **options: Any) -> Investigation:
    return investigation(function, point, vjp=lambda v: slopes * v, jvp=lambda u: slopes * u, **options)


# directions


@pytest.mark.parametrize("seed", range(5))
def test_a_direction_moves_every_coordinate_by_its_own_scale(seed: int) -> None:
    point = 10.0 ** np.linspace(-6, 6, 40)
    case = elementwise(np.sin, 1.0, point, inputs=[Part((20,)), Part((20,))], seed=seed)
    stencil = Stencil(case)
    ratio = np.abs(draw_direction(stencil)) / stencil.scale
    assert (ratio >= 0.49).all()
    assert (ratio <= 1.51).all()


@pytest.mark.parametrize("seed", range(5))
def test_every_step_of_the_ladder_is_exact(seed: int) -> None:
    """The step itself has no round-off, but where the sum needs another exponent than the point."""
    point = np.random.default_rng(seed).uniform(0.5, 1.5, 200) * 10.0 ** np.random.default_rng(seed).integers(-3, 4)
    case = elementwise(np.sin, 1.0, point, seed=seed)
    direction = draw_direction(Stencil(case))
    for rung in rungs(2.0**-52):
        for step in (2.0**-rung * direction, -(2.0**-rung) * direction):
            within = np.frexp(point)[1] == np.frexp(point + step)[1]
            assert within.sum() > 150
            assert ((point + step) - point == step)[within].all()


def test_a_direction_at_zero_is_not_zero() -> None:
    case = elementwise(np.sin, 1.0, np.zeros(7))
    direction = draw_direction(Stencil(case))
    assert ((np.abs(direction) >= 0.5) & (np.abs(direction) <= 1.5)).all()


def test_seeds_draw_other_directions() -> None:
    drawn = []
    for seed in (0, 0, 1):
        case = elementwise(np.sin, 1.0, np.ones(9), seed=seed)
        drawn.append(draw_direction(Stencil(case)))
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != drawn[2]).any()


# error bars


@given(seed=st.integers(0, 2**20), frequency=st.floats(0.1, 20), ladder=st.sampled_from([TWO, THREE]))
def test_the_error_bars_bound_the_error_of_sines(seed: int, frequency: float, ladder: tuple[int, ...]) -> None:
    draw = np.random.default_rng(seed)
    weights = draw.normal(size=(6, 12))
    point = draw.normal(size=12)
    case = investigation(lambda x: np.sin(frequency * (weights @ x)), point, 0.0, seed=seed)
    survey = survey_of(case, ladder)
    truth = frequency * np.cos(frequency * (weights @ point)) * (weights @ survey.direction)
    # round-off of the sine's argument does not show in its value
    argument = 1e-15 * frequency * (np.abs(weights) @ np.abs(point)) * 2.0 ** ladder[-1]
    assert (np.abs(survey.value - truth) <= survey.error + argument).all()
    assert not survey.bent.any()


@given(coefficients=st.lists(st.floats(-5, 5), min_size=2, max_size=6), seed=st.integers(0, 2**20))
def test_the_error_bars_bound_the_error_of_polynomials(coefficients: list[float], seed: int) -> None:
    polynomial = np.polynomial.Polynomial(coefficients)
    point = np.random.default_rng(seed).uniform(0.5, 2.0, 10)
    size = np.polynomial.Polynomial(np.abs(coefficients))(point)
    case = elementwise(polynomial, 0.0, point, seed=seed)
    survey = survey_of(case)
    truth = polynomial.deriv()(point) * survey.direction
    cancelled = 4e-16 * size * 2.0 ** TWO[-1]  # terms that cancel leave more round-off than their sum shows
    assert (np.abs(survey.value - truth) <= survey.error + cancelled).all()


def test_more_rungs_sharpen_the_value() -> None:
    point = np.random.default_rng(0).uniform(0.5, 1.5, 50)
    case = elementwise(np.sin, np.cos(point), point)
    survey = survey_of(case)
    before = float(survey.error.max())
    assert survey.has(17)
    assert not survey.has(11)
    survey.climb(11)
    assert survey.has(11)
    assert float(survey.error.max()) < before / 2
    assert (np.abs(survey.value - np.cos(point) * survey.direction) <= survey.error).all()


def test_a_rung_costs_two_evaluations() -> None:
    case = elementwise(np.sin, 1.0, np.ones(30))
    before = case.cost.evaluations
    survey = survey_of(case)
    assert case.cost.evaluations - before == 4
    survey.climb(11, 20)
    assert case.cost.evaluations - before == 8


def test_single_precision_has_wider_bars_that_hold() -> None:
    point = np.float32(np.random.default_rng(0).uniform(0.5, 1.5, 30)).astype(float)
    part = [Part((30,), eps=SINGLE)]

    def single(x: Any) -> Any:
        return np.sin(np.float32(x)).astype(float)

    survey = survey_of(elementwise(single, 0.0, point, inputs=part, outputs=part), (6, 8))
    assert (np.abs(survey.value - np.cos(point) * survey.direction) <= survey.error).all()
    assert float(survey.error.min()) > 1e-7


# bends


KINKS: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "relu": lambda x: np.maximum(x, 0),
    "clamp": lambda x: np.clip(x, 0, 1),
    "jump": lambda x: np.where(x > 0, 1.0, 0.0),
    "step up": lambda x: np.where(x > 0, x + 1, x),
}


@pytest.mark.parametrize("name", KINKS)
def test_an_output_on_a_kink_has_no_weight_and_the_others_have(name: str) -> None:
    point = np.random.default_rng(0).uniform(0.2, 0.8, 20)
    point[[3, 11]] = 0.0
    case = elementwise(KINKS[name], 0.0, point)
    survey = survey_of(case)
    assert np.flatnonzero(survey.bent).tolist() == [3, 11]
    assert np.flatnonzero(aim(survey) == 0).tolist() == [3, 11]


def test_a_jump_as_far_up_as_down_does_not_bend_but_weighs_next_to_nothing() -> None:
    """The function's value there is the mean of its sides: only the slope gives it away."""
    point = np.random.default_rng(0).uniform(0.2, 0.8, 20)
    point[3] = 0.0
    case = elementwise(lambda x: x + np.sign(x), 1.0, point)
    cotangent = np.abs(aim(survey_of(case)))
    assert cotangent[3] < 1e-6 * np.delete(cotangent, 3).min()


def test_a_curved_output_is_not_bent() -> None:
    point = np.random.default_rng(0).uniform(0.2, 0.8, 20)
    for function in (np.exp, lambda x: x**4, lambda x: np.cosh(5 * x), lambda x: 1 / x):
        assert not survey_of(elementwise(function, 0.0, point)).bent.any()


def test_an_output_that_is_not_a_number_has_no_weight() -> None:
    case = elementwise(lambda x: np.array([x[0], np.nan, x[2]]), 1.0, np.array([1.0, 2.0, 3.0]))
    assert np.flatnonzero(aim(survey_of(case)) == 0).tolist() == [1]


def test_where_nothing_can_be_seen_the_cotangent_is_zero() -> None:
    case = elementwise(lambda x: np.where(x == 1.0, 1.0, np.nan), 1.0, np.ones(4))
    assert (aim(survey_of(case)) == 0).all()


def test_noisy_outputs_weigh_little() -> None:
    def noisy(x: Any) -> Any:
        return np.where(np.arange(20) < 5, (x + 1e9) - 1e9, np.sin(x))

    case = elementwise(noisy, 0.0, np.random.default_rng(0).uniform(0.5, 1.5, 20))
    cotangent = np.abs(aim(survey_of(case)))
    assert cotangent[:5].max() < 1e-4 * cotangent[5:].min()


def test_one_noisy_output_does_not_drown_the_others() -> None:
    """An error of 1e-5 is seen beside an output whose own derivative is uncertain by 1e-2."""

    def function(x: Any) -> Any:
        return np.where(np.arange(50) == 7, (x + 1e9) - 1e9, np.sin(x))

    point = np.random.default_rng(0).uniform(0.5, 1.5, 50)
    slopes = np.where(np.arange(50) == 7, 1.0, np.cos(point))
    assert not probed(elementwise(function, slopes, point)).accuses
    assert probed(elementwise(function, slopes + 1e-5 * (np.arange(50) == 30), point)).accuses


# comparisons


def random_problem(seed: int, off: float = 0.0) -> Investigation:
    """A dense or an elementwise function; one entry of its claimed Jacobian is off."""
    draw = np.random.default_rng(seed)
    point = draw.normal(size=int(draw.integers(1, 30)))
    weights = draw.normal(size=(int(draw.integers(1, 20)), point.size))
    function = [np.sin, np.tanh, np.exp, lambda y: y**2][seed % 4]
    slope = [np.cos, lambda y: 1 / np.cosh(y) ** 2, np.exp, lambda y: 2 * y][seed % 4]
    jacobian = slope(weights @ point / 5)[:, None] * weights / 5
    jacobian[int(draw.integers(len(jacobian))), int(draw.integers(point.size))] += off
    return investigation(lambda x: function(weights @ x / 5), point, jacobian, seed=seed)


def test_a_right_derivative_is_never_accused() -> None:
    accused = [seed for seed in range(200) if probed(random_problem(seed)).accuses]
    assert accused == []


def test_one_entry_off_by_ten_times_the_certificate_is_always_accused() -> None:
    missed = []
    for seed in range(200):
        case = random_problem(seed)
        seen = probed(case)
        direction = draw_direction(Stencil(case))
        smallest = (seen.threshold + abs(seen.residual)) / np.abs(seen.cotangent).min() / np.abs(direction).min()
        if not probed(random_problem(seed, off=10 * smallest)).accuses:
            missed.append(seed)
    assert missed == []


def test_the_threshold_is_sharp() -> None:
    """Far below torch's tolerance: what is seen is the numerical error, not an allowance."""
    point = np.random.default_rng(0).uniform(0.5, 1.5, 1000)
    seen = probed(elementwise(np.sin, np.cos(point), point), THREE)
    smallest = seen.threshold / np.abs(seen.cotangent).min()
    assert smallest < 1e-6


def test_a_derivative_that_is_not_a_number_is_accused() -> None:
    slopes = np.array([1.0, 1.0, np.nan, 1.0, 1.0])
    assert probed(elementwise(lambda x: x, slopes, np.ones(5))).accuses


def test_a_part_of_a_cotangent_is_compared_with_its_part_of_the_outputs() -> None:
    """As halving does: only the outputs in question enter the residual and the threshold."""
    point = np.random.default_rng(0).uniform(0.5, 1.5, 8)
    slopes = np.cos(point)
    slopes[6] += 0.1
    case = elementwise(np.sin, slopes, point)
    survey = survey_of(case)
    cotangent = aim(survey)
    left, right = cotangent.copy(), cotangent.copy()
    left[4:], right[:4] = 0, 0
    whole, first, second = (probe(survey, v, case.vjp(v)) for v in (cotangent, left, right))
    assert not first.accuses
    assert second.accuses
    assert first.residual + second.residual == pytest.approx(whole.residual)
    assert first.threshold < whole.threshold
