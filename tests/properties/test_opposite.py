"""One jvp that two properties look at: `linearity` at its tangents, `repeatability` at the function's values."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gradproof
from gradproof.torch import GradcheckError, gradcheck


def numbers() -> torch.Tensor:
    return torch.linspace(0.2, 1.5, 7, dtype=torch.float64).requires_grad_()


def properties(report: gradproof.Report) -> set[str]:
    return {finding.property for finding in report.findings}


class Drifting:
    """A function that gives something else after so many calls."""

    def __init__(self, calls: int, by: float) -> None:
        self.calls, self._last, self._by = 0, calls, by

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x.sin() + (self._by if self.calls > self._last else 0.0)


@pytest.mark.parametrize("modes", [None, "reverse"])
def test_a_function_that_drifts_before_it_is_called_again_is_not_repeatable(modes: Any) -> None:
    calls = Drifting(100, 0.0)
    gradproof.check(calls, numbers(), modes=modes, properties={"jacobian"})
    report = gradproof.check(Drifting(calls.calls, 1.0), numbers(), modes=modes)
    assert "repeatability" in properties(report)
    assert "not deterministic" in str(report)


class OtherValues(torch.autograd.Function):
    """Under forward mode, and only there, the values differ in the last bits: that is no lack of repeatability."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * ctx.saved_tensors[0].cos()

    @staticmethod
    def jvp(ctx: Any, u: torch.Tensor) -> torch.Tensor:
        return u * ctx.saved_tensors[0].cos()


def test_the_values_of_a_jvp_are_those_of_a_second_call() -> None:
    both, reverse = (gradproof.check(OtherValues.apply, numbers(), modes=modes) for modes in (None, "reverse"))
    assert both.ok
    assert both.cost.evaluations == reverse.cost.evaluations - 1


@pytest.mark.parametrize(("size", "jvps", "saved"), [(7, 2, 0), (40_000, 1, 1)])
def test_of_the_frameworks_own_operations_no_tangent_is_asked_twice_and_its_values_are_used_where_calls_are_long(
    size: int, jvps: int, saved: int
) -> None:
    x = torch.linspace(0.2, 1.5, size, dtype=torch.float64).requires_grad_()
    both, reverse = (gradproof.check(torch.sin, x, modes=modes) for modes in (None, "reverse"))
    assert both.ok
    assert both.cost.jvps == jvps
    assert both.cost.evaluations == reverse.cost.evaluations - saved


def tangents_of_its_own(times: float, most: float) -> Any:
    """sin with a forward rule of its own that no Function tells of: not linear, and right for the shared tangent."""

    def function(x: torch.Tensor) -> torch.Tensor:
        primal, tangent = torch.autograd.forward_ad.unpack_dual(x)
        if tangent is None:
            return x.sin()
        pushed = (primal.cos() * tangent).clamp(max=most)
        return torch.autograd.forward_ad.make_dual(primal.sin(), torch.where(tangent < 0, times * pushed, pushed))

    return function


@pytest.mark.parametrize(("times", "most", "ok"), [(1.0, 1e9, True), (1.01, 1e9, False), (1.0, 2.5, False)])
def test_one_tangent_shows_rules_that_are_right_for_small_ones_of_one_sign(times: float, most: float, ok: bool) -> None:
    report = gradproof.check(tangents_of_its_own(times, most), numbers())
    assert report.ok == ok
    assert ok or "forward" in str(report)


def right_for_short_ones(x: torch.Tensor) -> torch.Tensor:
    """sin, whose forward rule is right for tangents of length one, and for no shorter ones."""
    primal, tangent = torch.autograd.forward_ad.unpack_dual(x)
    if tangent is None:
        return x.sin()
    pushed = primal.cos() * tangent
    wrong = torch.where((tangent != 0) & (tangent.abs() < 1), 1.5 * pushed, pushed)
    return torch.autograd.forward_ad.make_dual(primal.sin(), wrong)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_every_entry_tells_nothing_of_other_tangents_so_that_the_law_is_asked(fast_mode: bool) -> None:
    assert gradcheck(torch.sin, (numbers(),), check_forward_ad=True, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="forward"):
        gradcheck(right_for_short_ones, (numbers(),), check_forward_ad=True, fast_mode=fast_mode)


def test_where_the_jacobian_is_not_asked_for_the_law_is() -> None:
    report = gradproof.check(torch.sin, numbers(), modes="forward", properties={"linearity"})
    assert report.ok
    assert report.cost.jvps == 2
    report = gradproof.check(right_for_short_ones, numbers(), modes="forward", properties={"linearity"})
    assert properties(report) == {"linearity"}


def test_where_a_jvp_has_other_values_the_function_is_called_by_itself() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        dual = torch.autograd.forward_ad.unpack_dual(x).tangent is not None if x.numel() else False
        return OtherValues.apply(x) + (1e-6 if dual else 0.0)

    report, plain = gradproof.check(function, numbers()), gradproof.check(OtherValues.apply, numbers())
    assert plain.ok
    assert "repeatability" not in properties(report)
    assert report.cost.evaluations == plain.cost.evaluations + 1


def test_a_jvp_that_is_not_linear_is_still_found() -> None:
    class Wrong(OtherValues):
        @staticmethod
        def jvp(ctx: Any, u: torch.Tensor) -> torch.Tensor:
            return u.abs() * ctx.saved_tensors[0].cos()

    report = gradproof.check(Wrong.apply, numbers(), modes="forward", properties={"linearity", "repeatability"})
    assert properties(report) == {"linearity"}
