"""gradproof.torch keeps torch's signatures, exceptions, phrases and manners."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from functions import CASES, WRONG_CASES, Case, custom, named, numbers

import gradproof.torch as front
from gradproof.core.problem import OutputChangedError
from gradproof.torch import GradcheckError, gradcheck, gradgradcheck

TORCHS = sys.modules["torch.autograd.gradcheck"]


# signatures


@pytest.mark.parametrize(
    "name",
    [
        "gradcheck",
        "gradgradcheck",
        "get_numerical_jacobian",
        "get_analytical_jacobian",
        "get_numerical_jacobian_wrt_specific_input",
    ],
)
def test_the_signature_is_torchs(name: str) -> None:
    def shape(function: Any) -> list[tuple[Any, ...]]:
        parameters = inspect.signature(function).parameters.values()
        return [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]

    assert shape(getattr(front, name)) == shape(getattr(TORCHS, name))


def test_the_exception_is_a_subclass_of_torchs_and_carries_findings() -> None:
    assert issubclass(GradcheckError, TORCHS.GradcheckError)
    with pytest.raises(TORCHS.GradcheckError) as caught:
        gradcheck(lambda x: x * x.detach(), numbers(3))
    assert type(caught.value) is GradcheckError
    (finding,) = caught.value.findings
    assert (finding.input, finding.output, finding.wrong) == (0, 0, 3)
    assert str(finding) in str(caught.value)


# verdicts


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("case", CASES, ids=named)
def test_right_is_right_and_wrong_is_wrong(case: Case, fast_mode: bool) -> None:
    found = gradcheck(case.function, case.inputs(), fast_mode=fast_mode, raise_exception=False)
    assert found is case.right


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("case", WRONG_CASES, ids=named)
def test_what_is_wrong_is_placed_and_said_in_torchs_words(case: Case, fast_mode: bool) -> None:
    with pytest.raises(GradcheckError) as caught:
        gradcheck(case.function, case.inputs(), fast_mode=fast_mode)
    assert case.wrong_at is not None
    output, input_ = case.wrong_at
    worst = caught.value.findings[0]
    assert (worst.output, worst.input) == (output, input_)
    assert f"Jacobian mismatch for output {output} with respect to input {input_}" in str(caught.value)


@pytest.mark.parametrize("case", [case for case in CASES if case.name != "empty"], ids=named)
def test_torchs_slow_mode_agrees(case: Case) -> None:
    assert TORCHS.gradcheck(case.function, case.inputs(), raise_exception=False) is case.right


@pytest.mark.parametrize("fast_mode", [False, True])
def test_one_wrong_element_among_many_is_found(fast_mode: bool) -> None:
    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        gradient = g * saved[0].cos()
        gradient[123] *= 1.1
        return gradient

    with pytest.raises(GradcheckError) as caught:
        gradcheck(custom(torch.sin, backward), numbers(400), fast_mode=fast_mode)
    finding = caught.value.findings[0]
    assert (finding.input_element, finding.output_element) == ((123,), (123,))


def test_an_input_may_be_a_lone_tensor_a_list_or_a_tuple() -> None:
    x = numbers(3)
    assert gradcheck(torch.sin, x)
    assert gradcheck(torch.sin, [x])
    assert gradcheck(torch.sin, (x,))


def test_arguments_that_are_no_tensors_are_passed_on() -> None:
    assert gradcheck(lambda x, n, *, bias=1.0: x**n + bias, (numbers(3), 3))


# phrases that people match on


def not_reentrant() -> Callable[..., Any]:
    calls = count()
    return custom(lambda x: x * 2, lambda s, g: g * (2 + 1e-3 * next(calls)))


def no_undefined(saved: Any, g: Any, h: Any) -> Any:
    if g is None or h is None:
        raise RuntimeError("no cotangent")
    return 2 * g + 3 * h


PHRASES: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "mismatch": (lambda a, b: a * b.detach(), {}, "Jacobian mismatch for output 0 with respect to input 1"),
    "forward mismatch": (
        custom(lambda a, b: a * b, lambda s, g: (g * s[1], g * s[0]), lambda s, t, u: t * s[1] - u * s[0]),
        {"check_forward_ad": True},
        "Jacobian computed with forward mode mismatch for output 0 with respect to input 1",
    ),
    "not reentrant": (lambda a, b: not_reentrant()(a), {}, "not reentrant"),
    "not multiplied": (
        custom(lambda a, b: a + b, lambda s, g: (g + 1e-7, g)),
        {},
        "backward not multiplied by grad_output",
    ),
    "expected zero": (lambda a, b: (a * b).detach(), {}, "Numerical gradient for function expected to be zero"),
    "undefined": (
        lambda a, b: custom(lambda x: (2 * x, 3 * x), no_undefined, materialize=False)(a),
        {},
        "Expected backward function to handle undefined output grads",
    ),
    "dtype": (
        custom(lambda a, b: a + b, lambda s, g: (g, g), lambda s, t, u: (t + u).float()),
        {"check_grad_dtypes": True, "check_forward_ad": True},
        "dtype mismatch",
    ),
    "batched": (
        custom(lambda a, b: a + b, lambda s, g: (g * float(g.sum() * 0 + 1), g)),
        {"check_batched_grad": True},
        "failed while testing batched gradient computation",
    ),
}


@pytest.mark.parametrize("name", PHRASES)
def test_the_message_has_the_phrase(name: str) -> None:
    function, options, phrase = PHRASES[name]
    inputs = (numbers(3), numbers(3, seed=1))
    with pytest.raises(GradcheckError, match=phrase):
        gradcheck(function, inputs, **options)
    assert gradcheck(function, inputs, raise_exception=False, **options) is False


@pytest.mark.parametrize("name", ["undefined", "dtype", "batched"])
def test_what_is_not_asked_for_is_not_checked(name: str) -> None:
    function, options, _ = PHRASES[name]
    off = {"check_undefined_grad": False} if name == "undefined" else {}
    kept = {key: value for key, value in options.items() if key == "check_forward_ad"}
    assert gradcheck(function, (numbers(3), numbers(3, seed=1)), **kept, **off)


def test_noise_of_the_backward_is_allowed_up_to_nondet_tol() -> None:
    assert gradcheck(not_reentrant(), numbers(3), nondet_tol=10.0, atol=1.0)
    assert not gradcheck(not_reentrant(), numbers(3), nondet_tol=1e-6, atol=1.0, raise_exception=False)


def test_an_undefined_gradient_that_is_nan_is_a_verdict_not_a_crash() -> None:
    def backward(saved: Any, g: Any, h: Any) -> torch.Tensor:
        return saved[0] * float("nan") if g is None or h is None else 2 * g + 3 * h

    function = custom(lambda x: (2 * x, 3 * x), backward, materialize=False)
    assert gradcheck(function, numbers(3), raise_exception=False) is False


# arguments that make no sense


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({"check_backward_ad": False}, "at least one of check_forward_ad and check_backward_ad"),
        ({"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True}, "check_backward_ad=True"),
        ({"check_batched_forward_grad": True}, "check_forward_ad=True"),
    ],
)
def test_gradcheck_refuses_contradictory_switches(options: dict[str, bool], phrase: str) -> None:
    with pytest.raises(AssertionError, match=phrase):
        gradcheck(torch.sin, numbers(3), **options)


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({"check_rev_over_rev": False}, "at least one of check_fwd_over_rev and check_rev_over_rev"),
        ({"check_rev_over_rev": False, "check_fwd_over_rev": True}, "check_undefined_grad=True"),
        (
            {"check_rev_over_rev": False, "check_fwd_over_rev": True}
            | {"check_undefined_grad": False, "check_batched_grad": True},
            "check_batched_grad=True",
        ),
    ],
)
def test_gradgradcheck_refuses_contradictory_switches(options: dict[str, bool], phrase: str) -> None:
    with pytest.raises(AssertionError, match=phrase):
        gradgradcheck(torch.sin, numbers(3), **options)


@pytest.mark.parametrize("options", [{"atol": -1.0}, {"rtol": float("nan")}, {"eps": 0.0}, {"nondet_tol": -1.0}])
def test_numbers_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        gradcheck(torch.sin, numbers(3), **options)


@pytest.mark.parametrize("raise_exception", [True, False])
@pytest.mark.parametrize(
    ("inputs", "error", "phrase"),
    [
        ((torch.ones(3),), ValueError, "at least one input tensor to require gradient"),
        ((numbers(1).detach().expand(3).requires_grad_(),), RuntimeError, "share memory"),
    ],
)
def test_inputs_that_cannot_be_checked_raise_always(
    inputs: tuple[Any, ...], error: type[Exception], phrase: str, raise_exception: bool
) -> None:
    with pytest.raises(error, match=phrase):
        gradcheck(torch.sin, inputs, raise_exception=raise_exception)


@pytest.mark.parametrize("raise_exception", [True, False])
def test_a_sparse_output_raises_always(raise_exception: bool) -> None:
    with pytest.raises(ValueError, match="Sparse output is not supported"):
        gradcheck(lambda x: x.to_sparse(), numbers(2, 2), raise_exception=raise_exception)


# low precision


def test_low_precision_is_warned_about_at_the_callers_line() -> None:
    x, y = numbers(3), numbers(3, dtype=torch.float32)
    with pytest.warns(UserWarning, match="Input #1 requires gradient") as caught:
        assert gradcheck(lambda x, y: (x.sin(), y.sin()), (x, y))
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_double_precision_is_not_warned_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gradcheck(torch.sin, numbers(3))
        assert gradgradcheck(torch.sin, numbers(3, dtype=torch.complex128))


# exceptions of user code


class OwnError(Exception):
    pass


ERROR = OwnError("mine")


def throw(*_: Any) -> Any:
    raise ERROR


def throw_when_moved(x: torch.Tensor) -> torch.Tensor:
    return x.sin() if torch.equal(x, numbers(3)) else throw()


THROWING: dict[str, tuple[Callable[..., Any], dict[str, bool]]] = {
    "the forward": (throw, {}),
    "the forward, moved": (throw_when_moved, {}),
    "the backward": (custom(torch.sin, throw), {}),
    "the jvp": (custom(torch.sin, lambda s, g: g * s[0].cos(), throw), {"check_forward_ad": True}),
}


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("raise_exception", [True, False])
@pytest.mark.parametrize("name", THROWING)
def test_an_exception_of_user_code_comes_out_unchanged(name: str, raise_exception: bool, fast_mode: bool) -> None:
    function, options = THROWING[name]
    with pytest.raises(OwnError) as caught:
        gradcheck(function, numbers(3), raise_exception=raise_exception, fast_mode=fast_mode, **options)
    assert caught.value is ERROR


@pytest.mark.parametrize("raise_exception", [True, False])
def test_outputs_of_another_form_are_no_verdict(raise_exception: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin() if torch.equal(x, numbers(3)) else torch.cat([x, x])

    with pytest.raises(OutputChangedError):
        gradcheck(function, numbers(3), raise_exception=raise_exception)


def test_an_exception_of_gradgradchecks_function_comes_out_unchanged() -> None:
    with pytest.raises(OwnError) as caught:
        gradgradcheck(throw, numbers(3), raise_exception=False)
    assert caught.value is ERROR


def test_the_cause_of_a_verdict_is_chained() -> None:
    function, options, _ = PHRASES["undefined"]
    with pytest.raises(GradcheckError) as caught:
        gradcheck(function, (numbers(3), numbers(3)), **options)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert str(caught.value.__cause__) == "no cotangent"


# the step


def test_an_explicit_eps_is_a_plain_step() -> None:
    seen: set[float] = set()

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.add(round(float(x.detach()[0]) - 1.0, 12))
        return x**2

    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    assert gradcheck(function, x, eps=0.125)
    assert seen == {0.0, 0.125, -0.125}


def test_an_explicit_eps_sees_what_lies_at_its_distance() -> None:
    x = torch.tensor([1e-3], dtype=torch.float64, requires_grad=True)
    assert gradcheck(torch.abs, x)
    assert gradcheck(torch.abs, x, eps=1e-4)
    assert not gradcheck(torch.abs, x, eps=1e-2, raise_exception=False)


def test_the_default_eps_adapts_to_the_scale() -> None:
    for scale in (1e-9, 1e-3, 1e3, 1e9):
        x = (numbers(3).detach() * scale).requires_grad_()
        function = custom(lambda x, s=scale: (x / s).sin(), lambda saved, g, s=scale: g * (saved[0] / s).cos() / s)
        assert gradcheck(function, x)


@pytest.mark.parametrize("scale", [1e-3, 1e3, 1e9])
def test_a_wrong_gradient_fails_at_every_scale(scale: float) -> None:
    x = (numbers(3).detach() * scale).requires_grad_()
    assert not gradcheck(lambda x: (x / x.detach()) * x, x, raise_exception=False)


def test_tolerances_decide() -> None:
    slightly = custom(lambda x: x * 2, lambda s, g: g * 2.002)
    assert not gradcheck(slightly, numbers(3), rtol=1e-4, atol=0.0, raise_exception=False)
    assert gradcheck(slightly, numbers(3), rtol=1e-2, atol=0.0)
    assert gradcheck(slightly, numbers(3), rtol=0.0, atol=1e-2)
    assert not gradcheck(slightly, numbers(3), rtol=0.0, atol=1e-4, raise_exception=False)


# effort


def test_a_batchable_function_is_called_a_few_times_only() -> None:
    calls = 0

    def function(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return x.sin()

    assert gradcheck(function, numbers(100))
    assert calls < 20


def test_a_function_that_cannot_be_batched_is_called_twice_per_element_and_a_little() -> None:
    calls = 0

    def function(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return x * (x.detach().sum().item() * 0 + 1)

    assert gradcheck(function, numbers(30))
    assert calls < 2 * 30 + 20


# other entrances


def test_batched_gradients_are_checked_on_request() -> None:
    options = {"check_batched_grad": True, "check_forward_ad": True, "check_batched_forward_grad": True}
    assert gradcheck(torch.sin, numbers(4), **options)


def test_forward_mode_alone_does_not_ask_the_backward() -> None:
    function = custom(torch.sin, throw, lambda s, t: t * s[0].cos())
    assert gradcheck(function, numbers(3), check_backward_ad=False, check_forward_ad=True)


def test_a_function_without_a_jvp_fails_in_forward_mode() -> None:
    with pytest.raises(NotImplementedError, match="jvp"):
        gradcheck(custom(torch.sin, lambda s, g: g * s[0].cos()), numbers(3), check_forward_ad=True)


def test_outputs_without_a_graph_that_do_not_move_pass() -> None:
    assert gradcheck(lambda x: torch.ones(3), numbers(3))
    assert gradcheck(lambda x: (x > 0).sum(), numbers(3))


def test_it_works_where_gradients_are_switched_off() -> None:
    with torch.no_grad():
        assert gradcheck(torch.sin, numbers(3))
        assert not gradcheck(lambda x: x * x.detach(), numbers(3), raise_exception=False)
        assert not torch.is_grad_enabled()


def test_a_module_and_its_parameters_are_checked() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2).double()
    assert gradcheck(layer, numbers(4, 3))
    assert gradcheck(lambda weight: torch.nn.functional.linear(numbers(4, 3), weight), layer.weight)


# second order


def cube_with(second: Callable[..., Any]) -> Callable[..., Any]:
    """x³ with a right first derivative, whose own derivative is `second(x, g, h)`."""
    first = custom(lambda x, g: 3 * x * x * g, lambda s, h: second(s[0], s[1], h))
    return custom(lambda x: x**3, lambda s, g: first(s[0], g))


RIGHT_CUBE = cube_with(lambda x, g, h: (6 * x * g * h, 3 * x * x * h))
SECOND_ORDER: dict[str, tuple[Callable[..., Any], bool]] = {
    "sine": (torch.sin, True),
    "softmax": (lambda x: x.softmax(-1), True),
    "two outputs": (lambda x: (x**3, x.sin().sum()), True),
    "hand-written": (RIGHT_CUBE, True),
    "factor of two in x": (cube_with(lambda x, g, h: (3 * x * g * h, 3 * x * x * h)), False),
    "factor of two in g": (cube_with(lambda x, g, h: (6 * x * g * h, 6 * x * x * h)), False),
    "detached": (custom(lambda x: x**3, lambda s, g: 3 * s[0].detach() ** 2 * g), False),
}


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("name", SECOND_ORDER)
def test_second_derivatives_right_and_wrong(name: str, fast_mode: bool) -> None:
    function, right = SECOND_ORDER[name]
    assert gradcheck(function, numbers(4))
    assert gradgradcheck(function, numbers(4), fast_mode=fast_mode, raise_exception=False) is right


def test_a_wrong_second_derivative_is_placed_among_inputs_and_cotangents() -> None:
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0") as caught:
        gradgradcheck(SECOND_ORDER["factor of two in x"][0], numbers(4))
    assert {finding.input for finding in caught.value.findings} == {0}
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 1") as caught:
        gradgradcheck(SECOND_ORDER["factor of two in g"][0], numbers(4))
    assert {finding.input for finding in caught.value.findings} == {1}


def test_cotangents_may_be_given_and_may_be_none() -> None:
    x, v = numbers(3), numbers(3, seed=1)
    assert gradgradcheck(lambda x: (x**2, x**3), x, (v, numbers(3, seed=2)))
    assert gradgradcheck(lambda x: (x**2, x**3), x, (v, None))
    assert gradgradcheck(lambda x: x**2, x, v)


def test_cotangents_with_gaps_in_memory_are_drawn_on_request() -> None:
    contiguous: list[bool] = []

    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        contiguous.append(g.is_contiguous())
        return 3 * saved[0] ** 2 * g

    function = custom(lambda x: x**3, backward)
    assert gradgradcheck(function, numbers(4))
    assert all(contiguous)
    assert gradgradcheck(function, numbers(4), gen_non_contig_grad_outputs=True)
    assert not all(contiguous)


def test_forward_over_reverse_is_checked_on_request() -> None:
    assert gradgradcheck(torch.sin, numbers(4), check_fwd_over_rev=True)
    only = {"check_rev_over_rev": False, "check_undefined_grad": False}
    assert gradgradcheck(torch.sin, numbers(4), check_fwd_over_rev=True, **only)


def test_complex_second_derivatives() -> None:
    assert gradgradcheck(lambda z: (z * z.conj()).real, numbers(3, dtype=torch.complex128))
    assert gradgradcheck(lambda z: z**3, numbers(3, dtype=torch.complex128))


# torch's helpers


def silently(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """torch's helpers say that they are deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


