"""The probe strategy: passes only what was seen, and names what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import DOUBLE, Part, findings, investigation

from gradproof.core.accusation import Outcome
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options, Strategy
from gradproof.core.precision import BOUNDED
from gradproof.core.probing import Prober
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.properties.jacobian import jacobian
from gradproof.results.finding import Finding

TORCH = {"atol": 1e-5, "rtol": 1e-3}
OWN: dict[str, float] = {}
TOLERANCES = pytest.mark.parametrize("tolerances", [TORCH, OWN], ids=["torch's tolerances", "its own"])
WAYS = pytest.mark.parametrize("affordable", [2048, 0], ids=["every entry", "halving"])
MODES = pytest.mark.parametrize("mode", Mode)


def options(mode: Mode = Mode.REVERSE, affordable: int = 0, **more: Any) -> Options:
    return Options(
        strategy=Strategy.PROBES, modes=(mode,), affordable_columns=affordable, few_columns=affordable, **more
    )


def elementwise(size: int, off: dict[int, float] | None = None, seed: int = 0, **more: Any) -> Investigation:
    """sin, whose claimed diagonal has these errors."""
    point = np.random.default_rng(seed).uniform(0.5, 1.5, size)
    slopes = np.cos(point)
    for place, error in (off or {}).items():
        slopes[place] += error
    return investigation(np.sin, point, vjp=lambda v: slopes * v, jvp=lambda u: slopes * u, seed=seed, **more)


def dense(size: int, off: dict[tuple[int, int], float] | None = None, seed: int = 0, **more: Any) -> Investigation:
    """tanh(W x), whose claimed matrix has these errors."""
    draw = np.random.default_rng(seed)
    weights, point = draw.normal(size=(size, size)) / np.sqrt(size), draw.normal(size=size)
    matrix = weights / np.cosh(weights @ point)[:, None] ** 2
    for where, error in (off or {}).items():
        matrix[where] += error
    return investigation(
        lambda x: np.tanh(weights @ x), point, vjp=lambda v: matrix.T @ v, jvp=lambda u: matrix @ u, seed=seed, **more
    )


def run(case: Investigation, chosen: Options) -> Outcome:
    return Prober(case, chosen).run(chosen.modes[0])


def find(case: Investigation, chosen: Options) -> list[Finding]:
    return findings(jacobian(case, chosen))


def places(found: list[Finding]) -> set[tuple[Any, Any]]:
    return {
        (entry.output.element, entry.input.element)
        for finding in found
        for entry in finding.entries
        if entry.status is Status.WRONG
    }


# right


@MODES
@TOLERANCES
@pytest.mark.parametrize("size", [1, 10, 1000])
@pytest.mark.parametrize("build", [elementwise, dense])
def test_what_is_right_passes_without_a_finding(build: Any, size: int, tolerances: Any, mode: Mode) -> None:
    outcome = run(build(size), options(mode, **tolerances))
    assert (outcome.judged, outcome.unseen, outcome.nonlinear) == ([], [], False)
    assert outcome.seen is not None


@MODES
@TOLERANCES
@pytest.mark.parametrize("build", [elementwise, dense])
def test_what_is_right_costs_the_same_at_every_size(build: Any, tolerances: Any, mode: Mode) -> None:
    costs = []
    for size in (10, 1000):
        case = build(size)
        assert find(case, options(mode, **tolerances)) == []
        costs.append((case.cost.evaluations, case.cost.vjps, case.cost.jvps))
    (few, *derivatives), (many, *of_many) = costs
    assert many <= few + 2 <= 11  # at most one more rung
    # the row of one output, and a second one for the certificate, unless more may hide than is excused
    assert derivatives == ([3, 0] if mode is Mode.REVERSE else [0, 2])
    assert of_many in ([derivatives, [2, 0]] if mode is Mode.REVERSE else [derivatives])


@pytest.mark.parametrize("seed", range(20))
@TOLERANCES
def test_what_is_right_passes_with_every_seed(tolerances: Any, seed: int) -> None:
    for build in (elementwise, dense):
        for mode in Mode:
            assert find(build(60, seed=seed), options(mode, **tolerances)) == []


# one wrong entry


@WAYS
@MODES
@TOLERANCES
@pytest.mark.parametrize("place", [0, 37, 99])
def test_a_wrong_entry_of_a_diagonal_is_named(place: int, tolerances: Any, mode: Mode, affordable: int) -> None:
    (finding,) = find(elementwise(100, {place: 0.01}), options(mode, affordable, **tolerances))
    assert finding.status is Status.WRONG
    assert (finding.output_element, finding.input_element) == ((place,), (place,))
    assert finding.wrong == 1
    truth = np.cos(elementwise(100).problem.point[place])
    assert finding.numeric == pytest.approx(truth, abs=1e-7)
    assert finding.analytic == pytest.approx(truth + 0.01)
    assert "for output 0 with respect to input 0,\n" in finding.message
    assert f"{'' if affordable else 'at least '}1 of 10000 entries differ" in finding.message
    assert (finding.mode, finding.located) == (mode, not affordable)
    assert ("forward mode" in finding.message) is (mode is Mode.FORWARD)


@WAYS
@MODES
@TOLERANCES
@pytest.mark.parametrize("place", [(0, 0), (3, 41), (49, 49), (20, 0)])
def test_a_wrong_entry_of_a_dense_matrix_is_named(
    place: tuple[int, int], tolerances: Any, mode: Mode, affordable: int
) -> None:
    (finding,) = find(dense(50, {place: 0.01}), options(mode, affordable, **tolerances))
    assert finding.status is Status.WRONG
    assert (finding.output_element, finding.input_element) == ((place[0],), (place[1],))
    assert finding.wrong == 1
    assert finding.analytic - finding.numeric == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_a_wrong_entry_is_named_with_every_seed(seed: int) -> None:
    draw = np.random.default_rng(seed)
    row, column = (int(i) for i in draw.integers(80, size=2))
    for mode in Mode:
        found = find(dense(80, {(row, column): 1e-3}, seed=seed), options(mode, **OWN))
        assert places(found) == {((row,), (column,))}


@MODES
def test_the_blocks_of_a_wrong_entry_are_named(mode: Mode) -> None:
    inputs = [Part((10, 5), name="x"), Part((50,), name="weight")]
    outputs = [Part((60,)), Part((4, 10))]
    (finding,) = find(dense(100, {(75, 98): 0.1}, inputs=inputs, outputs=outputs), options(mode, **TORCH))
    assert (finding.output, finding.output_element) == (1, (1, 5))
    assert (finding.input, finding.input_element) == (1, (48,))
    assert "for output 1 with respect to input 1 `weight`" in finding.message


@TOLERANCES
def test_one_wrong_among_a_hundred_thousand_is_cheap_to_name(tolerances: Any) -> None:
    case = elementwise(10**5, {77_777: 0.01})
    (finding,) = find(case, options(**tolerances))
    assert (finding.output_element, finding.input_element) == ((77_777,), (77_777,))
    assert case.cost.evaluations <= 100
    assert case.cost.vjps <= 30


@TOLERANCES
def test_forward_mode_names_one_wrong_among_a_hundred_thousand(tolerances: Any) -> None:
    case = elementwise(10**5, {77_777: 0.01})
    (finding,) = find(case, options(Mode.FORWARD, **tolerances))
    assert (finding.output_element, finding.input_element) == ((77_777,), (77_777,))
    assert case.cost.evaluations <= 100
    assert case.cost.jvps <= 30


# several


@WAYS
@MODES
@TOLERANCES
def test_five_wrong_entries_are_all_listed(tolerances: Any, mode: Mode, affordable: int) -> None:
    wrong = {3: 0.3, 40: -0.2, 41: 0.25, 120: 0.1, 199: -0.4}
    found = find(elementwise(200, wrong), options(mode, affordable, **tolerances))
    assert places(found) == {((place,), (place,)) for place in wrong}


@WAYS
@TOLERANCES
def test_five_wrong_entries_of_a_dense_matrix_are_all_listed(tolerances: Any, affordable: int) -> None:
    wrong = {(3, 9): 0.3, (10, 2): -0.2, (11, 2): 0.25, (30, 30): 0.1, (49, 0): -0.4}
    found = find(dense(50, wrong), options(Mode.REVERSE, affordable, **tolerances))
    assert places(found) == {((row,), (column,)) for row, column in wrong}


@WAYS
@MODES
@TOLERANCES
@pytest.mark.parametrize("factor", [-1.0, 0.0, 0.5, 2.0])
def test_where_everything_is_wrong_some_of_it_is_named(
    factor: float, tolerances: Any, mode: Mode, affordable: int
) -> None:
    off = {place: (factor - 1) * np.cos(x) for place, x in enumerate(elementwise(300).problem.point)}
    case = elementwise(300, off)
    found = find(case, options(mode, affordable, **tolerances))
    assert found[0].status is Status.WRONG
    assert all(output == input_ for output, input_ in places(found))
    if not affordable:
        assert case.cost.evaluations <= 500


def test_the_errors_of_two_entries_may_cancel_in_a_sum() -> None:
    """One output, two inputs, errors of opposite size: not the same in any other direction."""
    point = np.ones(100)
    gradient = np.ones(100)
    gradient[3] += 0.5
    gradient[4] -= 0.5
    case = investigation(lambda x: x.sum(), point, gradient[None, :])
    assert places(find(case, options(**TORCH))) == {((0,), (3,)), ((0,), (4,))}


# complex entries


def complex_squares(off: complex) -> Investigation:
    """z² of forty complex numbers; one claimed entry is off by so many times its modulus."""
    draw = np.random.default_rng(0)
    z = draw.normal(size=40) + 1j * draw.normal(size=40)

    def function(x: Any) -> Any:
        return ((x[0::2] + 1j * x[1::2]) ** 2).view(np.float64)

    claimed = np.zeros((80, 80))
    for k, d in enumerate(2 * z):
        claimed[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = [[d.real, -d.imag], [d.imag, d.real]]
    claimed[6, 6:8] += abs(2 * z[3]) * np.array([off.real, off.imag])
    part = [Part((40,), parts=2)]
    return investigation(function, z.view(np.float64), claimed, inputs=part, outputs=part)


@pytest.mark.parametrize(
    ("mode", "affordable"),
    [
        (Mode.REVERSE, 2048),
        (Mode.FORWARD, 2048),
        (Mode.REVERSE, 0),
        (Mode.FORWARD, 0),
    ],
)
def test_parts_of_a_complex_entry_that_are_too_far_off_only_together_are_named(mode: Mode, affordable: int) -> None:
    """Each part is within the tolerance, their modulus is not."""
    (finding,) = find(complex_squares(0.8e-3 + 0.8e-3j), options(mode, affordable, atol=1e-9, rtol=1e-3))
    assert finding.status is Status.WRONG
    assert places([finding]) == {((3,), (3,))}


@WAYS
@MODES
def test_a_complex_entry_within_its_modulus_is_right_though_one_part_is_tiny(mode: Mode, affordable: int) -> None:
    assert find(complex_squares(0.9e-3j), options(mode, affordable, atol=1e-9, rtol=1e-3)) == []
    (finding,) = find(complex_squares(1.1e-3j), options(mode, affordable, atol=1e-9, rtol=1e-3))
    assert places([finding]) == {((3,), (3,))}


# what cannot be seen


def kinked(size: int, off: dict[int, float] | None = None) -> Investigation:
    """abs, with one input on the kink; the claimed slope there is 1, and others have these errors."""
    point = np.random.default_rng(0).uniform(0.5, 1.5, size)
    point[5] = 0.0
    slopes = np.ones(size)
    for place, error in (off or {}).items():
        slopes[place] += error
    return investigation(np.abs, point, vjp=lambda v: slopes * v, jvp=lambda u: slopes * u)


@TOLERANCES
def test_an_output_at_a_kink_is_sampled_where_every_entry_is_not_affordable(tolerances: Any) -> None:
    (finding,) = find(kinked(100), options(**tolerances))
    assert finding.status is Status.KINK
    assert finding.input_element == finding.output_element
    assert "no derivative here" in finding.message


@TOLERANCES
def test_an_output_that_cannot_be_seen_is_taken_apart_where_affordable(tolerances: Any) -> None:
    (finding,) = find(kinked(100), options(affordable=2048, **tolerances))
    assert finding.status is Status.KINK
    assert finding.input_element == (5,)


def test_a_wrong_entry_beside_an_output_that_cannot_be_seen_is_named() -> None:
    found = find(kinked(100, {60: 0.1}), options(**TORCH))
    assert places(found) == {((60,), (60,))}


@MODES
def test_noise_above_the_tolerance_is_inconclusive_not_a_pass(mode: Mode) -> None:
    point = np.random.default_rng(0).uniform(0.5, 1.5, 50)
    case = investigation(lambda x: x + 1e-6 * np.sin(1e12 * x), point, vjp=lambda v: v, jvp=lambda u: u)
    found = find(case, options(mode, atol=1e-9, rtol=1e-9))
    assert found
    assert {finding.status for finding in found} == {Status.INCONCLUSIVE}


@MODES
def test_an_error_below_the_tolerance_passes_and_above_it_does_not(mode: Mode) -> None:
    for off, right in ((0.5e-4, True), (2e-4, False)):
        found = find(elementwise(50, {7: off}), options(mode, 2048, atol=1e-4, rtol=0.0))
        assert (found == []) is right


@TOLERANCES
@pytest.mark.parametrize("mode", list(Mode))
def test_an_accusation_that_no_entry_confirms_is_no_pass(mode: Mode, tolerances: Any) -> None:
    """Right for each basis vector, wrong for many elements at once."""

    def together(v: Any) -> Any:
        return v * (1.0 if np.count_nonzero(v) == 1 else 1.5)

    case = investigation(lambda x: x, np.ones(4), vjp=together, jvp=together)
    found = find(case, options(mode, **tolerances))
    assert {finding.status for finding in found} == {Status.INCONCLUSIVE}
    assert "a probe accuses, but the entries it leads to are right" in found[-1].message


# inputs without influence


@MODES
@TOLERANCES
def test_an_input_that_plays_no_part_passes_with_a_zero_gradient(tolerances: Any, mode: Mode) -> None:
    weights = np.zeros((5, 10))
    weights[:, :6] = np.random.default_rng(0).normal(size=(5, 6))
    inputs = [Part((6,)), Part((4,))]
    case = investigation(lambda x: weights @ x, np.ones(10), weights, inputs=inputs)
    assert find(case, options(mode, 2048, **tolerances)) == []
    wrong = weights.copy()
    wrong[2, 8] = 0.01
    case = investigation(lambda x: weights @ x, np.ones(10), wrong, inputs=inputs)
    (finding,) = find(case, options(mode, 2048, **tolerances))
    assert (finding.input, finding.input_element, finding.output_element) == (1, (2,), (2,))
    assert finding.numeric == pytest.approx(0.0, abs=1e-9)


@WAYS
@MODES
@TOLERANCES
def test_a_gradient_claimed_zero_fails(tolerances: Any, mode: Mode, affordable: int) -> None:
    point = np.random.default_rng(0).uniform(0.5, 1.5, 40)
    case = investigation(np.sin, point, 0.0)
    found = find(case, options(mode, affordable, **tolerances))
    assert found[0].status is Status.WRONG
    assert found[0].analytic == 0.0
    assert found[0].input_element == found[0].output_element


@MODES
def test_a_constant_function_passes_with_a_zero_gradient_and_fails_with_another(mode: Mode) -> None:
    for slope, right in ((0.0, True), (0.01, False)):
        case = investigation(lambda x: np.full(4, 3.0), np.ones(4), slope)
        found = find(case, options(mode, 2048, **TORCH))
        assert (found == []) is right


@MODES
@TOLERANCES
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_derivative_that_is_no_number_fails(value: float, tolerances: Any, mode: Mode) -> None:
    matrix = np.eye(20)
    matrix[4, 9] = value
    case = investigation(lambda x: x, np.ones(20), matrix)
    with np.errstate(invalid="ignore"):
        (finding,) = find(case, options(mode, 2048, **tolerances))
    assert finding.status is Status.WRONG
    assert (finding.output_element, finding.input_element) == ((4,), (9,))


def test_a_jacobian_without_entries_is_not_probed() -> None:
    case = investigation(lambda x: np.empty(0), np.ones(3), outputs=[Part((0,), eps=DOUBLE)])
    assert find(case, options()) == []


# what many outputs cost


def spread_sines(size: int, off: dict[int, float] | None = None) -> Investigation:
    """sin at points near zero and far from it, so that error bars differ."""
    point = np.random.default_rng(0).standard_normal(size)
    slopes = np.cos(point)
    for place, error in (off or {}).items():
        slopes[place] += error
    return investigation(np.sin, point, vjp=lambda v: slopes * v, jvp=lambda u: slopes * u)


MANY = 300_000


def test_a_cotangent_aimed_at_the_tolerance_sees_many_outputs_at_once() -> None:
    case = spread_sines(MANY)
    assert findings(list(jacobian(case, options(**TORCH, certify=False)))) == []
    assert case.cost.vjps == 1


@pytest.mark.parametrize("place", [0, MANY // 2, MANY - 1])
def test_and_a_lone_entry_beyond_the_tolerance_is_still_found(place: int) -> None:
    case = spread_sines(MANY, {place: 3e-3})
    found = findings(list(jacobian(case, options(**TORCH, certify=False))))
    assert [(each.status, each.output_element, each.input_element) for each in found] == [
        (Status.WRONG, (place,), (place,))
    ]


def test_the_largest_entry_is_asked_for_only_where_it_matters() -> None:
    """What may be excused of it is less than what may hide: one vjp for the probe, and one for a row."""
    case = spread_sines(MANY)
    outcome = Prober(case, options()).run(Mode.REVERSE)
    assert case.cost.vjps == 2
    assert outcome.seen is not None
    few = elementwise(3000)
    seen = Prober(few, options()).run(Mode.REVERSE).seen
    assert few.cost.vjps == 3
    assert seen is not None
    assert seen.smallest[0] >= BOUNDED * 2.5e-7 * float(np.cos(0.5))  # what is excused of the largest entry
