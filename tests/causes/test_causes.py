"""Each cause is named where it is planted, and not where something looks like it; random errors have none.

The check runs as a user's would, in a size of which every entry is compared and in one of which elements are sampled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom, numbers

from gradproof import Verdict, check

Case = tuple[Callable[..., Any], Any]
Maker = Callable[[int], Case]
SIZES = pytest.mark.parametrize("size", [5, 12], ids=["few elements", "many elements"])
NONE = "no usual cause fits"


def noise(like: torch.Tensor, seed: int = 3) -> torch.Tensor:
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed), dtype=like.dtype)


def hint(case: Case) -> str:
    report = check(*case)
    assert report.verdict is Verdict.FAIL
    return report.findings[0].hint


def sine(rule: Callable[[torch.Tensor, torch.Tensor], Any]) -> Maker:
    """sin of a matrix, whose gradient is made by rule(x, g)."""
    return lambda size: (custom(torch.sin, lambda s, g: rule(s[0], g)), numbers(size, size + 1))


def scaled(factor: float) -> Maker:
    return sine(lambda x, g: factor * x.cos() * g)


def square(forward: Callable[..., Any], backward: Callable[..., Any]) -> Maker:
    """A function of two square matrices."""
    return lambda size: (custom(forward, backward), (numbers(size, size), numbers(size, size, seed=1)))


def one(forward: Callable[..., Any], backward: Callable[..., Any]) -> Maker:
    return lambda size: (custom(forward, backward), numbers(size, size + 1))


def with_rows(gradient: torch.Tensor, rows: slice, by: Any) -> torch.Tensor:
    spoiled = gradient.clone()
    spoiled[rows] = spoiled[rows] * by
    return spoiled


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, 1)


def gather(weights: torch.Tensor) -> torch.Tensor:
    return weights[_index(len(weights))]


def _index(rows: int) -> torch.Tensor:
    return torch.tensor([0, 2, 2, 1, 0, 2] * rows)[: 2 * rows] % rows


def assigned(s: Any, g: torch.Tensor) -> torch.Tensor:
    gradient = torch.zeros_like(s[0])
    gradient[_index(len(gradient))] = g
    return gradient


def normalised(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True, unbiased=False)


def without_projection(s: Any, g: torch.Tensor) -> torch.Tensor:
    return (g - g.mean(1, keepdim=True)) / s[0].std(1, keepdim=True, unbiased=False)


def conv(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv2d(x[None, None], w[None, None], padding=1)[0, 0]


def conv_wrong(s: Any, g: torch.Tensor) -> Any:
    w = s[1].detach().requires_grad_()
    with torch.enable_grad():
        (dw,) = torch.autograd.grad(conv(s[0].detach(), w), w, g)
    return conv(g, s[1]), dw


def linear_scan(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(1)


def stretched(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tensor([4.0, 8.0], dtype=x.dtype)


def _square(x: torch.Tensor) -> torch.Tensor:
    return noise(torch.empty(x.shape[1], x.shape[1], dtype=x.dtype), seed=5)


def rooted(x: torch.Tensor) -> torch.Tensor:
    return (x**2).sqrt() * x


def _weights(x: torch.Tensor) -> torch.Tensor:
    return torch.linspace(1, 3, x.shape[1], dtype=x.dtype) ** 2


def _weighted(x: torch.Tensor) -> torch.Tensor:
    return x * _weights(x)


# a cause: where it is planted, what the hint says; where something looks like it, of which that is not said
CAUSES: dict[str, tuple[Maker, str, Maker]] = {
    "sign": (scaled(-1.0), "the sign is wrong", sine(lambda x, g: -x.cos() * g * (1 + 0.1 * noise(x)))),
    "factor 2 too many": (scaled(2.0), "a factor 2 too many", sine(lambda x, g: 2 * x.cos() * g + 0.1 * noise(x) * g)),
    "factor 2 missing": (scaled(0.5), "a factor 2 is missing", scaled(0.51)),
    "a mean for a sum": (
        one(lambda x: (x**2).sum(1), lambda s, g: 2 * s[0] * g[:, None] / s[0].shape[1]),
        "a mean in place of a sum",
        one(lambda x: (x**2).sum(1), lambda s, g: 2 * s[0] * g[:, None] / 3.7),
    ),
    "n - 1 for n": (
        one(lambda x: x.var(1), lambda s, g: 2 * (s[0] - s[0].mean(1, keepdim=True)) * g[:, None] / s[0].shape[1]),
        "(n - 1)/n",
        one(lambda x: x.var(1), lambda s, g: 2.02 * (s[0] - s[0].mean(1, keepdim=True)) * g[:, None] / s[0].shape[1]),
    ),
    "zero": (sine(lambda x, g: 0 * g), "a gradient is lost", sine(lambda x, g: 1e-3 * noise(x) * g)),
    "transposed": (
        square(lambda a, b: a @ b, lambda s, g: (g @ s[1].mT, (s[0].mT @ g).mT)),
        "numeric transposed",
        square(lambda a, b: a @ b, lambda s, g: (g @ s[1].mT, (s[0].mT @ g).mT + 0.1 * noise(g) * g.sum())),
    ),
    "not transposed": (
        square(lambda a, b: a @ b, lambda s, g: (g @ s[1], s[0].mT @ g)),
        "right for input 1 transposed",
        square(lambda a, b: a @ b, lambda s, g: (g @ (s[1] + 0.1 * noise(s[1])), s[0].mT @ g)),
    ),
    "a kernel that is not flipped": (
        lambda size: (custom(conv, conv_wrong), (numbers(size + 1, size), numbers(3, 3, seed=1))),
        "flipped along axes 0 and 1 (a kernel)",
        lambda size: (
            custom(conv, lambda s, g: (conv(g, s[1].roll(1, 0)), conv_wrong(s, g)[1])),
            (numbers(size + 1, size), numbers(3, 3, seed=1)),
        ),
    ),
    "a scan that is not reversed": (
        one(linear_scan, lambda s, g: g.cumsum(1)),
        "a cumulative sum or a scan that is not reversed",
        one(linear_scan, lambda s, g: g.flip(1).cumsum(1)),
    ),
    "shifted": (
        sine(lambda x, g: (x.cos() * g).roll(1, 1)),
        "an index is off by one",
        sine(lambda x, g: (x.cos() * g).roll(2, 1)),
    ),
    "swapped": (
        square(lambda a, b: a.sin() * b.exp(), lambda s, g: (g * s[0].sin() * s[1].exp(), g * s[0].cos() * s[1].exp())),
        "are swapped",
        square(lambda a, b: a.sin() * b.exp(), lambda s, g: (g * s[0].sin() * s[1].exp(), g * s[0].sin() * s[1].exp())),
    ),
    "conjugate": (
        lambda size: (custom(lambda z, w: z * w, lambda s, g: (g * s[1], g * s[0].conj())), (
            numbers(2 * size, dtype=torch.complex128), numbers(2 * size, dtype=torch.complex128, seed=1))),
        "a conjugate is missing",
        lambda size: (custom(lambda z, w: z * w, lambda s, g: (g * s[1].conj() * 1j, g * s[0].conj())), (
            numbers(2 * size, dtype=torch.complex128), numbers(2 * size, dtype=torch.complex128, seed=1))),
    ),
    "not multiplied by the cotangent": (
        sine(lambda x, g: x.cos()), "not multiplied by it", sine(lambda x, g: x.cos() * g * g.abs()),
    ),
    "only the last row is added up": (
        lambda size: (custom(lambda x, b: x.sin() + b, lambda s, g: (g * s[0].cos(), g[-1])), (
            numbers(size, size + 1), numbers(size + 1, seed=1))),
        "counts only the last index of axis 0",
        lambda size: (custom(lambda x, b: x.sin() + b, lambda s, g: (g * s[0].cos(), g[1])), (
            numbers(size, size + 1), numbers(size + 1, seed=1))),
    ),
    "the output for the input": (
        sine(lambda x, g: x.sin().cos() * g), "the saved output is used for the input",
        sine(lambda x, g: x.sin().cos() * g * 1.01),
    ),
    "the input for the output": (
        one(torch.tanh, lambda s, g: g * (1 - s[0] ** 2)), "is used for the saved output",
        one(torch.tanh, lambda s, g: g * (1 - s[0] ** 3)),
    ),
    "a product's other factor": (
        one(lambda x: x * torch.sigmoid(x), lambda s, g: g * torch.sigmoid(s[0])), "h'",
        one(lambda x: x * torch.sigmoid(x), lambda s, g: g * torch.sigmoid(1.1 * s[0])),
    ),
    "duplicates lost": (
        one(gather, assigned), "an index that occurs more than once",
        one(gather, lambda s, g: torch.zeros_like(s[0]).index_add(0, _index(len(s[0])), g * (1 + noise(g)))),
    ),
    "a factor that is the input": (
        one(lambda x: x**3, lambda s, g: 3 * g * s[0]), "a factor `x` were missing|a factor x were missing",
        one(lambda x: x**3, lambda s, g: 3 * g * s[0].abs().sqrt()),
    ),
    "a norm": (
        one(lambda x: x.norm(dim=1), lambda s, g: g[:, None] * s[0]), "the norm of .* along axis 1",
        one(lambda x: x.norm(dim=1), lambda s, g: g[:, None] * s[0] * (1 + 0.1 * noise(s[0]))),
    ),
    "a term of the softmax": (
        one(softmax, lambda s, g: softmax(s[0]) * g), r"the output·\(a mean or a sum along axis 1\)",
        one(softmax, lambda s, g: softmax(s[0]) * (g - 0.1 * noise(s[0]))),
    ),
    "a sum over the wrong axis": (
        one(softmax, lambda s, g: softmax(s[0]) * (g - (g * softmax(s[0])).sum(0, keepdim=True))),
        "reduction over the wrong one of axes 0 and 1",
        one(softmax, lambda s, g: softmax(s[0]) * (g - (g * softmax(s[0])).sum(0, keepdim=True) * (1 + noise(s[0])))),
    ),
    "a mean": (
        one(lambda x: x - x.mean(0), lambda s, g: g), "the same all along axis 0: as if a mean",
        one(lambda x: x - x.mean(0), lambda s, g: g - g.mean(0) * (1 + noise(g))),
    ),
    "a term of the layer norm": (
        one(normalised, without_projection), r"term .*\(a (mean or a sum|sum or a mean) along axis 1\)",
        one(normalised, lambda s, g: without_projection(s, g) * (1 + 0.1 * noise(g))),
    ),
    "a term of the input": (
        one(lambda x: x.sin().sum() + 0.05 * (x**2).sum(), lambda s, g: g * s[0].cos()), "term 0.1·`?x`? were missing",
        one(lambda x: x.sin().sum() + 0.05 * (x**2).sum(), lambda s, g: g * (s[0].cos() + 0.1 * noise(s[0]))),
    ),
    "a constant": (
        one(lambda x: x.sin().sum(), lambda s, g: g * (s[0].cos() + 0.125)), "a constant is added",
        one(lambda x: x.sin().sum(), lambda s, g: g * (s[0].cos() + 0.125 * noise(s[0]))),
    ),
    "sizes swapped": (
        lambda size: (custom(stretched, lambda s, g: g * torch.tensor([8.0, 4.0])), (
            numbers(4 * size, 2), )),
        "factor for each index of axis 1",
        lambda size: (custom(stretched, lambda s, g: g * (6 + noise(g))), (numbers(4 * size, 2),)),
    ),
    "halves swapped": (
        lambda size: (custom(torch.sin, lambda s, g: (g * s[0].cos()).roll(2, 1)), numbers(3 * size, 4)),
        "the two halves of axis 1 swapped",
        lambda size: (custom(torch.sin, lambda s, g: (g * s[0].cos()).roll(1, 1)), numbers(3 * size, 4)),
    ),
    "a mask of the output that is not applied": (
        one(lambda x: torch.relu((x - 1) @ _square(x)), lambda s, g: g @ _square(s[0]).mT), "set to 0 where the output",
        one(lambda x: torch.relu((x - 1) @ _square(x)), lambda s, g: g @ _square(s[0]).mT * (1 + 0.1 * noise(s[0]))),
    ),
    "only the last step": (
        sine(lambda x, g: with_rows(x.cos() * g, slice(0, -1), 0.0)), r"only index \d+ of \d+ \(the last\)",
        sine(lambda x, g: with_rows(x.cos() * g, slice(0, -2), 0.0)),
    ),
    "the output as a factor": (
        lambda size: (custom(lambda x: x.sin().sum().exp(), lambda s, g: g * s[0].cos()), numbers(size, 2) ),
        "1 / the output: it is not multiplied by it",
        lambda size: (custom(lambda x: x.sin().sum().exp(), lambda s, g: 2.5 * g * s[0].cos()), numbers(size, 2)),
    ),
    "averaged": (
        sine(lambda x, g: (x.cos() * g).mean(1, keepdim=True).expand_as(x)), "analytic is the same all along axis 1",
        sine(lambda x, g: (x.cos() * g).mean(1, keepdim=True) + 0.1 * noise(x)),
    ),
    "weights that are flipped": (
        one(_weighted, lambda s, g: g * _weights(s[0]).flip(0)),
        "flipped along axis 1",
        sine(lambda x, g: g * noise(x)),
    ),
    "low precision inside": (
        sine(lambda x, g: (x.cos() * g).half().double()), "a lower precision inside",
        sine(lambda x, g: x.cos() * g * (1 + 0.2 * noise(x))),
    ),
    "the last row": (
        sine(lambda x, g: with_rows(x.cos() * g, slice(-1, None), 1.7)), r"wrong only at index \d+ of \d+ \(the last\)",
        sine(lambda x, g: with_rows(x.cos() * g, slice(None, None, 2), 1.7)),
    ),
    "the first row": (
        sine(lambda x, g: with_rows(x.cos() * g, slice(0, 1), 1.7)), r"wrong only at index 0 of \d+ \(the first\)",
        sine(lambda x, g: with_rows(x.cos() * g, slice(0, 3, 2), 1.7)),
    ),
    "a tail": (
        sine(lambda x, g: with_rows(x.cos() * g, slice(-2, None), 0.0)), "wrong only at the last 2 of",
        sine(lambda x, g: with_rows(x.cos() * g, slice(-4, None, 3), 0.0)),
    ),
    "beyond a bound": (
        sine(lambda x, g: x.cos() * g * torch.where(x > 1.0, 1.0 + x, 1.0)), "wrong only where .* above a bound",
        sine(lambda x, g: x.cos() * g * torch.where(noise(x) > 0.2, 1.0 + x, 1.0)),
    ),
    "not a number": (
        lambda size: (rooted, torch.arange(-size, 3 * size, dtype=torch.float64).requires_grad_()),
        "NaN for 1 of .* first appears in SqrtBackward0",
        scaled(3.0),
    ),
}  # fmt: skip


@SIZES
@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_is_named_where_it_is_one(name: str, size: int) -> None:
    planted, words, _ = CAUSES[name]
    told = hint(planted(size))
    assert words in told or re.search(words, told), told


@SIZES
@pytest.mark.parametrize("name", CAUSES)
def test_it_is_not_named_where_something_looks_like_it(name: str, size: int) -> None:
    _, words, alike = CAUSES[name]
    told = hint(alike(size))
    assert words not in told
    assert not re.search(words, told), told


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [(7,), (4, 5), (150,), (12, 13), (3, 4, 5)], ids=str)
def test_no_cause_is_named_for_random_errors(shape: tuple[int, ...], seed: int) -> None:
    x = numbers(*shape, seed=seed)
    function = custom(torch.sin, lambda s, g: g * (s[0].cos() + noise(s[0], seed)))
    told = hint((function, x))
    assert told.startswith(NONE), told
    assert f"of {min(math.prod(shape), 99)} " in told or "sampled elements" in told


def test_what_is_known_is_said_where_no_cause_is() -> None:
    function = custom(lambda a, b: a.sin() * b, lambda s, g: (g * s[1] * (s[0].cos() + noise(s[0])), g * s[0].sin()))
    told = hint((function, (numbers(20, 10), numbers(20, 10, seed=1))))
    assert told.startswith(NONE)
    assert "input 1 is right: look where only input 0 passes" in told
    assert "try fewer elements" in told
