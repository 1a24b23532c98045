"""Functions in double precision throughout, whatever they cast, make or read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from functions import custom, numbers

from gradproof.backends.torch.derivative.widening import Widening, wide

WEIGHT = torch.linspace(0.5, 1.5, 9).reshape(3, 3)

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a weight of its own": lambda x: WEIGHT @ x,
    "in a list": lambda x: torch.cat([x, WEIGHT[0]]),
    "method cast": lambda x: x.float().half().bfloat16() / 3,
    "cast by dtype": lambda x: x.to(torch.float32) / 3,
    "dtype of a sum": lambda x: x.sum(dtype=torch.float32) / 3,
    "made": lambda x: torch.zeros(3) + x,
    "written to": lambda x: torch.zeros(3).copy_(x) / 3,
    "two results": lambda x: WEIGHT.max(dim=0).values * x,
    "hand-written": lambda x: custom(lambda x: WEIGHT @ x, lambda s, g: WEIGHT.T @ g)(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_operator_computes_in_double_precision(name: str) -> None:
    with Widening() as mode:
        value = FUNCTIONS[name](numbers(3))
    assert mode.coarsest > 0
    assert value.dtype is torch.float64
    assert value.shape == () or not torch.equal(value.float().double(), value) or name in ("in a list", "made")


def test_a_function_of_double_precision_is_left_alone() -> None:
    x = numbers(3)
    with Widening() as mode:
        value = (x.sin() @ x[:, None], torch.zeros(3, dtype=torch.float64), x.long())
    assert mode.coarsest == 0
    assert [part.dtype for part in value] == [torch.float64, torch.float64, torch.int64]


def test_autocast_does_not_reach_operators() -> None:
    x = numbers(4, 4)
    with Widening() as mode, torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x.float() @ x.float()).dtype is torch.float64
    assert mode.coarsest > 0


def test_one_copy_stands_in_for_a_tensor_and_the_tensor_is_not_written_to() -> None:
    state = torch.zeros(3)
    with Widening():
        state.add_(1)
        assert (state + 0).tolist() == [1, 1, 1]
    assert state.tolist() == [0, 0, 0]
    assert state.dtype is torch.float32


def test_the_wide_dtype_of_integers_is_not_asked_for() -> None:
    assert wide(torch.complex64) is torch.complex128
