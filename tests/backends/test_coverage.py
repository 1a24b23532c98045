"""Selection by name, and what is left out, in words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functions import numbers

from gradproof.backends.coverage import left_out, select
from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.modules import ModuleCall

A, B, C = numbers(1), numbers(2), numbers(3)


def weigh(x: Any, weight: Any = None, *, bias: Any = None) -> Any:
    return x, weight, bias


@pytest.mark.parametrize(
    ("wrt", "positions"),
    [
        (["x"], [0]),
        ([1], [1, 2]),
        (["weight"], [1, 2]),
        (["weight[1]"], [2]),
        (["bias", 0], [0, 3]),
        (["*"], [0, 1, 2, 3]),
    ],
)
def test_inputs_are_selected_by_name_pattern_and_number(wrt: list[str | int], positions: list[int]) -> None:
    call = call_of(weigh, (A, (B, C)), {"bias": A})
    assert select(call, wrt).differentiable() == positions
    assert call.differentiable() == [0, 1, 2, 3]


def test_a_name_that_selects_nothing_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"wrt='y' selects nothing; .*: input 0 `x`"):
        select(call_of(weigh, (A,)), ["y"])


def test_what_is_left_out_has_its_reason() -> None:
    call = select(call_of(weigh, (A, B.detach()), {"bias": (C, 3.0, None, torch.arange(2))}), ["x"])
    assert left_out(call) == (
        "input 1 `weight` (requires_grad is False)",
        "input 2 `bias[0]` (not selected by wrt)",
        "input 2 `bias[1]` (float, not differentiable)",
        "input 2 `bias[3]` (int64, not differentiable)",
    )


def test_frozen_parameters_are_left_out_and_buffers_are_not_mentioned() -> None:
    module = torch.nn.BatchNorm1d(2).double()
    module.weight.requires_grad_(False)
    assert left_out(ModuleCall(module, (numbers(3, 2),), {})) == (
        "parameter `weight` (frozen: requires_grad is False)",
    )
