"""The one judge: measures again, confirms, excuses kinks, whoever brought the suspects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_problem import Part, investigation

from gradproof.core import suspects as suspects_module
from gradproof.core.entries import every_entry
from gradproof.core.investigation import Investigation
from gradproof.core.ladder import Estimate
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.special import subgradients
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.suspects import Judge, Judged, Suspects, rank
from gradproof.core.tolerances import Tolerances

NAN, INF = np.nan, np.inf
TORCH = Options(atol=1e-5, rtol=1e-3)
Entries = list[tuple[int, int, float]]


def judged(case: Investigation, entries: Entries, options: Options = TORCH) -> Judged:
    """What the judge says of entries that a search led to."""
    stencil = Stencil(case, options.step)
    judge = Judge(stencil, Tolerances(stencil, options))
    return judge.judge(Mode.REVERSE, Suspects.accused(entries), located=True)


def statuses(found: Judged) -> dict[tuple[int, int], Status]:
    places = zip(found.suspects.rows.tolist(), found.suspects.columns.tolist(), strict=True)
    return {place: list(Status)[status] for place, status in zip(places, found.status, strict=True)}


# what a difference means


@pytest.mark.parametrize(
    ("difference", "error", "tolerance", "status"),
    [
        (0.0, 0.0, 0.0, Status.RIGHT),
        (1.0, 0.0, 1.0, Status.RIGHT),
        (1.0, 0.1, 0.95, Status.RIGHT),
        (1.0, 0.1, 0.5, Status.WRONG),
        (1.0, 0.0, 0.999, Status.WRONG),
        (0.0, 2.0, 1.0, Status.INCONCLUSIVE),
        (2.9, 2.0, 1.0, Status.INCONCLUSIVE),
        (3.1, 2.0, 1.0, Status.WRONG),
        (0.0, INF, 1.0, Status.INCONCLUSIVE),
        (NAN, 0.0, 1.0, Status.WRONG),
        (NAN, INF, 1.0, Status.WRONG),
        (INF, 0.0, 1.0, Status.WRONG),
    ],
)
def test_an_entry_is_judged_by_tolerance_and_error_bar(
    difference: float, error: float, tolerance: float, status: Status
) -> None:
    ranks = rank(np.array([difference]), np.array([error]), np.array([tolerance]))
    assert list(Status)[ranks[0]] is status


@pytest.mark.parametrize(
    "values", [(NAN, 0.0, 1.0), (0.0, NAN, 1.0), (0.0, 0.0, NAN), (NAN, NAN, NAN), (NAN, 0.0, INF)]
)
def test_a_nan_anywhere_is_never_right(values: tuple[float, float, float]) -> None:
    difference, error, tolerance = (np.array([value]) for value in values)
    assert rank(difference, error, tolerance)[0] != Status.RIGHT.rank


def test_a_bar_that_is_small_next_to_the_largest_entry_is_conclusive() -> None:
    narrow, wide = (rank(np.zeros(1), np.full(1, 2.0), np.ones(1), widest_bar=bar)[0] for bar in (1.9, 2.0))
    assert (narrow, wide) == (Status.INCONCLUSIVE.rank, Status.RIGHT.rank)


# suspects


def test_entries_that_a_search_led_to_are_the_worst_until_they_are_measured() -> None:
    accused = Suspects.accused([(3, 1, 0.5), (0, 2, -1.0)])
    assert (accused.rows.tolist(), accused.columns.tolist(), accused.analytic.tolist()) == ([3, 0], [1, 2], [0.5, -1.0])
    assert np.isnan(accused.numeric).all()
    assert np.isinf(accused.excess).all()


def test_suspects_are_joined_and_taken_with_all_that_is_known_of_them() -> None:
    both = Suspects.join([Suspects.accused([(0, 1, 0.5)]), Suspects.accused([(2, 3, 1.5), (4, 5, 2.5)])])
    assert len(both) == 3
    taken = both.take(np.array([2, 0]))
    assert (taken.rows.tolist(), taken.columns.tolist(), taken.analytic.tolist()) == ([4, 0], [5, 1], [2.5, 0.5])


# wherever suspects come from


def complex_case(off: complex) -> tuple[Investigation, Any]:
    """z² of one complex number whose imaginary part is tiny; the derivative along it is off by so many |2z|."""
    z = complex(3.0, 4e-6)

    def function(x: Any) -> Any:
        square = complex(*x) ** 2
        return [square.real, square.imag]

    d, error = 2 * z, off * abs(2 * z)
    claimed = np.array([[d.real + error.real, -d.imag + error.imag], [d.imag, d.real]])
    part = Part((), parts=2)
    return investigation(function, [z.real, z.imag], claimed, inputs=[part], outputs=[part]), claimed


def real_case(off: dict[tuple[int, int], float]) -> tuple[Investigation, Any]:
    """Two sines and |x| of a point on its kink."""
    point = np.array([0.5, 1.0, 0.0])
    claimed = np.diag([np.cos(0.5), np.cos(1.0), 0.5])
    for where, error in off.items():
        claimed[where] += error
    return investigation(lambda x: np.array([np.sin(x[0]), np.sin(x[1]), abs(x[2])]), point, claimed), claimed


RELATIVE = Options(atol=0.0, rtol=1e-3)
CASES: dict[str, tuple[Callable[[], tuple[Investigation, Any]], Options, set[tuple[int, int]]]] = {
    "complex, all right": (lambda: complex_case(0.0), RELATIVE, set()),
    "complex, the tiny part off within the modulus": (lambda: complex_case(0.5e-3j), RELATIVE, set()),
    "complex, the tiny part off beyond it": (lambda: complex_case(2e-3j), RELATIVE, {(0, 0), (0, 1)}),
    "complex, two parts off, only together too far": (
        lambda: complex_case(0.8e-3 + 0.8e-3j),
        RELATIVE,
        {(0, 0), (0, 1)},
    ),
    "real, all right": (lambda: real_case({}), TORCH, set()),
    "real, one wrong": (lambda: real_case({(0, 0): 0.1}), TORCH, {(0, 0)}),
    "real, not a number": (lambda: real_case({(1, 1): NAN}), TORCH, {(1, 1)}),
    "real, no subgradient": (lambda: real_case({(2, 2): 1.0}), TORCH, {(2, 2)}),
    "real, off the diagonal": (lambda: real_case({(2, 0): 0.1, (0, 1): -0.1}), TORCH, {(2, 0), (0, 1)}),
}


@pytest.mark.parametrize("name", CASES)
def test_located_suspects_are_judged_as_screened_ones_are(name: str) -> None:
    make, options, wrong = CASES[name]
    case, claimed = make()
    everything = [(i, j, float(claimed[i, j])) for i in range(len(claimed)) for j in range(claimed.shape[1])]
    located = statuses(judged(case, everything, options))
    assert {place for place, status in located.items() if status is Status.WRONG} == wrong
    screened = [statuses(found) for found in every_entry(make()[0], options, (Mode.REVERSE,)).judged]
    for place, status in (screened[0] if screened else {}).items():
        assert located.pop(place) is status
    assert set(located.values()) <= {Status.RIGHT}


def test_a_search_may_lead_to_one_part_of_a_complex_entry_only() -> None:
    """The size of the whole number counts, though nothing is known of the claim for its other part."""
    for off, status in ((0.5e-3j, Status.RIGHT), (2e-3j, Status.WRONG)):
        case, claimed = complex_case(off)
        assert statuses(judged(case, [(0, 1, claimed[0, 1])], RELATIVE)) == {(0, 1): status}


def test_whether_a_search_came_upon_them_is_kept() -> None:
    case, claimed = real_case({(0, 0): 0.1})
    assert judged(case, [(0, 0, claimed[0, 0])]).located
    (screened,) = every_entry(case, TORCH, (Mode.REVERSE,)).judged
    assert not screened.located


# measuring


def squares(size: int) -> Investigation:
    return investigation(lambda x: x**2, np.linspace(0.5, 1.5, size), vjp=lambda v: v)


def claims(case: Investigation, off: dict[int, float]) -> Entries:
    return [(i, i, float(2.0 * x + off.get(i, 0.0))) for i, x in enumerate(case.problem.point)]


def test_a_suspect_is_measured_and_carries_what_was_found() -> None:
    case = squares(3)
    found = judged(case, [(1, 1, 2.5)])
    assert found.suspects.numeric[0] == pytest.approx(2.0, abs=1e-8)
    assert found.suspects.tolerance[0] == pytest.approx(1e-5 + 1e-3 * 2.0)
    assert 0 < found.error[0] < 1e-8
    assert found.suspects.excess[0] == pytest.approx(0.5 / found.suspects.tolerance[0], rel=1e-4)


def test_all_suspects_are_measured_as_long_as_nothing_is_wrong() -> None:
    case = squares(40)
    found = judged(case, claims(case, {}))
    assert set(statuses(found).values()) == {Status.RIGHT}
    assert (found.error > 0).all()


def test_once_something_is_wrong_sixteen_are_enough() -> None:
    case = squares(40)
    found = judged(case, claims(case, dict.fromkeys(range(40), 1.0)))
    assert set(statuses(found).values()) == {Status.WRONG}
    assert np.flatnonzero(found.error > 0).tolist() == list(range(16))


def test_something_wrong_in_the_second_sixteen_ends_the_search_there() -> None:
    case = squares(40)
    found = judged(case, claims(case, {20: 1.0}))
    assert np.flatnonzero(found.error > 0).tolist() == list(range(32))
    assert [list(Status)[status] for status in found.status[:32]] == [
        Status.WRONG if i == 20 else Status.RIGHT for i in range(32)
    ]


def test_the_worst_are_measured_first() -> None:
    case = squares(40)
    accused = Suspects.accused(claims(case, dict.fromkeys(range(40), 1.0)))
    accused.excess[:] = np.arange(40.0) + 2.0
    stencil = Stencil(case)
    found = Judge(stencil, Tolerances(stencil, TORCH)).judge(Mode.REVERSE, accused)
    assert np.flatnonzero(found.error > 0).tolist() == list(range(24, 40))


def test_too_many_suspects_leave_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspects_module, "_MOST", 3)
    case = squares(10)
    accused = Suspects.accused(claims(case, dict.fromkeys(range(10), 1.0)))
    accused.excess[:] = [2.0, 9.0, 3.0, 4.0, 8.0, 5.0, 6.0, 7.0, 2.0, 2.0]
    stencil = Stencil(case)
    found = Judge(stencil, Tolerances(stencil, TORCH)).judge(Mode.REVERSE, accused)
    assert sorted(found.suspects.columns.tolist()) == [1, 4, 7]


def test_with_a_fixed_step_the_first_sight_stands() -> None:
    case = squares(3)
    before = case.cost.evaluations
    accused = Suspects.accused(claims(case, {}))
    accused.excess[:] = [0.5, 1.0, 1.5]
    stencil = Stencil(case, 1e-3)
    found = Judge(stencil, Tolerances(stencil, Options(step=1e-3))).judge(Mode.REVERSE, accused)
    assert found.status.tolist() == [Status.RIGHT.rank, Status.RIGHT.rank, Status.WRONG.rank]
    assert case.cost.evaluations == before


class OfTwoMinds(Stencil):
    """Measures 2 with the usual steps, and `other` with longer or shorter ones, both sharply."""

    other = 2.0
    asked: list[float]

    def measure(
        self, columns: Any, tolerance: Any, outputs: Any = None, stretch: float = 1.0, *, brief: bool = False
    ) -> Estimate:
        self.asked.append(stretch)
        value = 2.0 if stretch == 1.0 else self.other
        shape = len(columns), len(outputs)
        return Estimate(np.full(shape, value), np.full(shape, 1e-9), 0)


@pytest.mark.parametrize(
    ("claim", "other", "status", "ladders"),
    [
        (2.0, 5.0, Status.RIGHT, 1),  # what agrees need not be confirmed
        (3.0, 2.0, Status.WRONG, 2),
        (3.0, 3.0, Status.INCONCLUSIVE, 2),  # one ladder says so, the other does not
    ],
)
def test_what_looks_wrong_is_confirmed_with_other_steps(
    claim: float, other: float, status: Status, ladders: int
) -> None:
    stencil = OfTwoMinds(investigation(lambda x: 2.0 * x, 1.0, [[claim]]))
    stencil.other, stencil.asked = other, []
    found = Judge(stencil, Tolerances(stencil, TORCH)).judge(Mode.REVERSE, Suspects.accused([(0, 0, claim)]))
    assert list(statuses(found).values()) == [status]
    assert len(stencil.asked) == ladders


# kinks


KINKS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "abs": (np.abs, -1.0, 1.0),
    "relu": (lambda x: np.maximum(x, 0.0), 0.0, 1.0),
    "leaky": (lambda x: np.where(x > 0, 3.0 * x, 0.25 * x), 0.25, 3.0),
}


@pytest.mark.parametrize("name", KINKS)
@pytest.mark.parametrize("part", [0.0, 0.25, 0.6, 1.0])
def test_a_claim_between_the_sides_of_a_kink_is_a_subgradient(name: str, part: float) -> None:
    function, left, right = KINKS[name]
    found = judged(investigation(function, 0.0, vjp=lambda v: v), [(0, 0, left + part * (right - left))])
    assert statuses(found) == {(0, 0): Status.KINK}
    assert found.sides[0] == pytest.approx((left, right), abs=1e-6)


@pytest.mark.parametrize("name", KINKS)
@pytest.mark.parametrize("part", [-0.01, 1.01, NAN])
def test_a_claim_beyond_the_sides_of_a_kink_is_wrong(name: str, part: float) -> None:
    function, left, right = KINKS[name]
    found = judged(investigation(function, 0.0, vjp=lambda v: v), [(0, 0, left + part * (right - left))])
    assert statuses(found) == {(0, 0): Status.WRONG}
    assert found.sides[0] == pytest.approx((left, right), abs=1e-6)


@pytest.mark.parametrize(("claim", "status"), [(1.0, Status.KINK), (0.0, Status.WRONG), (3.0, Status.WRONG)])
def test_at_a_jump_the_slope_of_the_sides_is_what_may_be_claimed(claim: float, status: Status) -> None:
    case = investigation(lambda x: np.where(x > 0, x + 1.0, x), 0.0, vjp=lambda v: v)
    found = judged(case, [(0, 0, claim)])
    assert statuses(found) == {(0, 0): status}
    assert found.sides[0] == pytest.approx((1.0, 1.0), abs=1e-6)


def test_an_ordinary_entry_beside_a_kink_is_not_excused() -> None:
    case = investigation(lambda x: np.array([abs(x[0]), 2.0 * x[0]]), 0.0, vjp=lambda v: v[:1])
    found = judged(case, [(0, 0, 0.3), (1, 0, 0.3)])
    assert statuses(found) == {(0, 0): Status.KINK, (1, 0): Status.WRONG}
    assert list(found.sides) == [0]


def estimate(value: float, error: float = 1e-6) -> Estimate:
    return Estimate(np.array([value]), np.array([error]), 0)


@pytest.mark.parametrize(
    ("analytic", "left", "right", "central", "expected"),
    [
        (0.5, estimate(0.0), estimate(1.0), 0.5, (True, True)),
        (1.5, estimate(0.0), estimate(1.0), 0.5, (True, False)),
        (0.5, estimate(1.0), estimate(0.0), 0.5, (True, True)),  # whichever side is steeper
        (1.0, estimate(1.0), estimate(1.0), 1.0, (False, False)),
        (1.0, estimate(1.0), estimate(1.0), 1e6, (True, True)),  # a jump
        (2.0, estimate(1.0), estimate(1.0), 1e6, (True, False)),
        (0.5, estimate(0.0, 0.4), estimate(1.0, 0.4), 0.5, (False, False)),  # the bars are as wide as the difference
        (0.5, estimate(0.0, INF), estimate(1.0), 0.5, (False, False)),
        (NAN, estimate(0.0), estimate(1.0), 0.5, (True, False)),
    ],
)
def test_a_kink_is_where_the_sides_differ_beyond_their_bars(
    analytic: float, left: Estimate, right: Estimate, central: float, expected: tuple[bool, bool]
) -> None:
    special, valid = subgradients(np.array([analytic]), left, right, np.array([central]), np.array([1e-5]))
    assert (bool(special[0]), bool(valid[0])) == expected


@pytest.mark.parametrize(
    ("said", "bar", "evaluations"),
    [
        (-0.5, 1e-6, 10),  # a brief ladder, and no other
        (-0.4, 1e-6, 28),  # it says something else
        (-0.5, 1.0, 28),  # it says nothing
        (0.0, 0.0, 28),
    ],
)
def test_a_witness_spares_the_second_ladder_only_if_it_confirms_the_first(
    said: float, bar: float, evaluations: int
) -> None:
    case = squares(3)
    before = case.cost.evaluations
    stencil = Stencil(case)
    found = Judge(stencil, Tolerances(stencil, TORCH)).judge(
        Mode.REVERSE,
        Suspects.accused([(1, 1, 2.5)]),
        located=True,
        witness=lambda rows, columns: (np.full(len(rows), said), np.full(len(rows), bar)),
    )
    assert statuses(found) == {(1, 1): Status.WRONG}
    assert found.suspects.numeric[0] == pytest.approx(2.0, abs=1e-8)
    assert case.cost.evaluations - before == evaluations  # a look for kinks costs nothing more


def test_a_right_entry_stays_right_whatever_a_witness_says() -> None:
    case = squares(3)
    stencil = Stencil(case)
    found = Judge(stencil, Tolerances(stencil, TORCH)).judge(
        Mode.REVERSE, Suspects.accused([(1, 1, 2.0)]), witness=lambda rows, columns: (np.ones(1), np.zeros(1))
    )
    assert statuses(found) == {(1, 1): Status.RIGHT}
