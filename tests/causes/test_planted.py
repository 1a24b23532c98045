"""Planted errors of dense Jacobians, of squares and of products: what is said of each, and of what nothing is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, matmul_with, numbers, square_with

from gradproof import Verdict, check

NONE = "no usual cause fits"
Claimed = Callable[[Any], Any]


def hint(function: Callable[..., Any], inputs: Any, **options: Any) -> str:
    report = check(function, inputs, modes="reverse", properties="jacobian", **options)
    assert report.verdict is Verdict.FAIL
    assert f"hint: {report.findings[0].hint.split(' ')[0]}" in str(report)
    return report.findings[0].hint


def dense(shape: tuple[int, ...], claimed: Claimed, outputs: int = 4) -> tuple[Callable[..., Any], Any]:
    """A linear function with a random Jacobian, and a backward with what is claimed for it."""
    numeric = np.random.default_rng(0).uniform(0.5, 1.5, (outputs, int(np.prod(shape))))
    truth, claim = torch.tensor(numeric), torch.tensor(np.ascontiguousarray(claimed(numeric)))
    wrong = custom(lambda x: truth @ x.reshape(-1), lambda s, g: (claim.mT @ g).reshape(shape))
    return lambda x: wrong(x), numbers(*shape)


@pytest.mark.parametrize(
    ("factor", "told"),
    [
        (-1.0, "analytic ≈ -1 × numeric: the sign is wrong"),
        (2.0, "analytic ≈ 2 × numeric: a factor 2 too many"),
        (0.5, "analytic ≈ 0.5 × numeric: a factor 2 is missing"),
        (1 / 7, "analytic ≈ 0.1429 × numeric: a constant factor 1/7, which is also 1 / the size of axis 0 of input 0 "
                "`x` (a mean in place of a sum?)"),
        (7.0, "analytic ≈ 7 × numeric: a constant factor 7, which is also the size of axis 0 of input 0 `x` (a sum in "
              "place of a mean, or an axis summed twice?)"),
        (3.3, "analytic ≈ 3.3 × numeric: a constant factor 33/10"),
        (1.01, "analytic ≈ 1.01 × numeric: a constant factor"),
        (0.0, "analytic is 0 for all of input 0 `x` that was sampled: a gradient is lost (None, zeros, detached or "
              "not stored)"),
    ],
)  # fmt: skip
def test_a_factor_is_named(factor: float, told: str) -> None:
    assert hint(*dense((7,), lambda numeric: factor * numeric)) == told


def test_a_constant_added_to_every_entry_is_the_same_along_the_input() -> None:
    assert "numeric - analytic is the same all along axis 0" in hint(*dense((7,), lambda numeric: numeric + 0.25))


def transposed(numeric: Any) -> Any:
    return numeric.reshape(4, 3, 3).transpose(0, 2, 1).reshape(4, 9)


@pytest.mark.parametrize("behind", [False, True], ids=["the first input", "the second input"])
def test_a_transposed_square_input_is_named(behind: bool) -> None:
    function, x = dense((3, 3), transposed)
    before = hint(lambda b, x: b.sin().sum() + function(x), (numbers(5, seed=2), x)) if behind else ""
    told = before or hint(function, x)
    assert f"analytic is numeric transposed (axes 0 and 1 swapped), for input {int(behind)}" in told


def test_an_input_that_is_not_square_cannot_be_transposed() -> None:
    told = hint(*dense((2, 3), lambda numeric: numeric.reshape(4, 2, 3)[:, ::-1, ::-1].reshape(4, 6)))
    assert "transposed" not in told
    assert "flipped along axes 0 and 1" in told


def test_a_wrong_sign_of_everything_is_no_missing_conjugate() -> None:
    told = hint(square_with(lambda s, g: -2 * s[0].conj() * g), numbers(2, dtype=torch.complex128))
    assert "the sign is wrong" in told


# regions


def spoiled(shape: tuple[int, ...], where: Any) -> tuple[Callable[..., Any], Any]:
    """Random errors at these indices of the input."""

    def claimed(numeric: Any) -> Any:
        errors = np.zeros((4, *shape))
        drawn = np.random.default_rng(1).normal(size=errors.shape)
        errors[(slice(None), *where)] = drawn[(slice(None), *where)]
        return numeric + errors.reshape(numeric.shape)

    return dense(shape, claimed)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ((slice(None), -1), "seen to be wrong only at index 5 of 6 (the last) along axis 1 of input 0 `x`"),
        ((slice(None), 0), "seen to be wrong only at index 0 of 6 (the first) along axis 1 of input 0 `x`"),
        ((-1, slice(None)), "seen to be wrong only at index 3 of 4 (the last) along axis 0 of input 0 `x`"),
        ((0, slice(None)), "seen to be wrong only at index 0 of 4 (the first) along axis 0 of input 0 `x`"),
        ((slice(None), [0, 5]), "seen to be wrong only at both ends of axis 1 of input 0 `x`: the boundary"),
        (([0, 3], slice(None)), "seen to be wrong only at both ends of axis 0 of input 0 `x`: the boundary"),
        ((slice(None), 2), "seen to be wrong only at index 2 of 6 along axis 1 of input 0 `x`"),
        ((slice(None), slice(2, 5)), "seen to be wrong only at indices 2 to 4 of 6 along axis 1 of input 0 `x`"),
        ((slice(None), slice(None)), NONE),
    ],
)
def test_a_region_is_named_where_it_is_one(where: Any, told: str) -> None:
    assert hint(*spoiled((4, 6), where)).startswith(told)


def test_a_cause_and_a_region_are_both_named() -> None:
    def claimed(numeric: Any) -> Any:
        analytic = numeric.copy()
        analytic[:, -1] *= 2
        return analytic

    told = hint(*dense((7,), claimed))
    assert told.startswith(
        "analytic ≈ 2 × numeric on all 1 wrong elements that were sampled: a factor 2 too many; "
        "seen to be wrong only at index 6 of 7 (the last) along axis 0 of input 0 `x`"
    )


# silence


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shape", [(7,), (3, 3)], ids=str)
def test_nothing_is_said_of_random_errors(shape: tuple[int, ...], seed: int) -> None:
    draw = np.random.default_rng(seed)
    assert hint(*dense(shape, lambda numeric: numeric + draw.normal(size=numeric.shape))).startswith(NONE)


def lone(factor: float) -> tuple[Callable[..., Any], Any]:
    scale = torch.ones(7, dtype=torch.float64)
    scale[3] = factor
    return square_with(lambda s, g: 2 * s[0] * g * scale), numbers(7)


@pytest.mark.parametrize("factor", [1.37, -1.0, 2.0])
def test_one_entry_is_always_some_factor_off_which_says_nothing(factor: float) -> None:
    """A sign or a factor 2 of one element among others that are right is no rule of the derivative either."""
    assert "×" not in hint(*lone(factor))


def test_a_factor_that_fits_a_part_only_is_not_named() -> None:
    def claimed(numeric: Any) -> Any:
        analytic = 2 * numeric
        analytic[:, :3] += np.random.default_rng(1).normal(size=(4, 3))
        return analytic

    assert "×" not in hint(*dense((7,), claimed))


def test_no_factor_is_named_where_numeric_is_zero_and_analytic_is_not() -> None:
    shifts = torch.zeros(9, 9, dtype=torch.float64)
    shifts[torch.arange(4) + 1, torch.arange(4) + 2] = numbers(4, seed=4).detach()
    told = hint(custom(torch.sin, lambda s, g: g * s[0].cos() + shifts.mT @ g), numbers(9))
    assert "×" not in told


# from a planted bug to the hint of its finding


def at_index(gradient: torch.Tensor, axis: int, index: int, by: float) -> torch.Tensor:
    spoiled = gradient.clone()
    spoiled.select(axis, index).mul_(by)
    return spoiled


RAMP = torch.linspace(1, 2, 6, dtype=torch.float64)
PLANTED: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "sign": (square_with(lambda s, g: -2 * s[0] * g), numbers(5), "the sign is wrong"),
    "factor too many": (square_with(lambda s, g: 4 * s[0] * g), numbers(5), "a factor 2 too many"),
    "factor missing": (square_with(lambda s, g: s[0] * g), numbers(5), "a factor 2 is missing"),
    "mean for sum": (
        custom(lambda x: (x * x).sum(), lambda s, g: 2 * s[0] * g / 7), numbers(7), "a mean in place of a sum",
    ),
    "zero": (square_with(lambda s, g: 0 * g), numbers(5), "a gradient is lost"),
    "detached": (lambda x, y: x * y.detach(), (numbers(5), numbers(5, seed=1)), "a gradient is lost"),
    "conjugate": (
        square_with(lambda s, g: 2 * s[0] * g), numbers(4, dtype=torch.complex128), "conjugate",
    ),
    "transpose": (
        matmul_with(lambda s, g: (g @ s[1].mT, (s[0].mT @ g).mT)), (numbers(4, 4), numbers(4, 4, seed=1)), "transpose",
    ),
    "last column": (
        square_with(lambda s, g: at_index(2 * s[0] * g, 1, -1, 1.7)), numbers(4, 6),
        "seen to be wrong only at index 5 of 6 (the last) along axis 1 of input 0",
    ),
    "first row": (
        square_with(lambda s, g: at_index(2 * s[0] * g, 0, 0, 1.7)), numbers(4, 6),
        "seen to be wrong only at index 0 of 4 (the first) along axis 0 of input 0",
    ),
    "boundary": (
        square_with(lambda s, g: at_index(at_index(2 * s[0] * g, 0, 0, 1.7), 0, -1, 0.3)), numbers(16),
        "seen to be wrong only at both ends of axis 0 of input 0: the boundary",
    ),
    "tail of the input": (
        square_with(lambda s, g: 2 * s[0] * g * (1 + 0.3 * s[0] * (torch.arange(12) > 8))), numbers(12),
        "seen to be wrong only at the last 3 of 12 indices along axis 0 of input 0",
    ),
    "tail of the output": (
        custom(lambda x: x.sum() * RAMP, lambda s, g: (
            (g[:4] * RAMP[:4]).sum() + (g[4:] ** 1).sum() * s[0]
        ).expand(3)), numbers(3),
        "seen to be wrong only at the last 2 of 6 indices along axis 0 of output 0",
    ),
    "added constant": (
        custom(lambda x: (x * x).sum(), lambda s, g: (2 * s[0] + 0.125) * g), numbers(6), "a constant is added",
    ),
}  # fmt: skip


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_named_in_the_hint(name: str, strategy: str) -> None:
    function, inputs, told = PLANTED[name]
    assert told in hint(function, inputs, strategy=strategy)


def test_errors_in_the_middle_are_no_tail() -> None:
    wrong = square_with(lambda s, g: 2 * s[0] * g * (1 + 0.3 * s[0] * ((torch.arange(9) > 5) & (torch.arange(9) < 8))))
    assert "last" not in hint(wrong, numbers(9))


def test_inputs_that_are_right_narrow_it_down() -> None:
    errors = numbers(4, seed=5).detach()
    wrong = custom(lambda a, b: a * b, lambda s, g: (s[1] * g, s[0] * g * errors))
    told = hint(lambda a, b: wrong(a, b), (numbers(4), numbers(4, seed=1)))
    assert "`a` is right: look where only `b` passes" in told


def test_random_errors_have_no_cause() -> None:
    errors = numbers(40, seed=5).detach()
    assert hint(square_with(lambda s, g: 2 * s[0] * g * errors), numbers(40)).startswith(NONE)


@pytest.mark.parametrize("factor", [-1.0, 2.0, 0.5])
def test_a_factor_among_many_elements_is_named_by_the_entries_located(factor: float) -> None:
    told = hint(square_with(lambda s, g: factor * 2 * s[0] * g), numbers(5000))
    assert f"analytic ≈ {factor:g} × numeric" in told
