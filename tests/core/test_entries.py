"""Every entry of the Jacobian, numeric against analytic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from array_problem import DOUBLE, SINGLE, Part, investigation

from gradproof.core.entries import every_entry, seen_of
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey
from gradproof.core.suspects import Judged, Suspects
from gradproof.core.tolerances import Tolerances

TORCH = {"atol": 1e-5, "rtol": 1e-3}
WRONG, RIGHT, INCONCLUSIVE = Status.WRONG.rank, Status.RIGHT.rank, Status.INCONCLUSIVE.rank


def compare(case: Investigation, *modes: Mode, **options: Any) -> list[Judged]:
    return every_entry(case, Options(**{**TORCH, **options}), modes or (Mode.REVERSE,)).judged


def guilty(judged: Judged) -> list[tuple[int, int]]:
    at = np.flatnonzero(judged.status == WRONG)
    return sorted(zip(judged.suspects.rows[at].tolist(), judged.suspects.columns[at].tolist(), strict=True))


def linear(shape: tuple[int, int], errors: dict[tuple[int, int], float], **options: Any) -> Investigation:
    """x -> A x, whose claimed Jacobian is wrong by `errors`."""
    matrix = np.random.default_rng(0).uniform(0.5, 1.5, shape)
    claimed = matrix.copy()
    for where, error in errors.items():
        claimed[where] += error
    return investigation(lambda x: matrix @ x, np.linspace(0.5, 2, shape[1]), claimed, **options)


@pytest.mark.parametrize("mode", Mode)
def test_a_right_jacobian_leaves_nobody_guilty(mode: Mode) -> None:
    assert all(not guilty(found) for found in compare(linear((5, 7), {}), mode))


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    "errors",
    [{(0, 0): 0.1}, {(4, 6): -0.01}, {(2, 3): np.nan}, {(2, 3): np.inf}, {(0, 6): 1.0, (1, 5): 1.0, (4, 0): 9.0}],
)
def test_exactly_the_wrong_entries_are_found(errors: dict[tuple[int, int], float], mode: Mode) -> None:
    (found,) = compare(linear((5, 7), errors), mode)
    assert found.mode is mode
    assert guilty(found) == sorted(errors)


@pytest.mark.parametrize("error", [1e-9, 1e-6, 1e-4])
def test_a_difference_within_tolerance_is_right(error: float) -> None:
    assert all(not guilty(found) for found in compare(linear((3, 3), {(1, 1): error}), rtol=1e-3))


@pytest.mark.parametrize("error", [1e-8, 1e-6, 1e-4])
def test_a_small_difference_is_wrong_under_a_strict_tolerance(error: float) -> None:
    (found,) = compare(linear((3, 3), {(1, 1): error}), atol=1e-10, rtol=1e-9)
    assert guilty(found) == [(1, 1)]


def test_both_modes_are_compared_and_only_the_wrong_one_is_guilty() -> None:
    matrix = np.arange(1.0, 7.0).reshape(2, 3)
    case = investigation(lambda x: matrix @ x, np.ones(3), matrix, jvp=lambda u: 2 * matrix @ u)
    found = {judged.mode: guilty(judged) for judged in compare(case, *Mode)}
    assert found.get(Mode.REVERSE, []) == []
    assert len(found[Mode.FORWARD]) == 6


def test_the_suspects_carry_both_values_and_what_was_allowed() -> None:
    (found,) = compare(linear((3, 4), {(2, 1): 0.25}))
    k = np.flatnonzero(found.status == WRONG)[0]
    assert found.suspects.analytic[k] - found.suspects.numeric[k] == pytest.approx(0.25, abs=1e-8)
    numeric = found.suspects.numeric[k]
    assert found.suspects.tolerance[k] == pytest.approx(1e-5 + 1e-3 * numeric, rel=1e-6)
    assert 0 < found.error[k] < 1e-6


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("memory", [1, 500, 4000])
def test_panels_give_what_one_panel_gives(memory: int, mode: Mode) -> None:
    errors = {(0, 0): 0.1, (17, 5): 0.2, (39, 8): 0.3}
    (whole,) = compare(linear((40, 9), errors), mode)
    (pieces,) = compare(linear((40, 9), errors), mode, memory=memory)
    assert guilty(pieces) == guilty(whole) == sorted(errors)
    by_place = [
        {
            (row, column): (numeric, analytic)
            for row, column, numeric, analytic in zip(
                found.suspects.rows,
                found.suspects.columns,
                found.suspects.numeric,
                found.suspects.analytic,
                strict=True,
            )
        }
        for found in (whole, pieces)
    ]
    assert by_place[0] == by_place[1]


def panels(case: Investigation, **options: Any) -> list[int]:
    """How many outputs' Jacobians are held at a time."""
    ask, heights = case.jacobian_rows, []

    def recorded(which: slice, length: int) -> Any:
        heights.append(which.stop - which.start)
        return ask(which, length)

    case.jacobian_rows = recorded  # type: ignore[method-assign]
    assert all(not guilty(found) for found in compare(case, **options))
    return heights


