"""What looks like a cause and is none is not named; and the search for causes survives every size and precision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functions import custom, first_hint, numbers
from torch.nn import functional

from gradproof import check

SIZES = pytest.mark.parametrize("size", [4, 12], ids=["few elements", "many elements"])
DUPLICATES = "an index that occurs more than once"


def test_half_of_many_elements_may_be_wrong() -> None:
    spoiled = torch.where(torch.rand(1100, generator=torch.Generator().manual_seed(0)) > 0.5, 1.0, 1.3)
    told = first_hint(custom(torch.sin, lambda s, g: g * s[0].cos() * spoiled), numbers(1100), strategy="entries")
    assert "a constant factor 13/10" in told


def test_claims_that_are_no_numbers_for_some_cotangents_are_explained_too() -> None:
    def backward(s: Any, g: torch.Tensor) -> torch.Tensor:
        return torch.where(g < 0, g.log(), 2 * g * s[0].cos())

    assert check(custom(torch.sin, backward), torch.randn(12, dtype=torch.float16).requires_grad_()).findings


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(4,), (30, 20)], ids=str)
def test_low_precision_is_explained_from_its_twin(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.linspace(-1.0, 1.2, torch.Size(shape).numel()).reshape(shape).to(dtype).requires_grad_()
    assert (
        first_hint(custom(torch.sin, lambda s, g: 2 * g * s[0].cos()), x)
        == "analytic ≈ 2 × numeric: a factor 2 too many"
    )


def test_a_swap_needs_two_wrong_inputs() -> None:
    twice = custom(lambda x, bias: 2 * x + bias, lambda s, g: (2 * g, 2 * g))
    assert "swapped" not in first_hint(twice, (numbers(5), numbers(5, seed=1)))


def without_row(g: torch.Tensor) -> torch.Tensor:
    return torch.cat([g[:1], torch.zeros_like(g[1:2]), g[2:]])


@SIZES
def test_a_lost_share_is_a_lookup_only_where_outputs_read_one_element(size: int) -> None:
    x = numbers(size, size + 1)
    lower = torch.tril(torch.ones(size, size, dtype=torch.float64))
    product = custom(lambda x, w: x @ w, lambda s, g: (g @ s[1].mT, s[0].mT @ without_row(g)))
    assert DUPLICATES not in first_hint(product, (x, numbers(size + 1, size, seed=1)))
    bias = custom(lambda x, b: x + b, lambda s, g: (g, without_row(g).sum(0)))
    assert DUPLICATES not in first_hint(bias, (x, numbers(size + 1, seed=1)))
    assert DUPLICATES not in first_hint(custom(lambda x: lower @ x, lambda s, g: g), x)
    assert DUPLICATES not in first_hint(custom(lambda x: x.log_softmax(1), lambda s, g: g), x)
    assert DUPLICATES not in first_hint(custom(lambda x: x.repeat_interleave(3, 0), lambda s, g: g[::3] + g[1::3]), x)


@SIZES
@pytest.mark.parametrize("scale", [1e110, 1e150])
def test_large_numbers_fit_nothing_by_overflow(size: int, scale: float) -> None:
    x = (scale * numbers(size, size + 1).detach()).requires_grad_()
    spoiled = torch.rand(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    told = first_hint(custom(lambda x: x * x, lambda s, g: g * s[0] * spoiled), x)
    assert told.startswith("no usual cause fits"), told


def rotated(x: torch.Tensor) -> torch.Tensor:
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([0.6 * a - 0.8 * b, 0.8 * a + 0.6 * b], -1).flatten(-2)


@SIZES
def test_only_a_cumulative_function_is_a_scan(size: int) -> None:
    two = torch.eye(size, dtype=torch.float64) + 0.5 * torch.diag(torch.ones(size - 1, dtype=torch.float64), 1)
    assert "the other way round" not in first_hint(custom(rotated, lambda s, g: rotated(g)), numbers(size, 4))
    assert "the other way round" not in first_hint(
        custom(lambda x: two @ x, lambda s, g: two @ g), numbers(size, size + 1)
    )


@SIZES
def test_what_is_the_same_along_an_axis_is_so_for_every_element(size: int) -> None:
    labels, x = torch.arange(size), numbers(size, size + 1)

    def off_by_one(s: Any, g: torch.Tensor) -> torch.Tensor:
        return g * (s[0].softmax(1) - functional.one_hot(labels + 1, size + 1)) / size

    assert "the same all along" not in first_hint(custom(lambda x: functional.cross_entropy(x, labels), off_by_one), x)
    everywhere = custom(lambda x: x.amax(1), lambda s, g: g[:, None].expand_as(s[0]).clone())
    assert "the same all along" not in first_hint(everywhere, x)


@SIZES
def test_a_missing_conjugate_is_no_sign(size: int) -> None:
    z = numbers(size, size, dtype=torch.complex128)
    told = first_hint(custom(lambda z: (z * z.conj()).real, lambda s, g: 2 * g * s[0].conj()), z)
    assert "a conjugate is missing or one too many" in told
    assert "sign" not in told


@SIZES
def test_a_small_term_with_a_structure_is_no_round_off(size: int) -> None:
    told = first_hint(custom(torch.sin, lambda s, g: g * s[0].cos() * (1 + 0.002 * s[0])), numbers(size, size + 1))
    assert "precision" not in told


def test_a_size_is_told_after_the_factor() -> None:
    told = first_hint(custom(torch.sin, lambda s, g: g * s[0].cos() * 2 / 3), numbers(4, 3))
    assert "a constant factor 2/3, which is also (n - 1)/n of the size" in told


@pytest.mark.parametrize(("size", "seed"), [(8, 0), (25, 0)])
def test_numbers_that_are_where_they_belong_are_at_no_other_place(size: int, seed: int) -> None:
    def solved(x: torch.Tensor, tolerance: float) -> torch.Tensor:
        before, after = torch.zeros_like(x), x
        while (after - before).abs().max() >= tolerance:
            before, after = after, x - 0.7 * after.sin()
        return after

    function = custom(lambda x: solved(x, 1e-6), lambda s, g: g / (1 + 0.7 * solved(s[0], 1e-14).cos()))
    x = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    assert "at other places" not in str(check(function, x))


@SIZES
@pytest.mark.parametrize("waves", [30.0, 1e3])
def test_a_ripple_that_is_lost_is_no_solver_that_stops_early(size: int, waves: float) -> None:
    """One cannot be told from the other by derivatives at a point: both are named, or neither."""
    part = 1e-3 / waves
    function = custom(lambda x: x.sin() + part * (waves * x).sin(), lambda s, g: g * s[0].cos())
    told = first_hint(function, numbers(size * size) * 0.4)
    assert ("a solver" in told) == ("a small term that is missing" in told)
    assert "no usual cause fits" in told or "within 0.5% of numeric" in told


def test_a_solver_that_stops_early_is_among_the_causes() -> None:
    rough = 1.0 + 1e-3 * torch.randn(60, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    told = first_hint(custom(torch.sin, lambda s, g: g * s[0].cos() * rough), numbers(60))
    assert "a solver that stops early (set rtol)" in told


def test_a_term_along_axes_of_complex_numbers_ends_no_search() -> None:
    """Of both parts of a row the same is missing, which a sum over one of them does not tell."""
    forgets_the_mean = custom(lambda x: x - (x.real + x.imag).mean(-1, keepdim=True), lambda s, g: g)
    x = torch.randn(5, 5, dtype=torch.complex128, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert "no usual cause fits" in first_hint(forgets_the_mean, x)
