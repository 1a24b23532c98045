"""The Jacobian of kernels of one low precision, by long segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from array_problem import findings
from functions import custom, numbers

from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.problem import first_order
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options, Strategy
from gradproof.core.seen import Seen
from gradproof.core.status import Status
from gradproof.properties.by_integral import by_integral, can_integrate

LOW = [torch.bfloat16, torch.float16, torch.float32]
OPTIONS = Options()


def unasked(investigation: Investigation, options: Options) -> Iterator[Any]:
    """The ordinary comparison, where it is not needed."""
    yield from ()


def case(function: Callable[..., Any], *inputs: torch.Tensor) -> Investigation:
    return Investigation(first_order(call_of(function, inputs)).problem)


def kernel(
    forward: Callable[..., Any], backward: Callable[..., Any], dtype: torch.dtype = torch.float32
) -> Callable[..., Any]:
    def only(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not dtype:
            raise TypeError(f"a kernel for {dtype} only")
        return forward(x)

    return custom(only, lambda saved, g: backward(saved[0], g))


def wide_range(dtype: torch.dtype) -> torch.Tensor:
    return (3 * numbers(2000).detach()).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_a_right_kernel_has_no_finding_and_says_what_could_hide(dtype: torch.dtype) -> None:
    asked = case(kernel(torch.sin, lambda x, g: g * x.cos(), dtype), numbers(4096, dtype=dtype))
    assert can_integrate(asked)
    (seen,) = by_integral(asked, OPTIONS, unasked)
    assert isinstance(seen, Seen)
    assert seen.smallest[0] > 0


@pytest.mark.parametrize("factor", [0.0, -1.0, 2.0, 1.2])
@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_a_common_factor_is_wrong(dtype: torch.dtype, factor: float) -> None:
    asked = case(kernel(torch.sin, lambda x, g: factor * g * x.cos(), dtype), numbers(4096, dtype=dtype))
    (finding,) = findings(by_integral(asked, OPTIONS, unasked))
    assert finding.status is Status.WRONG
    assert finding.input == 0
    expected = "a gradient is lost" if factor == 0 else f"{factor:g} times"
    assert expected in finding.hint


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_a_staircase_may_claim_zero(dtype: torch.dtype) -> None:
    asked = case(
        kernel(torch.round, lambda x, g: 0 * g, dtype), (3 * numbers(2000)).detach().to(dtype).requires_grad_()
    )
    assert [
        finding for finding in findings(by_integral(asked, OPTIONS, unasked)) if finding.status is Status.WRONG
    ] == []


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_a_sawtooth_is_not_called_wrong(dtype: torch.dtype) -> None:
    asked = case(kernel(torch.frac, lambda x, g: g, dtype), wide_range(dtype))
    assert [
        finding for finding in findings(by_integral(asked, OPTIONS, unasked)) if finding.status is Status.WRONG
    ] == []


def test_the_input_at_fault_is_named() -> None:
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    def backward(saved: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, w = saved
        return g @ w.T, 1.1 * x.T @ g

    x, w = numbers(20, 30, dtype=torch.float32), numbers(30, 10, dtype=torch.float32, seed=1)
    (finding,) = findings(by_integral(case(custom(product, backward), x, w), OPTIONS, unasked))
    assert (finding.status, finding.input) == (Status.WRONG, 1)


def test_what_round_off_hides_altogether_is_said() -> None:
    asked = case(
        kernel(lambda x: 1e4 + x.sum() * 1e-4, lambda x, g: 1e-4 * g * torch.ones_like(x)),
        numbers(5, dtype=torch.float32),
    )
    (finding,) = findings(by_integral(asked, Options(strategy=Strategy.PROBES), unasked))
    assert finding.status is Status.INCONCLUSIVE
    assert "could not be judged with respect to input 0" in finding.headline


def test_double_precision_needs_no_segments() -> None:
    assert not can_integrate(case(torch.sin, numbers(3)))


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_a_part_of_the_gradient_that_is_lost_is_wrong(dtype: torch.dtype) -> None:
    lost = torch.arange(4096) % 8 != 0
    asked = case(kernel(torch.sin, lambda x, g: g * x.cos() * lost, dtype), numbers(4096, dtype=dtype))
    found = [finding for finding in findings(by_integral(asked, OPTIONS, unasked)) if finding.status is Status.WRONG]
    assert [finding.input for finding in found] == [0]


def test_elements_that_do_not_matter_may_have_a_gradient_of_zero() -> None:
    def backward(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return g * torch.cat([x[:100].cos(), torch.zeros(100)]).to(x.dtype)

    asked = case(
        kernel(lambda x: torch.cat([x[:100].sin(), torch.ones(100)]), backward), numbers(200, dtype=torch.float32)
    )
    assert findings(by_integral(asked, OPTIONS, unasked)) == []


def test_outputs_that_a_probe_left_out_claim_nothing() -> None:
    asked = case(kernel(torch.sin, lambda x, g: g * x.cos(), torch.bfloat16), numbers(4096, dtype=torch.bfloat16))
    cotangent = asked.cotangent.copy()
    cotangent[::3] = 0
    asked.share_cotangent(cotangent)
    assert findings(by_integral(asked, OPTIONS, unasked)) == []
