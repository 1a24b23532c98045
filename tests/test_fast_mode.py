"""gradcheck(fast_mode=True): the tolerance of slow mode, entry by entry, at the price of a few evaluations."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom, numbers

import gradproof.torch
from gradproof.core.status import Status
from gradproof.torch import GradcheckError, UnseenWarning, gradcheck

ATOL, RTOL = 1e-5, 1e-3
SIZES = [10, 1000, 20_000]


def sine_off(size: int, place: int, times: float) -> Callable[..., Any]:
    """sin, one element of whose gradient is off by a multiple of torch's tolerance for that entry."""

    def slopes(x: torch.Tensor) -> torch.Tensor:
        right = x.cos()
        here = (torch.arange(size) == place).reshape(x.shape)
        return right + here * times * (ATOL + RTOL * right.abs())

    return custom(torch.sin, lambda s, g: g * slopes(s[0]).conj(), lambda s, t: t * slopes(s[0]))


def fast(function: Callable[..., Any], inputs: Any, **options: Any) -> Any:
    """The findings of fast mode; empty if it accepts."""
    try:
        assert gradcheck(function, inputs, fast_mode=True, **options)
    except GradcheckError as error:
        assert not gradcheck(function, inputs, fast_mode=True, raise_exception=False, **options)
        return error.findings
    return ()


# single wrong elements


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", SIZES)
def test_an_error_of_half_the_tolerance_is_accepted(size: int, seed: int) -> None:
    place = (size * (2 * seed + 1)) // 6
    assert fast(sine_off(size, place, 0.5), numbers(size, seed=seed)) == ()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", SIZES)
def test_an_error_of_twice_the_tolerance_is_rejected_and_named(size: int, seed: int) -> None:
    place = (size * (2 * seed + 1)) // 6
    (finding,) = fast(sine_off(size, place, 2.0), numbers(size, seed=seed))
    assert finding.status is Status.WRONG
    assert (finding.input_element, finding.output_element) == ((place,), (place,))
    assert f"d(element [{place}]) / d(element [{place}]): numeric" in finding.message
    assert finding.message.startswith("Jacobian mismatch for output 0 with respect to input 0")


@pytest.mark.parametrize("times", [0.5, 2.0])
@pytest.mark.parametrize("size", SIZES)
def test_forward_mode_has_the_same_tolerance(size: int, times: float) -> None:
    place = size // 3
    only_forward = {"check_forward_ad": True, "check_backward_ad": False, "check_undefined_grad": False}
    findings = fast(sine_off(size, place, times), numbers(size), **only_forward)
    assert [(finding.status, finding.input_element) for finding in findings] == (
        [(Status.WRONG, (place,))] if times > 1 else []
    )
    assert all("forward mode" in finding.message for finding in findings)


@pytest.mark.parametrize("times", [0.5, 2.5])
@pytest.mark.parametrize("size", [10, 300])
def test_a_complex_element_is_named(size: int, times: float) -> None:
    place = size // 3
    findings = fast(sine_off(size, place, times), numbers(size, dtype=torch.complex128))
    assert [(finding.status, finding.input_element) for finding in findings] == (
        [(Status.WRONG, (place,))] if times > 1 else []
    )


def test_a_missing_conjugate_among_many_is_found() -> None:
    square = custom(lambda z: z * z, lambda s, g: 2 * s[0] * g)
    findings = fast(square, numbers(3000, dtype=torch.complex128))
    assert findings[0].status is Status.WRONG
    assert findings[0].input_element == findings[0].output_element
    right = custom(lambda z: z * z, lambda s, g: 2 * s[0].conj() * g)
    assert fast(right, numbers(3000, dtype=torch.complex128)) == ()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("size", [1000, 5000])
def test_an_element_that_is_no_number_is_rejected_and_named(size: int, value: float) -> None:
    """Only where it is asked for: other properties have nothing to say."""

    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        return torch.where((torch.arange(size) == 7) & (g != 0), value, g * saved[0].cos())

    (finding,) = fast(custom(torch.sin, backward), numbers(size))
    assert finding.status is Status.WRONG
    assert finding.input_element == finding.output_element == (7,)


# several inputs and outputs


