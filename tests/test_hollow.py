"""A certificate that is wider than all that is claimed of an input is told in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from functions import custom

from gradproof import Verdict, check

LARGE = 1e13


def summed(factor: float, large: float = LARGE) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """large * a + b, with a gradient of b that is so many times the right one."""

    class Summed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: torch.autograd.function.FunctionCtx, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return large * a + b

        @staticmethod
        def backward(ctx: torch.autograd.function.FunctionCtx, *grads: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return large * grads[0], factor * grads[0]

    return Summed.apply


def inputs(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = torch.linspace(0.1, 0.9, 2 * size, dtype=torch.float64).reshape(2, size)
    return a.clone().requires_grad_(), b.clone().requires_grad_()


@pytest.mark.parametrize("size", [2, 300])
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_an_input_of_which_nothing_is_seen_is_named(factor: float, size: int) -> None:
    report = check(summed(factor), inputs(size))
    (note,) = report.notes
    assert note.startswith("an error of ")
    assert "could hide in an entry of input 1 `b`" in note
    assert "of no single entry a digit was verified" in note
    assert note in str(report)


@pytest.mark.parametrize("size", [2, 300])
def test_where_it_is_seen_there_is_no_note_and_a_wrong_one_fails(size: int) -> None:
    assert not check(summed(1.0, large=1e3), inputs(size)).notes
    assert check(summed(2.0, large=1e3), inputs(size)).verdict is Verdict.FAIL


def test_a_gradient_of_zeros_claims_nothing() -> None:
    x = torch.linspace(0.5, 2.0, 4, dtype=torch.float64).requires_grad_()
    assert not check(lambda x: x.round() + 0.0 * x, x).notes


def test_what_a_tolerance_excuses_is_not_told() -> None:
    x = torch.linspace(0.5, 2.0, 4, dtype=torch.float64).requires_grad_()
    function = custom(lambda x: 1e-3 * x, lambda saved, grad: 1e-3 * grad)
    assert not check(function, x, atol=1.0).notes


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("seed", range(6))
def test_one_number_that_moves_several_outputs_claims_what_its_entries_do(seed: int, strategy: str) -> None:
    """The gradient for a cotangent is a sum of entries of 1e5, which may cancel or add up."""
    a = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    b = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    report = check(lambda a, b: LARGE * a + 1e5 * b, (a, b), seed=seed, strategy=strategy)
    told = [note for note in report.notes if "input 1 `b`" in note]
    assert all("gradient for a cotangent of at most 1" in note for note in told if "1e+05" not in note)
