"""What a cause says is true as it is read: of regions, of each mode, of all that was not looked at."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, first_hint, numbers, of_one
from torch.nn import functional

from gradproof import check


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


# regions


def with_a_factor(low: int, high: int, factor: float) -> Any:
    """x·silu(x), whose gradient has a factor at some indices."""

    def rule(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        g = g.clone()
        g[low:high] *= factor
        return g

    tampered = of_one(torch.clone, rule)
    return lambda x: functional.silu(tampered(x)) * tampered(x)


def told_region(hint: str, size: int) -> tuple[int, int, float]:
    """The first and the last index that is told, and what may hide elsewhere."""
    hides = re.search(r"elsewhere, less than (\S+) may hide", hint)
    last, between = re.search(r"the last (\d+) of", hint), re.search(r"indices (\d+) to (\d+) of", hint)
    assert hides
    if last:
        return size - int(last[1]), size - 1, float(hides[1])
    assert between
    return int(between[1]), int(between[2]), float(hides[1])


@pytest.mark.parametrize("where", [(90_000, 100_000), (50_000, 50_100)], ids=["the last", "a few"])
@pytest.mark.parametrize("factor", [1.0001, 1.001, 1.5])
@pytest.mark.parametrize("seed", range(2))
def test_what_is_wrong_outside_of_a_region_is_smaller_than_is_told(
    where: tuple[int, int], factor: float, seed: int
) -> None:
    size, x = 100_000, normal(100_000, seed=seed)
    hint = first_hint(with_a_factor(*where, factor), x)
    if "elsewhere" not in hint:  # nothing is said of a region
        assert "wrong only" not in hint
        assert "lies within" not in hint
        return
    low, high, hidden = told_region(hint, size)
    (slope,) = torch.autograd.grad((functional.silu(x) * x).sum(), x)
    off = slope.abs() * (factor - 1.0)
    index = torch.arange(size)
    wrong_outside = (index >= where[0]) & (index < where[1]) & ((index < low) | (index > high))
    assert "seen to be wrong" in hint
    assert not (off[wrong_outside] > hidden).any()


def test_a_region_that_is_seen_sharply_has_its_bounds_told() -> None:
    hint = first_hint(with_a_factor(90_000, 100_000, 1.5), normal(100_000))
    assert "seen to be wrong only at the last 10000 of 100000 indices along axis 0" in hint


# forward mode

FLIPPED = torch.randn(5, 5, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def square(*, forward: bool, reverse: bool) -> Any:
    """A matrix, whose jvp or vjp has it transposed."""
    a = normal(6, 6).detach()
    return custom(
        lambda x: a @ x,
        lambda s, g: (a if reverse else a.T) @ g,
        lambda s, t: (a.T if forward else a) @ t,
    )


OF_JVP = "the transpose of the Jacobian, not the Jacobian itself, is applied to the tangent"
OF_VJP = "the Jacobian itself, not its transpose, is applied to grad_output"


def test_a_transpose_is_told_by_its_mode() -> None:
    of_jvp = first_hint(square(forward=True, reverse=False), normal(6))
    of_vjp = first_hint(square(forward=False, reverse=True), normal(6))
    assert OF_JVP in of_jvp
    assert "grad_output" not in of_jvp
    assert OF_VJP in of_vjp
    assert "tangent" not in of_vjp
    assert "the Jacobian and its transpose are exchanged" in first_hint(square(forward=True, reverse=True), normal(6))


def test_of_an_array_too() -> None:
    a = normal(6, 6).detach().numpy()
    report = check(lambda x: a @ x, np.ones(6), jvp=lambda x, u: a.T @ u)
    assert OF_JVP in report.findings[0].hint


def reversed_sums(x: torch.Tensor) -> torch.Tensor:
    return x.flip(0).cumsum(0).flip(0)


def with_jvp(forward: Any, backward: Any, jvp: Any) -> Any:
    return custom(forward, lambda s, g: backward(s[0], g), lambda s, t: jvp(s[0], t))


@pytest.mark.parametrize(
    ("function", "x", "told"),
    [
        (
            with_jvp(torch.sin, lambda x, g: g * x.cos(), lambda x, t: x.cos()),
            normal(5),
            "analytic does not depend on the tangent",
        ),
        (
            with_jvp(lambda x: 2 * x.flip(0), lambda x, g: 2 * g.flip(0), lambda x, t: 2 * t),
            normal(5),
            "analytic is numeric flipped along axis 0, for output 0",
        ),
        (
            with_jvp(lambda x: x @ FLIPPED, lambda x, g: g @ FLIPPED.T, lambda x, t: t.flip(0) @ FLIPPED),
            normal(5),
            "analytic is what the tangent would give if it were flipped along axis 0",
        ),
        (
            with_jvp(lambda x: x.cumsum(0), lambda x, g: reversed_sums(g), lambda x, t: reversed_sums(t)),
            normal(7),
            "a scan that is reversed",
        ),
        (
            with_jvp(lambda x: x * 3, lambda x, g: 3 * g, lambda x, t: torch.cat([3 * t[:1], 0 * t[1:]])),
            normal(5),
            "the tangent is not used",
        ),
    ],
    ids=["no tangent", "output flipped", "input flipped", "scan", "zeros"],
)  # fmt: skip
def test_forward_mode_is_told_in_its_own_words(function: Any, x: torch.Tensor, told: str) -> None:
    hint = first_hint(function, x)
    assert told in hint
    assert "grad" not in hint


# what is said of all outputs, or of all elements


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.ones(len(q), len(q)).triu(1).bool()
    weights = (q @ k.T / len(q) ** 0.5).masked_fill(mask, -torch.inf).softmax(-1)
    return weights, weights @ v


def backward_without_delta(saved: tuple[torch.Tensor, ...], g: torch.Tensor) -> tuple[torch.Tensor, ...]:
    q, k, v = saved
    weights, _ = attention(q, k, v)
    scores = weights * (g @ v.T) / len(q) ** 0.5
    return scores @ k, scores.T @ q, weights.T @ g


@pytest.mark.parametrize("seed", range(6))
def test_an_output_that_has_no_other_to_depend_on_does_not_speak_for_all(seed: int) -> None:
    function = custom(lambda q, k, v: attention(q, k, v)[1], backward_without_delta)
    inputs = tuple(normal(20, 8, seed=3 * seed + k) for k in range(3))
    assert "claimed to depend" not in first_hint(function, inputs)


def small_half(scale: float) -> Any:
    half = of_one(torch.sin, lambda x, g: 1.5 * g * x.cos())
    return lambda x: torch.cat([x.exp(), scale * half(x)])


@pytest.mark.parametrize("size", [5, 20, 100])
@pytest.mark.parametrize("scale", [1e-3, 1e-4, 1e-5])
def test_large_outputs_do_not_speak_for_small_ones(size: int, scale: float) -> None:
    hint = first_hint(small_half(scale), normal(size))
    assert "within 0." not in hint
    assert "counts only" not in hint


def test_what_is_not_counted_is_told_still() -> None:
    tail = of_one(lambda x: x.exp(), lambda x, g: torch.cat([g[:192], 0 * g[192:]]) * x.exp())
    matrix = normal(200, 100).detach()
    hint = first_hint(lambda x: tail(matrix @ x / 10), normal(100))
    assert "analytic counts only the first 192 of 200 indices (whole tiles of " in hint


def smoothed(targets: torch.Tensor, kept: torch.Tensor) -> Any:
    """Cross entropy whose gradient smooths by one class too few, of the rows that are kept."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        each = functional.cross_entropy(x, targets, reduction="none", label_smoothing=0.1)
        return (each * kept).sum() / kept.sum()

    def rule(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        hot = functional.one_hot(targets, x.shape[1]).double()
        return g * kept[:, None] * (x.softmax(-1) - 0.9 * hot - 0.1 / (x.shape[1] - 1)) / kept.sum()

    return of_one(forward, rule)


def test_rows_that_are_right_are_not_counted_as_wrong() -> None:
    targets = torch.tensor([0, 3, 1, 9, 4, 5, 2])
    some = smoothed(targets, torch.tensor([1.0, 1, 0, 1, 1, 0, 1]).double())
    hint = first_hint(some, normal(7, 10))
    assert "at 50 of 70 sampled elements: a constant is added or missing" in hint
    every = first_hint(smoothed(targets, torch.ones(7).double()), normal(7, 10))
    assert "at all elements that were sampled: a constant is added or missing" in every


# what may have other reasons


def repeated(x: torch.Tensor) -> torch.Tensor:
    return x.repeat_interleave(2, 0) * torch.arange(1.0, 5.0).double()[:, None, None]


def rule_of_repeat(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    g = g * torch.arange(1.0, 5.0).double()[:, None, None]
    return g[:2] + g[2:]


def resized(x: torch.Tensor, *, corners: bool = True) -> torch.Tensor:
    return functional.interpolate(x, size=(7, 7), mode="bilinear", align_corners=corners)


def rule_of_resized(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(resized(x, corners=False), x, g)[0]


@pytest.mark.parametrize(
    ("function", "x"),
    [(of_one(repeated, rule_of_repeat), normal(2, 3, 4)), (of_one(resized, rule_of_resized), normal(1, 2, 4, 4))],
    ids=["repeat for repeat_interleave", "corners"],
)
def test_a_reason_that_is_one_of_several_is_told_as_one(function: Any, x: torch.Tensor) -> None:
    hint = first_hint(function, x)
    assert "wrong elements that were looked at: perhaps" in hint


def test_a_sum_over_another_axis_is_not_called_a_lack_of_sums() -> None:
    function = custom(lambda x, s: x * s, lambda s, g: (g * s[1], (g * s[0]).sum(1)))
    assert ": contributions are not added up" not in first_hint(function, (numbers(5, 5), numbers(5, seed=1)))
