"""The float64 twin: low-precision functions are measured in double precision where they can be."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, numbers

import gradproof
from gradproof import Status, Verdict
from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.derivative.drawn import Drawn
from gradproof.backends.torch.derivative.twin import wide
from gradproof.backends.torch.problem import first_order
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Problem
from gradproof.core.stencil import Stencil
from gradproof.torch import GradcheckError, gradcheck

LOW = [torch.float32, torch.float16, torch.bfloat16, torch.complex64]
DOUBLE = 2.0**-52
MANY = 10**5


def problem_of(function: Callable[..., Any], *inputs: Any, **keywords: Any) -> Problem:
    return first_order(call_of(function, inputs, keywords)).problem


@pytest.mark.parametrize(
    ("dtype", "double"),
    [
        (torch.float32, torch.float64),
        (torch.float16, torch.float64),
        (torch.bfloat16, torch.float64),
        (torch.float64, torch.float64),
        (torch.complex64, torch.complex128),
        (torch.complex128, torch.complex128),
    ],
)
def test_the_wide_dtype_is_double_precision_of_the_same_kind(dtype: torch.dtype, double: torch.dtype) -> None:
    assert wide(dtype) is double


# functions with a twin

WITH_TWIN: dict[str, Callable[..., Any]] = {
    "sin": torch.sin,
    "arithmetic": lambda x: x * x + 2 * x,
    "reduction": lambda x: (x * x).sum(),
    "two outputs": lambda x: (x.exp(), x * x),
    "hand-written": custom(lambda x: x * x, lambda s, g: 2 * s[0].conj() * g),
    "constant like its input": lambda x: x * torch.full_like(x, 3.0),
    "view of its input": lambda x: x.expand(2, 4),
    "constant of its own": lambda x: x * torch.linspace(0.5, 1.5, 4),
    "cast and back": lambda x: x.to(torch.complex64 if x.is_complex() else torch.float32).square().to(x.dtype),
}


@pytest.mark.parametrize("dtype", LOW, ids=str)
@pytest.mark.parametrize("name", WITH_TWIN)
def test_a_function_that_accepts_float64_is_measured_there(name: str, dtype: torch.dtype) -> None:
    problem = problem_of(WITH_TWIN[name], numbers(4, dtype=dtype))
    assert problem.evaluates_in == DOUBLE
    assert problem.inputs.coarsest_eps > 1e-8  # the derivative under test keeps its own precision


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_it_is_measured_at_the_rounded_point(dtype: torch.dtype) -> None:
    """The point is what the low-precision numbers are, not what they were before they were rounded."""
    x = numbers(5, dtype=dtype)
    problem = problem_of(lambda x: x * x, x)
    exact = x.detach().to(wide(dtype))
    flat = exact if not dtype.is_complex else torch.view_as_real(exact).reshape(-1)
    assert problem.point.tolist() == flat.tolist()
    square = exact * exact
    expected = square if not dtype.is_complex else torch.view_as_real(square).reshape(-1)
    assert problem.value.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_the_numerical_derivative_is_far_sharper_than_the_dtype(dtype: torch.dtype) -> None:
    problem = problem_of(lambda x: x * x, numbers(3, dtype=dtype))
    estimate = Stencil(Investigation(problem)).measure([0], lambda value: 1e-8 * np.abs(value))
    assert float(estimate.error.max()) < 1e-7
    assert estimate.value[0, 0] == pytest.approx(2 * problem.point[0], abs=1e-7)


def test_batches_are_measured_in_float64_too() -> None:
    problem = problem_of(torch.sin, numbers(30, dtype=torch.float32))
    points = problem.point + 1e-12 * np.arange(40)[:, None]
    assert np.abs(Investigation(problem).evaluate_many(points) - np.sin(points)).max() < 1e-15


def test_floating_point_arguments_without_a_gradient_are_widened_with_the_others() -> None:
    weight = torch.rand(3, generator=torch.Generator().manual_seed(0))
    problem = problem_of(lambda x, w, index: (x * w)[index], numbers(3, dtype=torch.float32), weight, torch.tensor([0]))
    assert problem.evaluates_in == DOUBLE
    assert problem.value[0] == float(problem.point[0]) * float(weight[0])


def test_keyword_arguments_are_widened_too() -> None:
    problem = problem_of(lambda x, *, w: x * w, numbers(3, dtype=torch.float32), w=torch.ones(3))
    assert problem.evaluates_in == DOUBLE


def test_mixed_precisions_have_a_twin() -> None:
    problem = problem_of(lambda x, y: (x.sin(), y.sin()), numbers(3, dtype=torch.float32), numbers(3))
    assert problem.evaluates_in == DOUBLE


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_double_precision_needs_no_twin(dtype: torch.dtype) -> None:
    assert problem_of(torch.sin, numbers(3, dtype=dtype)).evaluates_in is None


# functions without one

WEIGHT = torch.linspace(0.5, 1.5, 9).reshape(3, 3)
READ = numbers(3, dtype=torch.float32)


def only_single(x: torch.Tensor) -> torch.Tensor:
    if x.dtype is not torch.float32:
        raise TypeError("float32 only")
    return x * x


WITHOUT: dict[str, Callable[..., Any]] = {
    "refuses float64": only_single,
    "reads its input by closure": lambda x: READ * READ,
    "another shape": lambda x: x * x if x.dtype is torch.float32 else (x * x)[:2],
    "another number of outputs": lambda x: (x * x, x) if x.dtype is torch.float32 else (x * x,),
    "another function": lambda x: x * x if x.dtype is torch.float32 else x * x * 1.01,
    "no number": lambda x: x * x if x.dtype is torch.float32 else x * float("nan"),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_function_that_is_another_in_float64_is_measured_in_its_own_precision(name: str) -> None:
    x = READ if "closure" in name else numbers(3, dtype=torch.float32)
    problem = problem_of(WITHOUT[name], x)
    assert problem.evaluates_in is None
    report = gradproof.check(WITHOUT[name], x, modes="reverse", properties="jacobian")
    assert report.verdict is not Verdict.FAIL, str(report)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_function_that_casts_to_half_inside_is_checked_without_the_cast(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.half().to(dtype) * x

    x = numbers(3, dtype=dtype)
    assert gradproof.check(function, x).verdict is Verdict.PASS
    wrong = custom(function, lambda s, g: 2.2 * s[0] * g)
    assert gradproof.check(wrong, x).verdict is Verdict.FAIL


def test_a_function_that_reads_one_of_its_inputs_by_argument_and_by_closure_is_right() -> None:
    assert gradproof.check(lambda x: x * READ, READ, modes="reverse", properties="jacobian").verdict is Verdict.PASS


def test_without_a_twin_a_wrong_gradient_still_fails() -> None:
    wrong = custom(only_single, lambda s, g: 3 * s[0] * g)
    report = gradproof.check(wrong, numbers(5, dtype=torch.float32))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].status is Status.WRONG


# the user's tensors


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_the_users_tensors_are_untouched(dtype: torch.dtype) -> None:
    x, w = numbers(4, dtype=dtype), numbers(4, dtype=dtype, seed=1).detach()
    before = x.detach().clone(), w.clone(), x.data_ptr(), x._version, w._version
    assert gradproof.check(lambda x, w: x * w, (x, w)).verdict is not Verdict.FAIL
    assert torch.equal(x.detach(), before[0])
    assert torch.equal(w, before[1])
    assert (x.data_ptr(), x._version, w._version) == before[2:]
    assert (x.dtype, w.dtype) == (dtype, dtype)
    assert x.requires_grad
    assert not w.requires_grad
    assert x.grad is None


def test_the_derivative_is_asked_in_both_precisions_and_the_report_says_so() -> None:
    seen = set()

    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        seen.add((saved[0].dtype, g.dtype))
        return 2 * saved[0] * g

    report = gradproof.check(custom(lambda x: x * x, backward), numbers(4, dtype=torch.float32))
    assert report.ok
    assert seen == {(torch.float32, torch.float32), (torch.float64, torch.float64)}
    assert any("checked in float64" in note for note in report.notes)


def check_wrong_in(dtype: torch.dtype) -> gradproof.Report:
    """A float32 check of a square whose backward is wrong in one precision only."""

    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        return (3 if g.dtype is dtype else 2) * saved[0] * g

    return gradproof.check(custom(lambda x: x * x, backward), numbers(4, dtype=torch.float32), properties="jacobian")


def test_a_derivative_that_is_wrong_in_low_precision_only_fails() -> None:
    report = check_wrong_in(torch.float32)
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].input == 0


def test_a_derivative_that_is_wrong_in_double_precision_only_is_none_of_the_callers_and_told() -> None:
    report = check_wrong_in(torch.float64)
    assert report.verdict is Verdict.PASS
    assert any("in float64 the derivative is wrong" in note for note in report.notes)


# what is widened on the way


def test_low_precision_tensors_of_a_closure_are_widened() -> None:
    problem = problem_of(lambda x: WEIGHT @ x, numbers(3, dtype=torch.float32))
    assert problem.evaluates_in == DOUBLE
    assert problem.value == pytest.approx(WEIGHT.double().numpy() @ problem.point, rel=1e-15)
    assert WEIGHT.dtype is torch.float32


def test_autocast_is_off_in_the_twin() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x[:, None] * x).sum(0).to(x.dtype)

    x = numbers(3, dtype=torch.float32)
    assert problem_of(function, x).evaluates_in == DOUBLE
    assert not torch.is_autocast_enabled("cpu")


def test_what_a_function_writes_to_a_tensor_of_its_own_is_not_written_there_by_the_twin() -> None:
    calls, total = torch.zeros(3), torch.ones(3)

    def function(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is torch.float64:
            calls.add_(1)
        return x * total

    assert problem_of(function, numbers(3, dtype=torch.float32)).evaluates_in == DOUBLE
    assert calls.tolist() == [0, 0, 0]


def test_numbers_that_are_rounded_where_no_operator_is_seen_are_no_twin() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return custom(
            lambda x: torch.from_numpy(np.sin(x.numpy()).astype(np.float32).astype(x.numpy().dtype)),
            lambda s, g: g * s[0].cos(),
        )(x)

    assert problem_of(function, numbers(20, dtype=torch.float32)).evaluates_in is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", ["dropout", "randn_like", "bernoulli"])
def test_random_numbers_in_low_precision_leave_a_twin(name: str, dtype: torch.dtype) -> None:
    x = numbers(40, dtype=dtype)
    report = gradproof.check(DRAWING[name], (x, x.detach().cos().requires_grad_()))
    assert report.verdict is Verdict.PASS, str(report)
    assert any("float64" in note for note in report.notes)


# outputs that are no finite numbers, alike in both


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("value", [-math.inf, math.inf, math.nan])
def test_outputs_that_are_no_numbers_leave_a_twin(value: float, dtype: torch.dtype) -> None:
    def partly(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
        times = custom(torch.sin, lambda s, g: factor * g * s[0].cos())
        return lambda x: times(x).masked_fill(torch.arange(6) == 2, value)

    x = numbers(6, dtype=dtype)
    assert problem_of(partly(1.0), x).evaluates_in is not None
    right = gradproof.check(partly(1.0), x, modes="reverse")
    assert right.verdict is Verdict.INCONCLUSIVE, str(right)
    assert {finding.output_element for finding in right.findings} == {(2,)}
    wrong = gradproof.check(partly(2.0), x, modes="reverse")
    assert wrong.verdict is Verdict.FAIL
    assert wrong.findings[0].status is Status.WRONG
    assert wrong.findings[0].wrong == 5
    assert wrong.findings[0].output_element == wrong.findings[0].input_element != (2,)


def test_values_beside_what_is_no_number_tell_a_twin() -> None:
    def other(x: torch.Tensor) -> torch.Tensor:
        slope = 1.0 if x.dtype is torch.float32 else 1.01
        return (slope * x).sin().masked_fill(torch.arange(6) == 2, -math.inf)

    assert problem_of(other, numbers(6, dtype=torch.float32)).evaluates_in is None


# many elements


def sine_times(factor: float, place: int) -> Callable[..., Any]:
    return custom(torch.sin, lambda s, g: g * s[0].cos() * torch.where(torch.arange(MANY) == place, factor, 1.0))


def test_one_wrong_element_of_many_in_single_precision_is_named() -> None:
    report = gradproof.check(sine_times(2.0, 54_321), numbers(MANY, dtype=torch.float32), properties="jacobian")
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].status is Status.WRONG
    assert report.findings[0].input_element == report.findings[0].output_element == (54_321,)


def test_the_right_gradient_of_many_elements_in_single_precision_passes() -> None:
    report = gradproof.check(sine_times(1.0, 0), numbers(MANY, dtype=torch.float32))
    assert report.verdict is Verdict.PASS, str(report)


def test_the_front_door_sees_the_same() -> None:
    x = numbers(MANY, dtype=torch.float32)
    with pytest.warns(UserWarning, match="Input #0 requires gradient"):
        assert gradcheck(sine_times(1.0, 0), x, fast_mode=True)
    with pytest.warns(UserWarning, match="Input #0 requires gradient"), pytest.raises(GradcheckError) as caught:
        gradcheck(sine_times(2.0, 54_321), x, fast_mode=True)
    assert caught.value.findings[0].input_element == (54_321,)


DRAWING: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "randn_like": lambda x, w: x.sin() + w * torch.randn_like(x),
    "rand_like": lambda x, w: x.sin() + w * torch.rand_like(x),
    "bernoulli": lambda x, w: x.sin() + w * torch.bernoulli(torch.full_like(x, 0.5)),
    "dropout": lambda x, w: x.sin() + w * torch.nn.functional.dropout(x, 0.5),
    "randn": lambda x, w: x.sin() + w * torch.randn(x.shape),
}
"""Functions with random numbers behind a weight that is zero, so that they do not show in the values."""


def seeded(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x.sin() + w * torch.rand(x.shape, generator=torch.Generator().manual_seed(3), dtype=x.dtype)


def forked(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(1)
        return x.sin() + w * torch.randn_like(x)


DRAWING |= {"a generator of its own": seeded, "a forked state": forked}


def _behind_zero() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(50, generator=torch.Generator().manual_seed(0))
    return x.requires_grad_(), torch.zeros(50, requires_grad=True)


@pytest.mark.parametrize("name", DRAWING)
def test_random_numbers_behind_a_zero_weight_are_those_of_the_call(name: str) -> None:
    inputs = _behind_zero()
    assert gradproof.check(DRAWING[name], inputs).ok
    for fast_mode in (False, True):
        with pytest.warns(UserWarning, match="not a double precision"):
            assert gradcheck(DRAWING[name], inputs, fast_mode=fast_mode)


@pytest.mark.parametrize("name", DRAWING)
def test_a_wrong_gradient_of_a_zero_weight_before_them_fails(name: str) -> None:
    def wrong(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return DRAWING[name](x, 1.3 * w - 0.3 * w.detach())

    report = gradproof.check(wrong, _behind_zero())
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].input in (1, "w")
    with pytest.warns(UserWarning, match="not a double precision"), pytest.raises(GradcheckError):
        gradcheck(wrong, _behind_zero(), fast_mode=True)


DRAWN_WITH: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "rrelu": lambda x, w: x.sin() + w * torch.nn.functional.rrelu(x, training=True),
    "multinomial": lambda x, w: x.sin() + w * torch.multinomial(x.exp(), 50, replacement=True),
}
"""The same, where numbers are drawn in one with a computation."""


@pytest.mark.parametrize("name", [*DRAWING, *DRAWN_WITH])
def test_what_a_call_draws_is_given_to_its_twin(name: str) -> None:
    drawn, function = Drawn(draws=True), {**DRAWING, **DRAWN_WITH}[name]
    assert not drawn.is_same
    made: list[torch.Tensor] = []
    for dtype in (torch.bfloat16, torch.float64, torch.float64):
        x = _behind_zero()[0].detach().bfloat16().to(dtype)
        torch.manual_seed(0)
        if not made:
            made.append(drawn.by_call(functools.partial(function, x, torch.ones_like(x))))
            continue
        with drawn.given():
            made.append(function(x, torch.ones_like(x)))
    assert drawn.is_same
    assert torch.allclose(made[0].double(), made[1], rtol=2.0**-6, atol=2.0**-6)
    assert torch.equal(made[1], made[2])


@pytest.mark.parametrize(
    "another",
    [lambda x: torch.rand_like(x), lambda x: torch.randn_like(x[1:]), lambda x: x, lambda x: torch.rrelu(x, 0.2)],
)
def test_a_twin_that_draws_something_else_is_none(another: Callable[[torch.Tensor], torch.Tensor]) -> None:
    drawn, x = Drawn(draws=True), _behind_zero()[0].detach()
    drawn.by_call(lambda: torch.randn_like(x))
    with drawn.given():
        another(x.double())
    assert not drawn.is_same


def test_other_numbers_in_one_with_a_computation_are_no_twins() -> None:
    drawn, x = Drawn(draws=True), _behind_zero()[0].detach()
    for seed, dtype in enumerate((torch.bfloat16, torch.float64)):
        torch.manual_seed(seed)
        with drawn.given():
            drawn.by_call(lambda dtype=dtype: torch.nn.functional.rrelu(x.to(dtype), training=True))
    assert not drawn.is_same


def test_a_call_that_draws_nothing_is_not_looked_at() -> None:
    drawn = Drawn(draws=False)
    with drawn.given(), drawn.noticing():
        assert drawn.by_call(lambda: 3) == 3
    assert drawn.is_same


@pytest.mark.parametrize(
    ("operator", "draws"),
    [
        (torch.rand_like, True),
        (lambda x: x.new_empty(3).normal_(generator=torch.Generator()), True),
        (torch.sin, False),
        (lambda x: torch.rrelu(x, 0.1, 0.3, training=True), False),
    ],
)
def test_it_is_noticed_where_operators_draw_from_nothing_but_a_generator(operator: Any, draws: bool) -> None:
    drawn = Drawn(draws=False)
    with drawn.noticing():
        operator(torch.ones(3))
    assert drawn.draws == draws


# values that are so small that round-off of numbers of order one inside an operator is seen in them


def confident(scale: float, seed: int) -> torch.Tensor:
    return (scale * torch.randn(8, 5, generator=torch.Generator().manual_seed(seed))).requires_grad_()


def certain(x: torch.Tensor) -> torch.Tensor:
    """The loss of logits that all are on the right side: torch rounds numbers of order one inside."""
    return torch.nn.functional.binary_cross_entropy_with_logits(x, (x > 0).to(x.dtype))


def unlike(slope: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """The same loss, and in float64 another one."""
    return lambda x: certain(x if x.dtype is torch.float32 else slope * x)


@pytest.mark.parametrize(("scale", "seed"), [(40.0, 6), (100.0, 16)])
def test_a_loss_that_round_off_inside_an_operator_moves_has_a_twin(scale: float, seed: int) -> None:
    x = confident(scale, seed)
    for number in range(3):
        report = gradproof.check(certain, x, modes="reverse", seed=number)
        assert report.verdict is Verdict.PASS, str(report)
        assert "was checked in float64" in str(report)


@pytest.mark.parametrize("function", [unlike(1.01), lambda x: 1e-8 * (x if x.dtype is torch.float32 else -x).sin()])
def test_another_function_whose_values_are_as_small_is_no_twin(function: Callable[..., torch.Tensor]) -> None:
    assert "was checked in float64" not in str(gradproof.check(function, confident(40.0, 6), modes="reverse"))
