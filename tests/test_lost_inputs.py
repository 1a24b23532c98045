"""Inputs of which nothing but zeros is claimed, beside larger numbers, whose round-off hides what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom

from gradproof import Report, Status, Verdict, check
from gradproof.torch import gradcheck

Tensor = torch.Tensor


def drawn(n: int, seed: int) -> Tensor:
    return torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


class Lost(torch.autograd.Function):
    """What is given, and a gradient of zeros."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return torch.zeros_like(grads[0])


def beside(strong: float, of_weak: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """A sum of a strong input and of what is made of a weak one, whose gradient is zero."""
    return lambda x, weak: (strong * x).sum() + 1e-3 * of_weak(Lost.apply(weak)).sum()


def checked(strong: float, of_weak: Callable[[Tensor], Tensor], n: int, seed: int = 0) -> Report:
    inputs = drawn(n, seed).requires_grad_(), drawn(n, seed + 100).requires_grad_()
    return check(beside(strong, of_weak), inputs, properties="jacobian", modes="reverse", seed=seed)


@pytest.mark.parametrize("n", [1, 20])
@pytest.mark.parametrize("seed", range(3))
def test_a_lost_input_is_found_by_long_steps(n: int, seed: int) -> None:
    report = checked(1e8, lambda weak: weak, n, seed)
    finding = report.findings[0]
    assert (report.verdict, finding.status, finding.input) == (Verdict.FAIL, Status.WRONG, 1)
    assert finding.analytic == 0
    assert finding.numeric == pytest.approx(1e-3, rel=0.1)
    assert "Jacobian mismatch for output 0 with respect to input 1 `weak`" in finding.message


def test_so_is_that_of_a_function_that_is_no_straight_line() -> None:
    report = checked(1e8, lambda weak: weak.sin().exp(), 5)
    assert (report.verdict, report.findings[0].input) == (Verdict.FAIL, 1)


@pytest.mark.parametrize("strong", [1e8, 1e9])
def test_it_is_no_pass_where_no_entry_is_seen_alone(strong: float) -> None:
    report = checked(strong, lambda weak: weak, 300)
    assert report.verdict is not Verdict.PASS
    if report.verdict is Verdict.INCONCLUSIVE:
        assert "moves as input 1 `weak` does" in report.findings[0].message
        assert "nothing but zeros is claimed" in report.findings[0].message


RIGHT: dict[str, Callable[[Tensor], Tensor]] = {
    "constant": lambda weak: 0.0 * weak,
    "below its kinks": lambda weak: torch.relu(weak - 1.01 * drawn(20, 100).max()),
    "at its minima": lambda weak: (weak - drawn(20, 100)) ** 2,
    "flat to the third order": lambda weak: (weak - drawn(20, 100)) ** 5,
    "rounded": lambda weak: (10 * weak).round(),
    "a sign": lambda weak: weak.sign(),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("strong", [1.0, 1e4, 1e8])
def test_zeros_that_are_right_pass(name: str, strong: float) -> None:
    for seed in range(2):
        report = check(
            beside(strong, RIGHT[name]),
            (drawn(20, 0).requires_grad_(), drawn(20, 100).requires_grad_()),
            properties="jacobian",
            modes="reverse",
            seed=seed,
        )
        assert report.verdict is Verdict.PASS, str(report)


def test_what_a_tolerance_excuses_is_no_doubt_of_gradcheck(recwarn: pytest.WarningsRecorder) -> None:
    inputs = drawn(5, 0).requires_grad_(), drawn(5, 1).requires_grad_()
    assert gradcheck(lambda x, weak: (1e4 * x).sin() + 1e-6 * Lost.apply(weak), inputs, fast_mode=True)
    assert not recwarn.list


def dwarfed(size: int, sign: float, *, apart: bool = False, **options: Any) -> Report:
    """1e-3 beside 1e8, of one output, with this sign; or apart, where the large input is zero."""
    slope = torch.ones(size, dtype=torch.float64)
    slope[0], slope[-1] = 1e8, 1e-3
    claim = slope.clone()
    claim[-1] *= sign
    x = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    function = custom(lambda x: (slope * x).sum(), lambda s, g: g * claim)
    if not apart:
        return check(function, x, **options)
    large = torch.zeros(1, dtype=torch.float64)
    return check(lambda small: function(torch.cat([large, small])), x.detach()[1:].requires_grad_(), **options)


@pytest.mark.parametrize("size", [2, 10, 300])
@pytest.mark.parametrize(("sign", "verdict"), [(1.0, Verdict.PASS), (-1.0, Verdict.INCONCLUSIVE)])
def test_a_sign_that_is_wrong_beside_a_gradient_that_dwarfs_it_is_in_doubt(
    size: int, sign: float, verdict: Verdict
) -> None:
    """It is within the tolerance of the largest entry, and yet nothing of it is right."""
    report = dwarfed(size, sign)
    assert report.verdict is verdict, str(report)
    if sign < 0:
        assert f"gradient is dwarfed by that of others, input 0, element [{size - 1}] among them" in str(report)


@pytest.mark.parametrize("seed", range(3))
def test_what_others_dwarf_and_round_off_of_one_swallows_is_not_in_doubt(seed: int) -> None:
    """The losses of confident samples are below 1e-16, beside others of 1e-2: one of their logits moves nothing."""
    x = 100.0 * torch.randn(8, 5, generator=torch.Generator().manual_seed(16))
    targets = (x > 0).double()

    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.binary_cross_entropy_with_logits(x, targets.to(x.dtype))

    report = check(loss, x.requires_grad_(), modes="reverse", seed=seed)
    assert report.verdict is Verdict.PASS, str(report)
    wrong = check(lambda x: loss(custom(lambda x: x.clone(), lambda s, g: -g)(x)), x, modes="reverse", seed=seed)
    assert wrong.verdict is Verdict.FAIL, str(wrong)


@pytest.mark.parametrize("size", [2, 10, 300])
@pytest.mark.parametrize(("sign", "verdict"), [(1.0, Verdict.PASS), (-1.0, Verdict.FAIL)])
def test_what_the_page_about_failures_says_to_do_about_it_settles_it(size: int, sign: float, verdict: Verdict) -> None:
    reports = [dwarfed(size, sign, apart=True)]
    if size < 300:  # in a sum of so many, round-off hides more
        reports.append(dwarfed(size, sign, atol=1e-4, rtol=1e-3))
    for report in reports:
        assert report.verdict is verdict, str(report)
    assert dwarfed(size, sign, strategy="entries").verdict is Verdict.PASS, "negligible beside the largest entry"
