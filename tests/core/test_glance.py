"""A glance acquits small Problems in double precision of every error that is to be seen, and hands on all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, Part, investigation
from hypothesis import given
from hypothesis import strategies as st

from gradproof.core.capabilities import AccusedBefore, Stateless
from gradproof.core.glance import RUNGS, Glance, acquits, glance, unit_noise
from gradproof.core.investigation import Investigation
from gradproof.core.ledger import Ledger
from gradproof.core.norm import PART, norm
from gradproof.core.options import Options, Strategy
from gradproof.core.precision import CONFIDENCE
from gradproof.core.probing import Prober
from gradproof.core.problem import Mode, OutputChangedError, Problem
from gradproof.core.types import Matrix, Vector

ATOL = 1e-5
AT_THE_POINT = 1
"""The evaluation that every investigation begins with."""
SMALL = 2048
"""The most coordinates that a glance is taken at where every entry is wanted; of probes, as many as one part has."""

WAYS = pytest.mark.parametrize("way", [{}, {Stateless: Stateless()}], ids=["written by hand", "the framework's own"])


def options(**more: Any) -> Options:
    return Options(
        **{"strategy": Strategy.PROBES, "modes": (Mode.REVERSE,), "atol": ATOL, "rtol": 1e-3, "certify": False, **more}
    )


def entries(**more: Any) -> Options:
    return options(strategy=Strategy.ENTRIES, **more)


def layer(
    offset: float = 0.0, errors: dict[tuple[int, int], float] | None = None, seed: int = 0, **more: Any
) -> Investigation:
    """offset + tanh(W x) with four outputs and five inputs, whose claimed Jacobian has these errors."""
    weights, point = np.random.default_rng(seed).normal(size=(4, 5)), np.linspace(-0.5, 0.7, 5)
    matrix = weights / np.cosh(weights @ point)[:, None] ** 2
    for where, error in (errors or {}).items():
        matrix[where] += error
    return investigation(lambda x: offset + np.tanh(weights @ x), point, matrix, seed=seed, **more)


def glanced(case: Investigation, **more: Any) -> Glance:
    found = glance(case, options(**more))
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(10))
def test_what_is_right_is_settled_by_two_evaluations_and_one_question(seed: int) -> None:
    case = layer(seed=seed)
    assert glanced(case).settles
    assert (case.cost.evaluations, case.cost.vjps) == (AT_THE_POINT + 2, 1)


@given(
    st.tuples(st.integers(0, 3), st.integers(0, 4)),
    st.floats(1.0001, 1e6),
    st.sampled_from([-1.0, 1.0]),
    st.integers(0, 1000),
)
def test_no_lone_error_above_the_tolerance_is_settled(
    place: tuple[int, int], size: float, sign: float, seed: int
) -> None:
    assert not glanced(layer(errors={place: sign * size * ATOL}, seed=seed)).settles


@pytest.mark.parametrize("part", [0.25, 0.35, 0.45, 0.55, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_no_lone_error_is_settled_that_round_off_makes_up_for(seed: int, part: float) -> None:
    """It is where the cotangent is smallest, of a hundred outputs, all of which are rounded against it.

    `part` is what round-off may make of the sum, as a part of what must be seen.
    """
    value, ulp = np.full(100, 128.0), 2.0**-45  # of numbers from 128 on
    case = investigation(lambda x: value, 0.0, seed=seed)
    cotangent, (moved,) = case.draw(100, 1), glanced(case).direction
    place, open_ = int(np.argmin(np.abs(cotangent))), CONFIDENCE * unit_noise(case.problem) * norm(cotangent)
    assert abs(cotangent[place]) < 0.52
    tolerance = open_ * 2.0 ** RUNGS[-1] / (part * abs(moved))
    rounded = np.copysign(ulp, cotangent * cotangent[place] * moved)
    claimed = np.where(np.arange(100) == place, 1.001 * tolerance, 0.0)[:, None]
    wrong, right = (
        investigation(lambda x: value + rounded * np.sign(x), 0.0, matrix, seed=seed)
        for matrix in (claimed, np.zeros((100, 1)))
    )
    assert not glanced(wrong, atol=tolerance).settles
    assert glanced(right, atol=tolerance).settles == (part < 0.3)


def test_a_factor_of_all_entries_of_an_input_is_not_settled_though_each_is_below_the_tolerance() -> None:
    point = np.linspace(0.5, 1.0, 8)
    found = [
        glanced(investigation(lambda x: 1e-6 * np.sin(x), point, np.diag(factor * 1e-6 * np.cos(point))))
        for factor in (1.0, 1.05)
    ]
    assert [each.settles for each in found] == [True, False]


@WAYS
@pytest.mark.parametrize(("offset", "evaluations"), [(0.0, 2), (100.0, 4)])
def test_where_much_is_left_open_and_every_entry_is_wanted_another_direction_is_taken(
    offset: float, evaluations: int, way: dict[type, Any]
) -> None:
    case = layer(offset, capabilities=way)
    assert acquits(case, entries(), 4)
    assert case.cost.evaluations == AT_THE_POINT + evaluations
    assert case.cost.vjps == (1 if way else 4), "nothing is asked again"


@WAYS
@pytest.mark.parametrize("seed", range(5))
def test_errors_of_one_output_that_cancel_along_one_direction_show_along_another(
    seed: int, way: dict[type, Any]
) -> None:
    direction = glanced(layer(offset=100.0, seed=seed)).direction
    errors = {(1, 2): 1e-2, (1, 3): -1e-2 * direction[2] / direction[3]}
    assert glanced(layer(100.0, errors, seed)).settles, "with weights that are known beforehand, errors can cancel"
    assert not acquits(layer(100.0, errors, seed, capabilities=way), entries(), 4)


def bends(x: Vector) -> Vector:
    return np.abs(x - 0.5)


def noisy(x: Vector) -> Vector:
    return x + 1e-7 * np.sin(1e12 * x)


def wiggles(x: Vector) -> Vector:
    return x + 1e-6 * np.sin(1e5 * x)


@pytest.mark.parametrize("function", [bends, noisy, wiggles])
def test_kinks_and_noise_are_looked_at_in_full(function: Callable[[Vector], Vector]) -> None:
    case = investigation(function, np.full(3, 0.5), np.eye(3))
    assert not glanced(case).settles


def leaning(size: float) -> Callable[[Vector], Vector]:
    """A kink of this size, beside a slope of one."""
    return lambda x: x + size * np.abs(x - 0.5)


@pytest.mark.parametrize("size", [1e-3, 1.0])
@pytest.mark.parametrize("claimed", [0.0, 1.0])
def test_kinks_whose_mean_is_claimed_are_looked_at_in_full(size: float, claimed: float) -> None:
    """They are valid, and a warning is due; `claimed` is the slope beside the kink."""
    function = leaning(size)
    case = investigation(lambda x: function(x) - (1.0 - claimed) * x, np.full(3, 0.5), claimed * np.eye(3))
    assert not glanced(case).settles


@pytest.mark.parametrize("seed", range(5))
def test_kinks_that_hardly_bend_more_than_smooth_functions_do_are_looked_at_in_full(seed: int) -> None:
    """By what the output itself moves, and by what the one moves that moves most; claimed is the mean."""
    own, fixed = investigation(leaning(3e-4), np.full(3, 0.5), np.eye(3), seed=seed), np.full(2, 0.5)
    direction = glanced(investigation(np.sin, fixed, np.diag(np.cos(fixed)), seed=seed)).direction
    size = 2.0**-15 * abs(float(direction[0] / direction[1]))  # twice what is smooth
    kink = np.array([0.0, size])
    beside = investigation(
        lambda x: np.array([x[0], 0.0]) + kink * np.abs(x - fixed), fixed, np.diag([1.0, 0.0]), seed=seed
    )
    assert [glanced(case).settles for case in (own, beside)] == [False, False]


@pytest.mark.parametrize("beside", [0.0, 0.5, 1.5, -1.0])
def test_of_a_kink_that_is_no_larger_than_what_smooth_functions_bend_by_only_the_mean_is_settled(
    beside: float,
) -> None:
    size = 4 * ATOL
    case = investigation(leaning(size), np.full(3, 0.5), (1.0 + beside * size) * np.eye(3))
    assert glanced(case).settles == (beside == 0.0)


@pytest.mark.parametrize("further", [False, True], ids=["smooth", "curved"])
@WAYS
def test_the_coarser_rung_is_evaluated_where_the_finer_one_is_off_by_more_than_round_off(
    further: bool, way: dict[type, Any]
) -> None:
    speed, point = 8.0 if further else 1.0, np.linspace(0.1, 1.0, 5)
    case = investigation(lambda x: np.sin(speed * x), point, np.diag(speed * np.cos(speed * point)), capabilities=way)
    assert acquits(case, entries(), 4)
    # what the coarser one leaves open is not far below what must be seen, so that another direction is taken, too
    assert case.cost.evaluations == AT_THE_POINT + (8 if further else 2)
    assert case.cost.vjps == (1 if way else 5), "nothing is asked again for the coarser rung"


def test_a_bend_that_is_negligible_is_none() -> None:
    case = investigation(lambda x: x + 1e-8 * np.abs(x - 0.5), np.full(3, 0.5), np.eye(3))
    assert glanced(case).settles


def extrapolated(case: Investigation) -> Vector:
    """J u, as the two rungs of a glance have it."""
    (coarse, _), (fine, _) = glanced(case).found
    return fine + (fine - coarse) / 63.0


@WAYS
def test_what_extrapolation_is_off_by_hides_no_error(way: dict[type, Any]) -> None:
    """One input, and a sine so fast that steps see 0.9998 of its slope: claimed is what they see."""

    def case(slope: float) -> Investigation:
        return investigation(lambda x: np.sin(2.0**14 * x) / 2.0**14, 0.0, slope, capabilities=way)

    seen = float(extrapolated(case(1.0))[0] / glanced(case(1.0)).direction[0])
    assert abs(seen - 1.0) > 2 * ATOL
    assert not acquits(case(seen), entries(), 4)
    assert not glanced(case(seen)).settles


@WAYS
def test_an_error_must_show_at_the_input_that_is_moved_least(way: dict[type, Any]) -> None:
    """Round-off of the offset hides it there, and would not where steps are longer."""
    point = np.array([1e-3, 1e3])
    for error in (0.0, 100 * ATOL):
        matrix = np.array([[1.0 + error, 1.0]])
        case = investigation(
            lambda x: 1e2 + x.sum(keepdims=True), point, matrix, inputs=[Part((1,)), Part((1,))], capabilities=way
        )
        assert not acquits(case, entries(), 4)
        assert not glanced(case).settles


@pytest.mark.parametrize("matrix", [np.full((3, 3), np.nan), np.diag([1.0, np.inf, 1.0])])
def test_gradients_that_are_no_numbers_are_looked_at_in_full(matrix: Matrix) -> None:
    case = investigation(np.sin, np.zeros(3), vjp=lambda v: matrix.T @ v)
    with np.errstate(invalid="ignore"):
        assert not glanced(case).settles


def test_a_tolerance_below_round_off_is_not_settled() -> None:
    case = layer(offset=100.0)
    assert not glanced(case, atol=1e-9).settles
    assert case.cost.vjps == 0


@pytest.mark.parametrize(
    "more",
    [
        {"atol": None},
        {"atol": 0.0},
        {"certify": True},
        {"modes": (Mode.FORWARD,)},
        {"modes": tuple(Mode)},
        {"step": 1e-6},
    ],
)
def test_what_wants_more_than_an_acquittal_gets_no_glance(more: dict[str, Any]) -> None:
    case = layer()
    assert glance(case, options(**more)) is None
    assert case.cost.evaluations == AT_THE_POINT


def accused_before(problem: Problem) -> Problem:
    return replace(problem, capabilities={**problem.capabilities, AccusedBefore: AccusedBefore(())})


OTHER_PROBLEMS: dict[str, Callable[[Problem], Problem]] = {
    "noisy": lambda problem: replace(problem, noise=np.full(4, 1e-12)),
    "of a lower precision inside": lambda problem: replace(problem, evaluates_in=SINGLE),
    "connected to nothing": lambda problem: replace(problem, connected=False),
    "accused before": accused_before,
}


@pytest.mark.parametrize("name", OTHER_PROBLEMS)
def test_nor_does_a_problem_of_which_more_is_known(name: str) -> None:
    case = Investigation(OTHER_PROBLEMS[name](layer().problem), 0)
    assert glance(case, options()) is None
    assert not acquits(case, entries(), 4)


@pytest.mark.parametrize(("made", "most"), [(options, PART), (entries, SMALL)])
@pytest.mark.parametrize("more", [0, 1])
def test_nor_does_one_of_many_coordinates(made: Callable[[], Options], most: int, more: int) -> None:
    size = most + more
    wide = investigation(lambda x: np.array([x.sum()]), np.ones(size), np.ones(size))
    tall = investigation(lambda x: np.full(size, x[0]), np.ones(1), np.ones((size, 1)))
    assert [glance(case, made()) is None for case in (wide, tall)] == [more > 0] * 2


@pytest.mark.parametrize("empty", [False, True])
def test_nor_one_with_an_empty_input(empty: bool) -> None:
    inputs = [Part((3,)), Part((0,))][: 1 + empty]
    case = investigation(np.sin, np.zeros(3), np.eye(3), inputs=inputs)
    assert (glance(case, options()) is None) == empty


LOW_IN, LOW_OUT = {"inputs": [Part((3,), eps=SINGLE)]}, {"outputs": [Part((3,), eps=SINGLE)]}


@pytest.mark.parametrize("low", [LOW_IN, LOW_OUT, LOW_IN | LOW_OUT], ids=["inputs", "outputs", "both"])
def test_nor_does_low_precision(low: dict[str, Any]) -> None:
    case = investigation(np.sin, np.zeros(3), np.eye(3), **low)
    assert glance(case, options()) is None


def test_a_function_that_raises_away_from_the_point_is_looked_at_in_full() -> None:
    def only_here(x: Vector) -> Vector:
        if x.any():
            raise ValueError("not here")
        return np.sin(x)

    assert glance(investigation(only_here, np.zeros(3), np.eye(3)), options()) is None


def test_a_function_whose_outputs_change_away_from_the_point_is_told_as_such() -> None:
    case = investigation(lambda x: np.sin(x[: 1 if x.any() else 3]), np.zeros(3), np.eye(3))
    with pytest.raises(OutputChangedError):
        glance(case, options())


def test_the_question_that_a_glance_shared_stays_the_shared_one() -> None:
    case = layer(errors={(1, 1): 1e-2})
    found = glanced(case)
    ((shared, answer),) = found.questions
    assert Ledger(case, options(), found).answered(2.0 * shared) == pytest.approx(2.0 * answer)
    assert case.cotangent is shared
    alone = Ledger(case, options())
    alone.answered(2.0 * shared)
    assert (case.cotangent == 2.0 * shared).all()


def test_what_was_measured_and_asked_is_not_measured_and_asked_again() -> None:
    wrong = {(1, 1): 1e-2}
    alone = layer(errors=wrong)
    assert Prober(alone, options()).run(Mode.REVERSE).judged
    case = layer(errors=wrong)
    found = glanced(case)
    assert Prober(case, options(), found).run(Mode.REVERSE).judged
    assert case.cost.evaluations <= alone.cost.evaluations
    assert case.cost.vjps <= alone.cost.vjps


@WAYS
def test_where_every_entry_is_wanted_what_is_right_is_acquitted(way: dict[type, Any]) -> None:
    case = layer(capabilities=way)
    assert acquits(case, entries(), 4)
    assert case.cost.evaluations == AT_THE_POINT + 2
    assert case.cost.vjps == (1 if way else 4)


@given(
    st.tuples(st.integers(0, 3), st.integers(0, 4)),
    st.floats(1.0001, 1e6),
    st.sampled_from([{}, {Stateless: Stateless()}]),
    st.integers(0, 1000),
)
def test_and_no_lone_error_is(place: tuple[int, int], size: float, way: dict[type, Any], seed: int) -> None:
    assert not acquits(layer(errors={place: size * ATOL}, seed=seed, capabilities=way), entries(), 4)


def test_what_is_written_by_hand_may_be_wrong_for_one_element_alone() -> None:
    def pull(v: Vector) -> Vector:
        return np.cos(point) * v * (1.5 if np.count_nonzero(v) == 1 else 1.0)

    point = np.linspace(0.1, 1.0, 4)
    assert glanced(investigation(np.sin, point, vjp=pull)).settles
    assert not acquits(investigation(np.sin, point, vjp=pull), entries(), 4)


@WAYS
def test_many_entries_are_not_asked_for_row_by_row(way: dict[type, Any]) -> None:
    point = np.linspace(0.1, 1.0, 1500)
    case = investigation(np.sin, point, vjp=lambda v: np.cos(point) * v, capabilities=way)
    assert acquits(case, entries(), 100) == bool(way)
    assert case.cost.vjps <= 2


@WAYS
def test_nothing_is_asked_where_round_off_hides_the_tolerance(way: dict[type, Any]) -> None:
    case = layer(offset=100.0, capabilities=way)
    assert not acquits(case, entries(atol=1e-9), 4)
    assert case.cost.vjps == 0


@WAYS
def test_an_input_that_moves_nothing_is_no_input_whose_shares_cancel(way: dict[type, Any]) -> None:
    case = investigation(
        lambda x: np.sin(x[:3]), np.zeros(5), np.eye(3, 5), inputs=[Part((3,)), Part((2,))], capabilities=way
    )
    assert acquits(case, entries(), 4)
    assert glanced(case).settles


def test_a_factor_that_round_off_hides_in_every_row_is_not_acquitted() -> None:
    """Of each row it would not be seen; of an input as a whole it would."""
    point = np.linspace(0.5, 1.0, 256)

    def acquitted(size: float, factor: float) -> bool:
        matrix = np.diag(factor * size * np.cos(point))
        return acquits(investigation(lambda x: 1.0 + size * np.sin(x), point, matrix), entries(), 256)

    assert acquitted(1e-6, 1.0)
    assert not acquitted(1e-9, 1.05)


def test_an_error_that_a_row_shows_is_not_acquitted_though_it_is_below_the_tolerance() -> None:
    found = [acquits(layer(errors={(1, 2): error}), entries(), 4) for error in (0.0, 0.1 * ATOL)]
    assert found == [True, False]


@pytest.mark.parametrize("error", [0.0, 1.5 * ATOL])
def test_what_round_off_of_a_claimed_sum_hides_is_not_acquitted(error: float) -> None:
    """The shares of 2000 elements are a thousand times their sum, and round-off of that more than the tolerance."""
    signs = np.where(np.arange(2000) % 2, 1e7, -1e7)
    direction = glanced(investigation(lambda x: signs[None] @ x, np.zeros(2000), signs)).direction
    where = int(np.argmin(np.abs(direction)))
    claimed = signs + error * (np.arange(2000) == where)
    assert not acquits(investigation(lambda x: signs[None] @ x, np.zeros(2000), claimed), entries(), 1)