def close(ours: Any, theirs: Any, atol: float = 1e-8) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=atol, rtol=1e-6)


def product(inputs: Any) -> torch.Tensor:
    return inputs[0] @ inputs[1]


@pytest.mark.parametrize("eps", [1e-3, 1e-6])
def test_numerical_jacobians_are_torchs(eps: float) -> None:
    inputs = (numbers(3, 2), numbers(2, 4, seed=1))
    ours = front.get_numerical_jacobian(product, inputs, eps=eps)
    close(ours, silently(TORCHS.get_numerical_jacobian, product, inputs, eps=eps))
    assert ours[0].shape == (6, 12)


def test_numerical_jacobians_for_a_target() -> None:
    a, b = numbers(3, 2), numbers(2, 4, seed=1)
    ours = front.get_numerical_jacobian(product, (a, b), target=b)
    theirs = silently(TORCHS.get_numerical_jacobian, product, (a, b), target=b)
    close(ours, theirs if isinstance(theirs, tuple) else (theirs,))


def test_numerical_jacobians_of_a_complex_input() -> None:
    inputs = (numbers(3, dtype=torch.complex128),)

    def size(inputs: Any) -> torch.Tensor:
        return (inputs[0] * inputs[0].conj()).real

    close(
        front.get_numerical_jacobian(size, inputs, eps=1e-6),
        silently(TORCHS.get_numerical_jacobian, size, inputs, eps=1e-6),
    )


