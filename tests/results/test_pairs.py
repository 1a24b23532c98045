"""One row for each output and input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from report_samples import CERTIFICATE, INPUTS, OUTPUTS, WEIGHT, X, Y, entry, wrong_jacobian

from gradproof import Certificate, Finding, Status, Verdict, check
from gradproof.results.certificate import About
from gradproof.results.pairs import pair_up


def statuses(*findings: Finding, certificate: Certificate | None = CERTIFICATE) -> list[tuple[str, str]]:
    pairs = pair_up(INPUTS.blocks, OUTPUTS.blocks, findings, certificate)
    return [(pair.input.name, pair.word) for pair in pairs]


def test_what_no_finding_mentions_is_right() -> None:
    assert statuses() == [("x", "RIGHT"), ("weight", "RIGHT")]
    (pair, _) = pair_up(INPUTS.blocks, OUTPUTS.blocks, (), CERTIFICATE)
    assert (pair.total, pair.wrong, pair.difference, pair.allowed, pair.smallest) == (24, 0, None, None, 3e-8)


def test_the_worst_comes_first_with_its_numbers() -> None:
    finding = wrong_jacobian(entry(0, 7, numeric=2.0, analytic=5.0))
    (pair, other) = pair_up(INPUTS.blocks, OUTPUTS.blocks, [finding], CERTIFICATE)
    assert (pair.input, pair.output, pair.word) == (WEIGHT, Y, "WRONG")
    assert (pair.wrong, pair.difference, pair.allowed, pair.smallest) == (2, 3.0, entry().allowed, 4e-8)
    assert other.word == "RIGHT"


def test_of_two_findings_the_worse_one_counts() -> None:
    kink = wrong_jacobian(status=Status.KINK, wrong=1)
    assert statuses(kink) == [("x", "KINK"), ("weight", "RIGHT")]
    assert statuses(kink, wrong_jacobian())[0] == statuses(wrong_jacobian(), kink)[0] == ("x", "WRONG")


@pytest.mark.parametrize(
    "finding",
    [
        wrong_jacobian(located=True),
        Finding(property="jacobian", status=Status.INCONCLUSIVE, headline="too noisy"),
        Finding(property="jacobian", status=Status.RAISED, headline="raised"),
    ],
)
def test_a_comparison_that_did_not_run_to_its_end_calls_nothing_right(finding: Finding) -> None:
    assert ("weight", "NOT SETTLED") in statuses(finding)
    assert "RIGHT" not in dict(statuses(finding)).values()


def test_what_a_search_came_upon_may_not_be_all() -> None:
    for located, count in [(True, "at least 2 of 24"), (False, "2 of 24")]:
        finding = wrong_jacobian(located=located)
        assert pair_up(INPUTS.blocks, OUTPUTS.blocks, [finding], CERTIFICATE)[0].count == count


@pytest.mark.parametrize(
    ("status", "count"), [(Status.INCONCLUSIVE, "2 of 24 not judged"), (Status.KINK, "2 of 24 at kinks")]
)
def test_what_is_not_wrong_is_not_counted_as_wrong(status: Status, count: str) -> None:
    (pair, _) = pair_up(INPUTS.blocks, OUTPUTS.blocks, [wrong_jacobian(status=status)], CERTIFICATE)
    assert pair.count == count
    assert pair.count_alone == count.replace(" of 24", "")


def test_without_a_certificate_nothing_is_right() -> None:
    assert statuses(certificate=None) == [("x", "NOT SETTLED"), ("weight", "NOT SETTLED")]


def test_other_properties_leave_the_jacobian_right() -> None:
    finding = Finding(property="determinism", status=Status.WRONG, headline="noise", input=0)
    assert set(dict(statuses(finding)).values()) == {"RIGHT"}


def test_inputs_with_the_same_label_are_not_mixed_up() -> None:
    """Two tensors of one container may have one label; their blocks still differ."""
    first, second = replace(X, start=0), replace(X, start=6)
    assert first.label == second.label
    certificate = Certificate(((About(first), 1e-8), (About(second), 1e-3)), 0.0)
    at = entry()
    finding = wrong_jacobian(replace(at, input=replace(at.input, block=second)))
    (wrong, right) = pair_up((first, second), OUTPUTS.blocks, [finding], certificate)
    assert (wrong.input, wrong.word, wrong.smallest) == (second, "WRONG", 1e-3)
    assert (right.input, right.word, right.smallest) == (first, "RIGHT", 1e-8)


def test_a_second_order_of_the_certificate_is_not_the_first() -> None:
    certificate = Certificate(((About(X, 2), 1e-3),), 0.0)
    assert pair_up((X,), OUTPUTS.blocks, (), certificate)[0].smallest is None


class Scaled(torch.autograd.Function):
    """The gradient of `Sine`, which cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return g * x.cos()

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
        raise ValueError("not written yet")


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return Scaled.apply(ctx.saved_tensors[0], g)


def test_a_second_derivative_that_raises_leaves_the_first_right() -> None:
    x = torch.tensor([0.3, 0.8], dtype=torch.float64, requires_grad=True)
    report = check(Sine.apply, x, order=2)
    assert report.verdict is Verdict.FAIL
    assert {(pair.order, pair.word) for pair in report.pairs} == {(1, "RIGHT"), (2, "NOT SETTLED")}
    assert report.certificate is not None
    assert [about.order for about, _ in report.certificate.smallest] == [1]