@pytest.mark.parametrize("memory", [1, 20_000, 50_000])
@pytest.mark.parametrize("tolerances", [{}, {"certify": False}, {"atol": None, "certify": False}], ids=str)
def test_panels_fit_into_memory_with_the_tiles_that_are_kept_beside_them(memory: int, tolerances: Any) -> None:
    inputs, outputs = 20, 400
    heights = panels(linear((outputs, inputs), {}), memory=memory, **tolerances)
    assert sum(heights) == outputs
    keeps_tiles = tolerances != {"certify": False}
    held = max(heights) * inputs * 8 * (2 if keeps_tiles else 1)
    assert held <= max(memory, inputs * 8 * 2)
    assert memory == 1 or held >= memory / 2  # no smaller than need be


def test_what_fits_into_memory_is_one_panel() -> None:
    assert panels(linear((400, 20), {})) == [400]


@pytest.mark.parametrize("memory", [1, 512 * 2**20])
def test_without_tolerances_given_panels_agree_on_dust(memory: int) -> None:
    """The largest entry sets the default atol, whichever panel it is in."""
    sizes = np.array([1e-9, 1.0, 1e-9, 1e4])
    claimed = np.diag(sizes * np.array([1.5, 1.0, 1.5, 1.0]))  # dust next to 1e4 may differ
    case = investigation(lambda x: sizes * x, np.ones(4), claimed)
    assert all(not guilty(found) for found in compare(case, atol=None, rtol=None, memory=memory))


def test_more_columns_than_a_batch_holds_are_all_counted() -> None:
    errors = {(i, i): 1.0 for i in range(150)}
    (found,) = compare(linear((150, 150), errors))
    assert guilty(found) == sorted(errors)


def complex_square(scale: float) -> Investigation:
    """z² of one complex number, whose claimed derivative has its imaginary part off by `scale`·|2z|."""
    z = complex(3.0, 4e-6)

    def function(x: Any) -> Any:
        square = complex(*x) ** 2
        return [square.real, square.imag]

    d = 2 * z
    off = scale * abs(d)
    jacobian = [[d.real, -d.imag + off], [d.imag, d.real]]
    part = Part((), parts=2)
    return investigation(function, [z.real, z.imag], jacobian, inputs=[part], outputs=[part])


def test_a_complex_entry_is_compared_by_its_modulus() -> None:
    """One part is tiny next to the other: its own size would forgive nothing."""
    within = compare(complex_square(5e-4), atol=0.0)
    assert all(not guilty(found) for found in within)
    (beyond,) = compare(complex_square(2e-3), atol=0.0)
    assert (0, 1) in guilty(beyond)
    assert {row for row, _ in guilty(beyond)} == {0}


@pytest.mark.parametrize("where", ["numeric", "analytic", "both"])
def test_nan_never_passes(where: str) -> None:
    def function(x: Any) -> Any:
        return x if where == "analytic" or x[0] == 0.5 else np.full(1, np.nan)

    claimed = 1.0 if where == "numeric" else np.nan
    (found,) = compare(investigation(function, 0.5, [[claimed]]))
    assert guilty(found) == [(0, 0)]


def test_an_output_that_is_nan_at_the_point_itself_does_not_pass() -> None:
    (found,) = compare(investigation(lambda x: np.array([x[0], np.nan]), 0.5, [[1.0], [0.0]]))
    assert [*zip(found.suspects.rows.tolist(), found.suspects.columns.tolist(), strict=True)] == [(1, 0)]
    assert found.status.tolist() == [Status.INCONCLUSIVE.rank]


def test_an_output_too_noisy_to_see_is_inconclusive() -> None:
    """Single precision next to an offset of 1e6 resolves a slope of 1 to about ten per cent of its step."""

    def function(x: Any) -> Any:
        return np.float32(np.float32(x) + np.float32(1e6)).astype(float)

    single = [Part((1,), eps=SINGLE)]
    case = investigation(function, np.float32(0.3), [[1.0]], inputs=single, outputs=single)
    found = compare(case, atol=0.0, rtol=1e-6)
    assert not any(guilty(judged) for judged in found)


def test_a_fixed_step_is_taken_at_its_word() -> None:
    """|x| at 1e-3 with a step of 0.1 has slope 0.01, and that is what the claim is compared with."""
    case = investigation(np.abs, 1e-3, [[1.0]])
    assert not any(guilty(found) for found in compare(case))
    (found,) = compare(investigation(np.abs, 1e-3, [[1.0]]), step=0.1)
    assert guilty(found) == [(0, 0)]
    assert found.suspects.numeric[0] == pytest.approx(0.01)


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0)])
def test_nothing_to_compare_is_no_comparison(sizes: tuple[int, int]) -> None:
    outputs, inputs = sizes
    case = investigation(lambda x: np.zeros(outputs), np.ones(inputs), np.zeros((outputs, inputs)))
    assert compare(case) == []


