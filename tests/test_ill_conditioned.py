"""Operators that lose many digits in float32: right ones pass, and the same ones with a spoiled backward fail."""

from __future__ import annotations

import pytest
import torch

import gradproof
from gradproof import Verdict

F = torch.nn.functional


def shifted(n, mean, seed):
    torch.manual_seed(seed)
    return (torch.randn(n) + mean).requires_grad_()


def with_condition(condition, seed):
    torch.manual_seed(seed)
    left, _ = torch.linalg.qr(torch.randn(12, 8))
    right, _ = torch.linalg.qr(torch.randn(8, 8))
    return (
        left @ torch.diag(torch.logspace(0, -torch.log10(torch.tensor(condition)).item(), 8)) @ right
    ).requires_grad_()


def matrix(size, scale, seed):
    torch.manual_seed(seed)
    return (scale * torch.randn(size, size)).requires_grad_()


RIGHT = {
    "layer_norm 500": (lambda x: F.layer_norm(x, x.shape), lambda seed: shifted(500, 300.0, seed)),
    "layer_norm 1000": (lambda x: F.layer_norm(x, x.shape), lambda seed: shifted(1000, 300.0, seed)),
    "layer_norm 64": (lambda x: F.layer_norm(x, x.shape), lambda seed: shifted(64, 1e4, seed)),
    "standardized": (lambda x: (x - x.mean()) / x.std(), lambda seed: shifted(500, 300.0, seed)),
    "matrix_exp 8": (torch.linalg.matrix_exp, lambda seed: matrix(8, 3.0, seed)),
    "matrix_exp 12": (torch.linalg.matrix_exp, lambda seed: matrix(12, 1.0, seed)),
    "pinv": (torch.linalg.pinv, lambda seed: with_condition(756.0, seed)),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", RIGHT)
def test_right_functions_pass(name, seed):
    func, make = RIGHT[name]
    report = gradproof.check(func, make(seed))
    assert report.verdict is Verdict.PASS, str(report)


@pytest.mark.parametrize("seed", range(4))
def test_what_a_sum_of_large_numbers_loses_is_no_failure(seed):
    report = gradproof.check(lambda x: F.layer_norm(x, x.shape), shifted(4096, 1000.0, seed))
    assert report.verdict is not Verdict.FAIL, str(report)


class Spoiled(torch.autograd.Function):
    """An operator whose gradient is changed, in all precisions or in float32 alone."""

    @staticmethod
    def forward(ctx, x, func, spoil):
        ctx.save_for_backward(x)
        ctx.func, ctx.spoil = func, spoil
        return func(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(ctx.func(x), x, grad_output)
        return ctx.spoil(gradient, grad_output), None, None


def element(gradient, grad_output):
    """One element is 2 % too large."""
    changed = gradient.clone(memory_format=torch.contiguous_format)
    changed.view(-1)[3] *= 1.02
    return changed


def element_of_float32(gradient, grad_output):
    return element(gradient, grad_output) if gradient.dtype is torch.float32 else gradient


def factor(gradient, grad_output):
    return 1.01 * gradient


def factor_of_float32(gradient, grad_output):
    return factor(gradient, grad_output) if gradient.dtype is torch.float32 else gradient


CASES = ["layer_norm 500", "layer_norm 64", "matrix_exp 8", "pinv"]


@pytest.mark.parametrize("spoil", [element, element_of_float32])
@pytest.mark.parametrize("name", CASES)
def test_a_wrong_element_fails_with_its_place(name, spoil):
    func, make = RIGHT[name]
    x = make(1)
    report = gradproof.check(lambda x: Spoiled.apply(x, func, spoil), x)
    assert report.verdict is Verdict.FAIL, str(report)
    place = (3,) if x.dim() == 1 else (0, 3)
    assert report.findings[0].property == "jacobian"
    assert report.findings[0].input_element == place


@pytest.mark.parametrize("spoil", [factor, factor_of_float32])
@pytest.mark.parametrize("name", CASES)
def test_a_wrong_factor_fails(name, spoil):
    func, make = RIGHT[name]
    report = gradproof.check(lambda x: Spoiled.apply(x, func, spoil), make(1))
    assert report.verdict is Verdict.FAIL, str(report)
    assert report.findings[0].property == "jacobian"


def clamped(gradient, grad_output):
    """Not linear: what is large is cut off."""
    return gradient / grad_output.abs().max().clamp(min=10.0) * 10.0


@pytest.mark.parametrize("name", CASES)
def test_a_backward_that_is_not_linear_fails(name):
    func, make = RIGHT[name]
    report = gradproof.check(lambda x: Spoiled.apply(x, func, clamped), make(1))
    assert "linearity" in {finding.property for finding in report.findings}, str(report)
    assert report.verdict is Verdict.FAIL
