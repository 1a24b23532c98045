"""Elements whose gradient is small beside that of others: which those are, and where nobody looks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from array_problem import SINGLE, Part, investigation

from gradproof.core.investigation import Investigation
from gradproof.core.ledger import Ledger
from gradproof.core.options import Options, Strategy
from gradproof.core.probing import Prober
from gradproof.core.problem import Mode, Problem
from gradproof.core.questioning import Questioning
from gradproof.core.weak import dwarfed_elements, weak_elements

DWARFED = [False, True, True]


def options(**more: Any) -> Options:
    return Options(strategy=Strategy.PROBES, modes=(Mode.REVERSE,), affordable_columns=0, few_columns=0, **more)


def beside(large: float, *small: float, claimed: float = 1.0, function: Callable[[Any], Any] = np.array) -> Problem:
    """One output that moves with one element by far more than with others, of which so many times that is claimed."""
    slopes = np.array(small)
    point = np.linspace(0.7, 1.3, 1 + len(small))
    return investigation(
        lambda x: large * x[0] + (slopes * function(x[1:])).sum(), point, [[large, *(claimed * slopes)]]
    ).problem


def asked(problem: Problem, chosen: Options) -> Ledger:
    """What is known after the first questions."""
    ledger = Ledger(Investigation(problem), chosen)
    assert Questioning(ledger).look(ledger.survey, ledger.easiest_step) is None
    return ledger


def test_elements_that_could_hide_as_a_whole_are_dwarfed() -> None:
    found = dwarfed_elements(asked(beside(1e10, 1e-3, 1e-4), options()))
    assert found is not None
    assert found.tolist() == DWARFED
    assert dwarfed_elements(asked(beside(1.0, 1e-3, 1e-4), options())) is None
    assert dwarfed_elements(asked(beside(1e10, 0.0, 0.0), options())) is None, "nothing is claimed of them"


@pytest.mark.parametrize("more", [{"certify": False}, {"atol": 1e-5}])
def test_nobody_looks_for_them_without_a_certificate_or_with_a_tolerance(more: dict[str, Any]) -> None:
    assert dwarfed_elements(asked(beside(1e10, 1e-3, 1e-4), options(**more))) is None


def test_nor_next_to_noise() -> None:
    noisy = replace(beside(1e10, 1e-3, 1e-4), noise=np.array([1e-6]))
    assert dwarfed_elements(asked(noisy, options())) is None


def test_nor_in_low_precision_nor_of_several_outputs() -> None:
    row = np.array([[1e10, 1e-3, 1e-4]])
    low = investigation(
        lambda x: row @ x, np.ones(3), row, inputs=[Part((3,), eps=SINGLE)], outputs=[Part((1,), eps=SINGLE)]
    )
    both = np.concatenate([row, row])
    two = investigation(lambda x: both @ x, np.ones(3), both)
    assert [dwarfed_elements(asked(case.problem, options())) for case in (low, two)] == [None, None]


def test_with_a_tolerance_elements_are_weak_that_are_not_seen_to_their_own() -> None:
    found = weak_elements(asked(beside(1e10, 1e-3, 1e-4), options(atol=1e-5, rtol=1e-3)))
    assert found is not None
    assert found.tolist() == DWARFED
    assert weak_elements(asked(beside(1.0, 1e-3, 1e-4), options(atol=1e-5, rtol=1e-3))) is None


def told(problem: Problem) -> list[str]:
    """What remains unsaid of elements that others dwarf."""
    unseen = Prober(Investigation(problem), options()).run(Mode.REVERSE).unseen
    return [each for each in unseen if "dwarfed" in each]


@pytest.mark.parametrize("large", [1e10, 1e11])
def test_what_is_claimed_of_them_is_looked_at_by_the_longest_steps(large: float) -> None:
    small = [1e-3] * 49
    assert told(beside(large, *small)) == []
    assert len(told(beside(large, *small, claimed=2.0))) == 1


def test_a_kink_is_no_other_slope() -> None:
    """The mean of its sides is not what is claimed of one of them."""
    assert told(beside(1e8, 1e-3, 1e-3, function=lambda x: np.abs(x - 1.0))) == []
