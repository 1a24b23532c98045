"""Numeric against analytic: one finding for each pair of an output and an input at fault."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from array_problem import Part, findings, investigation

from gradproof.core.investigation import Investigation
from gradproof.core.options import Options, Strategy
from gradproof.core.problem import Mode
from gradproof.core.seen import Seen
from gradproof.core.status import Status
from gradproof.core.suspects import Judged, Suspects
from gradproof.properties.jacobian import describe, jacobian
from gradproof.results.finding import Finding

MATRIX = np.random.default_rng(0).uniform(0.5, 1.5, (6, 10))
INPUTS = [Part((4,), name="x"), Part((2, 3), name="weight")]
OUTPUTS = [Part((2,)), Part((4,))]


def find(errors: dict[tuple[int, int], float], mode: Mode = Mode.REVERSE, **options: Any) -> list[Finding]:
    """The findings for a linear map from two inputs to two outputs whose claimed matrix has these errors."""
    claimed = MATRIX.copy()
    for where, error in errors.items():
        claimed[where] += error
    case = investigation(lambda x: MATRIX @ x, np.ones(10), claimed, inputs=INPUTS, outputs=OUTPUTS)
    return findings(jacobian(case, Options(modes=(mode,), atol=1e-5, rtol=1e-3, **options)))


@pytest.mark.parametrize("mode", Mode)
def test_a_right_jacobian_has_no_finding(mode: Mode) -> None:
    assert find({}, mode) == []


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("error", "output", "output_element", "input_", "input_element"),
    [
        ((0, 0), 0, (0,), 0, (0,)),
        ((1, 3), 0, (1,), 0, (3,)),
        ((2, 4), 1, (0,), 1, (0, 0)),
        ((5, 9), 1, (3,), 1, (1, 2)),
        ((4, 2), 1, (2,), 0, (2,)),
    ],
)
def test_a_wrong_entry_is_placed(
    error: tuple[int, int],
    output: int,
    output_element: tuple[int, ...],
    input_: int,
    input_element: tuple[int, ...],
    mode: Mode,
) -> None:
    (finding,) = find({error: 0.5}, mode)
    assert (finding.property, finding.status) == ("jacobian", Status.WRONG)
    assert (finding.output, finding.output_element) == (output, output_element)
    assert (finding.input, finding.input_element) == (input_, input_element)
    assert finding.wrong == 1
    assert finding.total == (2, 4)[output] * (4, 6)[input_]
    assert finding.numeric == pytest.approx(MATRIX[error], abs=1e-8)
    assert finding.analytic == pytest.approx(MATRIX[error] + 0.5)
    assert finding.allowed is not None
    assert finding.allowed < 0.5


@pytest.mark.parametrize(
    ("mode", "phrase"),
    [
        (Mode.REVERSE, "Jacobian mismatch for output 1 with respect to input 1 `weight`"),
        (Mode.FORWARD, "Jacobian mismatch in forward mode for output 1 with respect to input 1 `weight`"),
    ],
)
def test_the_message_names_the_pair_the_entry_and_the_numbers(mode: Mode, phrase: str) -> None:
    (finding,) = find({(5, 9): 0.5}, mode)
    assert finding.message.startswith(phrase)
    assert "1 of 24 entries differ" in finding.message
    assert re.search(r"d\(.*element \[3\]\) / d\(.*element \[1, 2\]\): numeric", finding.message)
    assert f"analytic {MATRIX[5, 9] + 0.5:.9g}" in finding.message


def test_each_pair_has_its_own_finding_worst_first() -> None:
    findings = find({(0, 0): 0.1, (0, 1): 0.2, (5, 9): 5.0, (1, 9): 1.0})
    assert [(f.output, f.input, f.wrong) for f in findings] == [(1, 1, 1), (0, 1, 1), (0, 0, 2)]


def test_entries_are_listed_worst_first_and_counted_beyond_the_list() -> None:
    findings = find({(0, j): 0.1 * (j + 1) for j in range(4)}, worst=2)
    (finding,) = findings
    assert finding.wrong == 4
    assert [entry.input.element for entry in finding.entries] == [(3,), (2,)]
    differences = [entry.difference for entry in finding.entries]
    assert differences == pytest.approx([0.4, 0.3], abs=1e-6)
    assert all(entry.status is Status.WRONG for entry in finding.entries)


def test_a_nan_is_the_worst_of_all() -> None:
    (finding,) = find({(0, 0): 0.5, (0, 2): np.nan, (0, 3): 100.0})
    assert finding.input_element == (2,)
    assert np.isnan(finding.analytic)
    assert [entry.input.element for entry in finding.entries] == [(2,), (3,), (0,)]


def test_a_constant_factor_makes_every_entry_wrong() -> None:
    case = investigation(lambda x: MATRIX @ x, np.ones(10), 2 * MATRIX)
    (finding,) = findings(jacobian(case, Options(atol=1e-5, rtol=1e-3)))
    assert finding.wrong == finding.total == 60


def test_small_memory_gives_the_same_findings() -> None:
    errors = {(0, 0): 0.1, (3, 7): 0.2, (5, 9): 5.0}
    assert [str(f) for f in find(errors, memory=1)] == [str(f) for f in find(errors)]


def complex_square(off: complex) -> Investigation:
    """z², whose claimed derivative 2z has its second column (the imaginary part of the input) off by `off`."""
    z = 3 + 1j

    def function(x: Any) -> Any:
        square = complex(*x) ** 2
        return [square.real, square.imag]

    d = 2 * z
    claimed = [[d.real, -d.imag + off.real], [d.imag, d.real + off.imag]]
    part = Part((), parts=2)
    return investigation(function, [z.real, z.imag], claimed, inputs=[part], outputs=[part])


def test_in_a_complex_entry_the_part_that_is_wrong_is_the_one_reported() -> None:
    (finding,) = findings(jacobian(complex_square(off=0.6j), Options(atol=1e-5, rtol=1e-3)))
    worst = finding.entries[0]
    assert (worst.output.part, worst.input.part) == ("imaginary part", "imaginary part")
    assert worst.difference == pytest.approx(0.6, abs=1e-6)
    assert finding.analytic == pytest.approx(6.6)
    assert finding.numeric == pytest.approx(6.0)


def test_what_cannot_be_judged_is_inconclusive_and_says_so() -> None:
    """A ripple far below every step is noise to a numerical derivative."""
    case = investigation(lambda x: x + 1e-6 * np.sin(1e12 * x), 0.3, [[1.0]])
    (finding,) = findings(jacobian(case, Options(atol=1e-9, rtol=1e-9)))
    assert finding.status is Status.INCONCLUSIVE
    assert "cannot be judged" in finding.message
    assert finding.error is not None
    assert finding.error > 1e-4


def kinked(size: int) -> Investigation:
    """|x|, with the first input on the kink and a claim of 0.5 there."""
    point = np.arange(float(size))
    return investigation(np.abs, point, np.diag(np.where(point == 0, 0.5, 1.0)))


@pytest.mark.parametrize("strategy", Strategy)
def test_a_valid_subgradient_is_a_kink_beside_entries_that_were_verified(strategy: Strategy) -> None:
    (finding,) = findings(jacobian(kinked(2), Options(atol=1e-5, rtol=1e-3, strategy=strategy)))
    assert (finding.status, finding.kind, finding.input_element) == (Status.KINK, "", (0,))
    assert "The function has no derivative here, for output 0 with respect to input 0" in finding.message
    assert "1 of 4 entries are valid subgradients" in finding.message
    assert finding.entries[0].sides == pytest.approx((-1.0, 1.0), abs=1e-6)


@pytest.mark.parametrize("strategy", Strategy)
def test_where_the_only_entry_is_on_a_kink_nothing_was_verified(strategy: Strategy) -> None:
    (finding,) = findings(jacobian(kinked(1), Options(atol=1e-5, rtol=1e-3, strategy=strategy)))
    assert (finding.status, finding.kind) == (Status.INCONCLUSIVE, "lone kink")
    assert "This is the only entry there is: no derivative was verified" in finding.message


@pytest.mark.parametrize("mode", Mode)
def test_a_sum_of_right_entries_that_is_wrong_shows_a_derivative_that_is_not_linear(mode: Mode) -> None:
    def together(v: Any) -> Any:
        return v * (1.0 if (v != 0).sum() == 1 else 1.5)

    case = investigation(lambda x: x, np.ones(3), vjp=together, jvp=together)
    options = Options(atol=1e-5, rtol=1e-3, strategy=Strategy.PROBES, modes=(mode,))
    (finding,) = findings(jacobian(case, options))
    assert (finding.status, finding.kind, finding.mode) == (Status.WRONG, "nonlinear", mode)
    words = case.problem.words
    reverse = mode is Mode.REVERSE
    assert f"{words.rule(reverse)} is not linear in {words.probe(reverse)}" in finding.message
    assert words.probe(reverse) in finding.hint


@pytest.mark.parametrize("strategy", Strategy)
def test_what_was_seen_is_said_once_for_each_comparison(strategy: Strategy) -> None:
    case = investigation(lambda x: MATRIX @ x, np.ones(10), MATRIX, inputs=INPUTS, outputs=OUTPUTS)
    found = list(jacobian(case, Options(atol=1e-5, rtol=1e-3, modes=tuple(Mode), strategy=strategy)))
    assert all(isinstance(each, Seen) and len(each.smallest) == 2 for each in found)
    assert len(found) == (1 if strategy is Strategy.ENTRIES else 2)
    plain = Options(atol=1e-5, rtol=1e-3, certify=False)
    assert list(jacobian(case, plain)) == []


@pytest.mark.parametrize("claimed", [np.nan, np.inf])
@pytest.mark.parametrize("status", [Status.WRONG, Status.INCONCLUSIVE])
def test_what_cannot_be_judged_is_not_headed_by_what_it_is_claimed_to_be(status: Status, claimed: float) -> None:
    number, one = np.zeros(1, dtype=np.intp), np.ones(1)
    suspects = Suspects(number, number, np.array([claimed]), one, one, one)
    judged = Judged(Mode.REVERSE, suspects, one, np.array([status.rank]))
    problem = investigation(np.sin, np.ones(2)).problem
    (finding,) = describe(problem, Options(modes=(Mode.REVERSE,)), judged, "jacobian", "off")
    assert ("where the function is finite" in finding.headline) == (status is Status.WRONG)
