"""A low-precision function whose twin is noisy itself: the cross-entropy of confident samples, in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import gradproof
from gradproof.results.report import Verdict

CONFIDENT = [(8, 5, 80.0, 7), (8, 5, 60.0, 11), (4, 3, 50.0, 0), (4, 3, 60.0, 9)]
"""Rows, columns, scale and seed of logits; the targets are the largest. The whole is 1e-12 to 1e-10."""


def confident(rows: int, columns: int, scale: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    logits = scale * torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    return logits.requires_grad_(), logits.argmax(1)


Spoil = Callable[[torch.Tensor], torch.Tensor]
LOW, BOTH = (torch.float32,), (torch.float32, torch.float64)


def by_hand(targets: torch.Tensor, spoil: Spoil, dtypes: tuple[torch.dtype, ...]) -> Spoil:
    """The cross-entropy, with its gradient spoiled in some dtypes."""

    class CrossEntropy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            logs = x.log_softmax(1)
            ctx.save_for_backward(logs)
            return F.nll_loss(logs, targets)

        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor) -> torch.Tensor:
            (logs,) = ctx.saved_tensors
            right = logs.exp() - F.one_hot(targets, logs.shape[1]).to(logs.dtype)
            return cotangents[0] * (spoil(right) if logs.dtype in dtypes else right) / len(logs)

    return CrossEntropy.apply  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@pytest.mark.parametrize("case", CONFIDENT)
def test_the_cross_entropy_of_confident_samples_passes_in_single_precision(case: tuple[int, int, float, int]) -> None:
    """Its gradient is 0 in float32 where float64 has -4e-11: that is what is left of the 1 in a softmax."""
    logits, targets = confident(*case)
    report = gradproof.check(F.cross_entropy, (logits, targets))
    assert report.verdict is Verdict.PASS, str(report)
    assert any("float64" in note for note in report.notes)


WRONGS: dict[str, Spoil] = {
    "twice": lambda g: 2 * g,
    "the other sign": lambda g: -g,
    "a tenth more": lambda g: 1.1 * g,
    "without the one-hot": lambda g: g + (g <= 0).to(g.dtype),
    "one entry": lambda g: torch.where(g == g.max(), 1.5 * g, g),
}


@pytest.mark.parametrize("dtypes", [LOW, BOTH], ids=["in low", "in both"])
@pytest.mark.parametrize("wrong", WRONGS)
@pytest.mark.parametrize("case", CONFIDENT)
def test_a_wrong_one_fails(case: tuple[int, int, float, int], wrong: str, dtypes: tuple[torch.dtype, ...]) -> None:
    logits, targets = confident(*case)
    report = gradproof.check(by_hand(targets, WRONGS[wrong], dtypes), logits, modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)
    assert report.findings[0].property == "jacobian"
    assert report.findings[0].input == 0
    right = gradproof.check(by_hand(targets, lambda g: g, dtypes), logits, modes="reverse")
    assert right.verdict is Verdict.PASS, str(right)


@pytest.mark.parametrize("case", CONFIDENT)
def test_one_without_the_softmax_does_not_pass(case: tuple[int, int, float, int]) -> None:
    """In float32 nothing but zeros is left then: between the steps of the function that is right."""
    logits, targets = confident(*case)
    report = gradproof.check(by_hand(targets, lambda g: g.clamp(max=0.0), LOW), logits, modes="reverse")
    assert report.verdict is Verdict.INCONCLUSIVE, str(report)
