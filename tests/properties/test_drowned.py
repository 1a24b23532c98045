"""Saturated functions, whose values and gradients are round-off of numbers of order one inside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from functions import custom
from torch.nn import functional

from gradproof import Status, Verdict, check
from gradproof.torch import gradcheck, gradgradcheck

Function = Callable[[torch.Tensor], torch.Tensor]


def cross_entropy(x: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(x[None], torch.tensor([0]))


def with_ones(x: torch.Tensor) -> torch.Tensor:
    return functional.binary_cross_entropy_with_logits(x, torch.ones_like(x))


def identity(x: torch.Tensor) -> torch.Tensor:
    """The logarithm of 1, as a sum."""
    return x.log_softmax(0).exp().sum().log()


SATURATED: dict[str, tuple[Function, tuple[float, ...]]] = {
    "cross entropy of 34": (cross_entropy, (34.0, 0.0, 0.0)),
    "cross entropy of 40": (cross_entropy, (40.0, 0.0, 0.0)),
    "binary cross entropy": (with_ones, (40.0, 50.0)),
    "gelu of -10": (functional.gelu, (-10.0,)),
    "gelu of -6": (functional.gelu, (-6.0, -5.9, -5.8)),
    "ndtr": (torch.special.ndtr, (-10.0,)),
    "log(1 + exp)": (lambda x: (1 + x.exp()).log(), (-36.0, -20.0)),
}


def entropy(x: torch.Tensor) -> torch.Tensor:
    return -(x.softmax(0) * x.log_softmax(0)).sum()


def divergence(x: torch.Tensor) -> torch.Tensor:
    """From a target that is one-hot but for 1e-13."""
    target = torch.tensor([30.0, 0.0, 0.5], dtype=x.dtype).softmax(0)
    return functional.kl_div(x.log_softmax(0), target, reduction="sum")


BY_LAWS: dict[str, tuple[Function, tuple[float, ...]]] = {
    "logsumexp - max, of 34": (lambda x: x.logsumexp(0) - x.max(), (34.0, 0.0, 0.0)),
    "logsumexp - max, of 37": (lambda x: x.logsumexp(0) - x.max(), (37.0, 0.0, 0.0)),
    "entropy": (entropy, (36.0, 0.0, 0.0)),
    "divergence": (divergence, (35.0, 0.0, 1.0)),
    "cross entropy of 40": (cross_entropy, (40.0, 0.0, 0.0)),
    "gelu of -9.5": (functional.gelu, (-9.5,)),
    "gelu of -10": (functional.gelu, (-10.0,)),
}
"""Of which the ladder, or a law, sees what round-off inside has left, at second order or at first."""
SINGLE: dict[str, tuple[Function, tuple[float, ...]]] = {
    "cross entropy of 15": (cross_entropy, (15.0, 0.0, 0.0)),
    "cross entropy of 20": (cross_entropy, (20.0, 0.0, 0.0)),
    "gelu of -5.5": (functional.gelu, (-5.5,)),
    "logsumexp - max": (lambda x: x.logsumexp(0) - x.max(), (16.0, 0.0, 0.0)),
    "entropy": (entropy, (15.0, 0.0, 0.0)),
    "divergence": (divergence, (16.0, 0.0, 1.0)),
}
UNSEEN: dict[str, tuple[Function, tuple[float, ...]]] = {"1 - erf": (lambda x: 1 - x.erf(), (5.9, 5.5))}
"""Of which nothing but noise is to be seen, so that wrong ones are not found either."""
SMALL: dict[str, Function] = {
    "Planck's constant": lambda x: 6.6e-34 * x**2,
    "1e-15 sin": lambda x: 1e-15 * x.sin(),
    "1e-20 exp, summed": lambda x: 1e-20 * x.exp().sum(),
}


def point(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def in_single(function: Function) -> Function:
    """The function, in float32 only."""

    def guarded(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32:
            raise TypeError("for float32 only")
        return function(x)

    return guarded


def times(factor: float, function: Function) -> Function:
    """The function, with a gradient that is so many times the right one."""

    class Spoiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx: torch.autograd.function.FunctionCtx, *grads: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
            with torch.enable_grad():
                moved = x.detach().requires_grad_()
                return factor * torch.autograd.grad(function(moved), moved, grads[0])[0]

    return Spoiled.apply


@pytest.mark.parametrize("name", BY_LAWS)
def test_neither_its_second_derivative_nor_a_law_of_the_first_fails(name: str) -> None:
    function, values = BY_LAWS[name]
    for order in (1, 2):
        report = check(function, point(*values), order=order)
        assert report.verdict is not Verdict.FAIL, str(report)
    assert gradgradcheck(function, point(*values))
    assert gradgradcheck(function, point(*values), fast_mode=True)


@pytest.mark.parametrize("factor", [1.3, -1.0])
@pytest.mark.parametrize("name", BY_LAWS)
def test_a_wrong_one_fails_at_either_order(name: str, factor: float) -> None:
    function, values = BY_LAWS[name]
    for order in (1, 2):
        report = check(times(factor, function), point(*values), order=order)
        assert report.verdict is Verdict.FAIL
        assert report.findings[0].property == "jacobian"


@pytest.mark.parametrize("name", SINGLE)
def test_in_float32_neither_fails(name: str) -> None:
    function, values = SINGLE[name]
    x = torch.tensor(values, requires_grad=True)
    for order in (1, 2):
        for alone in (function, in_single(function)):
            report = check(alone, x, order=order)
            assert report.verdict is not Verdict.FAIL, str(report)
    assert check(function, x).ok  # its twin sees what float32 does not


@pytest.mark.parametrize("factor", [1.3, -1.0])
@pytest.mark.parametrize("name", SINGLE)
def test_in_float32_a_wrong_one_fails(name: str, factor: float) -> None:
    function, values = SINGLE[name]
    x = torch.tensor(values, requires_grad=True)
    assert check(times(factor, function), x).verdict is Verdict.FAIL
    assert not check(times(factor, in_single(function)), x).ok


def test_a_jvp_that_is_wrong_fails_though_all_is_round_off() -> None:
    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return cross_entropy(x)

        @staticmethod
        def setup_context(
            ctx: torch.autograd.function.FunctionCtx, inputs: tuple[torch.Tensor], output: object
        ) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: torch.autograd.function.FunctionCtx, *grads: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
            return grads[0] * (x.softmax(0) - torch.eye(3, dtype=x.dtype)[0])

        @staticmethod
        def jvp(ctx: torch.autograd.function.FunctionCtx, *tangents: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
            return -2.0 * tangents[0] @ (x.softmax(0) - torch.eye(3, dtype=x.dtype)[0])

    report = check(Loss.apply, point(34.0, 0.0, 0.0))
    assert report.verdict is Verdict.FAIL


@pytest.mark.parametrize("name", [*SATURATED, *UNSEEN])
def test_a_right_gradient_of_a_saturated_function_does_not_fail(name: str) -> None:
    function, values = {**SATURATED, **UNSEEN}[name]
    report = check(function, point(*values))
    assert report.verdict is not Verdict.FAIL, str(report)
    assert gradcheck(function, point(*values))
    assert gradcheck(function, point(*values), fast_mode=True)


@pytest.mark.parametrize("factor", [1.3, -1.0])
@pytest.mark.parametrize("name", SATURATED)
def test_a_wrong_one_fails(name: str, factor: float) -> None:
    function, values = SATURATED[name]
    report = check(times(factor, function), point(*values))
    assert report.verdict is Verdict.FAIL
    worst = report.findings[0]
    assert (worst.property, worst.status, worst.input, worst.output) == ("jacobian", Status.WRONG, 0, 0)


@pytest.mark.parametrize("factor", [1.3, -1.0])
@pytest.mark.parametrize("name", UNSEEN)
def test_what_is_not_seen_does_not_pass(name: str, factor: float) -> None:
    function, values = UNSEEN[name]
    assert not check(times(factor, function), point(*values)).ok


@pytest.mark.parametrize("seed", range(6))
def test_a_constant_that_is_made_of_round_off_does_not_fail(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(4, generator=generator, dtype=torch.float64).requires_grad_()
    assert check(identity, x).verdict is not Verdict.FAIL


@pytest.mark.parametrize("name", SMALL)
def test_a_function_that_is_small_by_design_is_judged_by_its_own_size(name: str) -> None:
    assert check(SMALL[name], point(1.0, 2.0, 3.0)).ok
    for factor in (1.3, 0.0, -1.0):
        assert check(times(factor, SMALL[name]), point(1.0, 2.0, 3.0)).verdict is Verdict.FAIL


TAILS: dict[str, tuple[Function, Function, tuple[float, ...]]] = {
    "exp(-x)": (lambda x: (-x).exp(), lambda x: -(-x).exp(), (36.0, 40.0, 45.0)),
    "normal density": (lambda x: (-x * x / 2).exp(), lambda x: -x * (-x * x / 2).exp(), (9.0, 10.0)),
    "x**-2": (lambda x: x**-2, lambda x: -2 * x**-3, (1e5, 2e5)),
    "Planck's constant": (lambda x: 6.6e-34 * x * x, lambda x: 1.32e-33 * x, (1.0, 2.0)),
}


@pytest.mark.parametrize("by", [0.0, 2.0, -1.0])
@pytest.mark.parametrize("name", TAILS)
def test_a_derivative_that_is_wrong_in_a_tail_alone_fails(name: str, by: float) -> None:
    """Nearer to zero it is right; but the function is seen here, and no round-off explains the claim."""
    function, derivative, values = TAILS[name]
    end = 0.75 * max(values)

    def backward(saved: tuple[torch.Tensor, ...], grad: torch.Tensor) -> torch.Tensor:
        (x,) = saved
        return grad * derivative(x) * torch.where(x < end, 1.0, by)

    assert check(custom(function, lambda s, g: g * derivative(s[0])), point(*values)).ok
    assert check(custom(function, backward), point(*values)).verdict is Verdict.FAIL


@pytest.mark.parametrize("by", [1e-6, 1e-4, 1e-2, 0.5])
def test_a_small_part_of_a_small_entry_that_is_wrong_fails_though_every_operation_is_the_frameworks(by: float) -> None:
    """The claim has most digits of a slope that the ladder sees as well: then neither of the two is all round-off."""
    lone = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)

    def function(x: torch.Tensor) -> torch.Tensor:
        return 1e-20 * (x.sin() + by * lone * (x - x.detach()))

    assert check(lambda x: 1e-20 * x.sin(), point(1.0, 0.5, 3.0)).ok
    report = check(function, point(1.0, 0.5, 3.0))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].input_element == (1,)


def test_round_off_that_the_framework_claims_of_what_does_not_move_is_not_wrong() -> None:
    """A layer norm of one element is zero, and so is all that its weight can do."""
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        x, w = (torch.randn(1, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2))
        report = check(lambda x, w: torch.native_layer_norm(x, (1,), w, None, 1e-5)[0], (x, w))
        assert report.verdict is Verdict.PASS, str(report)
        wrong = custom(lambda w: 0 * w, lambda _, g: 1e-14 * g)  # written by hand, it must say why
        assert check(wrong, w).verdict is Verdict.FAIL


@pytest.mark.parametrize("planted", [1.2e-27, 1e-20])
def test_a_tiny_claim_of_an_element_that_stays_still_beside_others_that_move_fails(planted: float) -> None:
    """Surrogates are made of the framework's own operations, and what an output of 1e-20 moves by is seen."""
    x = torch.randn(40, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    weights = torch.zeros(40, 40, dtype=torch.float64)
    weights[15, 12] = planted
    report = check(lambda x: 1e-20 * x.sin() + weights @ (x - x.detach()), x, modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)
    assert (report.findings[0].output_element, report.findings[0].input_element) == ((15,), (12,))
