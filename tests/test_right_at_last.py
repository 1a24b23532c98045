"""Right functions that were once called wrong, each beside a wrong one of its kind."""

from __future__ import annotations

import warnings

import pytest
import torch

import gradproof
import gradproof.torch


class Sorted(torch.autograd.Function):
    """Sorted values, with one tangent of them multiplied by a factor."""

    @staticmethod
    def forward(x, factor):
        values, order = x.sort()
        return values, order

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.factor = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])
        ctx.save_for_forward(output[1])

    @staticmethod
    def backward(ctx, grad_output, _):
        (order,) = ctx.saved_tensors
        return torch.zeros_like(grad_output).index_put((order,), grad_output), None

    @staticmethod
    def jvp(ctx, tangent, _):
        (order,) = ctx.saved_tensors
        moved = tangent[order].clone()
        moved[7] *= ctx.factor
        return moved, None


@pytest.mark.parametrize("seed", range(2))
def test_many_sorted_numbers_pass_in_forward_mode(seed):
    torch.manual_seed(seed)
    x = torch.randn(40_000, dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings(action="ignore"):  # of numbers that nearly tie, not all is seen
        assert gradproof.torch.gradcheck(lambda x: x.sort()[0], x, fast_mode=True, check_forward_ad=True)


def test_a_wrong_tangent_of_many_sorted_numbers_fails():
    torch.manual_seed(0)
    x = torch.randn(40_000, dtype=torch.float64, requires_grad=True)
    assert x.sort()[1][7] != 7
    with pytest.raises(gradproof.torch.GradcheckError, match=r"d\(element \[7\]\) / d\(element \[\d+\]\)") as raised:
        gradproof.torch.gradcheck(lambda x: Sorted.apply(x, 1.01)[0], x, fast_mode=True, check_forward_ad=True)
    assert f"d(element [7]) / d(element [{int(x.sort()[1][7])}])" in str(raised.value)


class Centered(torch.autograd.Function):
    """The sum of what is left of numbers without their mean, which is zero but for round-off, with any tangent."""

    @staticmethod
    def forward(x, slope):
        return (x - x.mean()).sum() + 0.3

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.slope = inputs
        ctx.like = x

    @staticmethod
    def backward(ctx, grad_output):
        return torch.zeros_like(ctx.like), None

    @staticmethod
    def jvp(ctx, tangent, _):
        return (tangent - tangent.mean()).sum() + ctx.slope * tangent[3]


def numbers(seed):
    torch.manual_seed(seed)
    return torch.randn(100, requires_grad=True)


@pytest.mark.parametrize("seed", range(1, 4))
def test_round_off_of_a_flat_function_is_no_wrong_tangent_in_float32(seed):
    report = gradproof.check(lambda x: (x - x.mean()).sum() + 0.3, numbers(seed))
    assert report.verdict is not gradproof.Verdict.FAIL, str(report)


def test_a_tangent_of_a_flat_function_that_is_more_than_round_off_fails_in_float32():
    report = gradproof.check(lambda x: Centered.apply(x, 1e-4), numbers(1))
    assert report.verdict is gradproof.Verdict.FAIL
    assert report.findings[0].input_element == (3,)


class Rippled(torch.autograd.Function):
    """exp(x) with a short wave on it, and a derivative that is changed."""

    @staticmethod
    def forward(ctx, x, length, spoil):
        ctx.save_for_backward(x)
        ctx.length, ctx.spoil = length, spoil
        return x.exp() + length * torch.sin(x / length)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * ctx.spoil(x.exp(), torch.cos(x / ctx.length)), None, None


def rippled(length, spoil, seed=0):
    torch.manual_seed(seed)
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    return gradproof.check(lambda x: Rippled.apply(x, length, spoil), x)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("length", [1e-9, 1e-10, 1e-11, 1e-12])
def test_a_right_slope_on_waves_shorter_than_all_steps_does_not_fail(length, seed):
    report = rippled(length, lambda slope, wave: slope + wave, seed)
    assert report.verdict is not gradproof.Verdict.FAIL, str(report)


@pytest.mark.parametrize("spoil", [lambda slope, wave: 1.1 * (slope + wave), lambda slope, wave: slope - wave])
@pytest.mark.parametrize("length", [1e-7, 1e-8])
def test_a_wrong_slope_on_waves_that_steps_resolve_fails(length, spoil):
    assert rippled(length, spoil).verdict is gradproof.Verdict.FAIL


@pytest.mark.parametrize("spoil", [lambda slope, wave: 1.1 * (slope + wave), lambda slope, wave: slope - wave])
@pytest.mark.parametrize("length", [1e-9, 1e-10, 1e-11])
def test_a_wrong_slope_on_shorter_waves_does_not_pass(length, spoil):
    assert rippled(length, spoil).verdict is not gradproof.Verdict.PASS


def test_a_wrong_slope_of_a_function_without_waves_fails_at_once():
    torch.manual_seed(0)
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    report = gradproof.check(lambda x: Rippled.apply(x, 1.0, lambda slope, wave: 1.1 * slope + wave), x)
    assert report.verdict is gradproof.Verdict.FAIL
    assert report.findings[0].hint