@pytest.mark.parametrize("at", [0, 1])
def test_numerical_jacobians_for_one_input(at: int) -> None:
    inputs = (numbers(3), numbers(3, seed=1))

    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a * b, a.sin().sum()

    outputs = function(*inputs)
    ours = front.get_numerical_jacobian_wrt_specific_input(function, at, inputs, outputs, 1e-6)
    theirs = silently(TORCHS.get_numerical_jacobian_wrt_specific_input, function, at, inputs, outputs, 1e-6)
    close(ours, theirs)
    assert [tuple(part.shape) for part in ours] == [(3, 3), (3, 1)]


def test_analytical_jacobians_are_torchs() -> None:
    inputs = (numbers(3, 2), numbers(2, 4, seed=1))
    ours = front.get_analytical_jacobian(inputs, product(inputs))
    theirs = silently(TORCHS.get_analytical_jacobian, inputs, product(inputs))
    close(ours[0], theirs[0])
    assert tuple(ours[1:]) == tuple(theirs[1:]) == (True, True, True)


def test_analytical_jacobians_tell_of_noise() -> None:
    x = numbers(3)
    assert front.get_analytical_jacobian((x,), not_reentrant()(x))[1] is False
    assert front.get_analytical_jacobian((x,), not_reentrant()(x), nondet_tol=1.0)[1] is True


