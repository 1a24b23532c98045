"""Probes pass what they have seen, and ask again about what they have not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom

from gradproof import Status, Verdict, check
from gradproof.torch import UnseenWarning, gradcheck


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


MANY: dict[str, tuple[Callable[..., Any], Callable[[torch.Tensor], torch.Tensor]]] = {
    "log": (torch.log, lambda x: x.abs() + 1e-3),
    "reciprocal": (torch.reciprocal, lambda x: x),
    "sqrt": (torch.sqrt, lambda x: x.abs()),
    "clamp": (lambda x: x.clamp(-1, 1), lambda x: x),
}


@pytest.mark.parametrize("size", [2049, 9000])
@pytest.mark.parametrize("name", MANY)
def test_ordinary_functions_of_many_elements_pass(name: str, size: int) -> None:
    function, make = MANY[name]
    for seed in range(3):
        x = make(draw(size, seed=seed)).requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseenWarning)
            assert gradcheck(function, (x,), fast_mode=True)


def kinked(spoil: str) -> tuple[Callable[..., Any], torch.Tensor]:
    """relu.sum, with half of its elements on the kink."""
    x = draw(5000, seed=1)
    x[:2500] = 0

    def backward(s: Any, g: torch.Tensor) -> torch.Tensor:
        gradient = g * (s[0] > 0).to(torch.float64)
        if spoil == "all":
            gradient = 1.01 * gradient
        elif spoil:
            gradient[{"off the kinks": 3000, "on a kink": 100}[spoil]] += 5.0 * g
        return gradient

    return custom(lambda x: x.relu().sum(), backward), x.requires_grad_()


@pytest.mark.parametrize("spoil", ["", "all", "off the kinks", "on a kink"])
def test_kinks_hide_nothing(spoil: str) -> None:
    function, x = kinked(spoil)
    report = check(function, x, modes="reverse")
    assert report.verdict is (Verdict.FAIL if spoil else Verdict.PASS), str(report)
    if spoil.startswith("o"):
        assert report.findings[0].input_element == ({"off the kinks": 3000, "on a kink": 100}[spoil],)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, Verdict.PASS), (0.0, Verdict.FAIL), (-1.0, Verdict.FAIL)])
def test_a_weak_input_beside_a_large_term_is_looked_at_alone(factor: float, verdict: Verdict) -> None:
    function = custom(lambda x, w: (x**2).sum() + w.sin().sum(), lambda s, g: (2 * g * s[0], factor * g * s[1].cos()))
    report = check(function, ((3e3 * draw(50)).requires_grad_(), draw(5, seed=1).requires_grad_()), modes="reverse")
    assert report.verdict is verdict, str(report)
    if not report.ok:
        assert report.findings[0].input == 1


def test_what_could_hide_is_a_warning_of_gradcheck_and_inconclusive_in_check() -> None:
    """Offsets of 1e9 drown the derivative of thousands of outputs."""
    x = draw(3000).requires_grad_()
    with pytest.warns(UnseenWarning, match="an error of up to .* could hide in .* outputs"):
        assert gradcheck(lambda x: x.sin() + 1e9, (x,), fast_mode=True)
    report = check(lambda x: x.sin() + 1e9, x, modes="reverse", atol=1e-5, rtol=1e-3)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.findings[0].status is Status.INCONCLUSIVE
