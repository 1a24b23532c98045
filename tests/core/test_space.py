"""Coordinates: their names, their runs, their sizes, and the numbers a dtype can store."""

from __future__ import annotations

import numpy as np
import pytest
from array_problem import BRAIN, DOUBLE, HALF, SINGLE, Part, space
from hypothesis import given
from hypothesis import strategies as st

from gradproof.core.space import Block, Elements, Space

MIXED = space("input", Part((2, 3)), Part((4, 6), parts=2, name="weight"), Part(()), Part((), parts=2, name="z"))


@pytest.mark.parametrize(
    ("coordinate", "name"),
    [
        (0, "input 0, element [0, 0]"),
        (5, "input 0, element [1, 2]"),
        (6, "input 1 `weight`, element [0, 0], real part"),
        (6 + 47, "input 1 `weight`, element [3, 5], imaginary part"),
        (54, "input 2"),
        (55, "input 3 `z`, real part"),
        (56, "input 3 `z`, imaginary part"),
    ],
)
def test_a_coordinate_is_named_by_its_block_element_and_part(coordinate: int, name: str) -> None:
    assert str(MIXED.place(coordinate)) == name


def test_an_output_is_named_an_output() -> None:
    assert str(space("output", Part((2,)), Part((2,))).place(3)) == "output 1, element [1]"


def test_blocks_follow_each_other_and_complex_ones_are_twice_as_long() -> None:
    assert [(block.start, block.stop) for block in MIXED.blocks] == [(0, 6), (6, 54), (54, 55), (55, 57)]
    assert MIXED.size == 57


def test_an_empty_space_has_no_coordinates() -> None:
    assert Space(()).size == 0
    assert list(Space(()).chunks(4)) == []


def test_an_empty_block_owns_no_coordinate() -> None:
    row = space("input", Part((2,)), Part((0, 3)), Part((1,)))
    assert row.size == 3
    assert row.block_at(2).index == 2


def test_eps_and_elements_follow_the_blocks() -> None:
    row = space("input", Part((2,), eps=SINGLE), Part((2,), parts=2))
    assert row.eps.tolist() == [SINGLE] * 2 + [DOUBLE] * 4
    assert row.element_of(np.arange(6)).tolist() == [0, 1, 2, 2, 4, 4]
    assert row.parts_of(np.array([5, 0])).tolist() == [0, 4, 5]
    assert row.coarsest_eps == SINGLE


PARTS = st.lists(
    st.builds(Part, shape=st.lists(st.integers(0, 4), max_size=3).map(tuple), parts=st.sampled_from([1, 2])),
    max_size=4,
)


@given(parts=PARTS, length=st.integers(1, 40))
def test_chunks_partition_the_coordinates_and_never_cut_an_element(parts: list[Part], length: int) -> None:
    row = space("input", *parts)
    chunks = list(row.chunks(length))
    assert [i for chunk in chunks for i in range(chunk.start, chunk.stop)] == list(range(row.size))
    assert all(0 < chunk.stop - chunk.start <= length + 1 for chunk in chunks)
    for chunk in chunks[1:]:
        before, after = row.element_of(np.array([chunk.start - 1, chunk.start]))
        assert before != after


@given(parts=PARTS, seed=st.integers(0, 99))
def test_magnitude_is_the_modulus_of_the_element(parts: list[Part], seed: int) -> None:
    row = space("input", *parts)
    values = np.random.default_rng(seed).normal(size=(2, row.size))
    before = values.copy()
    found = row.magnitude(values)
    for i in range(row.size):
        element = values[:, row.parts_of(np.array([i]))]
        np.testing.assert_allclose(found[:, i], np.sqrt(np.square(element).sum(axis=1)))
    np.testing.assert_array_equal(values, before)


@given(length=st.integers(1, 30))
def test_magnitude_of_chunks_is_the_magnitude_of_the_whole(length: int) -> None:
    values = np.random.default_rng(1).normal(size=MIXED.size)
    pieces = [MIXED.magnitude(values[chunk], chunk) for chunk in MIXED.chunks(length)]
    np.testing.assert_array_equal(np.concatenate(pieces), MIXED.magnitude(values))