def test_the_helpers_take_no_other_grad_out() -> None:
    x = numbers(3)
    with pytest.raises(ValueError, match="grad_out"):
        front.get_numerical_jacobian(lambda inputs: inputs[0].sin(), (x,), grad_out=2.0)
    with pytest.raises(ValueError, match="grad_out"):
        front.get_analytical_jacobian((x,), x.sin(), grad_out=2.0)


def test_the_helpers_put_their_inputs_back() -> None:
    inputs = (numbers(3, 2), numbers(2, 4, seed=1))
    before = [x.detach().clone() for x in inputs]
    front.get_numerical_jacobian(product, inputs)
    with pytest.raises(OwnError):
        front.get_numerical_jacobian(throw, inputs)
    assert all(torch.equal(x, b) for x, b in zip(inputs, before, strict=True))


def test_an_exception_while_a_failure_is_explained_does_not_hide_it() -> None:
    calls: list[int] = []

    class Tired(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return 3 * x

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            calls.append(0)
            if len(calls) > 3:
                raise RuntimeError("tired")
            return 2 * grads[0]

    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(Tired.apply, (x,))


# arrays without elements


class NoTangents(torch.autograd.Function):
    """Twice the input, with a forward rule that raises."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return 2 * g

    @staticmethod
    def jvp(ctx: Any, u: torch.Tensor) -> torch.Tensor:
        raise ValueError("no tangents here")


class NoGradient(torch.autograd.Function):
    """Zeros, whose backward gives nothing."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return 0 * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> None:
        return None


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("check", [front.gradcheck, torch.autograd.gradcheck])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_of_empty_tensors_forward_mode_is_asked_where_it_is_asked_for(shape: Any, check: Any, fast_mode: bool) -> None:
    x = torch.empty(shape, dtype=torch.float64, requires_grad=True)
    assert check(NoTangents.apply, (x,), fast_mode=fast_mode)
    with pytest.raises(ValueError, match="no tangents here"):
        check(NoTangents.apply, (x,), check_forward_ad=True, fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("check", [front.gradgradcheck, torch.autograd.gradgradcheck])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_of_empty_tensors_a_second_derivative_may_not_depend_on_anything(
    shape: Any, check: Any, fast_mode: bool
) -> None:
    x = torch.empty(shape, dtype=torch.float64, requires_grad=True)
    assert check(NoGradient.apply, (x,), fast_mode=fast_mode)


@pytest.mark.parametrize("function", [torch.sin, lambda x: 0 * x, torch.relu, lambda x: x.cumsum(0)])
@pytest.mark.parametrize("value", [0.0, 1e-320])
def test_many_outputs_that_are_zero_or_nearly_so(function: Any, value: float) -> None:
    x = torch.full((40_000,), value, dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", front.NonDifferentiableWarning)
        assert front.gradcheck(function, (x,), fast_mode=True)
