"""Who shares memory with whom: parts side by side share nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gradproof.backends.torch.memory.sharing import has_memory, memory_of, share_memory

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


def test_wrappers_and_promised_zeros_have_no_memory_of_their_own() -> None:
    zeros = torch._efficientzerotensor(3)
    assert [has_memory(t) for t in (torch.ones(2), zeros, torch.empty(0), torch.eye(2).to_sparse())] == [
        True,
        False,
        False,
        False,
    ]
    assert memory_of(zeros) == 0
