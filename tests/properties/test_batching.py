"""A batched vjp or jvp gives what a plain one gives."""

from __future__ import annotations

import numpy as np
import pytest
from array_problem import ArrayProblem

from gradproof.core.finding import Status
from gradproof.core.options import Options
from gradproof.core.problem import BatchFlaw, Mode
from gradproof.properties import DEFAULT, PROPERTIES

CAUSE = RuntimeError("vmap: no rule")
WHAT = {Mode.REVERSE: "batched gradient", Mode.FORWARD: "batched forward-mode gradient"}


def problem_with(*flawed: Mode, has_graph: bool = True) -> ArrayProblem:
    flaws = {mode: BatchFlaw("it is off by one", CAUSE) for mode in flawed}
    return ArrayProblem(np.sin, 1.0, np.cos(1.0), flaws=flaws, has_graph=has_graph)


@pytest.mark.parametrize("mode", Mode)
def test_a_batch_without_a_flaw_has_no_finding(mode: Mode) -> None:
    assert list(PROPERTIES[f"batched_{mode.value}"](problem_with(), Options(modes=tuple(Mode)))) == []


@pytest.mark.parametrize("mode", Mode)
def test_a_flaw_is_found_in_its_own_mode_only(mode: Mode) -> None:
    problem, options = problem_with(mode), Options(modes=tuple(Mode))
    findings = {other: list(PROPERTIES[f"batched_{other.value}"](problem, options)) for other in Mode}
    (finding,) = findings.pop(mode)
    assert list(findings.values()) == [[]]
    assert (finding.property, finding.status, finding.cause) == (f"batched_{mode.value}", Status.WRONG, CAUSE)
    assert f"failed while testing {WHAT[mode]} computation: it is off by one" in finding.message
    assert finding.hint


@pytest.mark.parametrize("mode", Mode)
def test_a_mode_not_asked_for_is_not_examined(mode: Mode) -> None:
    other = next(m for m in Mode if m is not mode)
    assert list(PROPERTIES[f"batched_{mode.value}"](problem_with(mode), Options(modes=(other,)))) == []
    assert list(PROPERTIES[f"batched_{mode.value}"](problem_with(mode, has_graph=False), Options(modes=(mode,)))) == []


def test_batching_is_examined_only_on_request() -> None:
    assert set(PROPERTIES) > DEFAULT
    assert not {"batched_forward", "batched_reverse"} & DEFAULT
