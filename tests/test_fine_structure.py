"""Functions that vary over less than ordinary steps: waves, bumps, steep slopes, poles. None is a kink, nor noise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom

from gradproof import Status, Verdict, check
from gradproof.torch import UnseenWarning, gradcheck

Tensor = torch.Tensor
Function = Callable[[Tensor], Tensor]


def draw(n: int, seed: int) -> Tensor:
    return torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def wave(k: float) -> tuple[Function, Function, Callable[[int, int], Tensor]]:
    return lambda x: (k * x).sin(), lambda x: k * (k * x).cos(), draw


def ripple(k: float) -> tuple[Function, Function, Callable[[int, int], Tensor]]:
    return lambda x: x + (k * x).sin() / k, lambda x: 1 + (k * x).cos(), draw


FINE: dict[str, tuple[Function, Function, Callable[[int, int], Tensor]]] = {
    "wave 1e6": wave(1e6),
    "wave 1e7": wave(1e7),
    "wave 1e8": wave(1e8),
    "ripple 1e7": ripple(1e7),
    "ripple 1e8": ripple(1e8),
    "steep": (
        lambda x: (1e6 * (x - 0.7)).tanh(),
        lambda x: 1e6 * (1 - (1e6 * (x - 0.7)).tanh() ** 2),
        lambda n, seed: 0.7 + 1e-6 * draw(n, seed),
    ),
    "pole": (
        lambda x: 1 / (x - 1),
        lambda x: -1 / (x - 1) ** 2,
        lambda n, seed: 1 + 1e-6 * (0.5 + draw(n, seed).abs()),
    ),
    "bump": (
        lambda x: (-((1e6 * (x - 2)) ** 2)).exp(),
        lambda x: -2e12 * (x - 2) * (-((1e6 * (x - 2)) ** 2)).exp(),
        lambda n, seed: 2 + 1e-6 * draw(n, seed),
    ),
}
SPOILS: dict[str, Callable[[Tensor], Tensor]] = {
    "doubled": lambda d: 2 * d,
    "lost": lambda d: 0 * d,
    "sign": lambda d: -d,
    "lone, lost": lambda d: torch.cat([d[:2], 0 * d[2:3], d[3:]]),
    "lone, 1.1": lambda d: torch.cat([d[:2], 1.1 * d[2:3], d[3:]]),
}


def spoiled(name: str, spoil: str, *, summed: bool = False) -> Function:
    function, slope, _ = FINE[name]
    change = SPOILS.get(spoil, lambda d: d)
    return custom(lambda x: function(x).sum() if summed else function(x), lambda s, g: g * change(slope(s[0])))


@pytest.mark.parametrize("n", [5, 30])
@pytest.mark.parametrize("name", FINE)
def test_the_right_derivative_does_not_fail(name: str, n: int) -> None:
    x = FINE[name][2](n, 1).requires_grad_()
    report = check(spoiled(name, ""), x, modes="reverse", properties="jacobian")
    assert report.verdict is not Verdict.FAIL, str(report)
    assert not any(finding.status is Status.KINK for finding in report.findings)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [1, 5, 30])
@pytest.mark.parametrize("k", [1e9, 3e9, 1e10, 1e11, 1e12])
def test_waves_of_a_few_spacings_of_the_numbers(k: float, n: int, seed: int) -> None:
    """The right derivative does not fail; one that is half too large is no pass."""
    function, slope, make = wave(k)
    x = make(n, seed).requires_grad_()
    right = check(custom(function, lambda s, g: g * slope(s[0])), x, modes="reverse", properties="jacobian")
    assert right.verdict is not Verdict.FAIL, str(right)
    wrong = check(custom(function, lambda s, g: 1.5 * g * slope(s[0])), x, modes="reverse", properties="jacobian")
    assert wrong.verdict is not Verdict.PASS, str(wrong)


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("name", FINE)
def test_a_wrong_derivative_is_no_pass(name: str, spoil: str, summed: bool) -> None:
    x = FINE[name][2](5, 2).requires_grad_()
    report = check(spoiled(name, spoil, summed=summed), x, modes="reverse", properties="jacobian")
    # a ripple of which zero is claimed everywhere may as well be a staircase behind a slope
    verdicts = {Verdict.FAIL, Verdict.INCONCLUSIVE} if "ripple" in name and spoil == "lost" else {Verdict.FAIL}
    assert report.verdict in verdicts, str(report)


@pytest.mark.parametrize("name", FINE)
@pytest.mark.parametrize("fast_mode", [False, True])
def test_the_drop_in_passes_right_ones_and_raises_for_wrong_ones(name: str, fast_mode: bool) -> None:
    x = FINE[name][2](6, 3).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenWarning)
        assert gradcheck(spoiled(name, ""), (x,), fast_mode=fast_mode)
        for spoil in SPOILS:
            assert not gradcheck(spoiled(name, spoil), (x,), fast_mode=fast_mode, raise_exception=False)


@pytest.mark.parametrize("name", FINE)
def test_an_error_beyond_the_certificate_is_seen(name: str) -> None:
    _, slope, make = FINE[name]
    x = make(8, 4).requires_grad_()
    certificate = check(spoiled(name, ""), x, modes="reverse", properties="jacobian").certificate
    assert certificate is not None
    ((_, size),) = certificate.smallest

    def backward(s: Any, g: Tensor) -> Tensor:
        gradient = g * slope(s[0])
        gradient[5] += 1.2 * size * g[5]
        return gradient

    assert check(custom(FINE[name][0], backward), x, modes="reverse", properties="jacobian").verdict is Verdict.FAIL


def test_a_smoothed_kink_is_none() -> None:
    """From afar softplus is relu; at 0 its derivative is a half, and not what lies between the sides."""
    x = torch.tensor([0.0, 0.4], dtype=torch.float64, requires_grad=True)

    def smoothed(x: Tensor) -> Tensor:
        return (x + (x * x + 1e-18).sqrt()) / 2

    for claimed, verdict in ((0.5, Verdict.PASS), (0.9, Verdict.FAIL)):
        slopes = torch.tensor([claimed, 1.0], dtype=torch.float64)
        function = custom(smoothed, lambda s, g, slopes=slopes: g * slopes)
        assert check(function, x, modes="reverse", properties="jacobian").verdict is verdict


@pytest.mark.parametrize("claimed", [0.0, 0.3, 1.0])
def test_a_kink_stays_one(claimed: float) -> None:
    x = torch.tensor([0.0, 0.4], dtype=torch.float64, requires_grad=True)
    slopes = torch.tensor([claimed, 1.0], dtype=torch.float64)
    report = check(custom(torch.relu, lambda s, g: g * slopes), x, modes="reverse", properties="jacobian")
    assert report.verdict is Verdict.PASS
    assert [finding.status for finding in report.findings] == [Status.KINK]
