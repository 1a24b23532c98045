"""What a failure costs, and how it is counted and told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, numbers

from gradproof import Status, Verdict, check

PROBE, PICTURES = 8, 20


def spoiled(factor: float = 0.9) -> object:
    def backward(s: tuple[torch.Tensor, ...], g: torch.Tensor) -> torch.Tensor:
        (x,) = s
        return g * x.cos() * x.sum() + factor * (g * x.sin()).sum()

    return custom(lambda x: x.sin() * x.sum(), backward)


@pytest.mark.parametrize("size", [3, 30, 75])
def test_a_small_failure_takes_at_most_twice_what_torchs_slow_mode_takes(size: int) -> None:
    report = check(spoiled(), numbers(size))
    assert report.verdict is Verdict.FAIL
    assert report.cost.evaluations <= 2 * (2 * size + 1) + PICTURES


Maker = Callable[[torch.Tensor], tuple[Callable[..., Any], torch.Tensor]]


def of(forward: Callable[..., Any], rule: Callable[[torch.Tensor, torch.Tensor], Any]) -> Maker:
    return lambda x: (custom(forward, lambda s, g: rule(s[0], g)), x)


def with_zeros(x: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.arange(len(x)) % 2 == 0, 0.0, x - 1.0).requires_grad_()


HARD: dict[str, Maker] = {
    "an inverted mask": lambda x: of(torch.relu, lambda x, g: g * (x <= 0))((x - 1.0).detach().requires_grad_()),
    "kinks": lambda x: of(torch.relu, lambda x, g: 1.5 * g * (x <= 0))(with_zeros(x.detach())),
    "zeros beside a wrong diagonal": of(torch.exp, lambda x, g: 1.5 * g),
    "one that drowns in round-off": of(lambda x: x.sin() + 1e6, lambda x, g: 1.1 * g * x.cos()),
    "a sum that drowns": of(lambda x: x.sin().sum() + 1e5, lambda x, g: 1.1 * g * x.cos()),
    "claims that are no numbers": of(torch.sin, lambda x, g: g * torch.nan),
    "claims of fewer bits": of(torch.sin, lambda x, g: (g * x.cos()).bfloat16().double()),
    "the cotangent forgotten": of(torch.sin, lambda x, g: x.cos()),
    "float32": lambda x: of(torch.sin, lambda x, g: 1.5 * g * x.cos())(x.detach().float().requires_grad_()),
}
"""Functions that are hard to measure."""


@pytest.mark.parametrize("size", [10, 30, 100, 500])
@pytest.mark.parametrize("name", HARD)
def test_so_do_functions_that_are_hard_to_measure(name: str, size: int) -> None:
    function, x = HARD[name](numbers(size))
    report = check(function, x)
    assert report.verdict is Verdict.FAIL
    limit = 2 * (2 * size + 1)
    assert report.cost.evaluations <= (limit if size <= 75 else min(limit, PROBE + 150)) + PICTURES


@pytest.mark.parametrize(
    "name", [name for name in HARD if name not in ("kinks", "claims of fewer bits", "a sum that drowns")]
)
def test_and_those_of_three_inputs_do(name: str) -> None:
    function, x = HARD[name](numbers(3))
    report = check(function, x)
    assert report.verdict is Verdict.FAIL
    assert report.cost.evaluations <= 2 * (2 * 3 + 1) + PICTURES


SLIGHT: dict[str, Maker] = {
    "single precision inside": of(lambda x: x.float().sin().double(), lambda x, g: 1.2 * g * x.cos()),
    "all off by less than one percent": of(lambda x: x.sin().sum(), lambda x, g: 1.009 * g * x.cos()),
}
"""What noise of the function could explain."""


@pytest.mark.parametrize("size", [30, 100, 500])
@pytest.mark.parametrize("name", SLIGHT)
def test_so_do_those_that_noise_could_explain(name: str, size: int) -> None:
    function, x = SLIGHT[name](numbers(size))
    report = check(function, x)
    assert report.verdict is Verdict.FAIL
    limit = 2 * (2 * size + 1)
    assert report.cost.evaluations <= (limit if size <= 75 else min(limit, PROBE + 150)) + PICTURES


@pytest.mark.parametrize("size", [4, 30])
def test_noise_is_no_excuse_and_no_accusation(size: int) -> None:
    """The right derivatives of the same functions."""
    single = of(lambda x: x.float().sin().double(), lambda x, g: g * x.cos())(numbers(size))
    stopped = of(lambda x: (x.sin() * 2.0**20).round() / 2.0**20, lambda x, g: g * x.cos())(numbers(size))
    assert check(*single).verdict is Verdict.PASS
    assert check(*stopped).verdict is not Verdict.FAIL


@pytest.mark.parametrize("size", [76, 300, 2000])
def test_a_larger_one_takes_at_most_150_beyond_the_probe(size: int) -> None:
    report = check(spoiled(), numbers(size))
    assert report.verdict is Verdict.FAIL
    assert report.cost.evaluations <= PROBE + 150 + PICTURES


def test_a_right_function_costs_what_the_probe_costs() -> None:
    report = check(spoiled(1.0), numbers(300))
    assert report.ok
    assert report.cost.evaluations <= PROBE


# words and numbers


def test_a_complex_element_is_counted_once() -> None:
    function = custom(lambda z: z * z, lambda s, g: 2 * s[0] * g)
    finding = check(function, numbers(4, dtype=torch.complex128)).findings[0]
    assert (finding.wrong, finding.total) == (4, 16)


def test_both_modes_wrong_at_one_entry_are_one_finding() -> None:
    function = custom(torch.sin, lambda s, g: 2 * s[0].cos() * g, lambda s, u: 2 * s[0].cos() * u)
    report = check(function, numbers(5), modes=["reverse", "forward"])
    jacobian = [finding for finding in report.findings if finding.property == "jacobian"]
    assert len(jacobian) == 1
    assert "in reverse and forward mode" in jacobian[0].headline


def test_modes_that_are_wrong_otherwise_are_two_findings() -> None:
    function = custom(torch.sin, lambda s, g: 2 * s[0].cos() * g, lambda s, u: 3 * s[0].cos() * u)
    report = check(function, numbers(5), modes=["reverse", "forward"])
    assert len([finding for finding in report.findings if finding.property == "jacobian"]) == 2


def test_there_is_no_certificate_of_an_input_whose_entries_are_all_wrong() -> None:
    report = check(spoiled(), numbers(5))
    assert report.findings[0].wrong == report.findings[0].total
    assert report.certificate is None
    assert "certificate" not in str(report)


def test_nan_is_no_ratio() -> None:
    function = custom(lambda x: x * 0.0 + torch.arange(3.0, dtype=x.dtype), lambda s, g: g * torch.nan)
    text = str(check(function, numbers(3)))
    assert "nan ×" not in text
    assert "0.0e+00" not in text


def test_the_worst_is_said_to_be_the_worst_by_what() -> None:
    assert "the worst, by difference / allowed:" in check(spoiled(), numbers(5)).findings[0].headline


# budgets


def test_evaluations_and_seconds_bound_the_work() -> None:
    report = check(spoiled(), numbers(30), evaluations=5)
    assert report.cost.evaluations <= 5
    assert report.verdict is not Verdict.PASS
    assert check(spoiled(1.0), numbers(30), evaluations=100, seconds=60.0).ok


@pytest.mark.parametrize(
    ("option", "name"),
    [({"evaluations": 3}, "evaluations="), ({"budget": 3}, "budget="), ({"seconds": 1e-9}, "seconds=")],
)
def test_a_message_names_the_option_that_was_used(option: dict[str, float], name: str) -> None:
    hints = [f.hint for f in check(spoiled(1.0), numbers(30), **option).findings if f.status is Status.INCONCLUSIVE]
    assert hints
    assert [hint for hint in hints if f"raise {name}" not in hint] == []


def test_two_forms_of_a_budget_are_one_too_many() -> None:
    with pytest.raises(ValueError, match="budget= alone"):
        check(spoiled(), numbers(3), budget=10, seconds=1.0)
    with pytest.raises(ValueError, match="evaluations must be positive"):
        check(spoiled(), numbers(3), evaluations=0)


@pytest.mark.parametrize("option", [{"evaluations": 2.5}, {"evaluations": True}, {"seconds": "a"}, {"budget": "3"}])
def test_a_budget_of_another_kind_is_refused_by_its_name(option: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"{next(iter(option))} must be"):
        check(spoiled(), numbers(3), **option)


def test_an_integer_of_numpy_counts_evaluations() -> None:
    report = check(spoiled(1.0), numbers(30), budget=np.int64(3))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.cost.evaluations <= 3


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_wrong_entry_of_a_long_sum_is_found_with_few_questions(seed: int) -> None:
    """Round-off of a cumulative sum is more than the size of its outputs explains."""
    size, draw = 100_000, np.random.default_rng(seed)
    output = int(draw.integers(size))
    input_ = int(draw.integers(output + 1))

    def backward(s: tuple[torch.Tensor, ...], g: torch.Tensor) -> torch.Tensor:
        gradient = s[0].cos() * g.flip(0).cumsum(0).flip(0)
        gradient[input_] += 0.01 * g[output]
        return gradient

    x = torch.from_numpy(draw.standard_normal(size)).requires_grad_()
    report = check(custom(lambda x: x.sin().cumsum(0), backward), x, modes="reverse", seed=seed)
    named = [(entry.output.element, entry.input.element) for finding in report.findings for entry in finding.entries]
    assert report.verdict is Verdict.FAIL
    assert named == [((output,), (input_,))]
    assert report.cost.evaluations <= 50
    assert report.cost.vjps <= 20
