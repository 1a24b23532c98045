"""Single entries of low-precision kernels along segments, where steps are as long as the point itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom

import gradproof
from gradproof import Verdict

DTYPES = [torch.bfloat16, torch.float16]
POLES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "1/x": (lambda x: 1 / x, lambda x: -1 / x**2),
    "log|x|": (lambda x: x.abs().log(), lambda x: 1 / x),
    "sqrt|x|": (lambda x: x.abs().sqrt(), lambda x: x.sign() / (2 * x.abs().sqrt())),
    "x + 5": (lambda x: x + 5, torch.ones_like),
    "sigmoid": (torch.sigmoid, lambda x: torch.sigmoid(x) * torch.sigmoid(-x)),
}


def kernel(name: str, dtype: torch.dtype, factor: float = 1.0) -> Callable[..., Any]:
    function, derivative = POLES[name]

    def only(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not dtype:
            raise TypeError(f"a kernel for {dtype} only")
        return function(x.float()).to(dtype)

    return custom(only, lambda saved, g: (factor * g.float() * derivative(saved[0].float())).to(dtype))


def point(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Numbers on both sides of zero, some of them near to it, but none so near that half precision overflows."""
    drawn = torch.randn(count, generator=torch.Generator().manual_seed(0))
    return (drawn + drawn.sign() * 1e-2).to(dtype).requires_grad_()


@pytest.mark.parametrize("count", [4, 40])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", POLES)
def test_a_right_kernel_passes(name: str, dtype: torch.dtype, count: int) -> None:
    report = gradproof.check(kernel(name, dtype), point(count, dtype), modes="reverse")
    assert report.verdict is Verdict.PASS, str(report)


@pytest.mark.parametrize("factor", [-1.0, 1.5])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", POLES)
def test_a_wrong_one_fails(name: str, dtype: torch.dtype, factor: float) -> None:
    report = gradproof.check(kernel(name, dtype, factor), point(40, dtype), modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)


