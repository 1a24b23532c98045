"""Functions in which a number swallows the point, so that values around it are round-off."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from functions import custom

from gradproof import Verdict, check
from gradproof.torch import gradcheck

Function = Callable[[torch.Tensor], torch.Tensor]

SWALLOWING: dict[str, Function] = {
    "log cosh": lambda x: x.cosh().log(),
    "log(1 + x)": lambda x: (1 + x).log(),
    "1 - cos": lambda x: 1 - x.cos(),
    "exp - 1": lambda x: x.exp() - 1,
    "pseudo-Huber": lambda x: (1 + x * x).sqrt() - 1,
}
SIZES = {
    torch.float64: (1e-5, 1e-8, 1e-10),
    torch.float32: (1e-3, 1e-6, 1e-8),
    torch.float16: (1e-2,),
}
POINTS = [(dtype, size) for dtype, sizes in SIZES.items() for size in sizes]


def small(dtype: torch.dtype, size: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return (size * torch.randn(12, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_()


scaled = custom(torch.clone, lambda _, g: 1.5 * g)


@pytest.mark.parametrize("name", SWALLOWING)
@pytest.mark.parametrize(("dtype", "size"), POINTS, ids=str)
def test_right_ones_pass(name: str, dtype: torch.dtype, size: float) -> None:
    report = check(SWALLOWING[name], small(dtype, size))
    assert report.verdict is Verdict.PASS, str(report)


@pytest.mark.parametrize("name", SWALLOWING)
@pytest.mark.parametrize(("dtype", "size"), POINTS, ids=str)
def test_wrong_ones_fail(name: str, dtype: torch.dtype, size: float) -> None:
    function = SWALLOWING[name]
    report = check(lambda x: function(scaled(x)), small(dtype, size))
    assert report.verdict is Verdict.FAIL
    assert any(finding.property == "jacobian" for finding in report.findings)


@pytest.mark.parametrize("name", SWALLOWING)
def test_the_drop_in_passes_right_ones(name: str) -> None:
    assert gradcheck(SWALLOWING[name], small(torch.float64, 1e-8))


def test_a_constant_is_no_grid() -> None:
    """However long the steps are, it does not move: a slope that is claimed is wrong."""
    constant = custom(lambda x: torch.zeros_like(x), lambda _, g: 1e-8 * g)
    assert check(constant, small(torch.float64, 1e-8)).verdict is Verdict.FAIL


def test_a_slope_that_round_off_hides_from_steps_as_short_as_the_point_is_wrong_by_longer_ones() -> None:
    """Steps as short as the point do not move 1 by anything, whatever the slope is."""
    constant = custom(lambda x: torch.ones_like(x), lambda _, g: 1e-3 * g)
    report = check(constant, small(torch.float64, 1e-8))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].entries[0].numeric == 0
    zero = custom(lambda x: torch.ones_like(x), lambda _, g: 0.0 * g)
    assert check(zero, small(torch.float64, 1e-8)).verdict is Verdict.PASS


@pytest.mark.parametrize("seed", range(3))
def test_zero_is_not_the_derivative_between_steps_of_a_one_inside(seed: int) -> None:
    """In float32 `1 - cos(x)` at 4e-3 has 1/64 of its value for a step: those of the numbers near 1."""
    x = (4e-3 * np.random.default_rng(seed).uniform(0.5, 1.5, 3)).astype(np.float32)

    def cancelled(x: np.ndarray) -> np.ndarray:
        return (np.float32(1.0) - np.cos(x)).sum()

    assert check(cancelled, x, grad=lambda x: 0 * x).verdict is not Verdict.PASS
    assert check(cancelled, x, grad=np.sin).verdict is Verdict.PASS
    assert check(cancelled, x, grad=lambda x: 2 * np.sin(x)).verdict is Verdict.FAIL


def test_a_large_constant_that_hides_every_entry_is_no_pass() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100_000, generator=generator, dtype=torch.float64).requires_grad_()
    assert check(lambda x: x.sin() + 1e8, x).verdict is Verdict.INCONCLUSIVE
    assert check(lambda x: x.sin() + 1e3, x).verdict is Verdict.PASS


def test_what_is_flat_up_to_a_kink_is_no_grid() -> None:
    beyond = custom(lambda x: (x - 0.1).clamp(min=0.0), lambda _, g: 0.5 * g)
    assert check(beyond, small(torch.float64, 1e-8)).verdict is Verdict.FAIL


def test_few_wide_steps_are_no_grid() -> None:
    steps = custom(lambda x: torch.round(10 * x) / 10, lambda _, g: 0.5 * g)
    assert check(steps, small(torch.float64, 1e-8)).verdict is Verdict.FAIL


def confident() -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of which one sample has a loss of 3e-12, beside others of 1e-5, and the largest of each."""
    x = 40.0 * torch.randn(8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(42))
    return x.requires_grad_(), x.argmax(1)


