"""The state of Python's generator, read in two ways that say the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gradproof.backends.torch.python_random import ByMemory, ByRequest, python, reader

READERS = [ByMemory, ByRequest]


@pytest.mark.parametrize("make", READERS)
@pytest.mark.parametrize("steps", [0, 1, 623, 624, 700])
def test_a_generator_is_rewound_to_the_same_numbers(make: Any, steps: int) -> None:
    generator = random.Random(1)
    for _ in range(steps):
        generator.random()
    state_reader = make(generator)
    state, whole = state_reader.snapshot(), generator.getstate()
    numbers = [generator.random() for _ in range(1000)]
    assert state_reader.snapshot() != state
    state_reader.rewind(state)
    assert generator.getstate() == whole
    assert state_reader.snapshot() == state
    assert [generator.random() for _ in range(1000)] == numbers


@pytest.mark.parametrize("make", READERS)
def test_a_gaussian_kept_for_later_is_part_of_the_state(make: Any) -> None:
    generator = random.Random(1)
    empty = make(generator).snapshot()
    generator.gauss(0, 1)
    kept = make(generator).snapshot()
    assert kept != empty
    following = generator.gauss(0, 1)
    make(generator).rewind(kept)
    assert generator.gauss(0, 1) == following


def test_the_cheap_reader_is_used_where_memory_says_what_the_generator_says() -> None:
    assert isinstance(reader(random.Random(3)), ByMemory)
    assert isinstance(python, ByMemory | ByRequest)


def test_a_generator_of_another_kind_is_asked_itself() -> None:
    class Own(random.Random):
        pass

    assert isinstance(reader(Own(3)), ByRequest)


def test_the_global_generator_is_the_one_that_is_read() -> None:
    before = python.snapshot()
    first = random.random()
    assert python.snapshot() != before
    python.rewind(before)
    assert random.random() == first
