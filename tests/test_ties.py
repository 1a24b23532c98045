"""Gradients at ties of three numbers or more, each of which alone moves nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from functions import custom

from gradproof import Status, Verdict, check
from gradproof.torch import NonDifferentiableWarning, gradcheck

Function = Callable[[torch.Tensor], torch.Tensor]


def rounded(size: int, seed: int = 0) -> torch.Tensor:
    """Numbers with one decimal: among so many, several are equal."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(size, generator=generator, dtype=torch.float64)
    return ((numbers * 10).round() / 10).requires_grad_()


RIGHT: dict[str, Function] = {
    "sort": lambda x: torch.sort(x)[0],
    "median": lambda x: x.reshape(-1, 20).median(1)[0],
    "top": lambda x: torch.topk(x, 20)[0],
    "kth": lambda x: torch.kthvalue(x, 7)[0],
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("seed", range(3))
def test_what_torch_returns_at_ties_passes(name: str, seed: int) -> None:
    report = check(RIGHT[name], rounded(100, seed))
    assert report.ok, str(report)


def test_it_is_called_a_kink() -> None:
    x = torch.ones(5, dtype=torch.float64, requires_grad=True)
    with pytest.warns(NonDifferentiableWarning):
        assert gradcheck(lambda x: x.median() + 0 * x.sum(), x)


def with_gradient(gradient: list[float]) -> Function:
    """The median, and this for its gradient."""
    row = torch.tensor(gradient, dtype=torch.float64)
    return custom(lambda x: x.median(), lambda _, g: g * row)


@pytest.mark.parametrize(
    "gradient", [[2.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]]
)
def test_what_is_the_derivative_nowhere_near_is_wrong(gradient: list[float]) -> None:
    x = torch.tensor([1.0, 1.0, 1.0, 3.0], dtype=torch.float64, requires_grad=True)
    report = check(with_gradient(gradient), x)
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].status is Status.WRONG
    assert check(with_gradient([0.0, 1.0, 0.0, 0.0]), x).verdict is not Verdict.FAIL
