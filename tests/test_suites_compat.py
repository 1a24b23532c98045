"""What the test suites of other packages rely on, beside the verdict."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom, numbers
from torch.testing._internal.two_tensor import TwoTensor

import gradproof
from gradproof import Verdict
from gradproof.results.called import name_of
from gradproof.torch import (
    GradcheckError,
    compare,
    get_analytical_jacobian,
    get_numerical_jacobian,
    get_numerical_jacobian_wrt_specific_input,
    gradcheck,
    gradgradcheck,
)

SPARSE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "COO": torch.Tensor.to_sparse,
    "CSR": torch.Tensor.to_sparse_csr,
    "CSC": torch.Tensor.to_sparse_csc,
}


def tripled(x: torch.Tensor) -> torch.Tensor:
    return 3 * x.to_dense()


@pytest.mark.parametrize("layout", SPARSE)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_numerical_jacobian_of_a_sparse_input_has_a_row_for_each_element(layout: str) -> None:
    values = torch.tensor([[1.0, 0.0], [2.0, 3.0]], dtype=torch.float64)
    x = SPARSE[layout](values).requires_grad_()
    wanted = torch.diag(torch.tensor([3.0, 0.0, 3.0, 3.0], dtype=torch.float64))
    with pytest.warns(FutureWarning):
        (whole,) = get_numerical_jacobian(lambda inputs: tripled(inputs[0]), (x,))
    with pytest.warns(FutureWarning):
        (by_closure,) = get_numerical_jacobian(lambda _: tripled(x), (numbers(1),), target=x)
    (one,) = get_numerical_jacobian_wrt_specific_input(tripled, 0, (x,), (), 1e-6)
    for found in (whole, by_closure, one):
        torch.testing.assert_close(found, wanted)


def test_torchs_helpers_say_that_they_are_going_away() -> None:
    x = numbers(2)
    with pytest.warns(FutureWarning, match="get_numerical_jacobian"):
        get_numerical_jacobian(lambda inputs: inputs[0].sin(), (x,))
    with pytest.warns(FutureWarning, match="get_analytical_jacobian"):
        get_analytical_jacobian((x,), x.sin())
    with warnings.catch_warnings(action="error"):
        get_numerical_jacobian_wrt_specific_input(torch.sin, 0, (x,), (), 1e-6)


def scripted() -> torch.nn.Module:
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).double().eval()
    return torch.jit.script(module)


SCRIPTS: dict[str, Callable[[], Any]] = {
    "traced": lambda: torch.jit.trace(torch.nn.Linear(3, 2).double(), numbers(1, 3), check_trace=False),
    "scripted": scripted,
    "frozen": lambda: torch.jit.freeze(scripted()),
}


@pytest.mark.parametrize("kind", SCRIPTS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_script_modules_are_checked(kind: str) -> None:
    module = SCRIPTS[kind]()
    assert gradcheck(module, (numbers(4, 3),))
    assert gradproof.check(module, (numbers(4, 3),)).verdict is Verdict.PASS


def test_a_gradient_that_a_tensor_retains_is_put_back() -> None:
    x = 2 * numbers(3)
    x.retain_grad()
    x.sum().backward()
    before, values = x.grad, torch.ones(3, dtype=torch.float64)
    assert gradcheck(torch.sin, (x,))
    assert gradproof.check(torch.sin, (x,)).verdict is Verdict.PASS
    assert x.grad is before
    assert torch.equal(x.grad, values)


def test_a_default_device_does_not_matter() -> None:
    x = numbers(3)
    with torch.device("meta"):
        assert gradcheck(torch.sin, (x,))
        assert gradgradcheck(torch.sin, (x,))
        assert compare(torch.sin, torch.sin, (x,)).verdict is Verdict.PASS
        assert gradproof.check(torch.sin, (x,), order=2).verdict is Verdict.PASS


@pytest.mark.parametrize("kind", [RuntimeError, AssertionError])
def test_outputs_that_change_their_shape_raise_both_errors(kind: type[Exception]) -> None:
    calls = 0

    def shrinking(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return x.sin()[: 3 if calls < 3 else 2]

    with pytest.raises(kind, match="The form of an output must not depend"):
        gradcheck(shrinking, (numbers(3),))


def test_undefined_gradients_that_are_not_handled_come_with_torchs_warning() -> None:
    def backward(saved: Any, g: torch.Tensor | None) -> torch.Tensor:
        assert g is not None
        return g * saved[0].cos()

    function = custom(torch.sin, backward, materialize=False)
    with pytest.warns(UserWarning, match="Backwards compatibility"):
        assert not gradcheck(function, (numbers(3),), raise_exception=False)
    with warnings.catch_warnings(action="error"):
        assert gradcheck(function, (numbers(3),), check_undefined_grad=False)


class TensorLike:
    """Speaks torch's protocol, and is no tensor."""

    def __init__(self, held: torch.Tensor) -> None:
        self.held, self.requires_grad = held, held.requires_grad

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*[each.held if isinstance(each, TensorLike) else each for each in args], **(kwargs or {}))


