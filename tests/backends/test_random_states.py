"""The random states of Python and NumPy are put back as they were."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gradproof.backends.random_states import HostGenerators

DRAWS: dict[str, Callable[[], Any]] = {
    "python": random.random,
    "python gaussian": lambda: random.gauss(0, 1),
    "numpy": np.random.random,
    "numpy gaussian": np.random.normal,
    "python seeded": lambda: random.seed(3),
    "numpy seeded": lambda: np.random.seed(3),
}


def states() -> tuple[Any, str]:
    return random.getstate(), repr(np.random.get_state(legacy=False))


@pytest.fixture(autouse=True)
def own_states() -> Iterator[None]:
    """So that no test here changes what others draw, nor sees what others drew."""
    before = random.getstate(), np.random.get_state()
    random.seed(12345)  # another state than those that the draws seed
    np.random.seed(12345)
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])


@pytest.mark.parametrize("steps", [0, 1, 623, 624, 700])
@pytest.mark.parametrize("name", DRAWS)
def test_generators_are_rewound_to_the_same_numbers(name: str, steps: int) -> None:
    for _ in range(steps):
        random.random(), np.random.random()
    before, generators = states(), HostGenerators()
    assert list(generators.drawn_from()) == []
    assert states() == before
    DRAWS[name]()
    (rewind,) = generators.drawn_from()
    rewind()
    assert states() == before
    DRAWS[name]()
    generators.rewind()
    assert states() == before


@pytest.mark.parametrize("name", ["python gaussian", "numpy gaussian"])
def test_a_gaussian_kept_for_later_is_part_of_the_state(name: str) -> None:
    DRAWS[name]()
    before, generators = states(), HostGenerators()
    following = DRAWS[name]()  # which is that one
    assert len(list(generators.drawn_from())) == 1
    generators.rewind()
    assert states() == before
    assert DRAWS[name]() == following


def test_another_bit_generator_of_numpy_is_rewound() -> None:
    original = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(3))
        before, generators = states(), HostGenerators()
        np.random.random()
        generators.rewind()
        assert states() == before
    finally:
        np.random.set_bit_generator(original)


def test_a_remembered_state_is_not_taken_for_another() -> None:
    for seed in (1, 2, 1):
        np.random.seed(seed)
        before, generators = states(), HostGenerators()
        np.random.random()
        generators.rewind()
        assert states() == before
