"""Properties beside the Jacobian, through both front doors: each wrong backward is found for what it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from functions import custom, numbers

from gradproof import Status, Verdict, check
from gradproof.properties import DEFAULT
from gradproof.torch import GradcheckError, gradcheck


def sine(backward: Callable[..., Any], jvp: Callable[..., Any] | None = None) -> Callable[..., Any]:
    return custom(torch.sin, backward, jvp)


def sine_of(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """A sine whose backward uses a function of grad_output."""
    return sine(lambda s, g: s[0].cos() * function(g))


def tripled_if(condition: Callable[[torch.Tensor], bool]) -> Callable[..., Any]:
    """A sine whose backward misreads a grad_output in some layout."""
    return sine(lambda s, g: s[0].cos() * g * (3.0 if condition(g) else 1.0))


def as_if_contiguous(g: torch.Tensor) -> torch.Tensor:
    """Reads memory from the first element on, as a kernel does that knows no strides."""
    memory = g.as_strided((g.untyped_storage().nbytes() // 8 - g.storage_offset(),), (1,), g.storage_offset())
    return torch.nn.functional.pad(memory, (0, g.numel()))[: g.numel()].view(g.shape)


def rows_one_behind_the_other(g: torch.Tensor) -> torch.Tensor:
    """As kernels do that make sure of the stride within a row, and forget that of the rows."""
    g = g if g.stride()[-1] == 1 else g.contiguous()
    return torch.as_strided(g, g.shape, torch.empty(g.shape).stride())


def is_channels_last(g: torch.Tensor) -> bool:
    memory = {4: torch.channels_last, 5: torch.channels_last_3d}[g.dim()]
    return g.is_contiguous(memory_format=memory) and not g.is_contiguous()


def overwriting_cotangent(s: Any, g: torch.Tensor) -> torch.Tensor:
    return g.mul_(s[0].cos())


def overwriting_input(s: Any, g: torch.Tensor) -> torch.Tensor:
    gradient = g * s[0].cos()
    s[0].data.add_(1.0)
    return gradient


class KeepsCosine(torch.autograd.Function):
    """A sine that writes to the tensor it saved."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x.cos())
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (cosine,) = ctx.saved_tensors
        gradient = g * cosine
        cosine.data.add_(0.5)
        return gradient


