"""Where the entries of a finding are: exact while they are few, and thinned without losing the worst of any region."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradproof.core.space import Block, Elements
from gradproof.results.spots import Grid, Spots, element_grid, jacobian_grid, table_places

MOST = 8192


def block(kind: str, shape: tuple[int, ...], parts: int = 1, start: int = 0, elements: Any = None) -> Block:
    return Block(kind, 0, "", shape, parts, start, 2.0**-52, elements)


def random_spots(output: Block, input_: Block, count: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """So many entries at different places, with their excess."""
    rng = np.random.default_rng(seed)
    numbers = rng.choice(output.size * input_.size, count, replace=False)
    rows, columns = np.divmod(numbers, input_.size)
    return rows + output.start, columns + input_.start, rng.uniform(1.0, 100.0, count)


def test_what_left_the_range_of_numbers_is_infinite() -> None:
    x, rows = block("input", (3,)), np.arange(3)
    spots = Spots.of(x, x, rows, rows, np.array([2.0, np.finfo(float).max, np.inf]))
    assert spots.excess == (2.0, np.inf, np.inf)


def worst_by(cells: Any, excess: Any) -> dict[int, float]:
    worst: dict[int, float] = {}
    for cell, size in zip(np.asarray(cells).tolist(), np.asarray(excess).tolist(), strict=True):
        worst[cell] = max(worst.get(cell, 0.0), size)
    return worst


def counts_by(cells: Any, counts: Any) -> dict[int, int]:
    found: dict[int, int] = {}
    for cell, count in zip(np.asarray(cells).tolist(), np.asarray(counts).tolist(), strict=True):
        found[cell] = found.get(cell, 0) + count
    return found


def test_few_entries_are_kept_as_they_are() -> None:
    output, input_ = block("output", (4,), start=10), block("input", (2, 3), start=20)
    spots = Spots.of(output, input_, np.array([11, 13]), np.array([25, 20]), np.array([2.5, np.inf]))
    assert spots == Spots((1, 3), (5, 0), (2.5, np.inf), (1, 1))
    assert all(type(number) is int for number in (*spots.rows, *spots.columns, *spots.counts))


def test_no_entries_make_no_spots() -> None:
    nothing = np.array([], dtype=np.intp)
    assert Spots.of(block("output", (4,)), block("input", (2,)), nothing, nothing, np.array([])) == Spots(*[()] * 4)


@pytest.mark.parametrize(("count", "exact"), [(MOST, True), (MOST + 1, False)])
def test_up_to_the_limit_nothing_is_left_out(count: int, exact: bool) -> None:
    output, input_ = block("output", (300,)), block("input", (20, 20))
    rows, columns, excess = random_spots(output, input_, count)
    spots = Spots.of(output, input_, rows, columns, excess)
    assert (set(spots.counts) == {1} and spots.rows == tuple(rows.tolist())) is exact


SHAPES = {
    "square": ((500,), (500,), 1),
    "tall": ((20_000,), (3,), 1),
    "wide": ((3,), (20_000,), 1),
    "one row": ((), (200, 300), 1),
    "one column": ((40_000,), (), 1),
    "images": ((10, 10), (3, 30, 30), 1),
    "complex": ((100,), (50, 40), 2),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("start", [0, 7])
def test_thinned_spots_count_every_entry_and_keep_the_worst_of_each_region(name: str, start: int) -> None:
    shape, input_shape, parts = SHAPES[name]
    output, input_ = block("output", shape, start=2 * start), block("input", input_shape, parts, start)
    given = random_spots(output, input_, 20_000)
    rows, columns, excess = given[0] - output.start, given[1] - start, given[2]
    spots = Spots.of(output, input_, *given)
    kept_rows, kept_columns = np.array(spots.rows), np.array(spots.columns)

    assert len(spots.rows) <= MOST
    assert sum(spots.counts) == 20_000
    assert min(spots.counts) >= 1
    entries = dict(zip(zip(rows.tolist(), columns.tolist(), strict=True), excess.tolist(), strict=True))
    assert [entries[place] for place in zip(spots.rows, spots.columns, strict=True)] == list(spots.excess)

    regions = jacobian_grid(output, input_).cells(rows, columns)
    kept_regions = jacobian_grid(output, input_).cells(kept_rows, kept_columns)
    assert worst_by(kept_regions, spots.excess) == worst_by(regions, excess)
    assert counts_by(kept_regions, spots.counts) == counts_by(regions, np.ones_like(regions))

    elements = element_grid(input_).cells(*table_places(input_, columns))
    kept_elements = element_grid(input_).cells(*table_places(input_, kept_columns))
    assert worst_by(kept_elements, spots.excess) == worst_by(elements, excess)


def test_where_all_are_equally_wrong_every_region_has_a_spot() -> None:
    output, input_ = block("output", (100,)), block("input", (10, 30))
    rows, columns = (a.reshape(-1) for a in np.indices((100, 300)))
    spots = Spots.of(output, input_, rows, columns, np.full(30_000, np.inf))
    grid = jacobian_grid(output, input_)
    assert set(grid.cells(np.array(spots.rows), np.array(spots.columns)).tolist()) == set(
        range(grid.down * grid.across)
    )
    assert set(spots.columns) == set(range(300))
    assert sum(spots.counts) == 30_000


def test_the_same_entries_give_the_same_spots() -> None:
    output, input_ = block("output", (500,)), block("input", (500,))
    given = random_spots(output, input_, 20_000)
    assert Spots.of(output, input_, *given) == Spots.of(output, input_, *given)


@pytest.mark.parametrize("shape", [(1, 1), (64, 65), (1000, 300), (1, 10**6), (127, 128)], ids=str)
def test_a_grid_covers_its_table_with_few_cells(shape: tuple[int, int]) -> None:
    grid = Grid(shape)
    assert grid.down <= 64
    assert grid.across <= 64
    assert (grid.down - 1) * grid.height < shape[0] <= grid.down * grid.height
    assert (grid.across - 1) * grid.width < shape[1] <= grid.across * grid.width
    corner = grid.cells(np.array([shape[0] - 1]), np.array([shape[1] - 1]))
    assert corner.tolist() == [grid.down * grid.across - 1]


def test_the_table_of_a_block_has_the_last_axis_as_columns() -> None:
    z = block("input", (2, 3, 4), parts=2, start=5)
    assert element_grid(z).shape == (6, 4)
    rows, columns = table_places(z, np.array([0, 1, 2, 47]))
    assert (rows.tolist(), columns.tolist()) == ([0, 0, 0, 5], [0, 0, 1, 3])


def test_a_block_of_some_elements_knows_where_they_are() -> None:
    sparse = block("input", (3, 4), elements=Elements(np.array([2, 7, 11])))
    rows, columns = table_places(sparse, np.array([0, 1, 2]))
    assert (rows.tolist(), columns.tolist()) == ([0, 1, 2], [2, 3, 3])


def test_a_number_has_a_table_too() -> None:
    number = block("input", ())
    assert element_grid(number).shape == (1, 1)
    assert [a.tolist() for a in table_places(number, np.array([0]))] == [[0], [0]]
