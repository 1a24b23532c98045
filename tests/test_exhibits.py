"""Pictures of wrong entries: what they show is what the function does, and they cost little."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, Part, findings, investigation

from gradproof import exhibits
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options, Strategy
from gradproof.exhibits import measure_exhibits
from gradproof.properties.jacobian import jacobian
from gradproof.results.finding import Finding


def cubes(**options: Any) -> Investigation:
    """x -> x**3, whose claimed derivative is half of the right one."""
    point = np.linspace(0.5, 2.0, 6)
    return investigation(lambda x: x**3, point, np.diag(1.5 * point**2), **options)


def found(case: Investigation, **options: Any) -> list[Finding]:
    return findings(jacobian(case, Options(strategy=Strategy.ENTRIES, **options)))


def test_a_slice_is_the_function_along_the_coordinate() -> None:
    case = cubes()
    for exhibit in measure_exhibits(case, found(case)):
        assert exhibit.position == case.problem.point[exhibit.entry.input.coordinate]
        assert exhibit.position in exhibit.positions
        assert list(exhibit.positions) == sorted(exhibit.positions)
        assert exhibit.values == pytest.approx([p**3 for p in exhibit.positions])
        assert exhibit.value == pytest.approx(exhibit.position**3)


def test_the_ladder_leads_to_the_numerical_derivative() -> None:
    case = cubes()
    (exhibit, *_) = measure_exhibits(case, found(case))
    steps = [rung.step for rung in exhibit.ladder]
    assert steps == sorted(steps, reverse=True)
    assert len(steps) == 4  # of a brief ladder
    for rung in exhibit.ladder:
        assert abs(rung.value - 3 * exhibit.position**2) <= rung.error
    assert min(rung.error for rung in exhibit.ladder) < 1e-9


def test_single_precision_has_fewer_rungs() -> None:
    case = cubes(inputs=[Part((6,), eps=SINGLE)], outputs=[Part((6,), eps=SINGLE)])
    assert len(measure_exhibits(case, found(case))[0].ladder) == 3


def test_every_finding_is_shown_before_any_is_shown_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhibits, "_FURTHER", 200)  # room for all of them
    case = cubes(inputs=[Part((3,)), Part((3,))])
    wrong = found(case)
    assert len(wrong) == 2
    shown = [exhibit.entry for exhibit in measure_exhibits(case, wrong)]
    assert shown[:2] == [finding.entries[0] for finding in wrong]
    assert len(shown) == len(set(shown)) == 6


def test_all_pictures_together_take_few_evaluations() -> None:
    case = cubes()
    wrong = found(case)
    before = case.cost.evaluations
    drawn = measure_exhibits(case, wrong)
    assert drawn
    assert 0 < case.cost.evaluations - before <= 20


@pytest.mark.parametrize(("left", "expected"), [(0, 0), (17, 0), (18, 1), (36, 2), (72, 4)])
def test_pictures_end_with_the_budget(left: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhibits, "_FURTHER", 200)  # the budget ends first; each takes 18
    case = cubes()
    wrong = found(case)
    case.cost.most_evaluations = case.cost.evaluations + left
    assert len(measure_exhibits(case, wrong)) == expected


def test_a_function_that_refuses_far_points_leaves_gaps() -> None:
    def narrow(x: Any) -> Any:
        if abs(x[0] - 1.0) > 0.2:
            raise ValueError("too far")
        return x**2

    case = investigation(narrow, [1.0], [[1.0]])
    (exhibit,) = measure_exhibits(case, found(case))
    assert math.isnan(exhibit.values[0])
    assert math.isnan(exhibit.values[-1])
    assert sum(map(math.isfinite, exhibit.values)) >= 3


def test_nothing_wrong_no_pictures() -> None:
    point = np.linspace(0.5, 2.0, 6)
    case = investigation(lambda x: x**3, point, np.diag(3 * point**2))
    wrong = found(case)
    before = case.cost.evaluations
    assert measure_exhibits(case, wrong) == ()
    assert case.cost.evaluations == before