@pytest.mark.parametrize(
    ("values", "typical"),
    [
        ([3.0, -4.0], [3.0, 4.0]),
        ([10.0, 0.0], [10.0, 0.1 * np.sqrt(50.0)]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([np.nan, 2.0], [0.1 * np.sqrt(2.0), 2.0]),
        ([-np.inf, 2.0], [0.1 * np.sqrt(2.0), 2.0]),
        ([1e300, 0.0], [1e300, 0.1 * 1e300 / np.sqrt(2.0)]),
        ([1e-300, 0.0], [1e-300, 0.1 * 1e-300 / np.sqrt(2.0)]),
        ([1e300, np.inf], [1e300, 0.1 * 1e300 / np.sqrt(2.0)]),
    ],
)
def test_typical_size_is_not_fooled_by_zeros_and_infinities(values: list[float], typical: list[float]) -> None:
    np.testing.assert_allclose(space("input", Part((2,))).typical(np.array(values)), typical)


def test_typical_size_of_one_block_ignores_the_others() -> None:
    row = space("input", Part((2,)), Part((2,)))
    np.testing.assert_allclose(row.typical(np.array([1e6, 1e6, 1.0, 1.0])), [1e6, 1e6, 1.0, 1.0])


def rounded_to(row: Space, values: np.ndarray) -> np.ndarray:
    points = values.copy()
    row.round_in_place(points)
    return points


def as_bfloat16(values: np.ndarray) -> np.ndarray:
    """Round to nearest even on the upper half of a float32."""
    raw = values.astype(np.float32).view(np.uint32)
    raw = (raw + 0x7FFF + ((raw >> 16) & 1)) & 0xFFFF0000
    return raw.astype(np.uint32).view(np.float32).astype(np.float64)


NORMAL = {
    SINGLE: (2.0**-126, 1e38, lambda x: x.astype(np.float32).astype(np.float64)),
    HALF: (2.0**-14, 6e4, lambda x: x.astype(np.float16).astype(np.float64)),
    BRAIN: (2.0**-126, 2.0**126, lambda x: as_bfloat16(x)),
}


@pytest.mark.parametrize("eps", NORMAL)
@given(data=st.data())
def test_round_agrees_with_a_cast_for_normal_numbers_and_is_idempotent(eps: float, data: st.DataObject) -> None:
    least, largest, cast = NORMAL[eps]
    size = st.floats(least, largest, allow_subnormal=False)
    if eps == BRAIN:  # float32 numbers, so that the reference does not round twice
        size = st.floats(least, largest, allow_subnormal=False, width=32)
    values = np.array(data.draw(st.lists(st.tuples(size, st.sampled_from([-1.0, 1.0])), min_size=1, max_size=8)))
    values = values[:, 0] * values[:, 1]
    row = space("input", Part(values.shape, eps=eps))
    rounded = rounded_to(row, values)
    np.testing.assert_array_equal(rounded, cast(values))
    np.testing.assert_array_equal(rounded_to(row, rounded), rounded)


def test_round_leaves_zeros_infinities_and_nan_alone() -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
    rounded = rounded_to(space("input", Part((5,), eps=SINGLE)), special)
    np.testing.assert_array_equal(rounded, special)
    np.testing.assert_array_equal(np.signbit(rounded), np.signbit(special))


def test_round_touches_only_the_blocks_of_low_precision() -> None:
    row = space("input", Part((1,)), Part((1,), eps=SINGLE), Part((1,)))
    points = np.full((2, 3), 0.1)
    single = float(np.float32(0.1))
    assert rounded_to(row, points).tolist() == [[0.1, single, 0.1]] * 2


@pytest.mark.parametrize("run", [slice(0, 2), slice(1, 4), slice(2, 5), slice(3, 5)], ids=str)
def test_round_of_some_coordinates_is_the_round_of_the_whole(run: slice) -> None:
    row = space("input", Part((2,)), Part((3,), eps=SINGLE))
    values = np.array([0.1, 0.2, 0.3, 0.4, 0.7])
    piece = values[run].copy()
    row.round_in_place(piece, run)
    np.testing.assert_array_equal(piece, rounded_to(row, values)[run])


def test_a_block_of_some_elements_names_them_by_their_place_in_the_shape() -> None:
    elements = Elements(np.array([7, 0, 7]), ("here", "there"), np.array([0, 1, 1]))
    block = Block("input", 0, "s", (2, 4), 2, 10, 2.0**-52, elements)
    assert (block.size, block.stop) == (6, 16)
    both = Space((Block("input", 1, "", (5,), 2, 0, 2.0**-52), block))
    assert str(both.place(11)) == "input 0 `s`, element [1, 3] (here), imaginary part"
    assert str(both.place(12)) == "input 0 `s`, element [0, 0] (there), real part"
    assert both.place(14).element == (1, 3)
    assert [axis.tolist() for axis in block.positions(np.array([10, 13]))] == [[1, 0], [3, 0]]


def test_a_remark_may_be_one_for_all() -> None:
    block = Block("input", 0, "", (3,), 1, 0, 2.0**-52, Elements(np.array([2]), ("specified",)))
    assert Space((block,)).place(0).within == "element [2] (specified)"


@pytest.mark.parametrize("odd", [0.0, 1e-40, 1e39, np.inf])
def test_single_precision_is_rounded_alike_inside_and_outside_of_the_range_of_its_format(odd: float) -> None:
    row = space("input", Part((1001,), eps=SINGLE))
    numbers = np.random.default_rng(0).standard_normal(1000) * 10.0 ** np.random.default_rng(1).uniform(-30, 30, 1000)
    inside, outside = np.append(numbers, 1.0), np.append(numbers, odd)
    row.round_in_place(inside)
    row.round_in_place(outside)
    assert (inside[:-1] == outside[:-1]).all()
    assert (inside == inside.astype(np.float32)).all()
    assert outside[-1] == pytest.approx(odd, rel=2.0**-24)
