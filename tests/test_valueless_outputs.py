"""Outputs that are no finite numbers beside others that are: what is counted, and what is said to be the cause."""

from __future__ import annotations

import math

import pytest
import torch
from functions import custom

from gradproof import Report, Status, Verdict, check
from gradproof.render.notebook import fragment

SIZE, HIDDEN = 6, 3
doubled = custom(torch.clone, lambda _, g: 2.0 * g)


def point() -> torch.Tensor:
    return torch.linspace(-2.0, 2.0, SIZE, dtype=torch.float64).requires_grad_()


def masked(x: torch.Tensor, value: float) -> torch.Tensor:
    return x.sin().masked_fill(torch.arange(SIZE) >= HIDDEN, value)


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("value", [-math.inf, math.inf, math.nan])
def test_only_wrong_entries_are_counted_as_wrong(value: float, strategy: str) -> None:
    report = check(lambda x: doubled(masked(x, value)), point(), strategy=strategy)
    finding = report.findings[0]
    assert (report.verdict, finding.wrong, report.pairs[0].wrong) == (Verdict.FAIL, SIZE - HIDDEN, SIZE - HIDDEN)
    assert all(entry.status is Status.WRONG for entry in finding.entries)
    assert finding.hint.startswith(
        "analytic ≈ 2 × numeric on all 3 wrong elements that were sampled: a factor 2 too many"
    )


def test_what_cannot_be_judged_beside_it_is_told() -> None:
    report = check(lambda x: doubled(masked(x, -math.inf)), point(), strategy="entries")
    assert "3 of 36 entries differ, and 18 more cannot be judged; the worst" in report.findings[0].headline
    assert report.findings[0].unjudged == 18


@pytest.mark.parametrize("value", [-math.inf, math.inf, math.nan])
def test_a_right_one_has_nothing_that_is_wrong_and_no_mismatch(value: float) -> None:
    report = check(lambda x: masked(x, value), point())
    assert report.verdict is Verdict.INCONCLUSIVE
    assert {finding.wrong for finding in report.findings} == {SIZE * (SIZE - HIDDEN)}
    for shown in (str(report), report.to_json(), fragment(report)):
        assert "mismatch" not in shown
        assert "The Jacobian could not be judged for output 0" in shown


def test_a_claim_that_is_no_number_where_the_output_is_none_does_not_differ_from_one() -> None:
    report = check(lambda x: x.log(), torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64).requires_grad_())
    forward = next(each for each in report.findings if "forward mode" in each.headline)
    assert "3 of 9 entries are claimed to be no finite numbers (nor is the output here)" in forward.headline
    assert "differ" not in forward.headline


@pytest.mark.parametrize("value", [-math.inf, math.nan])
def test_reports_with_nan_survive_their_documents(value: float) -> None:
    report = check(lambda x: masked(x, value), point())
    again = Report.from_json(report.to_json())
    assert math.isnan(again.findings[0].entries[0].numeric)
    assert again == report
    assert hash(again.findings[0]) == hash(report.findings[0])
    assert again != check(lambda x: masked(x, value), 2 * point().detach().requires_grad_())


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("right", [True, False])
def test_a_certificate_says_that_they_were_not_seen(right: bool, strategy: str) -> None:
    """An error in the row of an output that is no number would not have been noticed."""
    report = check(lambda x: (torch.clone if right else doubled)(masked(x, math.nan)), point(), strategy=strategy)
    assert report.verdict is (Verdict.INCONCLUSIVE if right else Verdict.FAIL)
    assert report.certificate is not None
    assert all(math.isinf(size) for _, size in report.certificate.smallest)
    seen = check(lambda x: torch.clone(masked(x, 1.0)), point(), strategy=strategy)
    assert seen.certificate is not None
    assert all(size < 1e-3 for _, size in seen.certificate.smallest)
