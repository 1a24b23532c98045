"""An attribute that is computed when it is first asked for."""

from __future__ import annotations

import pytest

from gradproof.core.lazy import lazy


class Slow:
    """Counts how often its answer is computed."""

    computed = 0

    @lazy
    def answer(self) -> int:
        """The answer."""
        self.computed += 1
        if self.computed == 2:
            raise ValueError("not twice")
        return 42


def test_it_is_computed_once_and_then_kept() -> None:
    slow = Slow()
    assert (slow.answer, slow.answer, slow.computed) == (42, 42, 1)
    assert Slow().answer == 42


def test_it_can_be_replaced_and_forgotten() -> None:
    slow = Slow()
    vars(slow)["answer"] = 7
    assert slow.answer == 7
    del vars(slow)["answer"]
    assert slow.answer == 42
    del vars(slow)["answer"]
    with pytest.raises(ValueError, match="not twice"):
        _ = slow.answer
    assert slow.answer == 42  # what raised was not kept


def test_of_the_class_it_is_the_attribute_itself() -> None:
    assert isinstance(Slow.answer, lazy)
    assert Slow.answer.__doc__ == "The answer."