def several(wrong: str = "") -> Callable[..., Any]:
    """(x * w, x + w³) with 3,000 elements each; `wrong` names the gradient one of whose elements is off."""

    def spoil(name: str, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * (1 + 0.1 * (torch.arange(3000) == 1234)) if name == wrong else gradient

    return custom(
        lambda x, w: (x * w, x + w**3),
        lambda s, g, h: (
            spoil("x of 0", s[1] * g) + spoil("x of 1", h),
            spoil("w of 0", s[0] * g) + spoil("w of 1", 3 * s[1] ** 2 * h),
        ),
    )


def test_several_inputs_and_outputs_pass() -> None:
    assert fast(several(), (numbers(3000), numbers(3000, seed=1))) == ()


@pytest.mark.parametrize(
    ("wrong", "input_", "output"), [("x of 0", 0, 0), ("w of 0", 1, 0), ("x of 1", 0, 1), ("w of 1", 1, 1)]
)
def test_among_several_inputs_and_outputs_the_pair_is_named(wrong: str, input_: int, output: int) -> None:
    (finding,) = fast(several(wrong), (numbers(3000), numbers(3000, seed=1)))
    assert (finding.input, finding.input_element) == (input_, (1234,))
    assert (finding.output, finding.output_element) == (output, (1234,))
    assert f"for output {output} with respect to input {input_}" in finding.message


def test_places_are_indices_of_the_tensors_shape() -> None:
    x = numbers(20, 30, 10)
    (finding,) = fast(sine_off(6000, 17 * 300 + 4 * 10 + 6, 50.0), x)
    assert finding.input_element == finding.output_element == (17, 4, 6)


# losses


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("size", [6, 1000])
def test_a_loss_of_input_and_target_passes(size: int, reduction: str) -> None:
    x, y = numbers(size), numbers(size, seed=1)
    inputs = tuple((tensor.detach() / 2).requires_grad_() for tensor in (x, y))
    loss = torch.nn.BCELoss(reduction=reduction)
    assert fast(loss, inputs) == ()


@pytest.mark.parametrize("size", [6, 400])
def test_a_loss_that_jumps_where_its_target_moves_passes(size: int) -> None:
    """`target == 1` holds at the point only: both are moved by the probe, and the loss jumps."""

    def loss(input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.where(target == 1, 1 - input, torch.clamp(input + 0.5, min=0))

    x = (numbers(size).detach() / 2).requires_grad_()
    target = torch.where(torch.arange(size) % 2 == 0, 1.0, -1.0).double().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gradproof.torch.NonDifferentiableWarning)
        assert fast(loss, (x, target)) == ()


@pytest.mark.parametrize("size", [6, 400])
def test_a_wrong_gradient_of_a_loss_that_jumps_fails(size: int) -> None:
    def forward(input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.where(target == 1, 1 - input, input**2)

    def backward(saved: Any, g: torch.Tensor) -> Any:
        input, target = saved
        slope = torch.where(target == 1, torch.full_like(input, -1.0), 2 * input)
        slope[3] *= 1.5  # not on a jump: its target is -1
        return slope * g, torch.zeros_like(target)

    x = (numbers(size).detach() / 2).requires_grad_()
    target = torch.where(torch.arange(size) % 2 == 0, 1.0, -1.0).double().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gradproof.torch.NonDifferentiableWarning)
        findings = fast(custom(forward, backward), (x, target))
    assert findings[0].status is Status.WRONG
    assert (findings[0].input, findings[0].input_element) == (0, (3,))


# cost


def test_fast_mode_is_as_cheap_for_many_elements_as_for_few() -> None:
    calls = []
    for size in SIZES:
        count = 0

        def counted(x: torch.Tensor) -> torch.Tensor:
            nonlocal count
            count += 1
            return x.sin()

        assert gradcheck(counted, numbers(size), fast_mode=True)
        calls.append(count)
    assert max(calls) <= 5, "and 3 where one rung is enough"


class OneSlopeOff(torch.autograd.Function):
    """sin, with one slope that may be off."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, off: float, calls: list[int]) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.off = off
        calls.append(1)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        slope = ctx.saved_tensors[0].cos()
        slope[12_345] += ctx.off
        return slope * g, None, None


@pytest.mark.parametrize("off", [0.0, 1e-3, -1.0])
def test_many_elements_that_are_right_take_three_calls_and_a_wrong_one_is_named(off: float) -> None:
    x, calls = torch.linspace(-1.0, 1.2, 40_000, dtype=torch.float64).requires_grad_(), list[int]()
    before = x.detach().clone()
    if off:
        with pytest.raises(GradcheckError, match=r"element \[12345\]"):
            gradcheck(lambda x: OneSlopeOff.apply(x, off, calls), (x,), fast_mode=True)
    else:
        assert gradcheck(lambda x: OneSlopeOff.apply(x, off, calls), (x,), fast_mode=True)
        assert len(calls) == 3
    assert torch.equal(x.detach(), before)


# slow mode that becomes too slow


def test_slow_mode_on_many_elements_uses_probes_and_says_so() -> None:
    gradproof.torch._warn_once.cache_clear()
    with pytest.warns(UserWarning, match=r"20000 inputs and 20000 outputs.*probes, as with fast_mode=True"):
        assert gradcheck(torch.sin, numbers(20_000))
    assert gradcheck(torch.sin, numbers(20_000, seed=1))  # said once is enough


def test_the_warning_points_at_the_callers_line() -> None:
    gradproof.torch._warn_once.cache_clear()
    with pytest.warns(UserWarning, match="probes") as caught:
        assert gradcheck(torch.sin, numbers(20_000))
    assert [warning.filename for warning in caught] == [__file__]


def test_slow_mode_on_many_elements_names_the_wrong_one() -> None:
    gradproof.torch._warn_once.cache_clear()
    with pytest.warns(UserWarning, match="probes"), pytest.raises(GradcheckError) as caught:
        gradcheck(sine_off(20_000, 12_345, 2.0), numbers(20_000))
    assert caught.value.findings[0].input_element == (12_345,)


def test_slow_mode_on_other_sizes_warns_again() -> None:
    gradproof.torch._warn_once.cache_clear()
    for size in (20_000, 20_001):
        with pytest.warns(UserWarning, match=f"{size} inputs"):
            assert gradcheck(torch.sin, numbers(size))


def test_fast_mode_does_not_warn() -> None:
    gradproof.torch._warn_once.cache_clear()
    assert gradcheck(torch.sin, numbers(20_000), fast_mode=True)


@pytest.mark.parametrize("fast", [True, False])
def test_zero_between_wide_steps_is_a_warning_and_behind_a_cast_an_error(fast: bool) -> None:
    """Steps of 1/32 look like a number format's; torch's step stays between them. That of float32 it does not."""
    x = torch.tensor([0.9, -2.3, 4.1], dtype=torch.float64, requires_grad=True)
    with pytest.warns(UnseenWarning, match="staircase"):
        assert gradcheck(lambda x: torch.round(32 * x) / 32, (x,), fast_mode=fast)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenWarning)
        lost = gradcheck(lambda x: x.detach().float().double() + 0 * x, (x,), fast_mode=fast, raise_exception=False)
    assert not lost
    assert not torch.autograd.gradcheck(lambda x: x.detach().float().double() + 0 * x, (x,), raise_exception=False)


@pytest.mark.parametrize("seed", [3, 25, 57])
def test_a_small_output_whose_terms_cancel_is_no_reason_to_compare_entries(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shares, x = (18 * torch.rand(5, 10, 5, dtype=torch.float64, generator=generator) - 9 for _ in range(2))
    shares, calls = shares.softmax(-1), 0

    def softmax_backward(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return shares * (x - (x * shares).sum(-1, keepdim=True))

    assert gradcheck(softmax_backward, (x.requires_grad_(),), fast_mode=True)
    assert calls <= 30  # and not 100


@pytest.mark.parametrize("size", [5, 2100, 40_000])
@pytest.mark.parametrize("turn", [0, 1])
def test_a_backward_that_takes_turns_within_the_tolerance_is_found_whichever_turn_comes_first(
    turn: int, size: int
) -> None:
    """Each entry is right within torch's rtol, and the same question is asked at the same turn by chance."""
    calls = 0

    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return (1.001 if calls % 2 == turn else 1.0) * g * saved[0].cos()

    x = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    function = custom(torch.sin, backward)
    assert not gradcheck(function, (x,), fast_mode=True, raise_exception=False)
    assert gradcheck(custom(torch.sin, lambda s, g: g * s[0].cos()), (x,), fast_mode=True)
