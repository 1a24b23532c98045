"""Points beside a kink: the derivative there is that of one side, however near the kink is.

Where steps are left that do not reach over the kink, the mean of the two sides is WRONG. Where none are, it may pass,
but the certificate says then that as much could hide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
import torch
from functions import custom

from gradproof import Report, Verdict, check
from gradproof.torch import gradcheck

Tensor = torch.Tensor
Function = Callable[[Tensor], Tensor]

SHAPES: dict[str, tuple[Function, float, float]] = {
    "relu": (torch.relu, 0.0, 1.0),
    "abs": (torch.abs, -1.0, 1.0),
    "leaky relu": (lambda x: torch.nn.functional.leaky_relu(x, 0.3), 0.3, 1.0),
}
DISTANCES = [10.0**-k for k in range(3, 15)]


def judged(
    forward: Function,
    point: Tensor,
    slopes: Tensor,
    *,
    summed: bool = False,
    strategy: Literal["auto", "entries"] = "auto",
) -> Report:
    def backward(saved: tuple[Tensor, ...], g: Tensor) -> Tensor:
        return g * slopes

    function = custom(lambda x: forward(x).sum() if summed else forward(x), backward)
    return check(function, point.clone().requires_grad_(), modes="reverse", properties="jacobian", strategy=strategy)


def hides(report: Report) -> float:
    assert report.certificate is not None
    return max(size for _, size in report.certificate.smallest)


@pytest.mark.parametrize("strategy", ["auto", "entries"])
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("at", [0.0, 1.0, 7.3])
@pytest.mark.parametrize("name", SHAPES)
def test_the_mean_of_the_sides_fails_or_the_certificate_admits_it(
    name: str, at: float, summed: bool, strategy: Literal["auto", "entries"]
) -> None:
    shape, left, right = SHAPES[name]
    for distance in DISTANCES:
        point = torch.tensor([at + distance, at + 1.3, at - 0.6], dtype=torch.float64)
        slopes = torch.tensor([(left + right) / 2, right, left], dtype=torch.float64)
        report = judged(lambda x: shape(x - at), point, slopes, summed=summed, strategy=strategy)
        error = (right - left) / 2
        assert report.verdict is not Verdict.PASS or hides(report) >= error / 1.2, (distance, str(report))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("n", [1, 2, 40])
def test_steps_that_do_not_reach_over_the_kink_see_it(name: str, n: int) -> None:
    shape, left, right = SHAPES[name]
    for distance in DISTANCES:
        point = torch.linspace(0.4, 1.5, n, dtype=torch.float64)
        point[0] = distance
        slopes = torch.full_like(point, right)
        slopes[0] = (left + right) / 2
        report = judged(shape, point, slopes)
        if report.verdict is Verdict.PASS and n > 1 and distance < 1e-11:
            assert hides(report) >= (right - left) / 2, (distance, str(report))
            continue
        assert report.verdict is Verdict.FAIL, (distance, str(report))
        assert report.findings[0].input_element == (0,)


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("at", [0.0, 1.0, 7.3])
@pytest.mark.parametrize("name", SHAPES)
def test_the_slope_of_its_side_does_not_fail(name: str, at: float, summed: bool) -> None:
    shape, left, right = SHAPES[name]
    for distance in DISTANCES:
        point = torch.tensor([at + distance, at + 1.3, at - 0.6], dtype=torch.float64)
        slopes = torch.tensor([right, right, left], dtype=torch.float64)
        report = judged(lambda x: shape(x - at), point, slopes, summed=summed)
        assert report.verdict is not Verdict.FAIL, (distance, str(report))
        assert report.verdict is Verdict.PASS or distance < 1e-11, (distance, str(report))


@pytest.mark.parametrize("distance", [1e-8, 1e-12])
def test_one_of_thousands_beside_its_kink_is_seen(distance: float) -> None:
    point = torch.randn(3000, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    point[7] = distance
    slopes = (point > 0).double()
    assert judged(torch.relu, point, slopes).verdict is Verdict.PASS
    slopes[7] = 0.5
    report = judged(torch.relu, point, slopes)
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].input_element == (7,)


ELSEWHERE: dict[str, tuple[Function, float, float, float]] = {
    "hinge": (lambda x: torch.relu(1 - x), 1.0, -1.0, 0.0),
    "clamp": (lambda x: x.clamp(-1, 1), 1.0, 1.0, 0.0),
    "maximum": (lambda x: torch.maximum(x, torch.full_like(x, 2.0)), 2.0, 0.0, 1.0),
    "hardswish": (torch.nn.functional.hardswish, 3.0, 1.5, 1.0),
}


def by_hand(forward: Function, slope: float) -> Function:
    """The function with its own derivative, but for the first element."""

    def backward(saved: tuple[Tensor, ...], g: Tensor) -> Tensor:
        with torch.enable_grad():
            point = saved[0].detach().requires_grad_()
            (right,) = torch.autograd.grad(forward(point).sum(), point)
        right[0] = slope
        return g * right

    return custom(forward, backward)


@pytest.mark.filterwarnings("ignore::gradproof.backends.notices.UnseenWarning")
@pytest.mark.parametrize("distance", [1e-7, 1e-8, 1e-9, 1e-10, 1e-12])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("name", ELSEWHERE)
def test_kinks_that_are_not_at_zero_are_judged_in_every_mode(name: str, n: int, sign: int, distance: float) -> None:
    forward, at, left, right = ELSEWHERE[name]
    slope = right if sign > 0 else left
    point = torch.tensor([at + sign * distance, 0.3, -0.6, 0.2], dtype=torch.float64)[:n].requires_grad_()
    for claim in (left, right, (left + right) / 2):
        function = by_hand(forward, claim)
        report = check(function, point, modes="reverse", properties="jacobian")
        assert report.verdict is (Verdict.PASS if claim == slope else Verdict.FAIL), (claim, str(report))
        for fast in (False, True):
            passes = gradcheck(function, (point,), fast_mode=fast, raise_exception=False)
            assert passes is (claim == slope), (claim, fast)
        if claim != slope:
            assert report.findings[0].input_element == (0,)
