"""Surrogates: a derivative that is meant to be another function's is checked against that one's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functions import custom, numbers

from gradproof import Verdict, check

AGAINST = "against the derivative of the intended function"


def straight_through(factor: float = 1.0) -> Any:
    return custom(torch.round, lambda s, g: factor * g, lambda s, u: factor * u)


def reversal(factor: float = 1.0) -> Any:
    return custom(lambda x: x.clone(), lambda s, g: -factor * g)


def identity(x: torch.Tensor) -> torch.Tensor:
    return 1.0 * x


def negative(x: torch.Tensor) -> torch.Tensor:
    return -x


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize(("surrogate", "intended"), [(straight_through, identity), (reversal, negative)])
def test_a_surrogate_that_is_declared_passes_and_a_wrong_one_fails(
    surrogate: Any, intended: Any, strategy: str, dtype: torch.dtype
) -> None:
    x = numbers(3, 4, dtype=dtype)
    before = x.detach().clone()
    report = check(surrogate(), x, intended=intended, strategy=strategy)
    assert report.verdict is Verdict.PASS, str(report)
    assert any(AGAINST in note for note in report.notes)
    assert AGAINST in str(report)
    assert not check(surrogate(), x, strategy=strategy).ok or surrogate is straight_through
    wrong = check(surrogate(1.25), x, intended=intended, strategy=strategy)
    assert wrong.verdict is Verdict.FAIL, str(wrong)
    assert {finding.property for finding in wrong.findings} == {"jacobian"}
    assert torch.equal(x, before)


def test_without_the_declaration_a_reversal_is_wrong() -> None:
    report = check(reversal(), numbers(3))
    assert report.verdict is Verdict.FAIL
    assert not any(AGAINST in note for note in report.notes)


def test_a_clipped_gradient() -> None:
    """exp with the derivative of a function that stops growing: the point decides."""
    x = torch.tensor([0.3, 2.5], dtype=torch.float64, requires_grad=True)
    clipped = custom(torch.exp, lambda s, g: g * s[0].exp().clamp(max=2.0))

    def intended(x: torch.Tensor) -> torch.Tensor:
        bend = torch.log(torch.tensor(2.0, dtype=torch.float64))
        return torch.where(x < bend, x.exp(), 2.0 + 2.0 * (x - bend))

    assert not check(clipped, x).ok
    assert check(clipped, x, intended=intended).ok


def test_other_properties_ask_the_function_itself() -> None:
    nonlinear = custom(torch.round, lambda s, g: g.abs())
    assert "linearity" in {f.property for f in check(nonlinear, numbers(3), intended=identity).findings}

    class Overwriting(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            x.data.round_()
            return x.clone()

        @staticmethod
        def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
            return cotangent.clone()

    report = check(Overwriting.apply, numbers(3), intended=identity)
    assert [f.property for f in report.findings] == ["mutation"]


def test_a_function_that_is_not_repeatable_is_told_though_the_intended_one_is() -> None:
    calls = iter(range(1000))
    restless = custom(lambda x: x.round() + next(calls), lambda s, g: g)
    report = check(restless, numbers(3), intended=identity)
    assert [f.property for f in report.findings] == ["repeatability"]


def test_several_inputs_keywords_and_a_selection() -> None:
    function = custom(lambda a, b: (a * b).round(), lambda s, g: (g * s[1], g * s[0]))

    def intended(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * b

    inputs = (numbers(3), numbers(3, seed=1))
    assert check(function, inputs, intended=intended).ok
    assert check(function, inputs, intended=intended, wrt=1).covered == ("input 1",)
    lost = custom(lambda a, b: (a * b).round(), lambda s, g: (g * s[1], 0 * g))
    report = check(lost, inputs, intended=intended)
    assert {f.input for f in report.findings} == {1}


def test_parameters_of_a_module() -> None:
    class Quantised(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(numbers(3).detach())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * straight_through()(4 * self.weight) / 4

    module = Quantised()
    x, base = numbers(3), module.weight.detach().clone()
    gap = (4 * base).round() / 4 - base
    assert check(module, x, intended=lambda x: x * (module.weight + gap), wrt="weight").ok
    assert check(module, x, intended=lambda x: x * (module.weight + gap)).ok
    assert check(module, x, intended=lambda x: 2 * x * (module.weight + gap)).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("intended", "phrase"),
    [
        (lambda x: x.sum(), r"output 0 has shape \(3,\) and dtype float64, that of the intended function shape \(\)"),
        (lambda x: x.float(), "that of the intended function shape .* and dtype float32"),
        (lambda x: (x, x), "the function returned 1 outputs, the intended function 2"),
        (lambda x: None, "that of the intended function type NoneType"),
    ],
)
def test_other_outputs_are_a_clear_error(intended: Any, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        check(straight_through(), numbers(3), intended=intended)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="intended is the function whose derivative is meant, got 3"):
        check(torch.sin, numbers(3), intended=3)  # pyright: ignore[reportArgumentType]


def test_an_exception_of_the_intended_function_says_whose_it_is() -> None:
    def raising(x: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError("mine")

    report = check(torch.sin, numbers(3), intended=raising)
    assert report.verdict is Verdict.FAIL
    assert "the intended function, not the function, raised ArithmeticError: mine" in report.findings[0].message


def test_second_order_is_about_the_backward_that_is_there() -> None:
    assert check(reversal(), numbers(3), intended=negative, order=2).ok
