"""How much difference is allowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from array_problem import BRAIN, DOUBLE, SINGLE, Part, investigation

from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.precision import UNSEEN_SHARE, WIDEST_BAR
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


def test_nothing_is_negligible_beside_more_than_a_certificate_knows_of() -> None:
    tolerances = tolerances_of()
    tolerances.bound([2.0])
    tolerances.learn_numeric(np.array([[1.0, -1e6]]), *TILE)  # a step that reached over a jump
    plain = tolerances_of()
    plain.learn_numeric(np.array([[2.0]]), *TILE)
    assert tolerances.least_atol == plain.least_atol


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


def noisy(function: Callable[[Any], Any] = lambda x: x, noise: float = 1e-4, **options: Any) -> Tolerances:
    """Of a function of one number, of which that noise is known."""
    made = investigation(function, 1.0).problem
    return Tolerances(Stencil(Investigation(replace(made, noise=np.array([noise])))), Options(**options))


def test_next_to_noise_an_error_hides_in_bars_that_are_as_wide_as_a_function_bends() -> None:
    straight, bent = (noisy(function, 1e-6).blurred(0)[0] for function in (np.sin, lambda x: np.sin(1e4 * x)))
    assert bent > 10.0 * straight


@pytest.mark.parametrize(("factor", "is_told"), [(0.9, False), (1.1, True)])
@pytest.mark.parametrize(
    ("options", "share"), [({}, 2.0 * WIDEST_BAR), ({"atol": 0.0}, UNSEEN_SHARE)], ids=["default", "given"]
)
def test_noise_clouds_a_pair_if_it_hides_much_of_what_is_claimed(
    options: dict[str, float], share: float, factor: float, is_told: bool
) -> None:
    tolerances = noisy(**options)
    hidden = float(tolerances.blurred(0)[0])
    tolerances.learn_analytic(np.array([[hidden / (factor * share)]]), *TILE)
    assert tolerances.clouds(0, 0) == pytest.approx(hidden if is_told else 0.0, rel=1e-3)


@pytest.mark.parametrize(("factor", "is_told"), [(0.9, False), (1.1, True)])
@pytest.mark.parametrize("given", ["atol", "rtol"])
def test_and_more_than_was_asked_for(given: str, factor: float, is_told: bool) -> None:
    """Four times that; what the relative tolerance excuses hides, too."""
    hidden = float(noisy().blurred(0)[0])
    size = 0.5 * hidden
    asked = hidden / (4.0 * factor) if given == "atol" else hidden / size / (3.0 * factor)
    tolerances = noisy(**{"atol": 0.0, "rtol": 0.0, given: asked})
    tolerances.learn_analytic(np.array([[size]]), *TILE)
    assert (tolerances.clouds(0, 0) > 0.0) == is_told


def test_where_nothing_is_claimed_noise_hides_nothing_of_it() -> None:
    assert noisy().clouds(0, 0) == 0.0