def test_a_lone_output_costs_one_vjp() -> None:
    case = investigation(lambda x: (x**2).sum(), np.arange(1.0, 51.0), 2 * np.arange(1.0, 51.0))
    assert compare(case) == []
    assert case.cost.vjps == 1


def test_a_right_jacobian_costs_two_evaluations_per_coordinate() -> None:
    case = linear((5, 20), {})
    before = case.cost.evaluations
    compare(case)
    assert case.cost.evaluations - before == 2 * 20 + 4  # and four that tell whether there are kinks
    assert case.problem.inputs.blocks[0].eps == DOUBLE


# elements far smaller than their neighbours


def spoiled(power: float, point: list[float], factor: float) -> list[Any]:
    x = np.array(point)
    slopes = power * np.sign(x) * np.abs(x) ** (power - 1)
    slopes[0] *= factor
    case = investigation(lambda x: np.abs(x) ** power, x, np.diag(slopes))
    return every_entry(case, Options(), (Mode.REVERSE,)).judged


@pytest.mark.parametrize(("power", "small"), [(1.5, 1e-9), (0.5, 1e-12), (-2.0, 1e-12), (1.0, 1e-200)])
def test_an_element_far_smaller_than_the_others_gets_steps_of_its_own_size(power: float, small: float) -> None:
    right = spoiled(power, [small, 1.0, 0.5], 1.0)
    assert all((judged.status == Status.RIGHT.rank).all() for judged in right)
    for factor in (1.1, 0.0, -1.0):
        (wrong,) = spoiled(power, [small, 1.0, 0.5], factor)
        assert (wrong.suspects.rows[0], wrong.suspects.columns[0]) == (0, 0)
        assert wrong.status[0] == Status.WRONG.rank


@pytest.mark.parametrize(("factor", "status"), [(1.0, Status.RIGHT), (1.05, Status.RIGHT), (2.0, Status.WRONG)])
def test_what_steps_of_its_own_size_cannot_see_is_judged_by_short_ones_with_their_error_bar(
    factor: float, status: Status
) -> None:
    x = np.array([1e-9, 1.0, 0.5])
    slopes = factor * 1.5 * np.sqrt(x)
    slopes[1:] /= factor
    case = investigation(lambda x: np.abs(x) ** 1.5 + 1.0, x, np.diag(slopes))
    (found,) = every_entry(case, Options(), (Mode.REVERSE,)).judged
    assert found.status.max() == status.rank
    assert abs(found.suspects.numeric[0] - 1.5 * np.sqrt(1e-9)) <= found.error[0]


# what is said of what was not seen


@pytest.mark.parametrize("error", [0.0, 10.0])
def test_what_round_off_hides_is_told_unless_something_is_wrong(error: float) -> None:
    matrix = np.ones((2, 2))
    case = investigation(lambda x: 1e6 + matrix @ x, np.ones(2), matrix + error * np.eye(2))
    found = every_entry(case, Options(atol=1e-14, rtol=1e-14), (Mode.REVERSE,))
    assert any(judged.is_wrong for judged in found.judged) == (error > 0.0)
    assert bool(found.unseen) == (error == 0.0)


@pytest.mark.parametrize(("noise", "bars"), [(None, 1.0), (1e-9, 2.0)], ids=["round-off", "noise"])
@pytest.mark.parametrize(("status", "counts"), [(RIGHT, 1.0), (WRONG, 0.0)], ids=["right", "wrong"])
def test_an_error_may_hide_in_bars_of_entries_that_were_measured(
    noise: float | None, bars: float, status: int, counts: float
) -> None:
    made = linear((1, 2), {}).problem
    case = Investigation(made if noise is None else replace(made, noise=np.full(1, noise)))
    stencil = Stencil(case)
    survey = Survey(stencil, np.ones(2))
    survey.climb(8, 11)
    one, number = np.array([0.5]), np.zeros(1, dtype=np.intp)
    suspects = Suspects(number, number, one, one, tolerance=np.array([3.0]), excess=one)
    judged = Judged(Mode.REVERSE, suspects, error=np.array([7.0]), status=np.array([status]))
    seen = seen_of(Tolerances(stencil, Options(**TORCH)), [judged], survey)
    assert seen.smallest[0] == pytest.approx(counts * (bars * 7.0 + 3.0), abs=0.01)
    kink = replace(judged, sides={0: (-1.0, 4.0)})
    told = seen_of(Tolerances(stencil, Options(**TORCH)), [kink], survey).smallest[0]
    assert told == pytest.approx(counts * (bars * 7.0 + 3.0 + 5.0), abs=0.01)
