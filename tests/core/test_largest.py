"""How large entries may be, by sums of them: what a certificate says and what an entry is excused rest on the same."""

from __future__ import annotations

import numpy as np
from array_problem import investigation

from gradproof.core.largest import certified, largest_entries
from gradproof.core.ledger import Ledger
from gradproof.core.options import Options, Strategy
from gradproof.core.types import Vector

POINT = np.random.default_rng(0).uniform(-2.0, 2.0, 30)
SAW = 3e-3


def ledger_of(rtol: float | None = None) -> Ledger:
    """A sawtooth, whose slope is 1, with its first question."""

    def slope(cotangent: Vector) -> Vector:
        return cotangent

    ledger = Ledger(investigation(lambda x: x % SAW, POINT, vjp=slope), Options(strategy=Strategy.PROBES, rtol=rtol))
    ledger.surveys.append(ledger.survey)
    ledger.answered(np.where(np.arange(30) % 2, 1.0, -0.75))
    return ledger


def test_steps_that_reach_over_a_jump_say_nothing_of_entries() -> None:
    ledger = ledger_of()
    assert np.abs(ledger.survey.about).max() > 20.0
    bounds = certified(ledger)
    assert bounds is not None
    assert 1.0 <= bounds[0] <= 3.0


def test_what_is_excused_does_not_depend_on_what_is_measured_and_asked_later() -> None:
    ledger, other = ledger_of(), ledger_of()
    other.survey.climb(29, 32, 35)
    other.pull(np.full(30, 1e-3) + 10.0 * (np.arange(30) == 7))
    assert certified(ledger) == certified(other)


def test_a_certificate_knows_of_all_that_is_excused() -> None:
    for ledger in (ledger_of(), ledger_of()):
        bounds = certified(ledger)
        assert bounds is not None
        assert largest_entries(ledger) >= bounds
        ledger.survey.climb(29, 32, 35)


def test_nothing_is_bounded_where_it_was_asked_for() -> None:
    assert certified(ledger_of(rtol=1e-3)) is None