class Wrapping(TensorLike):
    """The same, of which functions return another one."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return cls(super().__torch_function__(func, types, args, kwargs))


@pytest.mark.parametrize("kind", [TensorLike, Wrapping])
@pytest.mark.parametrize("fast", [False, True])
def test_what_is_only_like_a_tensor_is_moved_by_what_it_holds(kind: type[TensorLike], fast: bool) -> None:
    like, other = kind(numbers(3)), kind(numbers(3, seed=1))
    before = like.held.detach().clone()
    assert gradcheck(torch.mul, (like, other), fast_mode=fast)
    assert gradcheck(torch.mul, (like, 2.0), fast_mode=fast)
    assert gradgradcheck(torch.mul, (like, other), fast_mode=fast)
    wrong = custom(torch.sin, lambda s, g: 2 * g * s[0].cos())
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(lambda x: wrong(x.held), (like,), fast_mode=fast)
    assert torch.equal(like.held, before)


def test_one_that_does_not_hold_a_tensor_is_named() -> None:
    two = TensorLike(numbers(3))
    two.other = numbers(2)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError, match="input 0 is a TensorLike, which is like a tensor"):
        gradcheck(torch.sin, (two,))
    constant = TensorLike(numbers(3).detach())
    assert gradcheck(torch.mul, (numbers(3), constant))


@torch.library.custom_op("gradproof_tests::sine", mutates_args=())
def sine_operator(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


sine_operator.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=_save)


@pytest.mark.parametrize("further", [lambda x: 0 * x, torch.square], ids=["alone", "beside others"])
def test_an_operator_that_drops_tangents_is_not_covered_in_forward_mode(further: Callable[..., Any]) -> None:
    report = gradproof.check(lambda x: sine_operator(x) + further(x), (numbers(3),))
    assert report.verdict is Verdict.PASS
    assert any("gradproof_tests.sine has no forward rule" in each for each in report.not_covered)


def test_an_operator_is_called_by_its_name() -> None:
    assert name_of(sine_operator) == "gradproof_tests::sine"
    assert gradproof.check(sine_operator, (numbers(3),)).subject == "gradproof_tests::sine"


def test_a_wrong_forward_rule_beside_it_is_still_found() -> None:
    twice = custom(torch.sin, lambda s, g: g * s[0].cos(), lambda s, t: 2 * t * s[0].cos())
    report = gradproof.check(lambda x: twice(x), (numbers(3),))
    assert report.verdict is Verdict.FAIL


@pytest.mark.parametrize("name", ["pow", "float_power"])
def test_fast_second_order_of_powers(name: str) -> None:
    base, exponent = (numbers(5).detach().abs() + 0.5).requires_grad_(), numbers(5, seed=1)
    assert gradgradcheck(getattr(torch, name), (base, exponent), fast_mode=True)


CASTS: dict[str, Callable[[torch.Tensor, torch.dtype], torch.Tensor]] = {
    "at the end": lambda x, dtype: x.sin().to(dtype),
    "inside": lambda x, dtype: x.to(dtype) ** 2,
    "and back": lambda x, dtype: x.to(dtype).double() ** 2,
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("where", CASTS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_second_order_of_casts_to_half(where: str, dtype: torch.dtype) -> None:
    def cast(x: torch.Tensor) -> torch.Tensor:
        return CASTS[where](x, dtype)

    assert gradgradcheck(cast, (numbers(5),))
    assert gradgradcheck(cast, (numbers(5),), fast_mode=True)
    assert gradproof.check(cast, (numbers(5),), order=2).verdict is Verdict.PASS


def test_a_wrong_second_order_behind_a_cast_is_found() -> None:
    first = custom(lambda x: x**3, lambda s, g: 3 * s[0].detach() ** 2 * g)  # the second derivative is lost
    report = gradproof.check(lambda x: first(x).half(), (numbers(5),), order=2)
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].headline.startswith("Second order: Jacobian mismatch")


@pytest.mark.parametrize("seed", [6, 10, 17, 18])
def test_a_cast_to_single_precision_inside_is_no_mistake(seed: int) -> None:
    """Between two steps of the staircase short steps see nothing of one entry, and all of the others."""
    assert gradproof.check(lambda x: x.float().sin().double(), (numbers(5, seed=seed),)).verdict is Verdict.PASS


@pytest.mark.parametrize("seed", range(5))
def test_a_batch_may_round_off_a_gradient_that_is_nothing_else(seed: int) -> None:
    weight = numbers(7, 7, seed=seed).detach()
    assert gradcheck(lambda x: weight @ x - (weight * x).sum(-1), (numbers(7, seed=9),), check_batched_grad=True)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_float8_inputs_have_an_answer(dtype: torch.dtype) -> None:
    x = torch.tensor([0.5, 1.5, -2.0]).to(dtype).requires_grad_()
    assert gradproof.check(lambda x: 2 * x.float(), (x,)).verdict in (Verdict.PASS, Verdict.INCONCLUSIVE)
    wrong = custom(lambda x: 2 * x.float(), lambda s, g: (6 * g).to(dtype))
    assert gradproof.check(wrong, (x,)).verdict is not Verdict.PASS


def test_what_wraps_other_tensors_is_refused_by_name() -> None:
    inside = torch.rand(2, dtype=torch.float64)
    wrapper = TwoTensor(inside, inside.clone()).requires_grad_()
    for door in (gradproof.check, gradcheck):
        with pytest.raises(ValueError, match="input 0 is a TwoTensor, which wraps other tensors"):
            door(torch.sin, (wrapper,))
