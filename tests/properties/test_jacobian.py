"""Numeric against analytic: one finding for each pair of an output and an input at fault."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from array_problem import ArrayProblem, Part

from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.properties.jacobian import jacobian

MATRIX = np.random.default_rng(0).uniform(0.5, 1.5, (6, 10))
INPUTS = [Part((4,), name="x"), Part((2, 3), name="weight")]
OUTPUTS = [Part((2,)), Part((4,))]


def find(errors: dict[tuple[int, int], float], mode: Mode = Mode.REVERSE, **options: Any) -> list[Finding]:
    """The findings for a linear map from two inputs to two outputs whose claimed matrix has these errors."""
    claimed = MATRIX.copy()
    for where, error in errors.items():
        claimed[where] += error
    problem = ArrayProblem(lambda x: MATRIX @ x, np.ones(10), claimed, inputs=INPUTS, outputs=OUTPUTS)
    return list(jacobian(problem, Options(modes=(mode,), atol=1e-5, rtol=1e-3, **options)))


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
        (Mode.FORWARD, "Jacobian computed with forward mode mismatch for output 1 with respect to input 1 `weight`"),
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
    problem = ArrayProblem(lambda x: MATRIX @ x, np.ones(10), 2 * MATRIX)
    (finding,) = jacobian(problem, Options(atol=1e-5, rtol=1e-3))
    assert finding.wrong == finding.total == 60


def test_small_memory_gives_the_same_findings() -> None:
    errors = {(0, 0): 0.1, (3, 7): 0.2, (5, 9): 5.0}
    assert [str(f) for f in find(errors, memory=1)] == [str(f) for f in find(errors)]


def complex_square(off: complex) -> ArrayProblem:
    """z², whose claimed derivative 2z has its second column (the imaginary part of the input) off by `off`."""
    z = 3 + 1j

    def function(x: Any) -> Any:
        square = complex(*x) ** 2
        return [square.real, square.imag]

    d = 2 * z
    claimed = [[d.real, -d.imag + off.real], [d.imag, d.real + off.imag]]
    part = Part((), parts=2)
    return ArrayProblem(function, [z.real, z.imag], claimed, inputs=[part], outputs=[part])


def test_in_a_complex_entry_the_part_that_is_wrong_is_the_one_reported() -> None:
    (finding,) = jacobian(complex_square(off=0.6j), Options(atol=1e-5, rtol=1e-3))
    worst = finding.entries[0]
    assert (worst.output.part, worst.input.part) == ("imaginary part", "imaginary part")
    assert worst.difference == pytest.approx(0.6, abs=1e-6)
    assert finding.analytic == pytest.approx(6.6)
    assert finding.numeric == pytest.approx(6.0)


def test_what_cannot_be_judged_is_inconclusive_and_says_so() -> None:
    """A ripple far below every step is noise to a numerical derivative."""
    problem = ArrayProblem(lambda x: x + 1e-6 * np.sin(1e12 * x), 0.3, [[1.0]])
    (finding,) = jacobian(problem, Options(atol=1e-9, rtol=1e-9))
    assert finding.status is Status.INCONCLUSIVE
    assert "cannot be judged" in finding.message
    assert finding.error is not None
    assert finding.error > 1e-4


def test_without_a_graph_there_is_nothing_to_compare() -> None:
    problem = ArrayProblem(lambda x: x, 1.0, [[7.0]], has_graph=False)
    assert list(jacobian(problem, Options())) == []
