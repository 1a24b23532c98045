"""Right numbers at other places, counts, shares and axes: named where they are planted, and not where they seem so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom, first_hint, numbers, of_one
from torch import Tensor

SIZES = pytest.mark.parametrize("size", [5, 14], ids=["few elements", "many elements"])


# places


@SIZES
def test_the_gradient_of_another_element_than_the_selected_one(size: int) -> None:
    def rule(x: Tensor, g: Tensor) -> Tensor:
        return torch.zeros_like(x).scatter_(1, x.argmin(1, keepdim=True), g[:, None])

    assert "right numbers at other places" in first_hint(of_one(lambda x: x.amax(1), rule), numbers(size, 4))


def test_a_view_in_place_of_a_permutation() -> None:
    function = of_one(lambda x: 2 * x.permute(2, 0, 1), lambda x, g: 2 * g.reshape(x.shape))
    assert "right numbers at other places" in first_hint(function, numbers(3, 4, 5))


@SIZES
def test_numbers_that_are_alike_are_not_at_other_places(size: int) -> None:
    """Every row has the same gradient, which the last one lacks."""

    def rule(x: Tensor, g: Tensor) -> Tensor:
        return torch.cat([g.expand(len(x) - 1, -1), torch.zeros(1, x.shape[1], dtype=x.dtype)])

    assert "other places" not in first_hint(of_one(lambda x: x.sum(0), rule), numbers(size, size + 1))


# counts and shares


INDEX = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3])


def scattered(rule: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    count = torch.bincount(INDEX).double()[:, None]
    return of_one(
        lambda x: torch.zeros(4, x.shape[1], dtype=x.dtype).index_add(0, INDEX, x) / count, lambda x, g: rule(g)
    )


@SIZES
def test_a_count_that_is_not_divided_by(size: int) -> None:
    told = first_hint(scattered(lambda g: g[INDEX]), numbers(8, size))
    assert "numeric × 2 or 3, by the element: a count that is not divided by" in told


def test_factors_that_are_no_whole_numbers_are_no_counts() -> None:
    told = first_hint(scattered(lambda g: g[INDEX] * torch.linspace(1.0, 1.7, 8)[:, None].double()), numbers(8, 5))
    assert "count" not in told


@pytest.mark.parametrize(("start", "word"), [(0, "first"), (1, "last")])
def test_one_of_every_two_that_share_is_counted(start: int, word: str) -> None:
    def backward(s: Any, g: Tensor) -> Any:
        q, k = s
        return g @ k.repeat_interleave(2, 0), (g.transpose(1, 2) @ q)[start::2]

    function = custom(lambda q, k: q @ k.repeat_interleave(2, 0).transpose(1, 2), backward)
    told = first_hint(function, (numbers(4, 3, 2), numbers(2, 3, 2, seed=1)))
    assert f"counts only the {word} of every 2 indices of axis 0" in told


def test_other_weights_of_those_that_share_are_not_left_out() -> None:
    weights = torch.tensor([1.0, 0.3, 0.8, 0.1], dtype=torch.float64)[:, None, None]

    def backward(s: Any, g: Tensor) -> Any:
        q, k = s
        return g @ k.repeat_interleave(2, 0), (weights * (g.transpose(1, 2) @ q)).unflatten(0, (2, 2)).sum(1)

    function = custom(lambda q, k: q @ k.repeat_interleave(2, 0).transpose(1, 2), backward)
    assert "counts only" not in first_hint(function, (numbers(4, 3, 2), numbers(2, 3, 2, seed=1)))


def windows(rule: Callable[[Tensor, int, Tensor], None]) -> Callable[..., Any]:
    def backward(x: Tensor, g: Tensor) -> Tensor:
        gradient = torch.zeros_like(x)
        for k in range(3):
            rule(gradient, k, g / 3)
        return gradient

    return of_one(lambda x: x.unfold(0, 3, 2).mean(1), backward)


@pytest.mark.parametrize("size", [15, 301])
def test_overlapping_windows_overwrite_one_another(size: int) -> None:
    def assign(gradient: Tensor, k: int, g: Tensor) -> None:
        gradient[k : k + 2 * len(g) - 1 : 2] = g

    assert "windows that overlap overwrite one another" in first_hint(windows(assign), numbers(size))


@pytest.mark.parametrize("size", [15, 301])
def test_windows_that_are_weighted_do_not(size: int) -> None:
    def add(gradient: Tensor, k: int, g: Tensor) -> None:
        gradient[k : k + 2 * len(g) - 1 : 2] += g * (0.7 if k == 2 else 1.0)

    assert "windows" not in first_hint(windows(add), numbers(size))


# scans


SCAN = "runs along axis 0 the other way round"


@pytest.mark.parametrize("size", [8, 120])
def test_a_scan_of_any_function_that_is_not_reversed(size: int) -> None:
    def rule(x: Tensor, g: Tensor) -> Tensor:
        return x.exp() * torch.cumsum(g * (-torch.logcumsumexp(x, 0)).exp(), 0)

    assert SCAN in first_hint(of_one(lambda x: torch.logcumsumexp(x, 0), rule), numbers(size))


@pytest.mark.parametrize("size", [8, 120])
def test_one_that_is_reversed_and_wrong_otherwise(size: int) -> None:
    def rule(x: Tensor, g: Tensor) -> Tensor:
        weighted = g * (-torch.logcumsumexp(x, 0)).exp()
        return x.cos() * weighted.flip(0).cumsum(0).flip(0)

    assert SCAN not in first_hint(of_one(lambda x: torch.logcumsumexp(x, 0), rule), numbers(size))


# inputs that are swapped, left out, or in a term


def test_inputs_that_are_swapped_in_all_gradients() -> None:
    function = custom(lambda a, b: a.sin() * b, lambda s, g: (g * s[1].cos() * s[0], g * s[1].sin()))
    assert "input 0 and input 1 swapped" in first_hint(function, (numbers(7), numbers(7, seed=1)))


@SIZES
def test_a_term_of_two_inputs_is_no_swap(size: int) -> None:
    def forward(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
        return (a - p).pow(2).sum(1) - (a - n).pow(2).sum(1)

    def backward(s: Any, g: Tensor) -> Any:
        (a, p, n), g = s, 2 * g[:, None]
        return g * (a - p), -g * (a - p), g * (a - n)

    told = first_hint(custom(forward, backward), (numbers(size, 3), numbers(size, 3, seed=1), numbers(size, 3, seed=2)))
    assert "as if the term (-2·x + 2·input 2)·grad_output were missing" in told


def normed(rule: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """x / rms(x) * w, with a gradient of x by rule(g, x / rms, rms, w)."""

    def backward(s: Any, g: Tensor) -> Any:
        x, w = s
        rms = x.pow(2).mean(1, keepdim=True).sqrt()
        return rule(g, x / rms, rms, w), (g * x / rms).sum(0)

    return custom(lambda x, w: x / x.pow(2).mean(1, keepdim=True).sqrt() * w, backward)


def right_of_norm(g: Tensor, hat: Tensor, rms: Tensor) -> Tensor:
    return (g - hat * (g * hat).mean(1, keepdim=True)) / rms


@SIZES
def test_a_weight_that_is_left_out(size: int) -> None:
    function = normed(lambda g, hat, rms, w: right_of_norm(g, hat, rms))
    assert "analytic is right if input 1 is all ones" in first_hint(function, (numbers(size, 6), numbers(6, seed=1)))


@SIZES
def test_a_weight_that_is_wrong_is_not_left_out(size: int) -> None:
    function = normed(lambda g, hat, rms, w: right_of_norm(g * (w + 0.3 * w.sin()), hat, rms))
    assert "all ones" not in first_hint(function, (numbers(size, 6), numbers(6, seed=1)))


# reach


@SIZES
def test_what_an_element_gives_to_others_is_missing(size: int) -> None:
    function = of_one(lambda x: x.log_softmax(1), lambda x, g: g - x.softmax(1) * g)
    assert "what it gives to the others along axis 1 is missing" in first_hint(function, numbers(size, size + 1))


@SIZES
def test_it_is_not_where_its_own_share_is_wrong_too(size: int) -> None:
    function = of_one(lambda x: x.log_softmax(1), lambda x, g: g - 1.3 * x.softmax(1) * g)
    assert "what it gives to the others" not in first_hint(function, numbers(size, size + 1))


def unit_rows(axis: int, factor: float = 1.0) -> Callable[..., Any]:
    def rule(x: Tensor, g: Tensor) -> Tensor:
        y = x / x.norm(dim=1, keepdim=True)
        return (g - factor * y * (g * y).sum(axis, keepdim=True)) / x.norm(dim=1, keepdim=True)

    return of_one(lambda x: x / x.norm(dim=1, keepdim=True), rule)


@SIZES
def test_a_reduction_over_the_wrong_axis(size: int) -> None:
    assert "a reduction over the wrong axis" in first_hint(unit_rows(0), numbers(size, size + 1))


@SIZES
def test_one_over_the_right_axis_that_is_wrong_otherwise(size: int) -> None:
    assert "the wrong axis" not in first_hint(unit_rows(1, 1.3), numbers(size, size + 1))
