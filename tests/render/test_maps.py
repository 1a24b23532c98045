"""Maps of a finding's entries: every entry is in its cell, however many there are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from report_samples import X, Y, entry, report, wrong_jacobian

from gradproof import Finding
from gradproof.core.space import Block, Elements, Space
from gradproof.render.maps import HeatMap, finding_maps, maps_of
from gradproof.results.spots import Spots


def finding(output: Block, input_: Block, rows: Any, columns: Any, excess: Any) -> Finding:
    where = replace(entry(), output=Space((output,)).place(output.start), input=Space((input_,)).place(input_.start))
    given = np.array(rows) + output.start, np.array(columns) + input_.start, np.array(excess, dtype=float)
    return replace(wrong_jacobian(where), spots=Spots.of(output, input_, *given))


def mapped(output: Block, input_: Block, rows: Any, columns: Any, excess: Any) -> list[HeatMap]:
    return list(finding_maps(finding(output, input_, rows, columns, excess)))


def cells(drawn: HeatMap) -> list[tuple[int, int, float, int | None]]:
    return [(cell.row, cell.column, cell.excess, cell.count) for cell in drawn.cells]


def test_a_map_shows_each_entry_over_the_jacobian_and_over_the_input() -> None:
    over_jacobian, over_input = mapped(Y, X, [1, 2, 3], [4, 4, 0], [7.0, 9.0, np.inf])
    assert (over_jacobian.over, over_jacobian.grid.shape) == ("jacobian", (4, 6))
    assert cells(over_jacobian) == [(1, 4, 7.0, 1), (2, 4, 9.0, 1), (3, 0, np.inf, 1)]
    assert (over_input.over, over_input.grid.shape) == ("input", (2, 3))
    assert cells(over_input) == [(0, 0, np.inf, 1), (1, 1, 9.0, 2)]


def test_both_parts_of_a_complex_element_are_one_element_of_the_input() -> None:
    z = Block("input", 2, "z", (2, 2), 2, 10, 2.0**-52)
    _, over_input = mapped(Y, z, [0, 0], [6, 7], [3.0, 4.0])
    assert cells(over_input) == [(1, 1, 4.0, 2)]


def test_elements_of_a_sparse_input_are_where_they_are_in_its_shape() -> None:
    sparse = Block("input", 0, "x", (3, 4), 1, 0, 2.0**-52, Elements(np.array([2, 7, 11])))
    over_jacobian, over_input = mapped(Y, sparse, [0, 0], [1, 2], [3.0, 4.0])
    assert over_jacobian.grid.shape == (4, 3)
    assert cells(over_input) == [(1, 3, 3.0, 1), (2, 3, 4.0, 1)]


def test_large_maps_are_binned_and_lose_no_entry() -> None:
    output, input_ = Block("output", 0, "", (1000,), 1, 0, 1e-16), Block("input", 0, "", (300,), 1, 0, 1e-16)
    rows = np.arange(1000)
    (drawn,) = mapped(output, input_, rows, rows % 300, rows + 1.0)
    assert (drawn.grid.height, drawn.grid.width) == (16, 5)
    assert sum(cell.count or 0 for cell in drawn.cells) == 1000
    assert max(cell.excess for cell in drawn.cells) == 1000.0
    assert all(cell.row < 64 and cell.column < 64 for cell in drawn.cells)


def test_thinned_spots_draw_the_map_of_all_entries() -> None:
    """A finding keeps at most 8192 spots; the maps of 60,000 entries look the same as if it kept them all."""
    output, input_ = Block("output", 0, "", (200,), 1, 0, 1e-16), Block("input", 0, "", (30, 10), 1, 0, 1e-16)
    rows, columns = (a.reshape(-1) for a in np.indices((200, 300)))
    excess = np.random.default_rng(0).uniform(1.0, 100.0, 60_000)
    thinned = finding(output, input_, rows, columns, excess)
    everything = Spots(*(tuple(a.tolist()) for a in (rows, columns, excess)), (1,) * 60_000)
    assert thinned.spots is not None
    assert len(thinned.spots.rows) <= 8192
    over_jacobian, over_input = finding_maps(thinned)
    all_over_jacobian, all_over_input = finding_maps(replace(thinned, spots=everything))
    assert over_jacobian == all_over_jacobian
    assert [cell[:3] for cell in cells(over_input)] == [cell[:3] for cell in cells(all_over_input)]
    assert {cell.count for cell in over_input.cells} == {None}  # a spot may stand for several elements


def test_a_scalar_of_a_matrix_is_mapped_over_the_matrix_only() -> None:
    (drawn,) = mapped(Block("output", 0, "", (), 1, 0, 1e-16), X, [0], [5], [2.0])
    assert drawn.over == "input"


@pytest.mark.parametrize("shape", [(), (6,)], ids=str)
def test_an_input_without_two_axes_is_mapped_over_the_jacobian_only(shape: tuple[int, ...]) -> None:
    (drawn,) = mapped(Y, Block("input", 0, "x", shape, 1, 0, 1e-16), [3], [0], [2.0])
    assert drawn.over == "jacobian"


def test_a_report_has_the_maps_of_all_its_findings() -> None:
    one, other = wrong_jacobian(), wrong_jacobian(entry(0, 7))
    assert maps_of(report(one, other)) == (*finding_maps(one), *finding_maps(other))
    assert [drawn.input.name for drawn in maps_of(report(one, other))] == ["x", "x", "weight"]


def test_what_knows_no_places_has_no_maps() -> None:
    assert maps_of(report()) == maps_of(report(wrong_jacobian(spots=None))) == ()
    assert list(finding_maps(replace(wrong_jacobian(), entries=()))) == []
