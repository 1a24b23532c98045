"""gradproof.check: any call in, a report out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from functions import CASES, Case, custom, named, numbers

import gradproof
from gradproof import Status, Verdict, check
from gradproof.core.problem import Mode
from gradproof.properties import PROPERTIES
from gradproof.torch import gradcheck


@pytest.mark.parametrize("case", [case for case in CASES if case.name != "empty"], ids=named)
def test_right_is_right_and_wrong_is_wrong(case: Case) -> None:
    report = check(case.function, case.inputs())
    assert report.verdict is (Verdict.PASS if case.right else Verdict.FAIL), str(report)
    if case.wrong_at is not None:
        finding = next(f for f in report.findings if f.property == "jacobian")
        assert (finding.output, finding.input) == case.wrong_at


def test_a_report_of_a_right_derivative_has_no_finding() -> None:
    report = check(torch.sin, numbers(5))
    assert report.findings == ()
    assert report.ok
    assert report.entries == 25
    assert report.covered == ("input 0",)
    assert 0 < report.cost.evaluations < 50


def test_a_wrong_derivative_does_not_raise_until_asked() -> None:
    report = check(lambda x: x * x.detach(), numbers(3))
    assert not report
    with pytest.raises(gradproof.CheckFailedError, match="Jacobian mismatch"):
        report.raise_for_failure()


# any call


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def test_inputs_are_found_in_nested_containers_and_keywords() -> None:
    def function(pairs: Any, options: dict[str, Any], *, scale: torch.Tensor, bias: Any = None) -> torch.Tensor:
        first, (second, third) = pairs
        return first * second.left + third[0] ** 2 * options["weight"] * scale + second.right

    tensors = [numbers(2, seed=seed) for seed in range(6)]
    pairs = (tensors[0], (Pair(tensors[1], tensors[2]), [tensors[3]]))
    report = check(function, (pairs, {"weight": tensors[4], "name": "x"}), {"scale": tensors[5]})
    assert report.ok, str(report)
    assert report.entries == 2 * 12
    assert len(report.covered) == 6
    assert report.covered[-1] == "input 2 `scale`"


@pytest.mark.parametrize("wrong", ["x", "weight", "bias"])
def test_a_wrong_gradient_is_named_after_its_parameter(wrong: str) -> None:
    def function(x: torch.Tensor, *, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        values = {"x": x, "weight": weight, "bias": bias}
        values[wrong] = values[wrong].detach()
        return values["x"] ** 2 * values["weight"] + values["bias"] ** 3

    keywords = {"weight": numbers(3, seed=1), "bias": numbers(3, seed=2)}
    report = check(function, numbers(3), keywords)
    findings = [finding for finding in report.findings if finding.property == "jacobian"]
    assert findings
    assert all(f"with respect to input {finding.input} `{wrong}`" in finding.message for finding in findings)
    assert {finding.input for finding in findings} == {["x", "weight", "bias"].index(wrong)}


def test_a_dict_may_be_the_only_input() -> None:
    inputs = {"b": numbers(2), "a": numbers(2, seed=1)}
    assert check(lambda d: d["a"] * d["b"], inputs).ok
    assert not check(lambda d: d["a"] * d["b"].detach(), inputs).ok


def test_inputs_that_need_no_gradient_are_constants() -> None:
    report = check(lambda x, y, n: x * y**n, (numbers(2), numbers(2, seed=1).detach(), 2))
    assert report.ok
    assert report.covered == ("input 0 `x`",)


def test_a_module_is_a_function() -> None:
    torch.manual_seed(0)
    report = check(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh()).double(), numbers(2, 3))
    assert report.ok, str(report)


# what is asked


def test_both_modes_are_compared_where_the_function_has_them() -> None:
    assert check(torch.sin, numbers(3)).modes == (Mode.REVERSE, Mode.FORWARD)
    assert check(custom(torch.sin, lambda s, g: g * s[0].cos()), numbers(3)).modes == (Mode.REVERSE,)


@pytest.mark.parametrize("modes", ["forward", ["forward"], ("reverse", "forward"), "reverse"])
def test_modes_can_be_chosen(modes: Any) -> None:
    names = [modes] if isinstance(modes, str) else list(modes)
    report = check(torch.sin, numbers(3), modes=modes)
    assert sorted(mode.value for mode in report.modes) == sorted(names)
    assert (report.cost.jvps > 0) is ("forward" in names)
    assert (report.cost.vjps > 0) is ("reverse" in names)


@pytest.mark.parametrize("modes", ["backward", ["reverse", "sideways"]])
def test_an_unknown_mode_is_refused_with_the_choices(modes: Any) -> None:
    with pytest.raises(ValueError, match=r"unknown mode '(backward|sideways)'.*'reverse'.*'forward'"):
        check(torch.sin, numbers(3), modes=modes)


def test_no_mode_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match=r"modes is empty.*'reverse'.*'forward'"):
        check(torch.sin, numbers(3), modes=[])


@pytest.mark.parametrize("properties", [["jacobian", "beauty"], "beauty"])
def test_an_unknown_property_is_refused_with_the_choices(properties: Any) -> None:
    with pytest.raises(ValueError, match=r"unknown.*\['beauty'\].*jacobian") as caught:
        check(torch.sin, numbers(3), properties=properties)
    assert all(name in str(caught.value) for name in PROPERTIES)


def test_no_property_is_refused() -> None:
    with pytest.raises(ValueError, match="jacobian"):
        check(torch.sin, numbers(3), properties=[])


@pytest.mark.parametrize("option", ["atol", "rtol", "nondet_tol"])
def test_a_tolerance_out_of_range_is_refused(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} must be"):
        check(torch.sin, numbers(3), **{option: -1.0})


def test_only_the_properties_asked_for_are_examined() -> None:
    offset = custom(lambda x: 2 * x, lambda s, g: 2 * g + 1e-12)
    assert check(offset, numbers(3), properties="jacobian").ok
    assert "linearity" in {finding.property for finding in check(offset, numbers(3)).findings}


@pytest.mark.parametrize(
    ("inputs", "error"),
    [((3.0, "text"), TypeError), ((), TypeError), ((torch.ones(3),), ValueError), (torch.ones(3), ValueError)],
)
def test_a_call_that_checks_nothing_raises(inputs: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="gradient"):
        check(torch.sin, inputs)


# tolerances


def off_by(size: float) -> Callable[..., Any]:
    return custom(lambda x: 2 * x, lambda s, g: 2 * (1 + size) * g)


def test_default_tolerances_are_tight_in_double_precision() -> None:
    assert check(off_by(1e-9), numbers(3)).ok
    assert not check(off_by(1e-5), numbers(3)).ok


def test_tolerances_given_are_used() -> None:
    assert check(off_by(1e-3), numbers(3), rtol=1e-2).ok
    assert check(off_by(1e-3), numbers(3), rtol=0.0, atol=1e-2).ok
    assert not check(off_by(1e-3), numbers(3), rtol=1e-4, atol=0.0).ok


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
def test_hidden_cancellation_is_never_called_a_wrong_derivative(offset: float) -> None:
    """The function is noisier than its value lets on: what cannot be judged is at most inconclusive."""
    for seed in range(10):
        report = check(lambda x: (x + offset) - offset, numbers(3, seed=seed), modes="reverse")
        assert report.verdict is not Verdict.FAIL, str(report)


# exceptions of user code are findings


class OwnError(Exception):
    pass


ERROR = OwnError("mine")


def throw(*_: Any) -> Any:
    raise ERROR


THROWING: dict[str, Callable[..., Any]] = {
    "the forward": throw,
    "the forward, moved": lambda x: x.sin() if torch.equal(x, numbers(3)) else throw(),
    "the backward": custom(torch.sin, throw),
    "the jvp": custom(torch.sin, lambda s, g: g * s[0].cos(), throw),
}


@pytest.mark.parametrize("name", THROWING)
def test_an_exception_of_user_code_is_a_finding_with_its_cause(name: str) -> None:
    report = check(THROWING[name], numbers(3))
    assert report.verdict is Verdict.FAIL
    raised = [finding for finding in report.findings if finding.status is Status.RAISED]
    assert raised
    assert all(finding.cause is ERROR for finding in raised)
    assert "raised OwnError: mine" in raised[0].message
    assert report.findings[0] is raised[0]
    with pytest.raises(gradproof.CheckFailedError) as caught:
        report.raise_for_failure()
    assert caught.value.__cause__ is ERROR


def interrupt(*_: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "function",
    [
        interrupt,
        lambda x: x.sin() if torch.equal(x, numbers(3)) else interrupt(),
        custom(torch.sin, interrupt),
        custom(torch.sin, lambda s, g: g * s[0].cos(), interrupt),
    ],
    ids=THROWING,
)
def test_an_interrupt_is_not_a_finding(function: Callable[..., Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        check(function, numbers(3))


# repeatability


def test_the_same_seed_gives_the_same_report() -> None:
    function = custom(lambda x: x**2, lambda s, g: 2 * s[0] * g * (torch.arange(9) != 4))
    first, second = (check(function, numbers(9), seed=7) for _ in range(2))
    assert [str(finding) for finding in first.findings] == [str(finding) for finding in second.findings]
    assert (first.seed, second.seed) == (7, 7)


@pytest.mark.parametrize("seed", range(5))
def test_the_verdict_does_not_depend_on_the_seed(seed: int) -> None:
    assert check(torch.sin, numbers(9), seed=seed).ok
    assert not check(lambda x: x * x.detach(), numbers(9), seed=seed).ok


def test_noise_of_a_generator_of_its_own_is_reported_as_noise() -> None:
    generator = torch.Generator().manual_seed(0)

    def noisy(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(x.shape, generator=generator, dtype=x.dtype)

    report = check(noisy, numbers(50), modes="reverse")
    assert not report
    assert any("not deterministic" in finding.message for finding in report.findings)


def test_a_value_that_is_not_finite_is_the_hint() -> None:
    x = torch.tensor([-1.0, 1.0], dtype=torch.float64, requires_grad=True)
    report = check(torch.log, x, modes="reverse")
    assert not report
    assert report.findings[0].hint.startswith("output 0, element [0] is nan at this point")


MASK = torch.eye(4, dtype=torch.bool)


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize(
    "masked",
    [
        lambda x: x.masked_fill(MASK, -math.inf),  # which claims 0 of what is masked
        lambda x: x + torch.zeros(4, 4, dtype=x.dtype).masked_fill(MASK, -math.inf),  # and this one 1
    ],
)
def test_an_output_that_is_infinite_cannot_be_judged_and_is_not_wrong(masked: Any, strategy: Any) -> None:
    report = check(masked, numbers(4, 4), strategy=strategy)
    assert report.verdict is Verdict.INCONCLUSIVE, str(report)
    assert "cannot be judged (the output is no finite number here)" in report.findings[0].message
    assert report.findings[0].hint.startswith("output 0, element [0, 0] is -inf at this point")
    assert not gradcheck(masked, (numbers(4, 4),), raise_exception=False)  # as torch's own


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("fill", [0.0, math.nan])
def test_beside_it_others_are_wrong_as_ever(fill: float, strategy: Any) -> None:
    wrong = custom(lambda x: x.masked_fill(MASK, -math.inf), lambda s, g: (2 - (fill != 0)) * g.masked_fill(MASK, fill))
    report = check(wrong, numbers(4, 4), strategy=strategy, modes="reverse")
    assert (report.verdict, report.findings[0].status) == (Verdict.FAIL, Status.WRONG)


def test_inference_mode_is_refused() -> None:
    x = numbers(3)
    with torch.inference_mode(), pytest.raises(RuntimeError, match="inference_mode"):
        check(torch.sin, x)


def test_modes_and_check_forward_ad_must_agree() -> None:
    with pytest.raises(ValueError, match="contradicts modes"):
        check(torch.sin, numbers(3), modes="reverse", check_forward_ad=True)


def test_a_bad_budget_is_refused_before_the_function_is_called() -> None:
    def never(x: torch.Tensor) -> torch.Tensor:
        raise AssertionError("called")

    with pytest.raises(ValueError, match="budget must be positive"):
        check(never, numbers(3), budget=0)


def test_outputs_without_a_graph_beside_others_are_not_covered() -> None:
    report = check(lambda x: (x.sin(), x.detach() * 2, x.argmax()), numbers(3), modes="reverse")
    assert report
    assert report.not_covered == ("output 1 (it has no graph)",)