def zeroing(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    x.data.zero_()
    return y


def shared(view: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """A sum whose two gradients share memory."""

    def backward(s: Any, g: torch.Tensor) -> Any:
        gradient = g.clone()
        return gradient, view(gradient)

    return custom(torch.add, backward)


def halved_square(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum() / 2


def hands_out(part: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """Half a sum of squares: where the cotangent is 1, the input itself is the right gradient."""
    return custom(halved_square, lambda s, g: part(s[0]) if float(g) == 1.0 else s[0] * g)


def biggest(g: torch.Tensor) -> torch.Tensor:
    """Odd, homogeneous and right for each basis vector, but not additive."""
    return g.abs().max() * g.sign()


@dataclass(frozen=True)
class Wrong:
    """A function that breaks one property, and what the finding says."""

    property: str
    name: str
    function: Callable[..., Any]
    phrase: str
    shapes: tuple[tuple[int, ...], ...] = ((2, 3),)
    placed: bool = True
    alone: bool = True
    """Nothing else objects: with this property switched off it passes."""

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return tuple(numbers(*shape, seed=seed) for seed, shape in enumerate(self.shapes))


MINUS = "-1 times grad_output must give -1 times the gradient"
WRONG = [
    Wrong("linearity", "abs", sine_of(torch.abs), MINUS, alone=False),
    Wrong("linearity", "square", sine_of(torch.square), MINUS, alone=False),
    Wrong("linearity", "relu", sine_of(torch.relu), MINUS, alone=False),
    Wrong("linearity", "clamp", sine_of(lambda g: g.clamp(-9, 9)), "1024 times grad_output"),
    Wrong("linearity", "flush", sine_of(lambda g: g * (g.abs() > 1e-4)), "9.53674e-07 times grad_output"),
    Wrong("linearity", "not additive", sine_of(biggest), "the sum of two values of grad_output", alone=False),
    Wrong("linearity", "affine", sine(lambda s, g: g * s[0].cos() + 1e-9), "for zeros, the gradient of", alone=False),
    Wrong(
        "linearity",
        "jvp",
        sine(lambda s, g: g * s[0].cos(), lambda s, t: t.clamp(-9, 9) * s[0].cos()),
        "forward mode is not linear in the tangent",
    ),
    Wrong("layout", "expanded", tripled_if(lambda g: 0 in g.stride()), "with one that is expanded (stride 0)"),
    Wrong("layout", "sliced", tripled_if(lambda g: g.storage_offset() > 0), "with one that is a slice with gaps"),
    Wrong("layout", "rows of another length", sine_of(rows_one_behind_the_other), "one that is a slice with gaps"),
    Wrong("layout", "transposed", tripled_if(lambda g: g.stride()[0] == 1), "with one that is transposed"),
    Wrong("layout", "4-D", tripled_if(is_channels_last), "with one that is channels last", ((2, 3, 2, 2),)),
    Wrong("layout", "5-D", tripled_if(is_channels_last), "with one that is channels last", ((2, 3, 2, 2, 2),)),
    Wrong("layout", "no strides", sine_of(as_if_contiguous), "depends on the memory layout of grad_output"),
    Wrong("layout", "view", sine_of(lambda g: g.view(-1).view(2, 3)), "raised RuntimeError: view size", placed=False),
    Wrong("mutation", "cotangent", sine(overwriting_cotangent), "overwrote the grad_output of output 0", alone=False),
    Wrong("mutation", "input", sine(overwriting_input), "backward overwrote input 0", placed=False),
    Wrong("mutation", "saved", KeepsCosine.apply, "that KeepsCosine saved for backward", placed=False, alone=False),
    Wrong(
        "mutation",
        "forward",
        zeroing,  # which autograd's own backward reads: the gradient is wrong too, as it is when called once
        "The function overwrote input 0 `x` without declaring it",
        placed=False,
        alone=False,
    ),
    Wrong("aliasing", "input", hands_out(lambda x: x), "shares memory with input 0 itself"),
    Wrong("aliasing", "view of input", hands_out(lambda x: x.detach()), "shares memory with input 0 itself"),
    Wrong(
        "aliasing",
        "gradient",
        shared(lambda g: g.view(-1)),
        "The gradient of input 1 shares memory with the gradient of input 0",
        ((3,), (3,)),
    ),
    Wrong(
        "adjoint",
        "jvp of another function",
        sine(lambda s, g: g * s[0].cos(), lambda s, t: 2 * t * s[0].cos()),
        "Reverse and forward mode contradict each other",
        placed=False,
        alone=False,
    ),
    Wrong(
        "determinism",
        "noise",
        sine(lambda s, g: g * s[0].cos() + 1e-12 * torch.rand((), dtype=g.dtype) * g),
        "backward is not deterministic",
    ),
]


def named(case: Wrong) -> str:
    return f"{case.property}: {case.name}"


@pytest.mark.parametrize("case", WRONG, ids=named)
def test_a_property_that_does_not_hold_is_found(case: Wrong) -> None:
    report = check(case.function, case.inputs())
    assert report.verdict is Verdict.FAIL
    findings = [finding for finding in report.findings if finding.property == case.property]
    assert any(case.phrase in finding.message for finding in findings), str(report)
    assert all(finding.status is Status.WRONG for finding in findings)
    if case.placed and case.property not in ("mutation", "aliasing"):
        places = [(finding.input_element, finding.output_element) for finding in findings]
        assert any(place != (None, None) for place in places)


@pytest.mark.parametrize("case", [case for case in WRONG if case.alone], ids=named)
def test_a_property_that_is_switched_off_objects_to_nothing(case: Wrong) -> None:
    report = check(case.function, case.inputs(), properties=DEFAULT - {case.property})
    assert report.ok, str(report)


@pytest.mark.parametrize("case", [case for case in WRONG if not case.alone], ids=named)
def test_with_others_that_object_only_the_one_switched_off_is_silent(case: Wrong) -> None:
    report = check(case.function, case.inputs(), properties=DEFAULT - {case.property})
    assert case.property not in {finding.property for finding in report.findings}


@pytest.mark.parametrize("case", [case for case in WRONG if case.property != "adjoint"], ids=named)
def test_gradcheck_fails_too(case: Wrong) -> None:
    forward = case.name == "jvp"
    with pytest.raises(GradcheckError) as caught:
        gradcheck(case.function, case.inputs(), check_forward_ad=forward, fast_mode=True)
    assert caught.value.findings
    assert not gradcheck(case.function, case.inputs(), check_forward_ad=forward, raise_exception=False)


def with_many(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """A sine whose backward errs only where grad_output has many elements that are not zero."""
    return sine_of(lambda g: function(g) if int((g != 0).sum()) > 1 else g)


def noisy(g: torch.Tensor) -> torch.Tensor:
    return 1.0 + 1e-9 * torch.rand((), dtype=g.dtype)


FLAT = {
    "abs": sine_of(torch.abs),
    "clamp": sine_of(lambda g: g.clamp(-9, 9)),
    "not additive": sine_of(biggest),
    "twice for many": with_many(lambda g: 2 * g),
    "reversed": with_many(lambda g: g.flip(0)),
    "expanded": tripled_if(lambda g: 0 in g.stride()),
    "sliced": tripled_if(lambda g: g.storage_offset() > 0),
    "no strides": sine_of(as_if_contiguous),
    "twice for many, nearly": with_many(lambda g: 1.009 * g),
    "overwritten": sine(overwriting_cotangent),
    "overwritten where contiguous": sine(lambda s, g: overwriting_cotangent(s, g.contiguous())),
    "noise where contiguous": sine(lambda s, g: g * s[0].cos() * (noisy(g) if g.is_contiguous() else 1.0)),
    "noise": sine(lambda s, g: g * s[0].cos() + 1e-12 * torch.rand((), dtype=g.dtype) * g),
}


SHAPES = [(2,), (3,), (4,), (5,), (8,), (100,), (2, 2), (2, 3), (5, 5), (2, 3, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FLAT)
def test_slow_mode_sees_what_no_single_entry_shows(name: str, shape: tuple[int, ...]) -> None:
    """The rows of the Jacobian are right; the few vjps beside them are not, however few rows there are."""
    with pytest.raises(GradcheckError):
        gradcheck(FLAT[name], numbers(*shape))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("fast_mode", [False, True])
def test_right_functions_of_these_shapes_pass(shape: tuple[int, ...], fast_mode: bool) -> None:
    assert gradcheck(sine(lambda s, g: g * s[0].cos()), numbers(*shape), fast_mode=fast_mode)
    assert gradcheck(lambda x: x.softmax(0).cumsum(-1), numbers(*shape), fast_mode=fast_mode)


def test_a_small_gradient_beside_a_large_one_is_judged_by_itself() -> None:
    function = custom(lambda a, b: 1e6 * a + b, lambda s, g: (1e6 * g, g.abs()))
    with pytest.raises(GradcheckError, match="-1 times grad_output"):
        gradcheck(function, (numbers(2, 3), numbers(2, 3, seed=1)))


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("values", [(705.0, 706.0), (-700.0, 1.0)])
def test_gradients_near_the_end_of_the_range_raise_no_warning(values: tuple[float, float]) -> None:
    assert gradcheck(torch.exp, torch.tensor(values, dtype=torch.float64, requires_grad=True))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_an_infinite_input_raises_no_warning() -> None:
    x = torch.tensor([1.0, torch.inf], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: x.clamp(-5, 5), x)


def test_modes_that_agree_on_tiny_numbers_do_not_contradict_each_other() -> None:
    x = torch.tensor([1e-200, 2e-200, -1e-200], dtype=torch.float64, requires_grad=True)
    report = check(lambda x: torch.ones(2, 3, dtype=x.dtype) @ x * 0.1, x)
    assert report.ok, str(report)


def test_what_many_elements_give_together_is_the_sum_of_what_each_gives() -> None:
    with pytest.raises(GradcheckError, match="many elements of grad_output together"):
        gradcheck(FLAT["twice for many"], numbers(3))


@pytest.mark.parametrize(("size", "most"), [(1, 9), (2, 9), (3, 9), (4, 9)])
def test_slow_mode_pulls_no_more_often_than_it_must(size: int, most: int) -> None:
    pulled = 0

    def backward(s: Any, g: torch.Tensor) -> torch.Tensor:
        nonlocal pulled
        pulled += 1
        return g * s[0].cos()

    assert gradcheck(sine(backward), numbers(size))
    assert pulled <= most


RIGHT: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "sine": (sine(lambda s, g: g * s[0].cos(), lambda s, t: t * s[0].cos()), ((2, 3),)),
    "sine of a copy": (sine(lambda s, g: g.clone().mul_(s[0].cos())), ((2, 3),)),
    "channels last": (sine_of(lambda g: g.contiguous()), ((2, 3, 2, 2),)),
    "one gradient for both": (shared(lambda g: g), ((3,), (3,))),
    "add": (torch.add, ((3,), (3,))),
    "add that broadcasts": (torch.add, ((2, 3), (3,))),
    "cat": (lambda a, b: torch.cat([a, b]), ((3,), (2,))),
    "diff with a start": (lambda a, b: torch.diff(a, prepend=b), ((3,), (1,))),
    "parts of one gradient": (lambda a, b: torch.cat([a, b]) ** 2, ((3,), (2,))),
    "stack": (lambda a, b: torch.stack([a, b]), ((3,), (3,))),
    "declared in place": (lambda x: x.clone().mul_(2.0).sin_(), ((3,),)),
    "one element": (torch.sin, ((),)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_functions_have_no_finding(name: str) -> None:
    function, shapes = RIGHT[name]
    inputs = tuple(numbers(*shape, seed=seed) for seed, shape in enumerate(shapes))
    report = check(function, inputs)
    assert report.findings == (), str(report)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.complex128])
def test_right_functions_of_other_dtypes_have_no_finding(dtype: torch.dtype) -> None:
    report = check(lambda x, y: (x * y).cumsum(0), (numbers(4, dtype=dtype), numbers(4, dtype=dtype, seed=1)))
    assert report.findings == (), str(report)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_backward_that_clamps_is_found_in_other_dtypes(dtype: torch.dtype) -> None:
    report = check(sine_of(lambda g: g.clamp(-2, 2)), numbers(4, dtype=dtype))
    assert "linearity" in {finding.property for finding in report.findings}


@pytest.mark.parametrize("rule", [torch.abs, biggest])
def test_a_jvp_that_is_right_entry_by_entry_but_not_linear_fails(rule: Callable[..., Any]) -> None:
    function = sine(lambda s, g: g * s[0].cos(), lambda s, t: rule(t) * s[0].cos())
    (finding,) = check(function, numbers(9), modes="forward", properties="jacobian").findings
    assert finding.status is Status.WRONG
    assert "in forward mode: forward mode is not linear in the tangent" in finding.message


def test_an_input_that_was_overwritten_is_put_back() -> None:
    for function in (zeroing, sine(overwriting_input)):
        x = numbers(3)
        before = x.detach().clone()
        assert not check(function, x)
        assert torch.equal(x, before)
        assert not gradcheck(function, x, raise_exception=False)
        assert torch.equal(x, before)


def test_all_properties_cost_a_few_vjps_for_a_right_gradient() -> None:
    function = custom(torch.sin, lambda s, g: g * s[0].cos())
    alone = check(function, numbers(50), properties="jacobian").cost
    everything = check(function, numbers(50)).cost
    assert everything.vjps <= alone.vjps + 6
    assert everything.evaluations <= alone.evaluations + 1
