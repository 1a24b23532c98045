"""What is not seen is asked again by questions that may see it, and by no others."""

from __future__ import annotations

import numpy as np
import pytest
from array_problem import Part, findings, investigation

from gradproof.core.hidden import hidden_outputs, unseen_blocks
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options, Strategy
from gradproof.core.probing import Prober
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.survey import Survey
from gradproof.properties.jacobian import jacobian

SIZE, LARGE = 20, 2e6
GRADCHECK = Options(strategy=Strategy.PROBES, modes=(Mode.REVERSE,), atol=1e-5, rtol=1e-3, certify=False)


def half_drowned(off: dict[int, float] | None = None) -> Investigation:
    """sin, and the same added to a number in whose round-off it drowns; the claimed diagonals have these errors."""
    point = np.random.default_rng(0).uniform(0.5, 1.5, SIZE)
    slopes = np.tile(np.cos(point), 2)
    for place, error in (off or {}).items():
        slopes[place] += error

    def function(x: np.ndarray) -> np.ndarray:
        return np.concatenate([np.sin(x), LARGE + np.sin(x)])

    def vjp(v: np.ndarray) -> np.ndarray:
        return (slopes * v).reshape(2, SIZE).sum(axis=0)

    return investigation(function, point, vjp=vjp, outputs=[Part((SIZE,)), Part((SIZE,))])


def test_only_outputs_that_are_not_seen_are_compared_entry_by_entry() -> None:
    case = half_drowned()
    assert findings(jacobian(case, GRADCHECK)) == []
    assert case.rows is None  # not every row was asked for
    assert case.cost.vjps < 2 * SIZE


@pytest.mark.parametrize("place", [3, SIZE + 3])
def test_a_wrong_entry_is_found_among_those_that_are_seen_and_the_others(place: int) -> None:
    finding, *_ = findings(jacobian(half_drowned({place: 0.5}), GRADCHECK))
    assert (finding.status, finding.output, finding.output_element) == (Status.WRONG, place // SIZE, (3,))
    assert finding.input_element == (3,)


def test_the_outputs_that_are_not_seen_are_a_run() -> None:
    prober = Prober(half_drowned(), GRADCHECK)
    ledger = prober._ledger  # pyright: ignore[reportPrivateUsage]
    assert prober._questioning.look(ledger.survey, ledger.easiest_step) is None  # pyright: ignore[reportPrivateUsage]
    run = hidden_outputs(ledger, unseen_blocks(ledger))
    assert SIZE <= run.start < run.stop <= 2 * SIZE
    assert not (
        ledger.survey.hides[: run.start] > ledger.wanted(ledger.survey, ledger.smallest_step)[: run.start]
    ).any()


def test_no_rung_is_finer_than_noise_allows() -> None:
    prober = Prober(half_drowned(), GRADCHECK)
    ledger = prober._ledger  # pyright: ignore[reportPrivateUsage]
    prober._questioning.look(ledger.survey, ledger.easiest_step)  # pyright: ignore[reportPrivateUsage]
    assert ledger.survey.has(8)
    assert ledger.survey.finest == 17


def test_what_is_typical_of_an_input_is_read_off_a_survey_of_it_alone() -> None:
    """Beside a strong input, a weak one has a small share of J u; moved alone, all of it."""
    point = np.random.default_rng(0).uniform(0.5, 1.5, 2 * SIZE)
    factors = np.repeat([1.0, 1e-3], SIZE)

    def function(x: np.ndarray) -> np.ndarray:
        return np.sin(x).reshape(2, SIZE).T @ np.array([1.0, 1e-3])

    def vjp(v: np.ndarray) -> np.ndarray:
        return np.tile(v, 2) * factors * np.cos(point)

    case = investigation(function, point, vjp=vjp, inputs=[Part((SIZE,)), Part((SIZE,))])
    prober = Prober(case, GRADCHECK)
    ledger, weak = prober._ledger, case.problem.inputs.blocks[1]  # pyright: ignore[reportPrivateUsage]
    assert prober._questioning.look(ledger.survey, ledger.easiest_step) is None  # pyright: ignore[reportPrivateUsage]
    joint = ledger.wanted_of(ledger.survey, weak, 1.0)
    assert (joint < ledger.wanted(ledger.survey, 1.0)).all()
    alone = Survey(ledger.stencil, np.where(np.arange(2 * SIZE) < SIZE, 0.0, ledger.direction))
    alone.climb(14, 17)
    assert np.array_equal(ledger.wanted_of(alone, weak, 1.0), ledger.wanted(alone, 1.0))
