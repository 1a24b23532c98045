"""A PyTorch function at a point, as a Problem: values, vjp, jvp, batches and verdicts for every kind of input."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from functions import batchable, custom, numbers

import gradproof
from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.problem import first_order
from gradproof.core.capabilities import MemoryLayout, MemoryWatch
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Mode, OutputChangedError
from gradproof.torch import gradcheck

pytestmark = pytest.mark.filterwarnings("ignore:Input #0 requires gradient")


def asked(function: Callable[..., Any], *inputs: Any) -> Investigation:
    return Investigation(first_order(call_of(function, inputs)).problem)


# F, J^T v and J u are what torch says they are


def test_values_and_derivatives_are_those_of_the_function() -> None:
    a, b = numbers(3, 4), numbers(4, 2, seed=1)
    investigation = asked(torch.matmul, a, b)
    problem = investigation.problem
    jacobian = np.concatenate(
        [
            part.reshape(6, -1).numpy()
            for part in torch.autograd.functional.jacobian(torch.matmul, (a.detach(), b.detach()))
        ],
        axis=1,
    )
    assert (problem.inputs.size, problem.outputs.size) == (20, 6)
    np.testing.assert_array_equal(problem.value, (a @ b).detach().numpy().reshape(-1))
    np.testing.assert_allclose(investigation.vjp_many(np.eye(6)), jacobian, atol=1e-14)
    np.testing.assert_allclose(investigation.jvp_many(np.eye(20)).T, jacobian, atol=1e-14)
    np.testing.assert_allclose(investigation.pullback, jacobian.T @ investigation.cotangent, atol=1e-14)
    np.testing.assert_allclose(investigation.pushforward, jacobian @ investigation.tangent, atol=1e-14)
    assert problem.vjp is not None
    assert problem.jvp is not None
    np.testing.assert_array_equal(problem.vjp(investigation.cotangent), investigation.pullback)
    np.testing.assert_array_equal(problem.jvp(investigation.tangent), investigation.pushforward)


def test_moved_points_are_evaluated_one_by_one_and_together() -> None:
    x = numbers(4)
    investigation = asked(lambda x: x.sin() * x.sum(), x)
    points = np.random.default_rng(0).normal(size=(30, 4))
    expected = np.sin(points) * points.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(investigation.evaluate_many(points), expected, atol=1e-14)
    np.testing.assert_allclose([investigation.evaluate(point) for point in points], expected, atol=1e-14)
    np.testing.assert_array_equal(investigation.problem.point, x.detach().numpy())


@pytest.mark.parametrize("count", [3, 30], ids=["loop", "batch"])
@pytest.mark.parametrize("run", [slice(0, 4), slice(4, 7), slice(1, 3), slice(2, 6), slice(0, 7)], ids=str)
def test_points_that_move_a_run_of_coordinates_are_as_if_they_were_whole(run: slice, count: int) -> None:
    investigation = asked(lambda x, y: x.sin() * y.sum() + y.prod(), numbers(4), numbers(3, seed=1))
    rows = np.random.default_rng(0).normal(size=(count, run.stop - run.start))
    whole = np.tile(investigation.problem.point, (count, 1))
    whole[:, run] = rows
    expected = [investigation.evaluate(point) for point in whole]
    np.testing.assert_allclose(investigation.evaluate_many(rows, run), expected, atol=1e-14)


def test_inputs_that_no_point_moves_are_single_in_a_batch_that_is_trusted() -> None:
    batched = 0

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        nonlocal batched
        batched += torch._C._functorch.is_batchedtensor(x) and not torch._C._functorch.is_batchedtensor(y)
        return x.sin() * y.sum()

    investigation = asked(function, numbers(4), numbers(3, seed=1))
    points = np.tile(investigation.problem.point, (30, 1))
    points[:, :4] += np.random.default_rng(0).normal(size=(30, 4))
    for _ in range(2):
        expected = np.sin(points[:, :4]) * points[:, 4:].sum(axis=1, keepdims=True)
        np.testing.assert_allclose(investigation.evaluate_many(points), expected, atol=1e-14)
    assert batched == 2


def test_a_run_of_an_input_that_is_read_by_closure_is_not_trusted_to_a_batch() -> None:
    y = numbers(3, seed=1)
    investigation = asked(lambda x, _: x.sin() * y.sum(), numbers(4), y)
    rows = np.random.default_rng(0).normal(size=(30, 2))
    whole = np.tile(investigation.problem.point, (30, 1))
    whole[:, 4:6] = rows
    expected = [investigation.evaluate(point) for point in whole]
    np.testing.assert_allclose(investigation.evaluate_many(rows, slice(4, 6)), expected, atol=1e-14)


def test_a_complex_derivative_is_the_real_jacobian_of_its_parts() -> None:
    z = numbers(1, dtype=torch.complex128)
    investigation = asked(lambda z: z * z, z)
    a, b = investigation.problem.point
    real = np.array([[2 * a, -2 * b], [2 * b, 2 * a]])
    np.testing.assert_allclose(investigation.vjp_many(np.eye(2)), real, atol=1e-14)
    np.testing.assert_allclose(investigation.jvp_many(np.eye(2)).T, real, atol=1e-14)


def test_calls_of_user_code_are_counted() -> None:
    investigation = asked(torch.sin, numbers(3))
    investigation.evaluate(investigation.problem.point)
    investigation.vjp(investigation.problem.value)
    investigation.jvp(investigation.problem.point)
    assert (investigation.cost.evaluations, investigation.cost.vjps, investigation.cost.jvps) == (2, 1, 1)


# every kind of input: the right derivative passes, the wrong one fails, in both modes


class Tagged(torch.Tensor):
    pass


def strided(make: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return make(numbers(4, 6, dtype=dtype).detach()).requires_grad_()


KINDS: dict[str, Callable[[], torch.Tensor]] = {
    **{
        str(dtype).removeprefix("torch."): lambda dtype=dtype: numbers(5, dtype=dtype)
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128, torch.complex64)
    },
    "transposed": lambda: strided(lambda t: t.mT),
    "transposed complex": lambda: strided(lambda t: t.mT, torch.complex128),
    "sliced": lambda: strided(lambda t: t[1:, ::2]),
    "sliced bfloat16": lambda: strided(lambda t: t[1:, ::2], torch.bfloat16),
    "channels_last": lambda: numbers(1, 2, 3, 2).detach().to(memory_format=torch.channels_last).requires_grad_(),
    "0-d": lambda: numbers(),
    "0-d complex": lambda: numbers(dtype=torch.complex128),
    "conjugate": lambda: strided(lambda t: t[0].conj(), torch.complex128),
    "negative": lambda: strided(lambda t: t[0].conj().imag, torch.complex128),
    "subclass": lambda: numbers(3).detach().as_subclass(Tagged).requires_grad_(),
    "parameter": lambda: torch.nn.Parameter(numbers(3).detach()),
    "not a leaf of the graph": lambda: numbers(3) * 2,
    "many elements": lambda: numbers(40),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_derivative_passes_for_every_kind_of_input(kind: str) -> None:
    report = gradproof.check(lambda x: x * x, KINDS[kind]())
    assert report.ok, str(report)
    assert len(report.modes) == 2


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_derivative_fails_for_every_kind_of_input(kind: str, mode: str) -> None:
    x = KINDS[kind]()
    report = gradproof.check(lambda x: x * x.detach(), x, modes=mode)
    assert report.verdict is gradproof.Verdict.FAIL
    finding = report.findings[0]
    assert (finding.property, finding.input, finding.output) == ("jacobian", 0, 0)
    assert finding.input_element == finding.output_element
    assert finding.input_element is not None
    assert len(finding.input_element) == x.dim()


def test_an_empty_input_beside_others_passes_and_is_listed() -> None:
    report = gradproof.check(lambda x, y: (x * 2, y.sin()), (numbers(0, 3), numbers(2)))
    assert report.ok
    assert any("no elements" in left_out for left_out in report.not_covered)


def test_an_mkldnn_input_is_checked_in_reverse_mode() -> None:
    packed = numbers(2, 3, dtype=torch.float32).detach().to_mkldnn().requires_grad_()
    right = gradproof.check(lambda m: m.to_dense() ** 2, packed, modes="reverse")
    assert right.ok, str(right)
    wrong = gradproof.check(lambda m: m.to_dense() * m.to_dense().detach(), packed, modes="reverse")
    assert wrong.findings[0].input_element == wrong.findings[0].output_element


# inputs that are moved together


def test_the_same_tensor_twice_is_moved_once() -> None:
    x = numbers(3)
    assert gradproof.check(lambda a, b: a * b.sin(), (x, x), modes="reverse").ok
    wrong = gradproof.check(lambda a, b: a * b.detach().sin(), (x, x), modes="reverse")
    assert {finding.input for finding in wrong.findings} == {0, 1}


def test_the_same_tensor_twice_has_the_same_verdict_in_forward_mode() -> None:
    x = numbers(3)
    right = gradproof.check(lambda a, b: a * b.sin(), (x, x))
    assert right.ok, str(right)


@pytest.mark.parametrize(
    ("function", "right"),
    [
        (lambda a, b: (b * b).sum(), True),
        (lambda a, b: b.sin(), True),
        (lambda a, b: (b * b.detach()).sum(), False),
    ],
)
def test_overlapping_views_have_torchs_verdict(function: Callable[..., Any], right: bool) -> None:
    x = numbers(4)
    inputs = (x, x[1:])
    assert gradproof.check(function, inputs, modes="reverse").ok is right
    assert torch.autograd.gradcheck(function, inputs, raise_exception=False) is right


def test_check_tells_views_apart_that_gradcheck_moves_together() -> None:
    """Moving b in place moves a, and the path of a is not that of b."""

    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.sum() + (b * b).sum()

    x = numbers(4)
    report = gradproof.check(function, (x, x[1:]), modes="reverse")
    assert report.ok
    assert any("shares memory" in note for note in report.notes)
    for checker in (torch.autograd.gradcheck, gradcheck):
        assert not checker(function, (x, x[1:]), raise_exception=False)


# functions that read their inputs by closure, not by argument


@pytest.mark.parametrize("size", [3, 40])
def test_a_function_that_reads_its_input_by_closure_is_looped_over_and_judged_rightly(size: int) -> None:
    x = numbers(size)
    right = gradproof.check(lambda _: x.sin(), x, modes="reverse")
    assert right.ok, str(right)
    wrong = gradproof.check(lambda _: x * x.detach(), x, modes="reverse")
    assert wrong.findings[0].wrong == size


@pytest.mark.parametrize("size", [3, 40])
def test_a_function_that_reads_one_input_by_closure_and_one_by_argument(size: int) -> None:
    x, y = numbers(size), numbers(size, seed=1)
    assert gradproof.check(lambda _, y: x * y * y, (x, y), modes="reverse").ok
    wrong = gradproof.check(lambda _, y: x.detach() * y * y, (x, y), modes="reverse")
    assert {finding.input for finding in wrong.findings} == {0}


# outputs


@pytest.mark.parametrize(
    "others", [[None], [3, "text"], [torch.tensor([True])], [torch.arange(3)], [2.5, None, torch.ones(2)]]
)
@pytest.mark.parametrize("position", ["first", "last", "both"])
def test_outputs_that_are_no_floating_tensors_are_passed_over(position: str, others: list[Any]) -> None:
    before = others if position in ("first", "both") else []
    after = others if position in ("last", "both") else []
    x = numbers(3)
    assert gradproof.check(lambda x: (*before, x.sin(), *after), x).ok
    wrong = gradproof.check(lambda x: (*before, x * x.detach(), *after), x)
    assert wrong.findings[0].output == len(before)


def test_outputs_nested_in_containers_are_numbered_in_order() -> None:
    wrong = gradproof.check(lambda x: {"a": x.sin(), "b": [x.cos(), (x * x.detach(),)]}, numbers(3))
    assert {finding.output for finding in wrong.findings} == {2}


def test_zero_tensors_among_the_outputs_do_not_depend_on_the_input() -> None:
    def zeros() -> torch.Tensor:
        return torch._efficientzerotensor(2, dtype=torch.float64)

    x = numbers(3)
    assert gradproof.check(lambda x: (x.sin(), zeros()), x).ok
    assert gradproof.check(lambda x: zeros(), x).ok


def test_a_tangent_that_is_a_zero_tensor_counts_as_zeros() -> None:
    x = numbers(3)
    zero = custom(lambda x: x * 1, lambda s, g: g, lambda s, t: torch._efficientzerotensor(3, dtype=torch.float64))
    assert gradproof.check(lambda x: (x.sin(), (x * 0).cos()), x).ok
    report = gradproof.check(zero, x, modes="forward")
    assert report.findings[0].analytic == 0.0


@pytest.mark.parametrize(
    ("changed", "phrase"),
    [
        (lambda x: torch.cat([x, x]), "has shape"),
        (lambda x: x.float(), "dtype"),
        (lambda x: (x, x), "number of outputs"),
    ],
)
def test_outputs_of_another_form_at_another_point_are_refused(changed: Callable[..., Any], phrase: str) -> None:
    x = numbers(3)
    start = x.detach().clone()
    investigation = asked(lambda x: x.sin() if torch.equal(x, start) else changed(x), x)
    with pytest.raises(OutputChangedError, match=phrase):
        investigation.evaluate(investigation.problem.point + 1e-3)
    with pytest.raises(OutputChangedError, match=phrase):
        investigation.evaluate_many(investigation.problem.point + np.full((2, 3), 1e-3))


def test_outputs_without_a_graph_have_no_derivative() -> None:
    investigation = asked(lambda x: x.detach() * 2, numbers(3))
    assert not investigation.problem.connected
    assert investigation.vjp(np.ones(3)).tolist() == [0, 0, 0]


# batches


def test_functions_that_vmap_cannot_run_are_looped_over() -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        return x.sin() if x.sum().item() > 0 else x.cos()

    assert gradproof.check(branching, numbers(40)).ok
    wrong = gradproof.check(lambda x: branching(x) * branching(x).detach(), numbers(40))
    assert wrong.findings[0].wrong == 40


@pytest.mark.parametrize("make", [custom, batchable])
def test_hand_written_functions_with_and_without_a_vmap_rule(make: Callable[..., Any]) -> None:
    x = numbers(40)
    right = make(lambda x: x**3, lambda s, g: 3 * s[0] ** 2 * g)
    wrong = make(lambda x: x**3, lambda s, g: 3 * s[0] ** 2 * g * (torch.arange(40) != 17))
    assert gradproof.check(right, x).ok
    (finding, *_) = gradproof.check(wrong, x, modes="reverse").findings
    assert (finding.wrong, finding.input_element, finding.output_element) == (1, (17,), (17,))


def test_a_batchable_function_is_called_a_few_times_only() -> None:
    calls = 0

    def counted(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return x.sin()

    investigation = asked(counted, numbers(100))
    investigation.evaluate_many(np.repeat(investigation.problem.point[None], 300, axis=0))
    assert calls <= 3
    assert investigation.cost.evaluations >= 300


@pytest.fixture(scope="module")
def misbatched() -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    """x³ as an operator whose batching rules, of the forward and of the backward, have a factor of two too many."""
    with torch.library._scoped_library("gradproof_tests", "DEF") as library:
        library.define("cube(Tensor x) -> Tensor")
        library.define("cube_backward(Tensor x, Tensor g) -> Tensor")
        cube, cube_backward = torch.ops.gradproof_tests.cube, torch.ops.gradproof_tests.cube_backward
        library.impl("cube", lambda x: x**3, "CPU")
        library.impl("cube_backward", lambda x, g: 3 * x * x * g, "CPU")
        library.impl("cube", lambda x: 2 * x**3, "FuncTorchBatched")
        for key in ("FuncTorchBatched", "Batched"):  # torch.func.vmap, and the vmap of is_grads_batched
            library.impl("cube_backward", lambda x, g: 6 * x * x * g, key)
        torch.library.register_autograd(
            "gradproof_tests::cube",
            lambda ctx, g: cube_backward(ctx.saved_tensors[0], g),
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
            lib=library,
        )
        yield cube


def test_a_wrong_batching_rule_does_not_corrupt_the_comparison(misbatched: Callable[..., Any]) -> None:
    x = numbers(40)
    assert torch.func.vmap(misbatched)(x.detach()[None]).allclose(2 * x.detach() ** 3)
    report = gradproof.check(misbatched, x, modes="reverse")
    assert report.ok, str(report)


def test_a_wrong_batching_rule_is_found_when_batching_is_asked_about(misbatched: Callable[..., Any]) -> None:
    report = gradproof.check(misbatched, numbers(40), modes="reverse", properties=["jacobian", "batched_reverse"])
    (finding,) = report.findings
    assert finding.property == "batched_reverse"
    assert "differs from a plain one at input 0" in finding.message
    assert gradcheck(misbatched, numbers(40))
    assert not gradcheck(misbatched, numbers(40), check_batched_grad=True, raise_exception=False)


def test_a_batched_jvp_is_compared_with_a_plain_one() -> None:
    assert asked(torch.sin, numbers(5)).batch_flaw(Mode.FORWARD) is None
    assert asked(torch.sin, numbers(5)).batch_flaw(Mode.REVERSE) is None

    def scalar_rule(saved: Any, tangent: torch.Tensor) -> torch.Tensor:
        return tangent * float(tangent.sum() * 0 + 1) * saved[0].cos()

    flaw = asked(custom(torch.sin, lambda s, g: g * s[0].cos(), scalar_rule), numbers(5)).batch_flaw(Mode.FORWARD)
    assert flaw is not None
    assert flaw.cause is not None


# forward mode


def in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.mul_(2)
    y.sin_()
    y[0] = 3 * x[1]
    return y


FORWARD: dict[str, Callable[[torch.Tensor], Any]] = {
    "in place": in_place,
    "a view": lambda x: x[1:],
    "several views": lambda x: (x[1:], x.view(2, 3).mT, x.expand(2, 6)),
    "written through a view": lambda x: (lambda y: (y[1:].mul_(y[0].clone()), y)[1])(x.clone()),
    "in place of a non-leaf": lambda x: (x * 1).exp_(),
    "unused part": lambda x: x[:3].sin(),
    "constant beside it": lambda x: (x.sin(), torch.ones(2, dtype=torch.float64)),
    "of itself": lambda x: x.view_as(x),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode_takes_in_place_functions_and_views(name: str) -> None:
    x = numbers(6)
    before = x.detach().clone()
    report = gradproof.check(FORWARD[name], x, modes=["forward", "reverse"])
    assert report.ok, str(report)
    assert report.cost.jvps > 0
    assert torch.equal(x, before)


def test_a_wrong_jvp_is_found_where_it_is_wrong() -> None:
    rules = (lambda x: x**2, lambda s, g: 2 * s[0] * g)
    right = custom(*rules, lambda s, t: 2 * s[0] * t)
    wrong = custom(*rules, lambda s, t: 2 * s[0] * t * (torch.arange(5) != 3))
    assert gradproof.check(right, numbers(5), modes=["forward", "reverse"]).ok
    (finding, *_) = gradproof.check(wrong, numbers(5)).findings
    assert (finding.input_element, finding.output_element, finding.wrong) == ((3,), (3,), 1)
    assert "in forward mode" in finding.message


def test_a_function_without_a_jvp_is_checked_in_reverse_mode_alone() -> None:
    report = gradproof.check(custom(lambda x: x**2, lambda s, g: 2 * s[0] * g), numbers(5))
    assert report.modes == (Mode.REVERSE,)
    assert report.ok


# the form of gradients


def test_gradients_and_tangents_of_the_right_form_are_not_misshapen() -> None:
    gradients, tangents = inspected(torch.sin, numbers(2, 3))
    assert gradients.misshapen() == []
    assert tangents.misshapen() == []
    assert tangents.carries


def inspected(function: Callable[..., Any], *inputs: Any) -> tuple[Any, Any]:
    """What the shared vjp and jvp returned; the latter is None where there is no forward mode."""
    investigation = asked(function, *inputs)
    _ = investigation.pullback
    with suppress(RuntimeError):
        _ = investigation.pushforward
    return investigation.gradients, investigation.tangents


def test_a_sparse_gradient_of_a_dense_input_is_misshapen() -> None:
    gradients, _ = inspected(custom(lambda x: x * 2, lambda s, g: (2 * g).to_sparse()), numbers(2, 3))
    ((block, expected, actual),) = gradients.misshapen()
    assert (block.index, expected.layout, actual.layout) == (0, "strided", "sparse_coo")
    investigation = asked(custom(lambda x: x * 2, lambda s, g: (2 * g).to_sparse()), numbers(2, 3))
    assert np.array_equal(investigation.vjp(np.ones(6)), np.full(6, 2.0))


def test_a_tangent_of_another_dtype_is_misshapen() -> None:
    rules = (lambda x: x * 2, lambda s, g: 2 * g)
    _, tangents = inspected(custom(*rules, lambda s, t: 2 * t.to(torch.complex128)), numbers(3))
    ((block, expected, actual),) = tangents.misshapen()
    assert (block.kind, expected.dtype, actual.dtype) == ("output", "float64", "complex128")


def test_outputs_that_no_tangent_reaches_carry_none() -> None:
    x = numbers(3)
    _, tangents = inspected(lambda _: x.sin(), x)
    assert not tangents.carries
    assert tangents.coordinates.tolist() == [0, 0, 0]


# the memory of gradients and cotangents


def test_a_gradient_that_is_an_input_or_another_gradient_is_aliased() -> None:
    gradients, _ = inspected(custom(lambda x: x * x, lambda s, g: s[0]), numbers(3))
    assert [(block.index, what) for block, what in gradients.aliased()] == [(0, "input 0 itself")]

    def twice(saved: Any, g: torch.Tensor) -> Any:
        gradient = 2 * g
        return gradient, gradient.view_as(gradient)

    gradients, _ = inspected(custom(lambda a, b: 2 * (a + b), twice), numbers(3), numbers(3, seed=1))
    assert [(block.index, what) for block, what in gradients.aliased()] == [(1, "the gradient of input 0")]
    gradients, _ = inspected(torch.add, numbers(3), numbers(3, seed=1))
    assert gradients.aliased() == []


def test_a_cotangent_that_backward_wrote_to_is_overwritten() -> None:
    gradients, _ = inspected(custom(lambda x: x * 2, lambda s, g: g.mul_(2)), numbers(3))
    assert gradients.overwritten_cotangents() == ["the grad_output of output 0"]
    gradients, _ = inspected(torch.sin, numbers(3))
    assert gradients.overwritten_cotangents() == []


@pytest.mark.parametrize("layout", MemoryLayout)
def test_what_a_backward_writes_to_is_seen_and_put_back(layout: MemoryLayout) -> None:
    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        saved[0].data.add_(1.0)
        return 2 * g

    x = numbers(2, 3)
    before = x.detach().clone()
    investigation = asked(custom(lambda x: x * 2, backward), x)
    watched = investigation.watched_vjp(np.ones(6), layout)
    assert watched.gradient.tolist() == [2.0] * 6
    assert watched.overwritten == ("input 0",)
    assert torch.equal(x, before)
    investigation.vjp(np.ones(6))
    assert torch.equal(x, before)
    investigation.vjp_in(np.ones(6), layout)
    investigation.vjp_without(np.ones(6), frozenset({0}))
    investigation.vjp_many(np.eye(6))
    assert torch.equal(x, before)


def test_an_input_that_the_function_wrote_to_is_named_and_put_back() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        x.data.add_(1.0)
        return y

    x = numbers(3)
    before = x.detach().clone()
    problem = first_order(call_of(function, (x,))).problem
    watch = problem.capability(MemoryWatch)
    assert watch is not None
    assert watch.overwritten_inputs == ("input 0 `x`",)
    assert torch.equal(x, before)


def test_tensors_that_vmap_cannot_carry_have_no_batches() -> None:
    packed = numbers(2, 3, dtype=torch.float32).detach().to_mkldnn().requires_grad_()
    investigation = asked(lambda m: m.to_dense() ** 2, packed)
    assert investigation.vjp_many(np.eye(6)).shape == (6, 6)
    flaw = investigation.batch_flaw(Mode.REVERSE)
    assert flaw is not None
    assert "vmap carries strided tensors only" in flaw.reason


def test_nothing_is_left_when_nobody_holds_a_problem() -> None:
    """No cycle: a check of a large input must not wait for the garbage collector."""
    x = torch.rand(40, dtype=torch.float64, requires_grad=True)
    made = first_order(call_of(torch.sin, (x,)))
    investigation = Investigation(made.problem)
    investigation.evaluate_many(np.tile(made.problem.point, (40, 1)))
    investigation.vjp_many(np.eye(40))
    investigation.jvp_many(np.eye(40))
    gone = weakref.ref(made.outputs), weakref.ref(made.point), weakref.ref(investigation)
    gc.disable()
    try:
        del made, investigation
        assert [reference() for reference in gone] == [None, None, None]
    finally:
        gc.enable()
