"""What gradients that should be equal may differ by."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from array_problem import DOUBLE, HALF, Part, investigation
from torch.nn import functional

from gradproof import Verdict, check
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.properties.allowance import allowed_difference, weight, zero_gradient


def case_of(size: float = 1.0, at: float = 1.0, eps: float = DOUBLE) -> Investigation:
    """Two inputs near `at`, one output of a size."""
    return investigation(lambda x: np.full(1, size), np.full(2, at), inputs=[Part((1,), eps=eps), Part((1,), eps=eps)])


def test_the_weight_is_the_size_of_the_outputs_under_the_shared_cotangent() -> None:
    case = investigation(lambda x: np.array([3.0, np.nan, -4.0]), np.ones(1))
    case.share_cotangent(np.array([1.0, 7.0, 0.5]))
    assert weight(case) == pytest.approx(np.hypot(3.0, 2.0))


def test_a_gradient_that_should_be_zero_may_be_round_off_of_the_outputs_per_step_of_the_inputs() -> None:
    allowed = zero_gradient(case_of())
    assert (allowed < 1e-12).all()
    assert zero_gradient(case_of(size=100.0)) == pytest.approx(100.0 * allowed)
    assert zero_gradient(case_of(at=100.0)) == pytest.approx(allowed / 100.0)


def test_however_low_the_precision_it_is_a_small_part() -> None:
    assert zero_gradient(case_of(eps=HALF)) == pytest.approx([0.01, 0.01], abs=1e-6)


def test_noise_and_tolerances_are_allowed_on_top() -> None:
    case, gradient = case_of(), np.array([10.0, 1000.0])
    least = zero_gradient(case)
    assert allowed_difference(case, Options(), gradient) == pytest.approx(least)
    assert allowed_difference(case, Options(nondet_tol=0.5, atol=0.25), gradient) == pytest.approx(least + 0.75)


def test_rtol_is_relative_to_the_largest_gradient_of_each_input() -> None:
    case = investigation(lambda x: x.sum(), np.ones(4), inputs=[Part((2,)), Part((2,))])
    allowed = allowed_difference(case, Options(rtol=0.1), np.array([1.0, -10.0, 200.0, np.nan]))
    assert allowed == pytest.approx([1.0, 1.0, 20.0, 20.0])


def standardised(x: torch.Tensor) -> torch.Tensor:
    """Of numbers that nearly tie: what their difference loses, the norm makes large again."""
    y = (x + 1) * 1e6
    y = y / (y.std() + 1e-5)
    return y / y.norm()


def test_a_sum_of_right_entries_that_differs_by_round_off_is_no_law_broken() -> None:
    ties = [-0.56934086395, -0.56934074476, -0.56934071447, -0.56934093271, -0.56934091749, -0.56934100362]
    assert check(standardised, torch.tensor(ties, dtype=torch.float64, requires_grad=True)).ok
    x = torch.tensor([0.2, 0.48], dtype=torch.float64, requires_grad=True)
    constant = check(lambda x: functional.layer_norm(x.logsumexp(0, keepdim=True) + 0 * x, (2,)), x)
    assert constant.verdict is not Verdict.FAIL, str(constant)
