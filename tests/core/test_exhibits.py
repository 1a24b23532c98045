"""Pictures of wrong entries: what they show is what the function does, and they cost no more than the check."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, ArrayProblem, Part
from report_samples import X, Y, entry, wrong_jacobian

from gradproof.core.exhibits import draw_exhibits, draw_maps
from gradproof.core.finding import Finding, Spots
from gradproof.core.options import Options, Strategy
from gradproof.core.space import Block, Space
from gradproof.properties.jacobian import jacobian


def cubes(**options: Any) -> ArrayProblem:
    """x -> x**3, whose claimed derivative is half of the right one."""
    point = np.linspace(0.5, 2.0, 6)
    return ArrayProblem(lambda x: x**3, point, np.diag(1.5 * point**2), **options)


def found(problem: ArrayProblem, **options: Any) -> list[Finding]:
    return list(jacobian(problem, Options(strategy=Strategy.ENTRIES, **options)))


def test_a_slice_is_the_function_along_the_coordinate() -> None:
    problem = cubes()
    for exhibit in draw_exhibits(problem, found(problem)):
        assert exhibit.position == problem.point[exhibit.entry.input.coordinate]
        assert exhibit.position in exhibit.positions
        assert list(exhibit.positions) == sorted(exhibit.positions)
        assert exhibit.values == pytest.approx([p**3 for p in exhibit.positions])
        assert exhibit.value == pytest.approx(exhibit.position**3)


def test_the_ladder_leads_to_the_numerical_derivative() -> None:
    problem = cubes()
    (exhibit, *_) = draw_exhibits(problem, found(problem))
    steps = [rung.step for rung in exhibit.ladder]
    assert steps == sorted(steps, reverse=True)
    assert len(steps) == 6
    for rung in exhibit.ladder:
        assert abs(rung.value - 3 * exhibit.position**2) <= rung.error
    assert min(rung.error for rung in exhibit.ladder) < 1e-9


def test_single_precision_has_fewer_rungs() -> None:
    problem = cubes(inputs=[Part((6,), eps=SINGLE)], outputs=[Part((6,), eps=SINGLE)])
    assert len(draw_exhibits(problem, found(problem))[0].ladder) == 3


def test_every_finding_is_shown_before_any_is_shown_twice() -> None:
    problem = cubes(inputs=[Part((3,)), Part((3,))])
    findings = found(problem)
    assert len(findings) == 2
    shown = [exhibit.entry for exhibit in draw_exhibits(problem, findings)]
    assert shown[:2] == [finding.entries[0] for finding in findings]
    assert len(shown) == len(set(shown)) == 6


def test_no_more_evaluations_than_the_check_took() -> None:
    problem = cubes()
    findings = found(problem)
    before = problem.cost.evaluations
    drawn = draw_exhibits(problem, findings)
    assert drawn
    assert 0 < problem.cost.evaluations - before <= max(64, before)


@pytest.mark.parametrize(("left", "expected"), [(0, 0), (35, 1), (70, 2)])
def test_pictures_end_with_the_budget(left: int, expected: int) -> None:
    class Limited(ArrayProblem):
        def _call(self, point: Any) -> Any:
            self.cost.evaluate()
            return np.atleast_1d(np.asarray(self.function(point), dtype=float))

    point = np.linspace(0.5, 2.0, 6)
    problem = Limited(lambda x: x**3, point, np.diag(1.5 * point**2))
    findings = found(problem)
    problem.cost.most_evaluations = problem.cost.evaluations + left
    assert len(draw_exhibits(problem, findings)) == expected


def test_a_function_that_refuses_far_points_leaves_gaps() -> None:
    def narrow(x: Any) -> Any:
        if abs(x[0] - 1.0) > 0.2:
            raise ValueError("too far")
        return x**2

    problem = ArrayProblem(narrow, [1.0], [[1.0]])
    (exhibit,) = draw_exhibits(problem, found(problem))
    assert math.isnan(exhibit.values[0])
    assert math.isnan(exhibit.values[-1])
    assert sum(map(math.isfinite, exhibit.values)) >= 3


def test_nothing_wrong_no_pictures() -> None:
    point = np.linspace(0.5, 2.0, 6)
    problem = ArrayProblem(lambda x: x**3, point, np.diag(3 * point**2))
    findings = found(problem)
    before = problem.cost.evaluations
    assert draw_exhibits(problem, findings) == draw_maps(findings) == ()
    assert problem.cost.evaluations == before


def mapped(output: Block, input_: Block, rows: list[int], columns: list[int], excess: list[float]) -> Any:
    where = dataclasses.replace(
        entry(), output=Space((output,)).place(output.start), input=Space((input_,)).place(input_.start)
    )
    spots = Spots(np.array(rows) + output.start, np.array(columns) + input_.start, np.array(excess))
    return draw_maps([dataclasses.replace(wrong_jacobian(where), spots=spots)])


def cells(drawn: Any) -> list[tuple[int, int, float, int]]:
    return [(cell.row, cell.column, cell.excess, cell.count) for cell in drawn.cells]


def test_a_map_shows_each_entry_over_the_jacobian_and_over_the_input() -> None:
    over_jacobian, over_input = mapped(Y, X, [1, 2, 3], [4, 4, 0], [7.0, 9.0, np.inf])
    assert (over_jacobian.over, over_jacobian.shape) == ("jacobian", (4, 6))
    assert cells(over_jacobian) == [(1, 4, 7.0, 1), (2, 4, 9.0, 1), (3, 0, np.inf, 1)]
    assert (over_input.over, over_input.shape) == ("input", (2, 3))
    assert cells(over_input) == [(0, 0, np.inf, 1), (1, 1, 9.0, 2)]


def test_both_parts_of_a_complex_element_are_one_element_of_the_input() -> None:
    z = Block("input", 2, "z", (2, 2), 2, 10, 2.0**-52)
    _, over_input = mapped(Y, z, [0, 0], [6, 7], [3.0, 4.0])
    assert cells(over_input) == [(1, 1, 4.0, 2)]


def test_large_maps_are_binned_and_lose_no_entry() -> None:
    output, input_ = Block("output", 0, "", (1000,), 1, 0, 1e-16), Block("input", 0, "", (300,), 1, 0, 1e-16)
    rows = np.arange(1000)
    (drawn,) = mapped(output, input_, rows.tolist(), (rows % 300).tolist(), (rows + 1.0).tolist())
    assert (drawn.height, drawn.width) == (16, 5)
    assert sum(cell.count for cell in drawn.cells) == 1000
    assert max(cell.excess for cell in drawn.cells) == 1000.0
    assert all(cell.row < 64 and cell.column < 64 for cell in drawn.cells)


def test_a_scalar_of_a_matrix_is_mapped_over_the_matrix_only() -> None:
    (drawn,) = mapped(Block("output", 0, "", (), 1, 0, 1e-16), X, [0], [5], [2.0])
    assert drawn.over == "input"
