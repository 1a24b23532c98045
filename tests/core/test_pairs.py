"""One row for each output and input."""

from __future__ import annotations

import pytest
from report_samples import INPUTS, OUTPUTS, WEIGHT, X, Y, entry, wrong_jacobian

from gradproof import Certificate, Finding, Status
from gradproof.core.diagnose import eliminate
from gradproof.core.pairs import pair_up

SEEN = Certificate(((X.label, 3e-8), (WEIGHT.label, 4e-8)), 1e-12)


def statuses(*findings: Finding, certificate: Certificate | None = SEEN) -> list[tuple[str, str]]:
    pairs = pair_up(INPUTS.blocks, OUTPUTS.blocks, findings, certificate)
    return [(pair.input.name, pair.word) for pair in pairs]


def test_what_no_finding_mentions_is_right() -> None:
    assert statuses() == [("x", "RIGHT"), ("weight", "RIGHT")]
    (pair, _) = pair_up(INPUTS.blocks, OUTPUTS.blocks, (), SEEN)
    assert (pair.total, pair.wrong, pair.difference, pair.allowed, pair.smallest) == (24, 0, None, None, 3e-8)


def test_the_worst_comes_first_with_its_numbers() -> None:
    finding = wrong_jacobian(entry(0, 7, numeric=2.0, analytic=5.0))
    (pair, other) = pair_up(INPUTS.blocks, OUTPUTS.blocks, [finding], SEEN)
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
        Finding(property="jacobian", status=Status.INCONCLUSIVE, message="too noisy"),
        Finding(property="jacobian", status=Status.RAISED, message="raised"),
    ],
)
def test_a_comparison_that_did_not_run_to_its_end_calls_nothing_right(finding: Finding) -> None:
    assert ("weight", "NOT SETTLED") in statuses(finding)
    assert "RIGHT" not in dict(statuses(finding)).values()


def test_what_a_search_came_upon_may_not_be_all() -> None:
    counts = [pair_up(INPUTS.blocks, OUTPUTS.blocks, [wrong_jacobian(located=k)], SEEN)[0].count for k in (True, False)]
    assert counts == ["at least 2 of 24", "2 of 24"]


def test_without_a_certificate_nothing_is_right() -> None:
    assert statuses(certificate=None) == [("x", "NOT SETTLED"), ("weight", "NOT SETTLED")]


def test_other_properties_leave_the_jacobian_right() -> None:
    finding = Finding(property="determinism", status=Status.WRONG, message="noise", input=0)
    assert set(dict(statuses(finding)).values()) == {"RIGHT"}


def test_inputs_that_are_right_say_where_to_look() -> None:
    pairs = pair_up(INPUTS.blocks, OUTPUTS.blocks, [wrong_jacobian()], SEEN)
    assert eliminate(pairs, pairs[0]) == "no simple pattern, but `weight` is right: look where only `x` passes"
    assert eliminate(pairs[:1], pairs[0]) == ""
