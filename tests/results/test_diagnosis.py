"""The usual causes: each fits its own planted bug, and none a random error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, matmul_with, numbers, square_with

from gradproof import Verdict, check
from gradproof.core.space import Block
from gradproof.results.diagnosis import Evidence, diagnose

EPS = 2.0**-52


def block(kind: str, shape: tuple[int, ...], parts: int = 1, start: int = 0) -> Block:
    return Block(
        kind=kind, index=0, name="x" if kind == "input" else "", shape=shape, parts=parts, start=start, eps=EPS
    )


def dense(
    shape: tuple[int, ...], claimed: Callable[[Any], Any], outputs: int = 4, parts: int = 1, start: int = 0
) -> Evidence:
    """The entries that differ between a random Jacobian and what is claimed for it."""
    width = int(np.prod(shape)) * parts
    numeric = np.random.default_rng(0).uniform(0.5, 1.5, (outputs, width))
    analytic = claimed(numeric)
    rows, columns = np.nonzero(analytic != numeric)
    at = rows, columns
    output, input_ = block("output", (outputs,)), block("input", shape, parts, start)
    return Evidence(output, input_, rows, columns + start, numeric[at], analytic[at])


def scaled(factor: float) -> Callable[[Any], Any]:
    return lambda numeric: factor * numeric


@pytest.mark.parametrize(
    ("factor", "hint"),
    [
        (-1.0, "analytic ≈ -1 × numeric on 28 of 28 wrong entries: the sign is wrong"),
        (2.0, "analytic ≈ 2 × numeric on 28 of 28 wrong entries: a factor 2 too many"),
        (0.5, "analytic ≈ 0.5 × numeric on 28 of 28 wrong entries: a factor 2 is missing"),
        (1 / 7, "analytic ≈ 0.1429 × numeric on 28 of 28 wrong entries: a factor 1/7, a size of a dimension: a mean in "
                "place of a sum"),
        (7.0, "analytic ≈ 7 × numeric on 28 of 28 wrong entries: a factor 7, a size of a dimension: a sum in place of "
              "a mean, or an axis summed twice"),
        (3.3, "analytic ≈ 3.3 × numeric on 28 of 28 wrong entries: a constant factor"),
        (1.01, "analytic ≈ 1.01 × numeric on 28 of 28 wrong entries: a constant factor"),
        (0.0, "analytic is 0 on all 28 wrong entries: a gradient is lost (None, zeros, or not stored)"),
    ],
)  # fmt: skip
def test_a_factor_is_named(factor: float, hint: str) -> None:
    assert diagnose(dense((7,), scaled(factor))) == hint


def test_a_constant_added_is_named() -> None:
    assert diagnose(dense((7,), lambda numeric: numeric + 0.25)) == (
        "analytic ≈ numeric +0.25 on 28 of 28 wrong entries: a constant is added"
    )


@pytest.mark.parametrize("start", [0, 5])
def test_a_transposed_square_input_is_named(start: int) -> None:
    def transpose(numeric: Any) -> Any:
        return numeric.reshape(4, 3, 3).transpose(0, 2, 1).reshape(4, 9)

    hint = diagnose(dense((3, 3), transpose, start=start))
    assert hint == "analytic is the transpose of numeric on 24 of 24 wrong entries"


def test_an_input_that_is_not_square_cannot_be_transposed() -> None:
    def mixed(numeric: Any) -> Any:
        return numeric.reshape(4, 2, 3)[:, ::-1, ::-1].reshape(4, 6)

    assert "transpose" not in diagnose(dense((2, 3), mixed))


def test_a_missing_conjugate_is_named() -> None:
    """Of the 2 by 2 of real and imaginary parts, the two that mix them have the wrong sign."""
    rows, columns = np.array([0, 1, 2, 3, 4, 5]), np.array([1, 0, 3, 2, 5, 4])
    numeric = np.random.default_rng(0).uniform(0.5, 1.5, 6)
    input_, output = block("input", (3,), parts=2), block("output", (3,), parts=2)
    hint = diagnose(Evidence(output, input_, rows, columns, numeric, -numeric))
    assert hint == "only the sign of the imaginary part is wrong, on 6 entries: a missing conjugate"


def test_a_wrong_sign_of_everything_is_no_missing_conjugate() -> None:
    rows, columns = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    numeric = np.array([1.0, 2.0, -2.0, 1.0])
    input_, output = block("input", (1,), parts=2), block("output", (1,), parts=2)
    assert "the sign is wrong" in diagnose(Evidence(output, input_, rows, columns, numeric, -numeric))


# regions


def spoiled(shape: tuple[int, ...], where: Any, outputs: int = 4) -> Evidence:
    """Random errors at these indices of the input."""

    def claimed(numeric: Any) -> Any:
        errors = np.zeros((outputs, *shape))
        drawn = np.random.default_rng(1).normal(size=errors.shape)
        errors[(slice(None), *where)] = drawn[(slice(None), *where)]
        return numeric + errors.reshape(numeric.shape)

    return dense(shape, claimed, outputs)


@pytest.mark.parametrize(
    ("where", "hint"),
    [
        ((slice(None), -1), "wrong only at index 5 along axis 1 of input 0 `x`: the last"),
        ((slice(None), 0), "wrong only at index 0 along axis 1 of input 0 `x`: the first"),
        ((-1, slice(None)), "wrong only at index 3 along axis 0 of input 0 `x`: the last"),
        ((0, slice(None)), "wrong only at index 0 along axis 0 of input 0 `x`: the first"),
        ((slice(None), [0, 5]), "wrong only at both ends of axis 1 of input 0 `x`: the boundary"),
        (([0, 3], slice(None)), "wrong only at both ends of axis 0 of input 0 `x`: the boundary"),
        ((slice(None), 2), ""),
        ((slice(None), slice(2, 5)), ""),
        ((slice(None), slice(None)), ""),
    ],
)
def test_a_region_is_named_where_it_is_one(where: Any, hint: str) -> None:
    assert diagnose(spoiled((4, 6), where)) == hint


def test_a_cause_and_a_region_are_both_named() -> None:
    def claimed(numeric: Any) -> Any:
        analytic = numeric.copy()
        analytic[:, -1] *= 2
        return analytic

    hint = diagnose(dense((7,), claimed))
    assert hint == (
        "analytic ≈ 2 × numeric on 4 of 4 wrong entries: a factor 2 too many; "
        "wrong only at index 6 along axis 0 of input 0 `x`: the last"
    )


# silence


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("shape", [(7,), (3, 3)], ids=str)
def test_nothing_is_said_of_random_errors(shape: tuple[int, ...], seed: int) -> None:
    draw = np.random.default_rng(seed)
    assert diagnose(dense(shape, lambda numeric: numeric + draw.normal(size=numeric.shape))) == ""


def test_one_entry_is_always_some_factor_off_which_says_nothing() -> None:
    def one(factor: float) -> Evidence:
        at = np.array([3])
        return Evidence(block("output", (7,)), block("input", (7,)), at, at, np.array([0.8]), np.array([0.8 * factor]))

    assert diagnose(one(1.37)) == ""
    assert "the sign is wrong" in diagnose(one(-1.0))
    assert "a factor 2 too many" in diagnose(one(2.0))


def test_a_factor_that_fits_a_part_only_is_not_named() -> None:
    def claimed(numeric: Any) -> Any:
        analytic = 2 * numeric
        analytic[:, :3] += np.random.default_rng(1).normal(size=(4, 3))
        return analytic

    assert diagnose(dense((7,), claimed)) == ""


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nothing_is_said_of_what_is_no_number(value: float) -> None:
    assert diagnose(dense((7,), lambda numeric: np.full_like(numeric, value))) == ""


def test_nothing_is_said_where_numeric_is_zero_and_analytic_is_not() -> None:
    at = np.arange(4)
    analytic = np.random.default_rng(0).normal(size=4)
    assert diagnose(Evidence(block("output", (9,)), block("input", (9,)), at + 1, at + 2, np.zeros(4), analytic)) == ""


# from a planted bug to the hint of its finding


def at_index(gradient: torch.Tensor, axis: int, index: int, by: float) -> torch.Tensor:
    spoiled = gradient.clone()
    spoiled.select(axis, index).mul_(by)
    return spoiled


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
        square_with(lambda s, g: 2 * s[0] * g), numbers(4, dtype=torch.complex128), "a missing conjugate",
    ),
    "transpose": (
        matmul_with(lambda s, g: (g @ s[1].mT, (s[0].mT @ g).mT)), (numbers(4, 4), numbers(4, 4, seed=1)), "transpose",
    ),
    "last column": (
        square_with(lambda s, g: at_index(2 * s[0] * g, 1, -1, 1.7)), numbers(4, 6),
        "wrong only at index 5 along axis 1 of input 0: the last",
    ),
    "first row": (
        square_with(lambda s, g: at_index(2 * s[0] * g, 0, 0, 1.7)), numbers(4, 6),
        "wrong only at index 0 along axis 0 of input 0: the first",
    ),
    "boundary": (
        square_with(lambda s, g: at_index(at_index(2 * s[0] * g, 0, 0, 1.7), 0, -1, 0.3)), numbers(9),
        "wrong only at both ends of axis 0 of input 0: the boundary",
    ),
    "tail of the input": (
        square_with(lambda s, g: 2 * s[0] * g * (1 + 0.3 * s[0] * (torch.arange(9) > 5))), numbers(9),
        "wrong only at the last 3 of 9 indices along axis 0 of input 0: a tail left over?",
    ),
    "tail of the output": (
        custom(lambda x: x.sum() * torch.linspace(1, 2, 6, dtype=torch.float64), lambda s, g: (
            (g[:4] * torch.linspace(1, 2, 6, dtype=torch.float64)[:4]).sum() + (g[4:] ** 1).sum() * s[0]
        ).expand(3)), numbers(3),
        "wrong only at the last 2 of 6 indices along axis 0 of output 0: a tail left over?",
    ),
    "added constant": (
        custom(lambda x: (x * x).sum(), lambda s, g: (2 * s[0] + 0.125) * g), numbers(6), "a constant is added",
    ),
}  # fmt: skip


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_named_in_the_hint(name: str, strategy: str) -> None:
    function, inputs, hint = PLANTED[name]
    report = check(function, inputs, strategy=strategy, modes="reverse", properties="jacobian")
    assert report.verdict is Verdict.FAIL
    assert hint in report.findings[0].hint
    assert f"hint: {report.findings[0].hint}" in str(report)


def test_errors_in_the_middle_are_no_tail() -> None:
    wrong = square_with(lambda s, g: 2 * s[0] * g * (1 + 0.3 * s[0] * ((torch.arange(9) > 5) & (torch.arange(9) < 8))))
    report = check(wrong, numbers(9), modes="reverse", properties="jacobian")
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].hint == ""


def test_inputs_that_are_right_narrow_it_down() -> None:
    errors = numbers(4, seed=5).detach()
    wrong = custom(lambda a, b: a * b, lambda s, g: (s[1] * g, s[0] * g * errors))
    report = check(lambda a, b: wrong(a, b), (numbers(4), numbers(4, seed=1)), modes="reverse", properties="jacobian")
    assert report.findings[0].hint == "no simple pattern, but `a` is right: look where only `b` passes"


def test_random_errors_have_no_hint() -> None:
    errors = numbers(40, seed=5).detach()
    wrong = square_with(lambda s, g: 2 * s[0] * g * errors)
    report = check(wrong, numbers(40), modes="reverse", properties="jacobian")
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].hint == ""


@pytest.mark.parametrize("factor", [-1.0, 2.0, 0.5])
def test_a_factor_among_many_elements_is_named_by_the_entries_located(factor: float) -> None:
    report = check(square_with(lambda s, g: factor * 2 * s[0] * g), numbers(5000), properties="jacobian")
    assert f"analytic ≈ {factor:g} × numeric" in report.findings[0].hint
