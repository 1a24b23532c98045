"""How noisy a function is, is measured; smooth functions, kinks and jumps are not taken for noise."""

from __future__ import annotations

import numpy as np
import pytest
from array_problem import DOUBLE, SINGLE, Part, investigation

from gradproof.core.noise import computed_in, learn_noise, measured, on_jump, staying, told

x = np.linspace(0.3, 2.1, 24)


def spacing(function, at=x, **options):
    """The relative spacing that is measured; None: the dtype explains what is seen."""
    found = measured(investigation(function, at, **options))
    return None if found is None else found.outputs.coarsest_eps


@pytest.mark.parametrize(
    "function",
    [np.sin, lambda x: np.exp(5 * x), lambda x: 1 / x, lambda x: np.abs(x - x.round(1)), np.sign, lambda x: x**3 - x],
)
def test_smooth_functions_and_kinks_are_not_noisy(function):
    assert spacing(function) is None


def test_a_jump_at_the_point_is_not_noise():
    assert spacing(lambda y: y + 0.01 * np.sign(y - x)) is None


def test_steps_that_leave_no_slope_are_not_noise():
    assert spacing(np.round) is None


@pytest.mark.parametrize(
    ("function", "eps"),
    [
        (lambda x: np.sin(x.astype(np.float32)).astype(float), 2.0**-23),
        (lambda x: np.sin(x).astype(np.float32) * x, 2.0**-23),
        (lambda x: np.sin(x.astype(np.float16).astype(float)), 2.0**-10),
        (lambda x: np.round(np.sin(x) * 2**16) / 2**16, 2.0**-16),
        (lambda x: np.round(np.sin(x), 3), 2.0**-10),
        (lambda x: np.sin(x) + 1e-6 * np.sin(1e12 * x), 2.0**-19),
        (lambda x: (np.sin(x) + 1e8) - 1e8, 2.0**-26),
    ],
)
def test_what_is_lost_inside_is_measured(function, eps):
    assert eps / 4 <= spacing(function) <= 4 * eps


def test_half_precision_in_a_function_of_single_precision():
    single = {"inputs": [Part((24,), eps=SINGLE)], "outputs": [Part((24,), eps=SINGLE)]}
    at = x.astype(np.float32).astype(float)
    assert spacing(np.sin, at, **single) is None
    assert 2.0**-12 <= spacing(lambda x: np.sin(x.astype(np.float16)), at, **single) <= 2.0**-8


def test_each_output_has_its_own_noise():
    def both(x):
        return np.concatenate([np.sin(x), np.cos(x).astype(np.float32)])

    found = measured(investigation(both, x, outputs=[Part((24,)), Part((24,))]))
    assert found.outputs.blocks[0].eps == DOUBLE < found.outputs.blocks[1].eps
    assert found.noise[:24].max() < 1e-14 < found.noise[24:].min()


def test_a_function_that_refuses_large_steps_is_measured_with_small_ones():
    def narrow(y):
        if np.abs(y - x).max() > 0.1:
            raise ValueError("outside")
        return np.sin(y).astype(np.float32)

    assert spacing(narrow) is not None


def test_it_is_found_once_and_told():
    case = investigation(lambda x: np.sin(x).astype(np.float32), x)
    made = case.problem
    assert list(told(case)) == []
    assert learn_noise(case)
    assert not learn_noise(case)
    assert case.made is made
    assert case.problem is not made
    (note,) = told(case)
    assert note.text.startswith("output 0 is computed with about 2")


def test_a_twin_that_rounds_is_no_better_than_what_it_rounds_to():
    coarser = computed_in(investigation(np.sin, x).problem, [SINGLE])
    assert (coarser.outputs.coarsest_eps, coarser.inputs.coarsest_eps) == (SINGLE, DOUBLE)
    assert computed_in(coarser, [DOUBLE]).outputs.coarsest_eps == SINGLE


def test_noise_is_what_stays():
    left = np.array([[1e-2, 1e-2], [4e-3, 1e-4], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert staying(left, left > 0, ratio=8.0).tolist() == [1e-2, 0.0]
    assert staying(left, np.ones_like(left, dtype=bool), ratio=8.0).tolist() == [0.0, 0.0], "it moves: it is linear"


def test_what_stays_with_its_sign_is_a_jump():
    same, changing, none = np.full((6, 1), 0.5), np.array([[0.5], [-0.5]] * 3), np.zeros((6, 1))
    assert on_jump(same, none).tolist() == on_jump(none, same).tolist() == [True]
    assert on_jump(changing, none).tolist() == on_jump(same, changing).tolist() == [False]
    assert on_jump(none, none).tolist() == [False]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("side", [1, -1])
def test_a_kink_at_any_distance_is_not_noise(seed, side):
    at = np.random.default_rng(seed).uniform(1.0, 2.0, 24)
    distance = 10.0 ** -np.linspace(0.5, 9, 24)
    assert spacing(lambda x: np.maximum(side * (x - at) + distance, 0.0) + 1.0, at) is None


@pytest.mark.parametrize("size", [3e-5, 1e-6, 1e-8])
def test_jumps_beside_the_point_are_found_where_the_doubt_is_slight(size):
    def stopping(x):
        return np.exp(x) * (1.0 + size * (np.log2(x[0]) * 6 % 1.0 < 0.5))

    case = investigation(stopping, np.linspace(0.9, 2.1, 6))
    assert not learn_noise(case)
    assert learn_noise(case, slight=True)
    assert size / 4 <= case.problem.outputs.coarsest_eps <= 8 * size


@pytest.mark.parametrize("function", [lambda x: np.exp(5 * x), lambda x: 1 / x, lambda x: np.abs(x - x.mean())])
def test_kinks_and_smooth_functions_do_not_jump(function):
    assert not learn_noise(investigation(function, x), slight=True)


def test_wide_jumps_are_no_solver_s():
    assert not learn_noise(investigation(lambda x: np.exp(x) * (1.0 + 0.01 * (x[0] > 0.31)), x), slight=True)


def test_a_grid_along_one_input_is_seen_beside_another_that_is_smooth():
    def product(z):
        return (np.round(z[:24] * 2**10) / 2**10) * z[24:]

    halves = [Part((24,)), Part((24,))]
    z = np.concatenate([x, x[::-1]])
    found = measured(investigation(product, z, inputs=halves))
    assert found is not None
    assert 2.0**-12 <= found.outputs.blocks[0].eps <= 2.0**-8
    assert measured(investigation(lambda z: z[:24] * z[24:], z, inputs=halves)) is None
