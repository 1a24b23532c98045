"""The sizes of pairs of an output and an input."""

from __future__ import annotations

import numpy as np

from gradproof.core.scales import PairScales, of_blocks
from gradproof.core.space import vector_space

OUTPUTS, INPUTS = vector_space("output", 2, 1), vector_space("input", 1, 0, 2)
VALUES = np.array([[1.0, -20.0, np.nan], [3.0, np.inf, 4.0], [0.0, 0.5, -0.25]])
ALL = slice(0, 3)


def test_the_largest_finite_entry_of_each_pair_is_learnt() -> None:
    scales = PairScales(OUTPUTS, INPUTS)
    scales.learn(VALUES, ALL, ALL)
    assert scales.largest.tolist() == [[3.0, 0.0, 20.0], [0.0, 0.0, 0.5]]


def test_tiles_and_single_entries_say_the_same() -> None:
    by_tile, by_entry, whole = (PairScales(OUTPUTS, INPUTS) for _ in range(3))
    whole.learn(VALUES, ALL, ALL)
    for row in range(3):
        by_tile.learn(VALUES[row : row + 1, 1:], slice(row, row + 1), slice(1, 3))
    by_tile.learn(VALUES[:, :1], ALL, slice(0, 1))
    rows, columns = (index.ravel() for index in np.indices((3, 3)))
    by_entry.learn_entries(VALUES.ravel(), rows, columns)
    assert by_tile.largest.tolist() == by_entry.largest.tolist() == whole.largest.tolist()


def test_a_table_of_pairs_is_looked_up_by_coordinates() -> None:
    scales = PairScales(OUTPUTS, INPUTS)
    scales.learn(VALUES, ALL, ALL)
    assert scales.spread(scales.largest, slice(1, 3), ALL).tolist() == [[3.0, 20.0, 20.0], [0.0, 0.5, 0.5]]
    assert scales.pick(scales.largest, np.array([0, 2]), np.array([2, 1])).tolist() == [20.0, 0.5]


def test_one_number_for_all_pairs_stays_one() -> None:
    scales = PairScales(OUTPUTS, INPUTS)
    assert scales.spread(np.full((1, 1), 7.0), ALL, ALL).tolist() == [[7.0]]
    assert scales.pick(np.full((1, 1), 7.0), np.array([0]), np.array([0])).tolist() == [7.0]


def test_the_largest_of_each_block() -> None:
    assert of_blocks(INPUTS, np.array([1.0, 2.0, 3.0])).tolist() == [1.0, 0.0, 3.0]