@pytest.mark.parametrize("factor", [0.0, 3.0])
def test_what_no_value_shows_is_no_pass(factor: float) -> None:
    def only(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.bfloat16:
            raise TypeError("a kernel for bfloat16 only")
        return x * x + 1e4

    hidden = custom(only, lambda saved, g: factor * 2 * saved[0] * g)
    for count in (3, 300, 3000):
        report = gradproof.check(hidden, point(count, torch.bfloat16), modes="reverse")
        assert report.verdict is Verdict.INCONCLUSIVE, str(report)


def test_a_value_that_cancellation_made_flat_is_no_disproof() -> None:
    def only(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32:
            raise TypeError("a kernel for float32 only")
        return 0.5 * (1 + torch.erf(x / 2**0.5))

    normal = custom(only, lambda saved, g: g * torch.exp(-(saved[0] ** 2) / 2) / (2 * torch.pi) ** 0.5)
    report = gradproof.check(normal, torch.full((4,), -6.0).requires_grad_(), modes="reverse")
    assert report.verdict is not Verdict.FAIL, str(report)


def test_numbers_below_the_smallest_normal_one_are_spaced_evenly() -> None:
    def only(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32:
            raise TypeError("a kernel for float32 only")
        return x.exp()

    report = gradproof.check(
        custom(only, lambda saved, g: g * saved[0].exp()), torch.full((3,), -100.0).requires_grad_()
    )
    assert report.verdict is not Verdict.FAIL, str(report)


@pytest.mark.parametrize(("slope", "verdict"), [(1.0, Verdict.INCONCLUSIVE), (1.5, Verdict.FAIL), (0.5, Verdict.FAIL)])
def test_another_slope_than_that_behind_coarse_stairs_is_wrong_and_of_that_one_too_little_is_seen(
    slope: float, verdict: Verdict
) -> None:
    stairs = custom(lambda x: torch.round(8 * x) / 8, lambda saved, g: slope * g)
    x = torch.randn(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    report = gradproof.check(stairs, x, modes="reverse")
    assert report.verdict is verdict, str(report)


class Convolution(torch.nn.Conv2d):
    """One that is written by hand for float32 only, with what its backward does to the weight's gradient."""

    def __init__(self, spoil: Callable[[Any], Any]) -> None:
        super().__init__(4, 6, 3, padding=1)
        self.spoil = spoil

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def only(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            if x.dtype is not torch.float32:
                raise TypeError("a kernel for float32 only")
            return torch.nn.functional.conv2d(x, weight, padding=1)

        def backward(saved: Any, g: torch.Tensor) -> Any:
            x, weight = saved
            moved = torch.nn.grad.conv2d_input(x.shape, weight, g, padding=1)
            return moved, self.spoil(torch.nn.grad.conv2d_weight(x, weight.shape, g, padding=1))

        return custom(only, backward)(x, self.weight)


def with_kinks(spoil: Callable[[Any], Any], seed: int) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    """A loss of the weights of a network in which every step of float32 crosses kinks."""
    torch.manual_seed(seed)
    first, second = torch.nn.Conv2d(2, 4, 3, padding=1), Convolution(spoil)
    last = torch.nn.Linear(6 * 16, 2)
    layers = torch.nn.Sequential(
        first, torch.nn.ReLU(), second, torch.nn.LeakyReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), last
    )
    x = torch.randn(8, 2, 8, 8)
    names = ("0.weight", "2.weight")

    def loss(*weights: torch.Tensor) -> torch.Tensor:
        weights_of = dict(zip(names, weights, strict=True))
        return 100.0 * torch.func.functional_call(layers, weights_of, (x.to(weights[0].dtype),)).square().mean()

    return loss, tuple(weight.detach().clone().requires_grad_() for weight in (first.weight, second.weight))


def lone(gradient: torch.Tensor) -> torch.Tensor:
    gradient = gradient.clone()
    gradient[1, 2, 0, 1] += gradient.abs().max()
    return gradient


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_right_network_with_kinks_in_every_step_does_not_fail(seed: int) -> None:
    report = gradproof.check(*with_kinks(lambda gradient: gradient, seed), modes="reverse")
    assert report.verdict is Verdict.PASS, str(report)


def test_one_wrong_weight_of_it_does() -> None:
    report = gradproof.check(*with_kinks(lone, 0), modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)
    assert (report.findings[0].input, report.findings[0].input_element) == (1, (1, 2, 0, 1))


def test_what_is_claimed_at_a_kink_itself_is_not_cleared_by_segments() -> None:
    def only(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32:
            raise TypeError("a kernel for float32 only")
        return x.relu()

    x = torch.tensor([0.0, 0.7, -1.2], requires_grad=True)
    for at_zero, verdict in ((5.0, Verdict.FAIL), (0.5, Verdict.PASS)):
        slope = torch.tensor([at_zero, 1.0, 0.0])
        report = gradproof.check(
            custom(only, lambda saved, g, slope=slope: g * slope.where(saved[0] == 0, (saved[0] > 0).float())),
            x,
            modes="reverse",
        )
        assert report.verdict is verdict, str(report)


def test_a_factor_that_most_entries_hide_is_no_pass() -> None:
    dtype = torch.bfloat16

    def only(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not dtype:
            raise TypeError(f"a kernel for {dtype} only")
        return x.sin() + 8

    x = torch.randn(300, generator=torch.Generator().manual_seed(68)).to(dtype).requires_grad_()
    report = gradproof.check(custom(only, lambda saved, g: 1.25 * g * saved[0].cos()), x, modes="reverse")
    assert report.verdict is not Verdict.PASS, str(report)


class _Passed(torch.autograd.Function):
    """What is given, by a kernel of half precision; each mode has a factor of its own."""

    @staticmethod
    def forward(x: torch.Tensor, backward: float, forward: float) -> torch.Tensor:
        if x.dtype is torch.float64:
            raise TypeError
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        _, ctx.by_backward, ctx.by_forward = inputs

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return ctx.by_backward * grads[0], None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return ctx.by_forward * tangents[0]


def network_of_kinks(seed: int, backward: float = 1.0, forward: float = 1.0) -> tuple[Any, torch.Tensor]:
    torch.manual_seed(seed)
    layers = torch.nn.Linear(4, 10), torch.nn.ReLU(), torch.nn.Linear(10, 4), torch.nn.LayerNorm(4)
    network = torch.nn.Sequential(*layers).half()

    def function(x: torch.Tensor) -> torch.Tensor:
        return network(_Passed.apply(x, backward, forward)) + x

    return function, torch.randn(3, 4, dtype=torch.float16).requires_grad_()


@pytest.mark.parametrize("seed", [0, 2, 4, 8])
def test_what_segments_clear_of_reverse_mode_is_right_in_forward_mode(seed: int) -> None:
    report = gradproof.check(*network_of_kinks(seed), seed=seed)
    assert report.verdict is not Verdict.FAIL, str(report)


@pytest.mark.parametrize("factors", [(1.0, 2.0), (2.0, 2.0), (2.0, 1.0)])
def test_what_either_mode_alone_claims_is_not_cleared(factors: tuple[float, float]) -> None:
    report = gradproof.check(*network_of_kinks(0, *factors))
    assert report.verdict is Verdict.FAIL
    assert "jacobian" in {finding.property for finding in report.findings}
