"""The first derivative as a function that can be differentiated again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functions import custom, numbers

from gradproof.backends.torch.calls import call_of, connected
from gradproof.backends.torch.derivative.second import DerivativeCall, draw_cotangents


def test_only_outputs_with_a_graph_are_connected() -> None:
    x = numbers(3)
    y, z = x.sin(), x.cos()
    assert [o is y or o is z for o in connected((y, x.detach(), None, 3, [z]))] == [True, True]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.complex128], ids=str)
@pytest.mark.parametrize("noncontiguous", [False, True])
@pytest.mark.parametrize("shape", [(), (4,), (3, 5), (0, 2)])
def test_cotangents_are_drawn_in_the_form_of_their_outputs(
    shape: tuple[int, ...], noncontiguous: bool, dtype: torch.dtype
) -> None:
    output = torch.ones(shape, dtype=dtype)
    (drawn,) = draw_cotangents([output], noncontiguous=noncontiguous)
    assert (drawn.shape, drawn.dtype, drawn.requires_grad, drawn.is_leaf) == (output.shape, dtype, True, True)
    assert drawn.is_contiguous() is not (noncontiguous and len(shape) > 0 and drawn.numel() > 1)
    parts = torch.view_as_real(drawn) if drawn.is_complex() else drawn
    assert bool((parts.abs() <= 1).all())


def test_drawing_cotangents_repeats_itself_and_leaves_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    first, second = (draw_cotangents([torch.ones(5), torch.ones(2)], noncontiguous=False) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


def derivative(function: Any, inputs: Any, cotangents: Any, **keywords: Any) -> DerivativeCall:
    return DerivativeCall(call_of(function, inputs, keywords), cotangents)


def test_the_first_derivative_is_the_gradient_for_the_cotangents() -> None:
    x, w, v = numbers(3), numbers(3, seed=1), numbers(3, seed=2)
    call = derivative(lambda x, w: x**2 * w, (x, w), (v,))
    for gradients in (call(), call.with_values({}), call.with_values({0: x, 1: w, 2: v})):
        assert torch.allclose(gradients[0], 2 * x * w * v)
        assert torch.allclose(gradients[1], x**2 * v)
        assert all(gradient.requires_grad for gradient in gradients)
    assert (call.origins, call.names()) == ([0, 1, 2], ["x", "w", "grad_outputs[0]"])
    assert all(a is b for a, b in zip(call.of, (x, w), strict=True))


def test_values_may_be_replaced_by_detached_ones() -> None:
    x, v, y, w = (numbers(3, seed=seed) for seed in range(4))
    (gradient,) = derivative(lambda x: x**3, (x,), (v,)).with_values({0: y.detach(), 1: w.detach()})
    assert torch.allclose(gradient, 3 * y**2 * w)
    assert gradient.requires_grad


def test_inputs_without_a_gradient_are_passed_on() -> None:
    x, v = numbers(3), numbers(3, seed=2)
    (gradient,) = derivative(lambda x, n: x**n, (x, 3), (v,))()
    assert torch.allclose(gradient, 3 * x**2 * v)


def test_nested_inputs_and_keywords_are_numbered_before_the_cotangents() -> None:
    x, y, w, v = (numbers(3, seed=seed) for seed in range(4))
    call = derivative(lambda p, w: p[0] * p[1]["y"] * w, ([x, {"y": y}],), (v,), w=w)
    gradients = call()
    expected = (y * w * v, x * w * v, x * y * v)
    assert all(torch.allclose(g, e) for g, e in zip(gradients, expected, strict=True))
    assert call.origins == [0, 0, 1, 2]
    assert call.names() == ["p[0]", "p[1]['y']", "w", "grad_outputs[0]"]


def test_a_cotangent_of_none_leaves_its_output_out() -> None:
    x, v = numbers(3), numbers(3, seed=2)
    (gradient,) = derivative(lambda x: (x**2, x**3), (x,), (None, v))()
    assert torch.allclose(gradient, 3 * x**2 * v)
    assert derivative(lambda x: x**2, (x,), (None,))() == ()


def test_another_number_of_cotangents_is_refused_with_both_numbers() -> None:
    x, v = numbers(3), numbers(3)
    with pytest.raises(ValueError, match="got 1 grad_outputs for 2 differentiable outputs"):
        derivative(lambda x: (x**2, x**3), (x,), (v,))()


def test_inputs_that_nothing_depends_on_have_no_gradient() -> None:
    x, unused, v = numbers(3), numbers(3, seed=1), numbers(3, seed=2)

    def forward(x: Any, unused: Any) -> Any:
        return custom(lambda x: x * x, lambda s, g: 2 * s[0] * g)(x)

    call = derivative(forward, (x, unused), (v,))
    assert len(call()) == 1
    assert call.of[0] is x


def test_what_is_a_scalar() -> None:
    x, z, v = numbers(3), numbers(3, dtype=torch.complex128), numbers()
    functions = [lambda x: x.sum(), lambda x: x, lambda x: (x.sum(), x.sum())]
    cotangents = [(v,), (x,), (v, v)]
    calls = [derivative(f, (x,), c) for f, c in zip(functions, cotangents, strict=True)]
    calls += [derivative(lambda z: z.sum(), (z,), (z[0],)), derivative(lambda z: z.abs().sum(), (z,), (v,))]
    for call in calls:
        call()
    assert [call.scalar for call in calls] == [True, False, False, False, True]
