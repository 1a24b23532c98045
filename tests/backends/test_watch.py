"""A watch on memory: writes are noticed, in elements and in the gaps between them; parts side by side share nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functions import custom, numbers

from gradproof.backends.torch.watch import Watch, fingerprint, saved_tensors, share_memory

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
    ((name, tensor),) = saved_tensors([function(x.exp()) * x])
    assert name == "a tensor that Custom saved for backward"
    assert torch.equal(tensor, x.exp())
    assert saved_tensors([x.sin() * x]) == []


WHOLE = torch.zeros(8, dtype=torch.float64)


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (WHOLE[:4], WHOLE[4:], False),
        (WHOLE[::2], WHOLE[1::2], False),
        (WHOLE[:4], WHOLE[3:], True),
        (WHOLE, WHOLE.view(2, 4), True),
        (WHOLE, WHOLE.clone(), False),
        (WHOLE, WHOLE, False),
        (torch.view_as_complex(WHOLE.view(4, 2)), WHOLE[:1], True),
        (torch.view_as_complex(WHOLE.view(4, 2)).conj(), WHOLE, True),
        (torch.empty(0), torch.empty(0), False),
    ],
)
def test_elements_in_common_are_what_counts(first: Any, second: Any, shared: bool) -> None:
    assert share_memory(first, second) is shared
    assert share_memory(second, first) is shared
