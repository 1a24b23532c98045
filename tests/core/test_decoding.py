"""Ratio decoding: a lone error takes a question for each digit, several are left to halving, nothing is guessed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, Part, findings, investigation, space
from hypothesis import given, settings
from hypothesis import strategies as st

from gradproof import examination
from gradproof.core.decoding import Answer, Decoder, Window
from gradproof.core.investigation import Investigation
from gradproof.core.locate import halve
from gradproof.core.options import Options, Strategy
from gradproof.core.space import Space
from gradproof.core.status import Status
from gradproof.exhibits import measure_exhibits
from gradproof.properties.jacobian import jacobian
from gradproof.properties.property import Property
from gradproof.results.finding import Finding

MILLION = 10**6


class Contributions:
    """A sparse vector of contributions, asked with weights; each answer is off by at most its bar."""

    def __init__(self, size: int, places: dict[int, float], bar: float, seed: int = 0, parts: int = 1) -> None:
        self.size, self.places, self.bar, self.asked = size, places, bar, 0
        self.space: Space = space("output", Part((size // parts,), parts=parts))
        self._draw = np.random.default_rng(seed)
        self.total = sum(places.values()) + self.noise()

    def noise(self) -> float:
        return float(self._draw.uniform(-self.bar, self.bar))

    def ask(self, low: int, weights: Any) -> Answer:
        self.asked += 1
        inside = {place: value for place, value in self.places.items() if low <= place < low + len(weights)}
        exact = sum(weights[place - low] * value for place, value in inside.items())
        return Answer(exact + self.noise(), self.bar)

    def search(self, *likely: int) -> list[int]:
        """Halving with decoding, as a pursuit does it."""
        decode = Decoder(self.ask, self.space.element_of, np.array(likely, dtype=np.intp))

        def residual(low: int, high: int) -> float:
            return self.ask(low, np.ones(high - low)).residual

        def shortcut(low: int, high: int, here: float) -> Window | None:
            return decode(low, high, Answer(here, self.bar))

        return list(halve(self.size, self.total, residual, lambda low, high: 3.0 * self.bar, shortcut))


# one


@pytest.mark.parametrize(("sharpness", "most"), [(1e8, 3), (1e5, 3), (1e4, 3), (1e3, 5), (100.0, 10)])
def test_the_sharper_a_residual_the_fewer_questions_its_place_takes(sharpness: float, most: int) -> None:
    for seed in range(5):
        place = int(np.random.default_rng(seed).integers(MILLION))
        asked = Contributions(MILLION, {place: -0.3}, 0.3 / sharpness, seed)
        assert asked.search() == [place]
        assert asked.asked <= most  # the last question verifies


@pytest.mark.parametrize("parts", [1, 2])
def test_a_likely_place_is_found_by_one_question_and_verified_by_another(parts: int) -> None:
    for seed in range(5):
        likely = np.sort(np.random.default_rng(seed).choice(MILLION, 7, replace=False)).tolist()
        asked = Contributions(MILLION, {likely[3]: 0.2}, 0.2 / 1e3, seed, parts)
        assert asked.search(*likely) == [likely[3]]
        assert asked.asked <= 1 + parts  # an element is halved


@pytest.mark.parametrize("likely", [(), (3, 77, 400_000), tuple(range(5000))])
def test_what_seems_likely_and_is_not_the_place_costs_nothing(likely: tuple[int, ...]) -> None:
    for seed in range(5):
        place = 500_000 + int(np.random.default_rng(seed).integers(MILLION // 2))
        asked = Contributions(MILLION, {place: -0.3}, 0.3 / 1e3, seed)
        assert asked.search(*likely) == [place]
        assert asked.asked <= 5


def test_a_weak_residual_is_left_to_halving() -> None:
    asked = Contributions(4096, {1234: 1.0}, 0.1)
    assert asked.search() == [1234]
    assert asked.asked <= 12


@settings(deadline=None)
@given(
    size=st.integers(1, 5000),
    where=st.floats(0.0, 1.0, exclude_max=True),
    sharpness=st.floats(20.0, 1e9),
    seed=st.integers(0, 2**16),
)
def test_a_lone_place_is_decoded_whatever_the_size_and_the_sharpness(
    size: int, where: float, sharpness: float, seed: int
) -> None:
    place = int(where * size)
    asked = Contributions(size, {place: 2.0}, 2.0 / sharpness, seed)
    assert asked.search() == [place]
    assert asked.asked <= math.ceil(math.log2(size)) + 2 if size > 1 else not asked.asked


# several


@settings(deadline=None)
@given(size=st.integers(10, 3000), count=st.integers(2, 3), seed=st.integers(0, 2**16))
def test_two_or_three_errors_are_all_found(size: int, count: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    places = {int(p): float(draw.normal() + 3 * np.sign(draw.normal())) for p in draw.choice(size, count, False)}
    if abs(sum(places.values())) < 0.1:
        return  # what cancels is not accused
    asked = Contributions(size, places, 1e-7, seed)
    assert sorted(asked.search()) == sorted(places)
    assert asked.asked <= count * (math.ceil(math.log2(size)) + 7)


def test_a_ratio_that_is_a_digit_by_chance_is_not_believed() -> None:
    """Two equal errors whose mean weight is the weight of a third place: that place is asked, and has nothing."""
    asked = Contributions(1024, {512 + 100: 1.0, 512 + 300: 1.0}, 1e-9)
    assert sorted(asked.search()) == [612, 812]


def test_a_block_of_errors_is_narrowed_down_before_it_is_halved() -> None:
    block = {400_000 + k: 1.0 + 0.1 * k for k in range(6)}
    asked = Contributions(MILLION, block, 1e-9)
    assert sorted(asked.search()) == sorted(block)
    assert asked.asked <= 40


def test_a_contribution_that_is_no_number_is_left_to_halving() -> None:
    asked = Contributions(64, {5: math.nan}, 1e-9)
    assert asked.search() == [5]


def test_both_parts_of_a_complex_element_are_one_place() -> None:
    """They nearly cancel: with weights of their own, the ratio would be anything."""
    asked = Contributions(200_000, {77_776: 1.0, 77_777: -0.999}, 1e-9, parts=2)
    assert sorted(asked.search()) == [77_776, 77_777]
    assert asked.asked <= 5


# in a Jacobian


def options(**more: Any) -> Options:
    return Options(strategy=Strategy.PROBES, affordable_columns=0, **more)


def places(case: Investigation, **more: Any) -> set[tuple[int, int]]:
    found: list[Finding] = findings(jacobian(case, options(**more)))
    assert found
    entries = [entry for finding in found for entry in finding.entries if entry.status is Status.WRONG]
    return {(entry.output.coordinate, entry.input.coordinate) for entry in entries}


def stencil_case(size: int, off: dict[tuple[int, int], float], eps: float | None = None) -> Investigation:
    """tanh(x) + x of the neighbour / 2, with these errors in the claims. With eps: all is rounded to that."""
    point = np.random.default_rng(size).uniform(0.5, 1.5, size)
    parts = {} if eps is None else {"inputs": [Part((size,), eps=eps)], "outputs": [Part((size,), eps=eps)]}
    low = np.float64 if eps is None else np.float32

    def function(x: Any) -> Any:
        x = np.asarray(x, dtype=low)
        return (np.tanh(x) + np.roll(x, 1) / 2).astype(np.float64)

    point = point.astype(low).astype(np.float64)

    def vjp(v: Any) -> Any:
        pulled = v / np.cosh(point) ** 2 + np.roll(v, -1) / 2
        for (output, input_), error in off.items():
            pulled[input_] += error * v[output]
        return pulled.astype(low).astype(np.float64)

    return investigation(function, point, vjp=vjp, **parts)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("error", [0.3, -1e-2, 1e-4])
def test_one_wrong_entry_among_many_takes_few_questions(error: float, seed: int) -> None:
    size = 3000 + 997 * seed
    output = int(np.random.default_rng(seed).integers(1, size))
    place = output, output - seed % 2
    case = stencil_case(size, {place: error})
    assert places(case) == {place}
    assert case.cost.evaluations <= 30
    assert case.cost.vjps <= 7


@pytest.mark.parametrize("seed", range(4))
def test_one_wrong_entry_in_single_precision_is_named(seed: int) -> None:
    place = int(np.random.default_rng(seed).integers(4000))
    assert (place, place) in places(stencil_case(4000, {(place, place): 0.5}, SINGLE))


@pytest.mark.parametrize(
    "off",
    [
        {(17, 17): 0.3, (2500, 2500): -0.2},
        {(17, 400): 0.3, (1200, 17): -0.2, (2999, 5): 0.25},
        {(1500, column): 0.1 * (column % 7 + 1) for column in (3, 900)},  # of one row
        {(row, 1500): 0.1 * (row % 7 + 1) for row in (3, 900, 1700)},  # of one column
        {(row, column): 0.2 for row in (800, 801) for column in (40, 41)},  # a block
    ],
)
def test_several_errors_are_all_named(off: dict[tuple[int, int], float]) -> None:
    assert places(stencil_case(3000, off)) == set(off)


@pytest.mark.parametrize("place", [0, 1234, 2999])
def test_a_wrong_complex_entry_is_named(place: int) -> None:
    draw = np.random.default_rng(0)
    z = draw.normal(size=3000) + 1j * draw.normal(size=3000)
    slope = 2 * z
    slope[place] *= 1.1 + 0.2j

    def function(x: Any) -> Any:
        return ((x[0::2] + 1j * x[1::2]) ** 2).view(np.float64)

    def vjp(v: Any) -> Any:
        return (np.conj(slope) * (v[0::2] + 1j * v[1::2])).view(np.float64)

    part = [Part((3000,), parts=2)]
    case = investigation(function, z.view(np.float64), vjp=vjp, inputs=part, outputs=part)
    found = places(case)
    assert {(output // 2, input_ // 2) for output, input_ in found} == {(place, place)}
    assert case.cost.vjps <= 10


def test_an_error_beside_a_kink_is_named_and_the_kink_is_not() -> None:
    point = np.random.default_rng(0).uniform(0.5, 1.5, 3000)
    point[700] = 0.0  # on the kink
    point[701] = 1e-9  # beside it
    slopes = np.sign(point)
    slopes[702] += 0.25
    case = investigation(np.abs, point, vjp=lambda v: slopes * v)
    assert places(case) == {(702, 702)}


def test_a_right_function_with_kinks_is_not_accused() -> None:
    point = np.random.default_rng(0).uniform(0.5, 1.5, 3000)
    point[::100] = 0.0
    slopes = np.sign(point)
    found = findings(jacobian(investigation(np.abs, point, vjp=lambda v: slopes * v), options()))
    assert {finding.status for finding in found} <= {Status.KINK}


def test_the_figures_of_an_entry_reuse_what_was_measured_to_judge_it() -> None:
    case = stencil_case(30_000, {(20_000, 20_000): 0.1})
    (finding,) = findings(jacobian(case, options()))
    (entry,) = finding.entries
    assert entry.analytic - entry.numeric == pytest.approx(0.1, rel=1e-6)
    assert 0 < entry.error < 1e-8
    before = case.cost.evaluations
    (exhibit,) = measure_exhibits(case, [finding])
    assert (len(exhibit.positions), len(exhibit.ladder)) == (9, 4)
    assert case.cost.evaluations - before == 8


@pytest.mark.parametrize(("wrong", "looks"), [(1, []), (4, [False]), (5, [True])])
def test_few_wrong_entries_of_a_search_are_no_solvers_jumps(
    wrong: int, looks: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slightly wrong ones, that is: were it a solver's tolerance, the others would not agree.

    For a lone one, which longer steps see too, no noise is looked for at all.
    """
    asked: list[bool] = []

    def learn_noise(investigation: Investigation, *, slight: bool = False, unless: Callable[[], bool]) -> bool:
        asked.append(slight)
        return False

    monkeypatch.setattr(examination, "learn_noise", learn_noise)
    case = stencil_case(3000, {(k, k): 1e-3 for k in range(0, 600 * wrong, 600)})
    list(examination.examined(case, options(), [("jacobian", Property(jacobian))]))
    assert asked == looks
