"""A batched vjp or jvp gives what a plain one gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import investigation, rounded_waves

from gradproof.core.capabilities import Batching
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.properties import DEFAULT
from gradproof.properties.batching import batched_forward, batched_reverse

CAUSE = RuntimeError("vmap: no rule")
EXAMINE = {Mode.REVERSE: batched_reverse, Mode.FORWARD: batched_forward}
OPTIONS = Options(modes=tuple(Mode))
MATRIX = np.arange(1.0, 7.0).reshape(2, 3)


def raising(rows: Any) -> Any:
    raise CAUSE


def case_with(**flawed: Any) -> Investigation:
    batching = Batching(None, lambda rows: rows @ MATRIX, lambda rows: rows @ MATRIX.T, 1, 1)._replace(**flawed)
    return investigation(lambda x: MATRIX @ x, np.ones(3), MATRIX, capabilities={Batching: batching})


@pytest.mark.parametrize("mode", Mode)
def test_a_batch_without_a_flaw_has_no_finding(mode: Mode) -> None:
    assert list(EXAMINE[mode](case_with(), OPTIONS)) == []


@pytest.mark.parametrize(("mode", "name"), [(Mode.REVERSE, "vjp"), (Mode.FORWARD, "jvp")])
def test_a_flaw_is_found_in_its_own_mode_only(mode: Mode, name: str) -> None:
    case = case_with(**{name: raising})
    found = {other: list(EXAMINE[other](case, OPTIONS)) for other in Mode}
    (finding,) = found.pop(mode)
    assert list(found.values()) == [[]]
    assert (finding.property, finding.status, finding.cause) == (f"batched_{mode.value}", Status.WRONG, CAUSE)
    assert finding.mode is mode
    assert f"The derivative in {mode} cannot be batched: the batch could not run" in finding.message
    assert "vmap: no rule" in finding.message
    assert finding.hint == case.problem.words.unbatched


def test_a_batch_that_is_off_is_found_at_its_place() -> None:
    (finding,) = batched_reverse(case_with(vjp=lambda rows: rows @ MATRIX * np.array([1.0, 3.0, 1.0])), OPTIONS)
    assert "the batched result differs from a plain one at input 0, element [1]" in finding.message
    assert finding.cause is None


def test_batching_is_examined_only_on_request() -> None:
    assert not {"batched_forward", "batched_reverse"} & DEFAULT


@pytest.mark.parametrize(("error", "is_explained"), [(1e-3, True), (1e-1, False)])
@pytest.mark.parametrize("mode", Mode)
def test_what_round_off_makes_of_an_ill_conditioned_derivative_is_no_flaw(
    mode: Mode, error: float, is_explained: bool
) -> None:
    def batched(rows: Any) -> Any:
        return np.array([(1.0 + error) * (case.vjp(row) if mode is Mode.REVERSE else case.jvp(row)) for row in rows])

    case = rounded_waves({Batching: Batching(None, batched, batched, 1, 1)})
    assert case.batch_flaw(mode) is not None
    assert (list(EXAMINE[mode](case, OPTIONS)) == []) == is_explained
