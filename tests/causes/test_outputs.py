"""Causes that are read off single outputs, and masks: each where it is planted, and not where it only looks so."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functions import custom, first_hint, numbers, of_one
from torch import Tensor

SIZES = pytest.mark.parametrize("size", [5, 30], ids=["few elements", "many elements"])
LINES = pytest.mark.parametrize("size", [12, 200], ids=["few elements", "many elements"])


# factors of outputs


def counts(size: int) -> Tensor:
    return torch.arange(1, size + 1, dtype=torch.float64)


@SIZES
def test_a_factor_for_each_output(size: int) -> None:
    weights = counts(size) / size
    function = of_one(lambda x: weights * x.exp().sum(1), lambda x, g: g[:, None] * x.exp())
    assert "a factor for each" in first_hint(function, numbers(size, size + 1))


def test_outputs_that_are_not_multiplied_by() -> None:
    function = of_one(lambda x: x.sin().sum(1).exp(), lambda x, g: g[:, None] * x.cos())
    assert "not multiplied by it" in first_hint(function, numbers(30, 4))


@LINES
def test_an_elementwise_function_has_no_factor_for_each_output(size: int) -> None:
    """Every output reads one element: whatever is claimed, there is a ratio."""
    wrong = torch.rand(size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    text = first_hint(of_one(torch.sin, lambda x, g: g * wrong), numbers(size))
    assert "for each" not in text


# contributions


@LINES
def test_what_one_of_two_uses_gives_is_missing(size: int) -> None:
    other = torch.arange(size).roll(3)
    function = of_one(lambda x: x.sin() * x[other].exp(), lambda x, g: g * x.cos() * x[other].exp())
    text = first_hint(function, numbers(size))
    assert "only some are counted" in text or "what it gives to the others" in text or "only one is counted" in text


@LINES
def test_a_recurrence_that_is_cut_off_is_no_overlap_of_windows(size: int) -> None:
    def run(x: Tensor) -> Tensor:
        states = [x[0]]
        for row in x[1:]:
            states.append(0.5 * states[-1] + row)
        return torch.stack(states)

    text = first_hint(of_one(run, lambda x, g: g.clone()), numbers(5, size))
    assert "what it gives to the others along axis 0 is missing" in text
    assert "windows" not in text


@LINES
def test_a_sum_over_other_segments(size: int) -> None:
    segment = torch.arange(size) * 3 // size

    def share(x: Tensor) -> Tensor:
        return x.exp() / torch.zeros(3, dtype=x.dtype).index_add(0, segment, x.exp())[segment]

    def rule(x: Tensor, g: Tensor) -> Tensor:
        return share(x) * (g - (g * share(x)).sum())

    assert "outputs that do not depend on the element" in first_hint(of_one(share, rule), numbers(size))


@SIZES
def test_a_sum_over_the_whole_row_counts_no_others(size: int) -> None:
    """The wrong term is that of a row, on which every output of it depends."""
    function = of_one(
        lambda x: x.softmax(1), lambda x, g: x.softmax(1) * (g - 0.5 * (g * x.softmax(1)).sum(1, keepdim=True))
    )
    assert "do not depend" not in first_hint(function, numbers(size, 6))


@LINES
def test_a_cotangent_that_is_not_gathered(size: int) -> None:
    index = torch.randint(0, size, (size,), generator=torch.Generator().manual_seed(0))
    forward = lambda x: torch.zeros_like(x).index_add(0, index, x.sin())  # noqa: E731
    assert "not gathered by the index" in first_hint(of_one(forward, lambda x, g: g * x.cos()), numbers(size))


# order


@LINES
def test_weights_of_neighbours_that_are_exchanged(size: int) -> None:
    part = torch.rand(size - 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def rule(x: Tensor, g: Tensor) -> Tensor:
        gradient = torch.zeros_like(x)
        gradient[:-1] += g * part
        gradient[1:] += g * (1 - part)
        return gradient

    assert "exchanged" in first_hint(of_one(lambda x: x[:-1] * (1 - part) + x[1:] * part, rule), numbers(size))


# masks


def signed(size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()


@LINES
def test_a_mask_that_is_not_applied_to_the_gradient(size: int) -> None:
    text = first_hint(of_one(lambda x: x.clamp(-0.7, 0.7), lambda x, g: g), signed(size))
    assert "a mask is not applied" in text


@LINES
def test_a_mask_that_is_inverted(size: int) -> None:
    assert "inverted" in first_hint(of_one(torch.relu, lambda x, g: g * (x <= 0)), signed(size))


@LINES
def test_a_mask_that_is_right_is_not_inverted(size: int) -> None:
    assert "inverted" not in first_hint(of_one(torch.relu, lambda x, g: 1.5 * g * (x > 0)), signed(size))


# formulas


@SIZES
def test_the_raw_input_in_place_of_the_normalised_one(size: int) -> None:
    def normalised(x: Tensor) -> Tensor:
        return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)

    def backward(s: Any, g: Tensor) -> Any:
        with torch.enable_grad():
            x = s[0].detach().requires_grad_()
            (dx,) = torch.autograd.grad(normalised(x) * s[1], x, g)
        return dx, (g * s[0]).sum(0)

    function = custom(lambda x, w: normalised(x) * w, backward)
    assert "summed over axis 0" in first_hint(function, (numbers(size, 6), numbers(6, seed=1)))


@LINES
def test_a_gradient_that_is_the_cotangent_itself(size: int) -> None:
    function = custom(lambda x, a: x + (a * x).tanh(), lambda s, g: (g, g * s[0] * (1 - (s[0] * s[1]).tanh() ** 2)))
    assert "grad_output itself" in first_hint(function, (numbers(size), numbers(size, seed=1)))


@SIZES
def test_a_scale_along_another_axis(size: int) -> None:
    function = custom(lambda x, s: x * s[:, None], lambda s, g: (g * s[1], (g * s[0]).sum(1)))
    assert "along axis 1, numeric along axis 0" in first_hint(
        function, (numbers(size, size), numbers(size, seed=1) + 3.0)
    )


@SIZES
def test_a_mean_over_too_few_axes(size: int) -> None:
    function = of_one(lambda x: x - x.mean(), lambda x, g: g - g.mean(1, keepdim=True))
    assert "none is claimed to depend on those along axis 0" in first_hint(function, numbers(4, size))


@LINES
def test_the_modulus_that_is_not_divided_by(size: int) -> None:
    z = torch.complex(numbers(size).detach(), numbers(size, seed=1).detach()).requires_grad_()
    assert "|x| were a factor too many" in first_hint(of_one(torch.abs, lambda z, g: g * z), z)


@LINES
def test_the_imaginary_part_for_the_real_one(size: int) -> None:
    z = torch.complex(numbers(size).detach(), numbers(size, seed=1).detach())
    function = of_one(lambda a: a * z, lambda a, g: (g * z.conj()).imag)
    assert "imaginary part" in first_hint(function, numbers(size, seed=2))


# a term that is the same along a line but for one element


def test_what_one_element_of_the_line_has_not_is_no_mean() -> None:
    hot = torch.nn.functional.one_hot(torch.arange(40) % 37, 37).double()
    function = of_one(lambda x: (x.sin() + 0.1 * (1 - 37 * hot) * x).sum(1), lambda x, g: g[:, None] * x.cos())
    assert "the same all along" not in first_hint(function, numbers(40, 37))
