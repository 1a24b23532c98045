"""A lone wrong entry of a large Jacobian: named as such, from what the search knows already."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functions import custom, numbers

from gradproof import Verdict, check

N = 20_000


class Spoilt(torch.autograd.Function):
    """A sine whose gradient is multiplied by a factor at some elements."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, where: slice, factor: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.where, ctx.factor = where, factor
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        gradient = grads[0] * ctx.saved_tensors[0].cos()
        gradient[ctx.where] *= ctx.factor
        return gradient, None, None


def report_of(where: slice, factor: float) -> Any:
    x = torch.linspace(0.1, 1.2, N, dtype=torch.float64).requires_grad_()
    return check(lambda x: Spoilt.apply(x, where, factor), x, modes="reverse", order=1)


@pytest.mark.parametrize(
    ("at", "factor", "told"),
    [(7, 0.7, []), (N - 1, 1.01, ["the last of 20000 indices"]), (0, 0.0, ["the first of 20000", "analytic is 0"])],
)
def test_a_lone_entry_is_named_without_sampling(at: int, factor: float, told: list[str]) -> None:
    report = report_of(slice(at, at + 1), factor)
    assert report.verdict is Verdict.FAIL
    finding = report.findings[0]
    assert finding.lone
    assert (finding.input_element, finding.output_element) == ((at,), (at,))
    assert finding.hint.startswith("wrong at this entry alone, as far as the probes see")
    assert all(words in finding.hint for words in told)
    assert ("indices" in finding.hint) == (at in (0, N - 1))
    assert report.cost.evaluations <= 40
    assert report.cost.vjps <= 16


@pytest.mark.parametrize(("factor", "told"), [(-1.0, "a sign"), (2.0, "counted twice")])
def test_the_ratio_of_a_lone_entry_is_told(factor: float, told: str) -> None:
    assert told in report_of(slice(50, 51), factor).findings[0].hint


@pytest.mark.parametrize("where", [slice(0, N), slice(N - 3, N), slice(5, N, 7)])
def test_several_wrong_entries_are_not_called_lone(where: slice) -> None:
    finding = report_of(where, 1.1).findings[0]
    assert not finding.lone
    assert "alone" not in finding.hint


def test_pairs_beyond_the_first_three_say_what_their_entries_show() -> None:
    """Of ten wrong inputs, three are looked into; the others have a factor of what is listed, or nothing."""

    def backward(s: Any, g: torch.Tensor) -> Any:
        right = [g * x.cos() for x in s]
        return tuple(2 * d if k < 8 else d + g * s[k] ** 2 for k, d in enumerate(right))

    inputs = tuple(numbers(3, 4, seed=k) for k in range(10))
    report = check(custom(lambda *xs: sum(x.sin() for x in xs), backward), inputs, modes="reverse", strategy="entries")
    hints = {finding.input: finding.hint for finding in report.findings}
    assert all("2 × numeric" in hints[k] for k in range(8))
    assert sum("on the 5 worst entries" in hint for hint in hints.values()) >= 5
    assert not any("× numeric" in hints[k] for k in (8, 9))
