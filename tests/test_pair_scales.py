"""What is large elsewhere excuses nothing: every pair of an output and an input is judged by its own size."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom, numbers

from gradproof import Status, Verdict, check
from gradproof.torch import gradcheck

FACTORS = [0.0, -1.0, 1.02, 1.0001]


def apart(scale: float, factor: float) -> Callable[..., Any]:
    """Two outputs, the first `scale` times larger; the gradient of the second is `factor` times the right one."""
    return custom(
        lambda x, w: (scale * x.sin(), w.exp()),
        lambda s, g, h: (scale * g * s[0].cos(), factor * h * s[1].exp()),
    )


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("scale", [1e7, 1e9, 1e15, 1e100, 1e200, 1e-12, 1e-200])
def test_the_size_of_another_output_excuses_nothing(scale: float, strategy: str) -> None:
    inputs = numbers(3), numbers(4)
    assert check(apart(scale, 1.0), inputs, strategy=strategy).ok
    for factor in FACTORS:
        report = check(apart(scale, factor), inputs, strategy=strategy)
        assert report.verdict is Verdict.FAIL
        finding = report.findings[0]
        assert (finding.status, finding.output, finding.input) == (Status.WRONG, 1, 1)


def test_pairs_that_are_zero_need_not_be_seen_relative_to_anything() -> None:
    x, w = numbers(5), numbers(4)
    assert check(lambda x, w: (3 * x + 1, 5 * w + 1e3), (x, w), strategy="entries").ok
    assert check(lambda x, w: (x.sin() ** 2 + x.cos() ** 2, w * x.sum()), (x, w), strategy="entries").ok
    assert check(lambda x, w: (torch.softmax(x, 0).sum(), w * w), (x, w), strategy="entries").ok


@pytest.mark.parametrize("scale", [1e200, 1e150, 1e-150, 1e-200, 1e-250])
@pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])
def test_huge_and_tiny_numbers_cause_no_warning_and_no_false_failure(scale: float, fast_mode: bool) -> None:
    x = (numbers(4).detach() * scale).requires_grad_()
    functions = [
        (lambda x: scale * (x / scale).sin(), lambda x: (x / scale).cos()),
        (lambda x: 3 * x, lambda x: torch.full_like(x, 3.0)),
        (lambda x: (x / scale) ** 3, lambda x: 3 * (x / scale) ** 2 / scale),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function, slope in functions:
            right, wrong = (
                custom(lambda x, f=function: f(x), lambda s, g, d=slope, k=k: k * g * d(s[0])) for k in (1.0, 1.5)
            )
            assert check(right, x).ok
            assert check(wrong, x).verdict is Verdict.FAIL
            assert gradcheck(right, x, fast_mode=fast_mode, atol=0.0)


@pytest.mark.parametrize("tiny", [1e-9, 1e-30, 1e-200, 1e-310, 5e-324])
@pytest.mark.parametrize("function", [torch.sin, torch.exp, lambda x: 3 * x, lambda x: x**2, lambda x: x.abs().sqrt()])
def test_an_element_far_smaller_than_its_neighbours_blames_nobody(function: Callable[..., Any], tiny: float) -> None:
    x = torch.tensor([tiny, 1.0, 0.5], dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check(function, x).verdict is not Verdict.FAIL
        assert check(function, x, strategy="entries").verdict is not Verdict.FAIL
