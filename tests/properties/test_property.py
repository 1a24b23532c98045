"""The registry: what each property can be asked of, and what it needs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from array_problem import array_problem, findings

from gradproof.core.capabilities import (
    LACKING,
    Batching,
    Inspection,
    MemoryLayout,
    MemoryLayouts,
    MemoryWatch,
    Omission,
    Pairing,
    Reference,
    Side,
)
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem
from gradproof.properties import DEFAULT, EXPLANATIONS, PROPERTIES
from gradproof.properties.property import Property

REVERSE, FORWARD, BOTH = (Mode.REVERSE,), (Mode.FORWARD,), (Mode.REVERSE, Mode.FORWARD)
MATRIX = np.array([[2.0, -1.0, 0.5], [-1.0, 3.0, 0.25], [0.5, 0.25, 1.0]])  # symmetric

NEEDS: dict[str, type | None] = {
    "unused": None,
    "jacobian": None,
    "repeatability": None,
    "mutation": MemoryWatch,
    "determinism": None,
    "metadata": Inspection,
    "dtypes": Inspection,
    "primal": Inspection,
    "batched_forward": Batching,
    "batched_reverse": Batching,
    "linearity": None,
    "layout": MemoryLayouts,
    "aliasing": Inspection,
    "adjoint": None,
    "undefined": Omission,
    "symmetry": Pairing,
    "compare": Reference,
}
REVERSE_ONLY = {"metadata", "batched_reverse", "layout", "aliasing", "symmetry", "compare"}
FORWARD_ONLY = {"batched_forward"}
BOTH_TOGETHER = {"adjoint"}
OF_FORM = {"metadata", "dtypes", "batched_forward", "batched_reverse", "undefined"}
WITHOUT_A_DERIVATIVE = {"unused", "repeatability", "mutation", "compare"}
NAMES = pytest.mark.parametrize("name", PROPERTIES)


def problem(**changed: Any) -> Problem:
    """A right problem of a backend that can do everything."""
    side = Side(MATRIX @ np.ones(3), lambda v: MATRIX.T @ v)
    everything = {
        Batching: Batching(None, lambda rows: rows @ MATRIX, lambda rows: rows @ MATRIX.T, 1, 1),
        Reference: Reference(side, None),
    }
    layouts = list(MemoryLayout)
    made = array_problem(
        lambda x: MATRIX @ x, np.ones(3), MATRIX, pairs=np.arange(3), layouts=layouts, capabilities=everything
    )
    return dataclasses.replace(made, **changed)


def asked(case: Problem, modes: tuple[Mode, ...], order: int = 2) -> set[str]:
    return {name for name, entry in PROPERTIES.items() if entry.can_be_asked(case, modes, order)}


# who is asked


def test_every_property_is_accounted_for() -> None:
    assert set(PROPERTIES) == set(NEEDS)
    assert set(PROPERTIES) - DEFAULT == {"batched_forward", "batched_reverse", "compare"}
    assert set(EXPLANATIONS) < DEFAULT


def test_in_both_modes_everything_is_asked() -> None:
    assert asked(problem(), BOTH) == set(PROPERTIES) - {"unused"}


def test_in_reverse_mode_alone_nothing_is_asked_about_forward_mode() -> None:
    assert asked(problem(), REVERSE) == set(PROPERTIES) - {"unused"} - FORWARD_ONLY - BOTH_TOGETHER


def test_in_forward_mode_alone_nothing_is_asked_about_reverse_mode() -> None:
    assert asked(problem(), FORWARD) == set(PROPERTIES) - {"unused"} - REVERSE_ONLY - BOTH_TOGETHER


def test_a_problem_that_claims_no_derivative_is_asked_about_its_values_only() -> None:
    assert asked(problem(connected=False), BOTH) == WITHOUT_A_DERIVATIVE


@pytest.mark.parametrize("modes", [REVERSE, BOTH, FORWARD])
@pytest.mark.parametrize(("inputs", "outputs"), [(0, 0), (0, 3), (3, 0)])
def test_only_of_backwards_without_any_elements_nothing_is_asked_about_them(
    inputs: int, outputs: int, modes: tuple[Mode, ...]
) -> None:
    made = array_problem(lambda x: np.zeros(outputs), np.zeros(inputs))
    empty = inputs == outputs == 0 and modes == REVERSE
    expected = OF_FORM - FORWARD_ONLY if empty else asked(problem(), modes)
    assert asked(dataclasses.replace(made, capabilities=problem().capabilities), modes) == expected


def test_of_empty_arrays_without_a_derivative_what_is_always_asked_is_asked() -> None:
    made = array_problem(lambda x: np.zeros(0), np.zeros(0), connected=False)
    whole = dataclasses.replace(made, capabilities=problem().capabilities)
    assert asked(whole, REVERSE) == asked(problem(connected=False), REVERSE)


@NAMES
def test_what_a_property_needs_must_be_there(name: str) -> None:
    whole, entry = problem(connected=name != "unused"), PROPERTIES[name]
    lacking = NEEDS[name]
    without = {kind: offered for kind, offered in whole.capabilities.items() if kind is not lacking}
    poorer = dataclasses.replace(whole, capabilities=without)
    assert entry.can_be_asked(whole, BOTH, 2)
    assert entry.obstacle(whole, 2) == ""
    assert entry.can_be_asked(poorer, BOTH, 2) is (lacking is None)
    assert entry.obstacle(poorer, 2) == ("" if lacking is None else LACKING[lacking])


def test_symmetry_is_a_question_about_second_derivatives() -> None:
    assert asked(problem(), BOTH, order=2) - asked(problem(), BOTH, order=1) == {"symmetry"}


@pytest.mark.parametrize(
    ("missing", "mode", "silent"), [("jvp", Mode.FORWARD, FORWARD_ONLY), ("vjp", Mode.REVERSE, REVERSE_ONLY)]
)
def test_a_derivative_that_is_not_there_is_an_obstacle_where_it_is_needed(
    missing: str, mode: Mode, silent: set[str]
) -> None:
    poorer = problem(**{missing: None})
    obstacles = {name: entry.obstacle(poorer, 2) for name, entry in PROPERTIES.items()}
    needing = silent | BOTH_TOGETHER
    assert obstacles == {name: f"it needs {mode}" if name in needing else "" for name in PROPERTIES}


@pytest.mark.parametrize(("missing", "modes"), [("jvp", FORWARD), ("vjp", REVERSE)])
def test_a_mode_that_there_is_no_derivative_for_cannot_be_asked_about(missing: str, modes: tuple[Mode, ...]) -> None:
    assert asked(problem(**{missing: None}), modes) == set()


def test_what_is_not_about_a_problem_is_no_obstacle() -> None:
    assert PROPERTIES["unused"].obstacle(problem()) == ""
    assert PROPERTIES["symmetry"].obstacle(problem(vjp=None), 1) == ""
    assert PROPERTIES["layout"].obstacle(problem(connected=False, capabilities={})) == ""


def test_every_capability_that_a_property_needs_has_a_reason_for_the_report() -> None:
    assert {entry.needs for entry in PROPERTIES.values() if entry.needs is not None} == set(LACKING)


def test_a_property_of_all_modes_needs_each_of_them() -> None:
    entry = Property(lambda case, options: [], all_modes=True)
    assert [entry.can_be_asked(problem(), modes) for modes in (REVERSE, FORWARD, BOTH)] == [False, False, True]


# whoever is asked can answer


def unasked(*question: Any) -> Any:
    raise AssertionError("asked")


def offered(case: Problem, mode: Mode) -> dict[type, Any]:
    """The capabilities of a backend that has one mode only."""
    name, other = ("vjp", "jvp") if mode is Mode.REVERSE else ("jvp", "vjp")
    kept = dict(case.capabilities)
    for kind in (Omission, Inspection, Batching):
        kept[kind] = kept[kind]._replace(**{other: None})
    if name == "jvp":
        kept[MemoryLayouts] = MemoryLayouts(frozenset(MemoryLayout), unasked)
        kept[MemoryWatch] = MemoryWatch(unasked, ())
    return kept


@NAMES
@pytest.mark.parametrize("modes", [REVERSE, FORWARD, BOTH], ids=["reverse", "forward", "both"])
def test_a_right_derivative_has_no_finding(name: str, modes: tuple[Mode, ...]) -> None:
    case, options = problem(), Options(modes=modes, properties=frozenset(PROPERTIES))
    if PROPERTIES[name].can_be_asked(case, modes, 2):
        assert findings(PROPERTIES[name].examine(Investigation(case), options)) == []
    else:
        assert name in {"unused"} | REVERSE_ONLY | FORWARD_ONLY | BOTH_TOGETHER


@pytest.mark.parametrize("mode", Mode)
def test_who_has_one_derivative_is_not_asked_for_the_other(mode: Mode) -> None:
    whole = problem()
    missing = {"jvp": None} if mode is Mode.REVERSE else {"vjp": None}
    case = dataclasses.replace(whole, **missing, capabilities=offered(whole, mode))
    options = Options(modes=(mode,), properties=frozenset(PROPERTIES))
    investigation = Investigation(case)
    names = asked(case, (mode,))
    assert len(names) >= 6
    for name in names:
        assert findings(PROPERTIES[name].examine(investigation, options)) == [], name
    assert (investigation.cost.jvps if mode is Mode.REVERSE else investigation.cost.vjps) == 0


@pytest.mark.parametrize("name", sorted(WITHOUT_A_DERIVATIVE))
def test_who_claims_no_derivative_is_not_asked_for_it(name: str) -> None:
    value = np.array([1.0, 2.0, 3.0])
    made = array_problem(lambda x: value, np.ones(3), vjp=unasked, jvp=unasked, vjp_in=unasked, connected=False)
    case = dataclasses.replace(
        made, capabilities={**made.capabilities, Reference: Reference(Side(value, unasked), None)}
    )
    assert findings(PROPERTIES[name].examine(Investigation(case), Options(modes=BOTH))) == []