def cross_entropy(targets: torch.Tensor, factor: float) -> Function:
    """Written by hand; the gradient of the sample of 3e-12 has a factor."""

    def backward(saved: tuple[torch.Tensor, ...], g: torch.Tensor) -> torch.Tensor:
        right = saved[0].softmax(1) - torch.nn.functional.one_hot(targets, 5)
        right[1] *= factor
        return g * right / len(right)

    return custom(lambda x: torch.nn.functional.cross_entropy(x, targets), backward)


def test_a_sample_on_a_grid_of_its_own_beside_others_that_move_is_left_by_longer_steps() -> None:
    """Fine steps along one of its logits move nothing, coarse ones leave the grid: it is no constant."""
    x, targets = confident()
    report = check(cross_entropy(targets, 1.0), x, modes="reverse")
    assert report.verdict is Verdict.PASS, str(report)


@pytest.mark.parametrize("factor", [-3.0, 4.0])
def test_a_wrong_gradient_of_such_a_sample_fails(factor: float) -> None:
    x, targets = confident()
    report = check(cross_entropy(targets, factor), x, modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)
    entry = report.findings[0].entries[0]
    assert entry.input.element[0] == 1


def test_of_a_slope_that_round_off_may_hide_no_mask_is_said_to_be_missing() -> None:
    tiny = custom(lambda x: torch.zeros_like(x), lambda _, g: 1e-8 * g)
    report = check(tiny, small(torch.float64, 1e-8))
    assert "mask" not in report.findings[0].hint
    assert "round-off inside may hide" in report.findings[0].hint
    unmasked = custom(lambda x: x.relu(), lambda saved, g: 0.5 * g + 0.5 * g * (saved[0] > 0))
    assert "mask" in check(unmasked, small(torch.float64, 1.0)).findings[0].hint


HANDWRITTEN: dict[str, tuple[Function, Function]] = {
    "log cosh": (lambda x: x.cosh().log(), torch.tanh),
    "mean of log cosh": (lambda x: x.cosh().log().mean(), lambda x: x.tanh() / x.numel()),
    "1 - cos": (lambda x: 1 - x.cos(), torch.sin),
    "pseudo-Huber": (lambda x: (1 + x * x).sqrt() - 1, lambda x: x / (1 + x * x).sqrt()),
}


def handwritten(name: str, factors: torch.Tensor) -> Function:
    forward, slope = HANDWRITTEN[name]
    return custom(forward, lambda saved, g: g * slope(saved[0]) * factors)


def near(size: float, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (size * (1 + 0.3 * torch.randn(6, generator=generator, dtype=torch.float64))).requires_grad_()


@pytest.mark.parametrize("size", [1e-5, 1e-6, 1e-7, 1e-8])
@pytest.mark.parametrize("name", HANDWRITTEN)
def test_a_lone_entry_that_is_lost_among_claimed_slopes_is_wrong(name: str, size: float) -> None:
    """That it is zero between two steps of the staircase is no excuse: the others are claimed to be the slope."""
    lone = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    for seed in range(4):
        right = check(handwritten(name, torch.ones(6, dtype=torch.float64)), near(size, seed), modes="reverse")
        assert right.verdict is Verdict.PASS, str(right)
        report = check(handwritten(name, lone), near(size, seed), modes="reverse", properties="jacobian")
        assert report.verdict is Verdict.FAIL, str(report)
        assert {finding.input_element for finding in report.findings} == {(2,)}


@pytest.mark.parametrize("size", [3e-8, 1e-8, 1e-10])
@pytest.mark.parametrize("name", HANDWRITTEN)
@pytest.mark.parametrize("strategy", ["entries", "probes"])
def test_no_certificate_is_below_what_a_one_inside_may_hide(strategy: str, name: str, size: float) -> None:
    for seed in range(4):
        lost = handwritten(name, torch.zeros(6, dtype=torch.float64))
        report = check(lost, near(size, seed), modes="reverse", strategy=strategy)
        if report.verdict is Verdict.PASS:
            assert report.certificate.smallest[0][1] > size


@pytest.mark.parametrize("strategy", ["entries", "probes"])
@pytest.mark.parametrize("size", [1e-8, 1.0])
@pytest.mark.parametrize("function", [torch.floor, torch.sign, lambda x: x * 0, lambda x: 0 * x + 1])
def test_what_is_constant_passes(function: Function, size: float, strategy: str) -> None:
    for seed in range(4):
        report = check(function, near(size, seed) + 1e-9, strategy=strategy)
        assert report.verdict is Verdict.PASS, str(report)
