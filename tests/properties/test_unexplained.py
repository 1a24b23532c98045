"""A lone entry that noise would excuse is in doubt where longer steps see no more of what is claimed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from array_problem import DOUBLE, SINGLE, Part, array_problem
from functions import custom

from gradproof import Verdict, check
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.seen import Note
from gradproof.core.status import Status
from gradproof.properties.unexplained import left_in_doubt
from gradproof.results.finding import Entry, Finding

SLOPE, CLAIMED, OFF = 1.0, 1.25, 0.25
MESSAGE = "but short ones see the difference clearly: neither"


def noisy(slope: Any = SLOPE, eps: float = DOUBLE) -> Investigation:
    """Two numbers, each times a slope; the noise that is known of them is of no consequence."""
    parts = [Part((2,), eps=eps)]
    problem = array_problem(
        lambda x: slope * x, np.array([0.5, 0.75]), CLAIMED * np.eye(2), inputs=parts, outputs=parts
    )
    case = Investigation(problem)
    case.take_as(replace(problem, noise=np.full(2, 1e-9)))
    return case


def entry(case: Investigation, place: int = 0, **more: Any) -> Entry:
    inputs, outputs = case.problem.inputs, case.problem.outputs
    given: dict[str, Any] = {
        "output": outputs.place(place),
        "input": inputs.place(place),
        "numeric": CLAIMED - OFF,
        "error": 1e-3 * OFF,
        "analytic": CLAIMED,
        "tolerance": 1e-9,
        "status": Status.WRONG,
    }
    return Entry(**{**given, **more})


def finding(*entries: Entry, **more: Any) -> Finding:
    given: dict[str, Any] = {
        "property": "jacobian",
        "status": Status.WRONG,
        "headline": "Jacobian mismatch for output 0 with respect to input 0",
        "mode": Mode.REVERSE,
        "entries": entries,
        "wrong": len(entries),
        "total": 4,
    }
    return Finding(**{**given, **more})


def doubted(case: Investigation, *found: Finding | Note, **more: Any) -> list[Finding]:
    return left_in_doubt(case, Options(**{"certify": True, **more}), found)


def test_a_lone_entry_is_left_in_doubt_and_says_why() -> None:
    case = noisy()
    wrong = finding(entry(case))
    (left,) = doubted(case, wrong, Note("other findings are asked, notes are not"))
    assert (left.status, left.kind) == (Status.INCONCLUSIVE, "unexplained")
    assert left.headline.startswith("The Jacobian could not be judged for output 0 with respect to input 0\n")
    assert MESSAGE in left.headline
    assert (left.entries, left.mode, left.doubtful) == (wrong.entries, Mode.REVERSE, 1)


def test_two_evaluations_tell() -> None:
    case = noisy()
    before = case.cost.evaluations
    doubted(case, finding(entry(case)))
    assert case.cost.evaluations == before + 2


def test_what_was_left_in_doubt_before_stays_as_it_is() -> None:
    case = noisy()
    (left,) = doubted(case, finding(entry(case)))
    assert doubted(case, left) == [left]


def test_an_entry_that_both_modes_find_is_left_in_doubt_in_both() -> None:
    case = noisy()
    found = [finding(entry(case), mode=mode) for mode in Mode]
    assert [(each.mode, each.kind) for each in doubted(case, *found)] == [(mode, "unexplained") for mode in Mode]


@pytest.mark.parametrize("apart", [False, True], ids=["in one finding", "in two"])
def test_two_entries_are_explained_by_noise(apart: bool) -> None:
    case = noisy()
    entries = [entry(case, 0), entry(case, 1)]
    assert doubted(case, *(map(finding, entries) if apart else [finding(*entries)])) == []


@pytest.mark.parametrize("more", [{"wrong": 2}, {"unjudged": 1}, {"status": Status.INCONCLUSIVE}])
def test_so_is_one_of_more_than_are_listed_and_what_was_in_doubt_by_itself(more: dict[str, Any]) -> None:
    case = noisy()
    assert doubted(case, finding(entry(case), **more)) == []


def test_without_a_certificate_nothing_was_promised() -> None:
    case = noisy()
    assert doubted(case, finding(entry(case)), certify=False) == []


def test_nor_is_anything_in_low_precision() -> None:
    case = noisy(eps=SINGLE)
    assert doubted(case, finding(entry(case))) == []


@pytest.mark.parametrize(
    "blurred",
    [
        {"error": 0.2 * OFF},
        {"error": np.inf},
        {"error": np.nan},
        {"numeric": 0.0, "error": 0.0},
        {"numeric": np.nan},
        {"numeric": np.inf},
        {"analytic": np.inf},
        {"sides": (0.5, 1.5)},
    ],
    ids=str,
)
def test_an_entry_that_was_not_seen_clearly_is_no_doubt(blurred: dict[str, Any]) -> None:
    case = noisy()
    assert doubted(case, finding(entry(case, **blurred))) == []


@pytest.mark.parametrize(("part", "explains"), [(0.0, True), (0.2, True), (0.45, True), (0.6, False), (0.9, False)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_longer_step_explains_what_it_halves(part: float, explains: bool, sign: float) -> None:
    """`part` is how far it is off from the claim, of how far short steps are."""
    case = noisy(slope=CLAIMED + sign * part * OFF)
    assert bool(doubted(case, finding(entry(case)))) != explains


def test_a_longer_step_that_sees_nothing_is_held_against_nobody() -> None:
    def ends(x: Any) -> Any:
        return np.where(x == np.array([0.5, 0.75]), x, np.nan)

    case = Investigation(array_problem(ends, np.array([0.5, 0.75]), np.eye(2)))
    assert doubted(case, finding(entry(case))) == []


def sawtooth(x: torch.Tensor) -> torch.Tensor:
    return x**2 + 0.0019 * x * (torch.floor(x / 8.6e-4) * 8.6e-4)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_of_a_sawtooth_an_error_that_its_certificate_knows_is_in_doubt(sign: float) -> None:
    """Steps over its teeth look noisy, and are off from any claim; shorter ones see the slope to many digits."""
    x = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
    slope, off = torch.autograd.grad(sawtooth(x), x)[0], 0.0

    def run(**more: Any) -> Any:
        return check(custom(sawtooth, lambda x, g: g * (slope + off)), x, properties="jacobian", **more)

    right = run()
    assert right.verdict is Verdict.PASS
    assert right.certificate is not None
    off = sign * 1.2 * right.certificate.smallest[0][1]
    report = run()
    assert report.verdict is Verdict.INCONCLUSIVE
    (found,) = report.findings
    assert (found.kind, found.input_element, found.output_element) == ("unexplained", (0,), (0,))
    assert MESSAGE in found.message
