"""compare(): a kernel against a reference, and who of the two is further from the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom, numbers

from gradproof import CheckFailedError, Report, Status, Verdict
from gradproof.torch import compare


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def kernel(x: torch.Tensor) -> torch.Tensor:
    """A softmax by hand."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        e = (x - x.max(-1, keepdim=True).values).exp()
        return e / e.sum(-1, keepdim=True)

    def backward(s: Any, g: torch.Tensor) -> torch.Tensor:
        y = forward(s[0])
        return y * (g - (g * y).sum(-1, keepdim=True))

    return custom(forward, backward)(x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_right_kernel_passes(dtype: torch.dtype) -> None:
    report = compare(kernel, softmax, numbers(3, 5, dtype=dtype))
    assert report.findings == (), str(report)
    assert report.covered == ("input 0 `x`",)
    assert (report.cost.evaluations, report.cost.vjps) == (3, 4)


def lone(report: Report) -> Any:
    assert report.verdict is Verdict.FAIL
    (finding,) = report.findings
    assert (finding.property, finding.status) == ("compare", Status.WRONG)
    return finding


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_wrong_output_is_found_at_its_element(dtype: torch.dtype) -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        offset = torch.zeros(3, 5, dtype=dtype)
        offset[1, 3] = 0.01
        return kernel(x) + offset

    finding = lone(compare(wrong, softmax, numbers(3, 5, dtype=dtype)))
    assert (finding.output, finding.output_element, finding.input) == (0, (1, 3), None)
    assert (finding.wrong, finding.total) == (1, 15)
    assert "the function is further from it (off by 0.01 and" in finding.message


def test_a_wrong_gradient_is_found_at_its_element() -> None:
    wrong = custom(lambda a, b: a * b, lambda s, g: (g * s[1], g * s[0] * torch.tensor([1.0, 1.0, 2.0])))
    finding = lone(compare(wrong, torch.mul, (numbers(3), numbers(3, seed=1))))
    assert (finding.input, finding.input_element, finding.output) == (1, (2,), None)
    assert finding.analytic == pytest.approx(2 * finding.numeric)
    assert "the gradient of input 1, element [2] is" in finding.message


def test_a_gradient_that_is_missing_counts_as_zero() -> None:
    finding = lone(compare(lambda a, b: a * b.detach(), torch.mul, (numbers(3), numbers(3, seed=1))))
    assert (finding.input, finding.analytic) == (1, 0.0)


def test_a_reference_that_is_further_from_the_truth_is_told() -> None:
    def careless(x: torch.Tensor) -> torch.Tensor:
        return (x + 1e4) - 1e4

    x = numbers(4, dtype=torch.float32)
    assert compare(lambda x: 1.0 * x, careless, x).ok  # the kernel is nearer to the truth: no reason to complain
    assert compare(careless, lambda x: 1.0 * x, x).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("other", "phrase"),
    [
        (lambda x: x.sin()[:2], "output 0 has shape (2,) and dtype torch.float64, that of the reference shape (3,)"),
        (lambda x: x.sin().float(), "dtype torch.float32, that of the reference shape (3,) and dtype torch.float64"),
        (lambda x: (x.sin(), x), "The function returned 2 tensors, the reference 1."),
    ],
)
def test_outputs_that_cannot_be_compared_are_found(other: Callable[..., Any], phrase: str) -> None:
    assert phrase in lone(compare(other, torch.sin, numbers(3))).message


def test_a_reference_for_one_dtype_only_is_taken_for_the_truth() -> None:
    def single(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32:
            raise TypeError("float32 only")
        return x.sin()

    x = numbers(4, dtype=torch.float32)
    assert compare(torch.sin, single, x).ok
    report = compare(lambda x: 1.01 * x.sin(), single, x)
    assert all("The reference does not run in float64, so it was taken" in f.message for f in report.findings)
    assert [(f.output, f.input) for f in report.findings] == [(0, None), (None, 0)]


def test_a_nan_is_a_difference_unless_both_have_it() -> None:
    x = numbers(3)
    assert lone(compare(lambda x: x.sin() + torch.tensor([0, float("nan"), 0]), torch.sin, x)).output_element == (1,)
    assert compare(lambda x: x * float("nan"), lambda x: x * float("nan"), x).ok


def test_several_outputs_keywords_and_random_numbers() -> None:
    def function(x: torch.Tensor, *, p: float) -> Any:
        return {"y": torch.nn.functional.dropout(x, p), "z": [x.sum()]}

    state = torch.get_rng_state()
    report = compare(function, function, numbers(20), {"p": 0.5})
    assert report.findings == (), str(report)
    assert report.not_covered == ("input 1 `p` (float, not differentiable)",)
    assert torch.equal(torch.get_rng_state(), state)


def test_inputs_that_need_no_gradient_are_refused() -> None:
    with pytest.raises(ValueError, match="compare expects at least one input tensor to require gradient"):
        compare(torch.sin, torch.sin, torch.ones(3))


def test_an_exception_of_the_kernel_is_a_finding_with_its_cause() -> None:
    def raising(x: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError("mine")

    report = compare(raising, torch.sin, numbers(3))
    assert report.verdict is Verdict.FAIL
    assert isinstance(report.findings[0].cause, ArithmeticError)
    with pytest.raises(CheckFailedError, match="ArithmeticError: mine"):
        report.raise_for_failure()
