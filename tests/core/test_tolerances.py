"""How much difference is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_problem import BRAIN, DOUBLE, SINGLE, Part, investigation

from gradproof.core.options import Options
from gradproof.core.stencil import Stencil
from gradproof.core.tolerances import Tolerances

FIRST = np.array([0])
TILE = slice(0, 1), slice(0, 1)


def tolerances_of(
    eps: float = DOUBLE, step: float | None = None, *, output_eps: float | None = None, **options: Any
) -> Tolerances:
    case = investigation(lambda x: x, 1.0, inputs=[Part((1,), eps=eps)], outputs=[Part((1,), eps=output_eps or eps)])
    return Tolerances(Stencil(case, step), Options(**options))


def test_tolerances_given_are_used_as_they_are() -> None:
    tolerances = tolerances_of(atol=1e-5, rtol=1e-3)
    assert tolerances.atol(FIRST, FIRST).tolist() == [[1e-5]]
    assert tolerances.rtol.tolist() == [1e-3]


def test_default_tolerances_follow_the_dtype() -> None:
    rtol = [float(tolerances_of(eps).rtol[0]) for eps in (DOUBLE, SINGLE, BRAIN)]
    assert rtol == sorted(rtol)
    assert rtol[0] < 1e-6 < 1e-5 < rtol[1] < 1e-3 < 1e-2 < rtol[2] < 0.5


def test_a_tolerance_below_the_precision_is_lifted_to_it_unless_it_is_zero() -> None:
    assert tolerances_of(BRAIN, rtol=1e-6).rtol[0] >= BRAIN
    assert tolerances_of(BRAIN, rtol=0.0).rtol[0] == 0.0


def test_an_output_of_low_precision_widens_its_rows() -> None:
    low, high = tolerances_of(output_eps=BRAIN, rtol=1e-6), tolerances_of(rtol=1e-6)
    assert low.row_rtol[0] >= BRAIN
    assert high.row_rtol[0] == 0.0
    size = np.array([2.0])
    assert low.of(size, FIRST, FIRST)[0] >= 2.0 * BRAIN > high.of(size, FIRST, FIRST)[0]


def test_with_a_fixed_step_nothing_is_lifted_or_excused() -> None:
    tolerances = tolerances_of(BRAIN, step=0.1, atol=0.0, rtol=1e-6)
    assert tolerances.rtol.tolist() == [1e-6]
    assert tolerances.unresolvable.tolist() == [0.0]


def test_what_is_negligible_next_to_a_large_entry_is_excused_only_by_default() -> None:
    default, given = tolerances_of(), tolerances_of(atol=0.0)
    for tolerances in (default, given):
        tolerances.learn_numeric(np.array([[1.0, -100.0, np.nan]]), *TILE)
        assert tolerances.largest.tolist() == [[100.0]]
    assert 0 < default.least_atol <= 1e-6 * 100
    assert given.least_atol == 0.0


def test_smaller_entries_that_come_later_take_nothing_back() -> None:
    tolerances = tolerances_of()
    tolerances.learn_numeric(np.array([[100.0]]), *TILE)
    before = tolerances.least_atol
    tolerances.learn_numeric(np.array([[1.0]]), *TILE)
    assert (tolerances.largest.tolist(), tolerances.least_atol) == ([[100.0]], before)


def test_error_bars_are_measured_by_the_largest_claim_where_no_tolerance_is_given() -> None:
    default, given = tolerances_of(), tolerances_of(atol=0.0)
    for tolerances, flat in ((default, 256.0 * default.floor(FIRST, FIRST)[0, 0]), (given, 0.0)):
        assert tolerances.widest_bar(FIRST, FIRST).tolist() == [flat]  # of a function of which nothing is claimed
        tolerances.learn_analytic(np.array([[1.0, -10.0, np.inf]]), *TILE)
    assert default.widest_bar(FIRST, FIRST).tolist() == [2.0]
    assert given.widest_bar(FIRST, FIRST).tolist() == [0.0]


def test_the_largest_entry_must_be_known_where_tolerances_or_the_certificate_depend_on_it() -> None:
    given = {"atol": 1e-5, "rtol": 1e-3}
    assert tolerances_of(certify=False).needs_largest
    assert tolerances_of(certify=True, **given).needs_largest
    assert tolerances_of(SINGLE, certify=False, **given).needs_largest
    assert not tolerances_of(certify=False, **given).needs_largest


def test_sharpness_asks_for_less_than_the_tolerance() -> None:
    tolerances = tolerances_of(atol=1e-5, rtol=1e-3)
    wanted = tolerances.sharpness(FIRST)(np.array([[2.0]]))[0, 0]
    assert 0 < wanted < 1e-5 + 1e-3 * 2.0
