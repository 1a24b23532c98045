"""Modes that round write to memory of the run alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

from gradproof.backends.torch.derivative import round_off
from gradproof.backends.torch.memory.allocated import Allocated
from gradproof.backends.torch.regimes.rounding import Rounding, rounded

MODES = [Rounding, lambda: round_off.RandomRounding(2.0**-7, 0)]
THIRD = 1 / 3  # no number of a low precision


def test_what_an_operator_makes_is_allocated_and_what_it_was_given_is_not() -> None:
    allocated, given = Allocated(), torch.ones(3)
    made = given + 1
    allocated.note((given, 1), made)
    allocated.note((given,), given[1:])
    assert allocated.holds(made)
    assert allocated.holds(made[1:])
    assert not allocated.holds(given)


def test_a_view_of_what_was_allocated_is_still_there_when_it_was_given_to_the_next() -> None:
    allocated, made = Allocated(), torch.ones(3)
    allocated.note((), [made])
    allocated.note((made,), made.mul_(2))
    assert allocated.holds(made)


@pytest.mark.parametrize("mode", MODES)
def test_a_tensor_from_outside_keeps_what_is_written_to_it(mode: Callable[[], AbstractContextManager[Any]]) -> None:
    outside = torch.full((4,), THIRD, dtype=torch.float64)
    with mode():
        outside.mul_(1)
        outside[1:].add_(0)
        outside.data.fill_(THIRD)
    assert (outside == THIRD).all()


@pytest.mark.parametrize("mode", MODES)
def test_one_that_the_run_made_is_rounded_in_place(mode: Callable[[], AbstractContextManager[Any]]) -> None:
    with mode():
        inside = torch.ones(4, dtype=torch.float64)
        inside.mul_(THIRD)
        (inside * 1)[1:].add_(0)
    assert (inside != THIRD).all()
    assert torch.equal(inside, rounded(inside))
