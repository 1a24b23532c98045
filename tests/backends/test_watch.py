"""A watch on memory: writes are noticed, in elements and in the gaps between them."""

from __future__ import annotations

import pytest
import torch
from functions import custom, numbers

from gradproof.backends.torch.memory.watch import Watch, fingerprint, hand_written, saved_tensors

KINDS = [torch.float64, torch.float32, torch.bfloat16, torch.complex128, torch.int64, torch.bool]


@pytest.mark.parametrize("size", [5, 5000])
@pytest.mark.parametrize("dtype", KINDS)
def test_a_write_anywhere_is_noticed(dtype: torch.dtype, size: int) -> None:
    tensor, other = torch.zeros(size, dtype=dtype), torch.zeros(size, dtype=dtype)
    watch = Watch([("first", tensor), ("second", other)])
    assert list(watch.changed()) == []
    other[size - 2] = 1
    assert list(watch.changed()) == ["second"]
    other[size - 2] = 0
    assert list(watch.changed()) == []


@pytest.mark.parametrize("size", [5, 5000])
def test_a_write_to_the_gaps_is_noticed(size: int) -> None:
    whole = torch.zeros(2 * size)
    part = whole[::2]
    before = fingerprint(part)
    whole[1] = 1.0
    assert fingerprint(part) != before


def test_what_has_no_dense_memory_is_not_watched() -> None:
    assert fingerprint(torch.empty(0)) == 0
    assert fingerprint(torch.eye(3).to_sparse()) == 0


def test_only_what_custom_functions_saved_is_listed() -> None:
    function = custom(torch.sin, lambda s, g: g * s[0].cos())
    x = numbers(3)
    ((name, tensor),) = saved_tensors(hand_written([function(x.exp()) * x]))
    assert name == "a tensor that Custom saved for backward"
    assert torch.equal(tensor, x.exp())
    assert hand_written([x.sin() * x]) == []
