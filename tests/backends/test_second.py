"""The first derivative as a function that can be differentiated again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functions import custom, numbers

from gradproof.backends.torch.second import FirstDerivative, connected, draw_cotangents


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


def test_the_first_derivative_is_the_gradient_for_the_cotangents() -> None:
    x, w, v = numbers(3), numbers(3, seed=1), numbers(3, seed=2)
    gradients = FirstDerivative(lambda x, w: x**2 * w, (x, w), (v,))(x, w, v)
    assert torch.allclose(gradients[0], 2 * x * w * v)
    assert torch.allclose(gradients[1], x**2 * v)
    assert all(gradient.requires_grad for gradient in gradients)


def test_inputs_without_a_gradient_are_passed_on() -> None:
    x, v = numbers(3), numbers(3, seed=2)
    (gradient,) = FirstDerivative(lambda x, n: x**n, (x, 3), (v,))(x, 3, v)
    assert torch.allclose(gradient, 3 * x**2 * v)


def test_a_cotangent_of_none_leaves_its_output_out() -> None:
    x, v = numbers(3), numbers(3, seed=2)
    (gradient,) = FirstDerivative(lambda x: (x**2, x**3), (x,), (None, v))(x, None, v)
    assert torch.allclose(gradient, 3 * x**2 * v)
    assert FirstDerivative(lambda x: x**2, (x,), (None,))(x, None) == ()


def test_another_number_of_cotangents_is_refused_with_both_numbers() -> None:
    x, v = numbers(3), numbers(3)
    with pytest.raises(ValueError, match="got 1 grad_outputs for 2 differentiable outputs"):
        FirstDerivative(lambda x: (x**2, x**3), (x,), (v,))(x, v)


def test_inputs_that_nothing_depends_on_have_no_gradient() -> None:
    x, unused, v = numbers(3), numbers(3, seed=1), numbers(3, seed=2)

    def forward(x: Any, unused: Any) -> Any:
        return custom(lambda x: x * x, lambda s, g: 2 * s[0] * g)(x)

    assert len(FirstDerivative(forward, (x, unused), (v,))(x, unused, v)) == 1
