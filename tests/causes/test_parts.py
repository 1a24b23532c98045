"""Causes of scans, masks, windows, scales and complex factors: each where it is planted, and not where it looks so.

What was said falsely of bugs that nobody had seen before is here too.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from functions import custom, first_hint, numbers, of_one
from torch import Tensor

SIZES = pytest.mark.parametrize("size", [12, 200], ids=["few elements", "many elements"])
ROWS = pytest.mark.parametrize("rows", [4, 40], ids=["few elements", "many elements"])


def drawn(*shape: int, seed: int = 5) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def positive(*shape: int, seed: int = 5) -> Tensor:
    return drawn(*shape, seed=seed).abs() + 0.5


# outputs that do not depend on an element


def exponential(a: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh((a + a.mT) / 2)
    return vectors * values.exp() @ vectors.mT


def with_constant_vectors(a: Tensor, g: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh((a + a.mT) / 2)
    return vectors * ((vectors.mT @ g @ vectors).diagonal() * values.exp()) @ vectors.mT


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_outputs_that_depend_little_do_depend(seed: int) -> None:
    a = (drawn(31, 31, seed=seed) / 31**0.5).requires_grad_()
    assert "do not depend" not in first_hint(of_one(exponential, with_constant_vectors), a)


@ROWS
def test_outputs_that_a_mask_takes_out_do_not_depend(rows: int) -> None:
    mask = torch.tril(torch.ones(rows, rows, dtype=torch.float64))
    function = custom(lambda x: mask @ x.sin(), lambda s, g: s[0].cos() * g.sum(0))
    assert "do not depend" in first_hint(function, numbers(rows, 3))


# masks


def masked(forward: Callable[[int], Tensor], backward: Callable[[int], Tensor], size: int) -> str:
    function = custom(lambda x: forward(size) * x, lambda s, g: backward(size) * g)
    return first_hint(function, numbers(size))


def mask(seed: int) -> Callable[[int], Tensor]:
    return lambda size: 2.0 * (drawn(size, seed=seed) > 0)


@SIZES
def test_another_mask_is_named(size: int) -> None:
    assert "another mask than that of the function" in masked(mask(1), mask(2), size)


@SIZES
def test_a_mask_with_other_numbers_besides_is_not_another_mask(size: int) -> None:
    assert "another mask" not in masked(mask(1), lambda size: mask(2)(size) * positive(size), size)


# factors of single outputs


def test_a_factor_of_one_output_is_no_missing_sum() -> None:
    """One row of constants: what is missing is the same along it, and the row times a number nevertheless."""
    matrix = drawn(6, 6)
    matrix[0] = 1.0
    scale = torch.ones(6, dtype=torch.float64)
    scale[0] = 1.5
    told = first_hint(custom(lambda x: x @ matrix.T, lambda s, g: (g * scale) @ matrix), numbers(20, 6))
    assert "a factor for each output: 1.5 at [0, 0]" in told


def test_a_missing_sum_is_no_factor_of_one_output() -> None:
    function = custom(lambda x: x.sin() + x.sum(1, keepdim=True), lambda s, g: g * s[0].cos())
    assert "a factor for each output" not in first_hint(function, numbers(20, 6))


@SIZES
def test_weights_that_are_forgotten(size: int) -> None:
    weights = positive(size // 4).repeat_interleave(4)
    told = first_hint(custom(lambda x: x * weights, lambda s, g: g * weights[0]), numbers(size))
    assert f"analytic is {weights[0]:.4g} × grad_output for every output that reads an element" in told


@SIZES
def test_weights_of_something_else_are_not_forgotten(size: int) -> None:
    weights, others = positive(size), positive(size, seed=6)
    told = first_hint(custom(lambda x: x * weights, lambda s, g: g * others), numbers(size))
    assert "for every output that reads" not in told


# terms that are summed


@ROWS
def test_a_term_that_is_summed_over_the_output(rows: int) -> None:
    codes = torch.randint(0, 16, (rows, 8), generator=torch.Generator().manual_seed(0)).double()
    told = first_hint(custom(lambda s: (codes - 7) * s[:, None], lambda s, g: (g * codes).sum(1)), numbers(rows))
    assert "as if the term -7·grad_output, summed over axis 1 of output 0, were missing" in told


@ROWS
def test_a_term_that_is_not_constant_is_not_called_so(rows: int) -> None:
    codes, zero = drawn(rows, 8), drawn(rows, 8, seed=6)
    told = first_hint(custom(lambda s: (codes - zero) * s[:, None], lambda s, g: (g * codes).sum(1)), numbers(rows))
    assert "summed over" not in told


@pytest.mark.parametrize("columns", [6, 15])
def test_a_term_with_probabilities(columns: int) -> None:
    """The square of the log partition is forgotten beside another term."""
    other = drawn(4, columns)
    function = custom(
        lambda x: (other * x).sum(1) + x.logsumexp(1).square(),
        lambda s, g: g[:, None] * other,
    )
    assert "as if the term softmax(x, axis 1)·(a mean or a sum along axis 1)" in first_hint(
        function, numbers(4, columns)
    )


def test_an_exponential_is_no_probability() -> None:
    other = drawn(4, 6)
    function = custom(lambda x: (other * x + x.exp() * other.cos()).sum(1), lambda s, g: g[:, None] * other)
    assert "softmax" not in first_hint(function, numbers(4, 6))


# places


def states(a: Tensor, b: Tensor) -> Tensor:
    rows = [b[0]]
    for t in range(1, len(b)):
        rows.append(a[t] * rows[-1] + b[t])
    return torch.stack(rows)


def scan(used: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """A linear scan; the gradient of its decays is made with what `used` gives of the states."""

    def backward(s: tuple[Tensor, ...], g: Tensor) -> tuple[Tensor, Tensor]:
        a, b = s
        carried = [g[-1]]
        for t in range(len(b) - 2, -1, -1):
            carried.append(g[t] + a[t + 1] * carried[-1])
        flow = torch.stack(carried[::-1])
        gradient = flow * used(states(a, b))
        gradient[0] = 0
        return gradient, flow

    return custom(states, backward)


@pytest.mark.parametrize("width", [3, 40])
def test_the_state_of_the_step_itself(width: int) -> None:
    told = first_hint(scan(lambda y: y), (positive(6, width).requires_grad_(), numbers(6, width)))
    assert "where numeric has it one before along axis 0: an index is off by one" in told


@pytest.mark.parametrize("width", [3, 40])
def test_a_state_of_no_step(width: int) -> None:
    told = first_hint(scan(lambda y: y.roll(1, 0).cos()), (positive(6, width).requires_grad_(), numbers(6, width)))
    assert "off by one" not in told


def test_one_of_many_readers() -> None:
    """Each bias is read by up to a hundred outputs, and has the gradient of the first."""
    n = 100
    distance = torch.arange(n)[:, None] - torch.arange(n) + n - 1
    first = custom(lambda s, b: s + b[distance], lambda s, g: (g, torch.cat([g[0].flip(0), g[1:, 0]])))
    inputs = numbers(n, n), numbers(2 * n - 1, seed=1)
    assert "only one is counted and the others are 0: an index that occurs" in first_hint(first, inputs)
    half = custom(
        lambda s, b: s + b[distance],
        lambda s, g: (g, torch.zeros_like(s[1]).index_add(0, distance[::2].reshape(-1), g[::2].reshape(-1))),
    )
    assert "only one is counted" not in first_hint(half, inputs)


def test_a_factor_at_one_end_of_a_long_input_is_not_said_of_all() -> None:
    """So large that few elements are seen well: those at the end, which are five times as large."""

    def backward(s: tuple[Tensor, ...], g: Tensor) -> Tensor:
        gradient = 2 * g * s[0] / 316
        gradient[-63:] *= 316 / 63
        return gradient

    for seed in (0, 1, 2):
        told = first_hint(custom(lambda x: x.square().sum(1).mean(), backward), numbers(316, 317, seed=seed))
        assert "× numeric: a constant factor" not in told


# complex numbers


def quotient(turn: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return custom(lambda a, b: a / b, lambda s, g: (g / s[1].conj(), -g * (s[0] / s[1]).conj() / turn(s[1])))


def complex_numbers(size: int, seed: int) -> Tensor:
    return torch.complex(drawn(size, seed=seed), drawn(size, seed=seed + 10)).requires_grad_()


@pytest.mark.parametrize("size", [6, 60])
def test_a_factor_that_is_not_conjugated(size: int) -> None:
    inputs = complex_numbers(size, 1), complex_numbers(size, 2)
    assert "x is not conjugated where it should be" in first_hint(quotient(lambda b: b), inputs)


@pytest.mark.parametrize("size", [6, 60])
def test_a_factor_of_another_size_is_not_called_a_phase(size: int) -> None:
    inputs = complex_numbers(size, 1), complex_numbers(size, 2)
    assert "phase" not in first_hint(quotient(lambda b: b * (1 + 0.1 * b.abs())), inputs)


# other points


def bilinear(x: Tensor, w: Tensor) -> Tensor:
    return ((x @ w) * z_of(x)).sum(1)


def z_of(x: Tensor) -> Tensor:
    return drawn(*x.shape, seed=9)


def test_sums_that_are_multiplied() -> None:
    def backward(s: tuple[Tensor, ...], g: Tensor) -> tuple[Tensor, Tensor]:
        x, w = s
        c = g[:, None] * z_of(x)
        return c @ w.T, x.sum(0)[:, None] * c.sum(0)

    inputs = numbers(5, 3), numbers(3, 3, seed=1)
    assert "if every number of input 0 is its sum along axis 0" in first_hint(custom(bilinear, backward), inputs)


def test_products_of_something_else() -> None:
    def backward(s: tuple[Tensor, ...], g: Tensor) -> tuple[Tensor, Tensor]:
        x, w = s
        c = g[:, None] * z_of(x)
        return c @ w.T, (1.3 * x.sum(0) + x[0])[:, None] * c.sum(0)

    inputs = numbers(5, 3), numbers(3, 3, seed=1)
    assert "every number of" not in first_hint(custom(bilinear, backward), inputs)
