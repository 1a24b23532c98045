"""What comparisons were able to see."""

from __future__ import annotations

import pytest

from gradproof.core.seen import Seen

WEAK, EXACT = Seen((1e-3, 1e-9), 1e-12), Seen((1e-6, 1e-5), 0.0)


def test_two_comparisons_saw_what_both_saw() -> None:
    assert WEAK & EXACT == EXACT & WEAK == Seen((1e-3, 1e-5), 1e-12)


def test_comparisons_of_other_inputs_cannot_be_put_together() -> None:
    with pytest.raises(ValueError, match="zip"):
        WEAK & Seen((1.0,), 0.0)
