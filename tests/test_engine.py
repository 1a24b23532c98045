"""What is asked of arrays that have no elements: whoever was asked before, and what is wrong beside them is found."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any, NamedTuple

import pytest
import torch
from functions import custom

from gradproof import engine
from gradproof.torch import GradcheckError, gradcheck


class Shaped(NamedTuple):
    """A right function, the shape of its input, and its gradient."""

    name: str
    shape: tuple[int, ...]
    forward: Callable[..., Any]
    backward: Callable[..., Any]


ALL_EMPTY = Shaped("all empty", (0, 3), torch.sin, lambda x, g: g * x.cos())
NO_INPUT = Shaped("no input", (0, 3), lambda x: x.sum(0), lambda x, g: g.expand_as(x))
NO_OUTPUT = Shaped("no output", (3,), lambda x: x[:0].clone(), lambda x, g: torch.zeros_like(x))
FULL = Shaped("full", (3,), torch.sin, lambda x, g: g * x.cos())
OF_FORM_ALONE = 2
"""The vjps of `metadata` and `undefined`, which empty arrays are asked about."""


def names(cases: tuple[Shaped, ...]) -> str:
    return ", ".join(case.name for case in cases) or "none"


@pytest.fixture(autouse=True)
def nothing_was_asked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_askable_of", {})


def vjps(case: Shaped, **options: Any) -> int:
    """How many a check takes, which passes."""
    asked: list[int] = []

    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        asked.append(1)
        return case.backward(saved[0], g)

    x = torch.full(case.shape, 0.5, dtype=torch.float64, requires_grad=True)
    assert gradcheck(custom(case.forward, backward), x, **options)
    return len(asked)


@pytest.mark.parametrize("order", list(permutations([ALL_EMPTY, NO_INPUT, NO_OUTPUT, FULL])), ids=names)
@pytest.mark.parametrize("fast_mode", [False, True])
def test_arrays_without_elements_are_asked_about_their_form_alone(order: tuple[Shaped, ...], fast_mode: bool) -> None:
    """In whatever order: what can be asked of one Problem is remembered for others like it."""
    found = {case: vjps(case, fast_mode=fast_mode) for case in order}
    assert found.pop(ALL_EMPTY) == OF_FORM_ALONE
    assert min(found.values()) > OF_FORM_ALONE


@pytest.mark.parametrize(("option", "further"), [("check_grad_dtypes", 0), ("check_batched_grad", 1)])
def test_and_about_dtypes_and_batches_where_these_are_wanted(option: str, further: int) -> None:
    assert vjps(ALL_EMPTY, **{option: True}) == OF_FORM_ALONE + further


def halves(saved: Any, g: torch.Tensor) -> torch.Tensor:
    """Writes to the cotangent."""
    return g.mul_(0.5).expand_as(saved[0])


def ones(saved: Any, g: torch.Tensor) -> torch.Tensor:
    """No gradient of empty outputs."""
    return torch.ones_like(saved[0])


def random(saved: Any, g: torch.Tensor) -> torch.Tensor:
    return torch.rand_like(saved[0])


@pytest.mark.parametrize("before", [(), (ALL_EMPTY,), (FULL,)], ids=names)
@pytest.mark.parametrize(
    ("case", "backward", "expected"),
    [
        (NO_INPUT, halves, "mutation"),
        (NO_OUTPUT, ones, "linearity"),
        (NO_OUTPUT, random, "determinism"),
    ],
)
def test_where_only_inputs_or_only_outputs_are_empty_all_is_asked(
    case: Shaped, backward: Callable[..., Any], expected: str, before: tuple[Shaped, ...]
) -> None:
    for other in before:
        vjps(other)
    x = torch.full(case.shape, 0.5, dtype=torch.float64, requires_grad=True)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(custom(case.forward, backward), x)
    assert expected in {finding.property for finding in caught.value.findings}
