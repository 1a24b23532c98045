"""Bugs that an attacker came with: what is said of each is true, and what looks like it is not called the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, first_hint, numbers

from gradproof import Report, Verdict, check
from gradproof.engine import observers
from gradproof.torch import gradcheck

SIZES = pytest.mark.parametrize("size", [6, 40, 3000], ids=["few elements", "many elements", "thousands"])
TRANSPOSED = "analytic is the transpose of numeric"


# the Jacobian in place of its transpose


def shear(size: int) -> torch.Tensor:
    """A sparse square matrix that is not symmetric."""
    return torch.eye(size, dtype=torch.float64) + 0.5 * torch.diag(torch.ones(size - 1, dtype=torch.float64), 1)


@pytest.mark.parametrize("size", [6, 90])
def test_a_matrix_that_is_not_transposed_is_named(size: int) -> None:
    a = shear(size)
    assert TRANSPOSED in first_hint(custom(lambda x: a @ x, lambda s, g: a @ g), numbers(size))


@pytest.mark.parametrize("size", [6, 90])
def test_one_that_is_transposed_and_doubled_is_a_factor(size: int) -> None:
    a = shear(size)
    told = first_hint(custom(lambda x: a @ x, lambda s, g: 2 * a.mT @ g), numbers(size))
    assert TRANSPOSED not in told
    assert "a factor 2 too many" in told


@SIZES
def test_an_order_that_is_not_inverted_is_named(size: int) -> None:
    order = torch.randperm(size, generator=torch.Generator().manual_seed(1))
    assert TRANSPOSED in first_hint(custom(lambda x: x[order], lambda s, g: g[order]), numbers(size))


def test_a_transposed_dense_jacobian_is_named() -> None:
    a = np.random.default_rng(0).normal(size=(5, 5))
    assert TRANSPOSED in first_hint(lambda x: a @ x, np.linspace(0.5, 1.5, 5), jac=lambda x: a.T)


# lower precision


@SIZES
@pytest.mark.parametrize(
    ("dtype", "told"),
    [(torch.bfloat16, "8 bits (bfloat16)"), (torch.float16, "11 bits (float16)"), (torch.float32, "24 bits (float32)")],
    ids=["bfloat16", "float16", "float32"],
)
def test_a_gradient_of_fewer_bits_is_named(size: int, dtype: torch.dtype, told: str) -> None:
    wrong = custom(torch.sin, lambda s, g: (g * s[0].cos()).to(dtype).double())
    report = check(wrong, numbers(size))
    assert report.verdict is Verdict.FAIL
    assert all(told in f"{finding.headline} {finding.hint}" for finding in report.findings if finding.hint)
    assert not any("is not linear" in finding.headline for finding in report.findings)


def test_a_backward_that_is_not_linear_is_still_called_so() -> None:
    report = check(custom(torch.sin, lambda s, g: g.abs().to(torch.float32).double() * s[0].cos()), numbers(9))
    assert any("is not linear" in finding.headline for finding in report.findings)


def test_small_integers_are_no_lower_precision() -> None:
    told = first_hint(custom(lambda x: 3 * x, lambda s, g: 2 * g.sign() * torch.ones(12)), numbers(12))
    assert "bits" not in told


# regions of large inputs


def scattered(size: int, low: int, high: int, every: int) -> Callable[..., Any]:
    index = torch.arange(size)
    wrong = (index >= low) & (index < high) & (index % every == 0)
    return custom(torch.sin, lambda s, g: torch.where(wrong, 1.5 * s[0], s[0].cos()) * g)


def test_errors_here_and_there_are_not_called_a_run() -> None:
    told = first_hint(scattered(4000, 1000, 2500, 20), numbers(4000))
    assert "wrong only at" not in told


def test_a_run_of_errors_is() -> None:
    told = first_hint(scattered(4000, 1000, 2500, 1), numbers(4000))
    assert re.search(r"within indices 1000 to 25\d\d of 4000|wrong only at indices 1000 to 2499 of 4000", told)


def test_what_drowns_in_round_off_is_not_called_right() -> None:
    told = first_hint(custom(lambda x: x.sin() + 1e6, lambda s, g: 1.02 * g * s[0].cos()), numbers(3))
    assert "wrong only" not in told


# counts


def test_forgotten_weights_are_no_index_that_occurs_twice() -> None:
    weights = torch.tensor([1.0, 2.0] * 12, dtype=torch.float64)
    function = custom(lambda x: (weights * x**2).sum(), lambda s, g: 2 * g * s[0])
    assert "an index that occurs more than once" not in first_hint(function, numbers(24))


def test_inputs_in_one_memory_are_checked_as_copies_and_named() -> None:
    x = numbers(12)
    half = x.detach()[:6].requires_grad_()
    right = custom(lambda a, b: a.sin().sum() + b.exp().sum(), lambda s, g: (g * s[0].cos(), g * s[1].exp()))
    report = check(lambda a, b: right(a, b), (x, half))
    assert report.verdict is Verdict.PASS
    assert any("shares memory" in note for note in report.notes)
    unnoted = check(lambda a, b: right(a, b), (x, half.detach().clone().requires_grad_()))
    assert not any("shares memory" in note for note in unnoted.notes)
    assert "inputs share memory" in told_of_a_gradcheck(lambda a, b: right(a, b), (x, half))


def test_parts_of_one_tensor_side_by_side_are_blamed_for_nothing() -> None:
    whole = numbers(12).detach()
    parts = whole[:6].requires_grad_(), whole[6:].requires_grad_()
    wrong = custom(lambda a, b: a * b, lambda s, g: (2 * g * s[1], g * s[0]))
    assert "factor 2" in told_of_a_gradcheck(lambda a, b: wrong(a, b), parts)
    assert gradcheck(lambda a, b: a.sin() * b, parts, check_forward_ad=True)


def told_of_a_gradcheck(function: Callable[..., Any], inputs: Any) -> str:
    """What the report of a gradcheck that fails says first: torch's checker, too, moves memory that is shared."""
    reports: list[Report] = []
    observers.append(reports.append)
    try:
        assert not gradcheck(function, inputs, raise_exception=False)
    finally:
        observers.remove(reports.append)
    return reports[0].findings[0].hint


@pytest.mark.parametrize("size", [5, 30])
def test_a_mean_over_the_wrong_number_is_no_missing_term(size: int) -> None:
    """What is the same along an axis in truth and claim differs by the same along it, whatever the cause."""
    mask = (torch.rand(size, size + 1, generator=torch.Generator().manual_seed(0)) > 0.4).double()
    mask[:, 0] = 1.0
    wrong = custom(lambda x: (x * mask).sum(1) / mask.sum(1), lambda s, g: g[:, None] * mask / (size + 1))
    assert "were missing" not in first_hint(wrong, numbers(size, size + 1))
