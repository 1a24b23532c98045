"""Nobody writes to what is not theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_problem import Part, investigation

from gradproof.core.capabilities import MemoryLayout
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.words import PLAIN
from gradproof.properties import DEFAULT
from gradproof.properties.mutation import mutation

INPUTS = [Part((1,)), Part((2,), name="w")]


def case_with(**options: Any) -> Investigation:
    return investigation(lambda x: x, np.ones(3), np.eye(3), inputs=INPUTS, layouts=list(MemoryLayout), **options)


def test_who_writes_to_nothing_has_no_finding() -> None:
    assert list(mutation(case_with(), Options(properties=DEFAULT))) == []


def test_an_input_that_the_function_overwrites_is_named() -> None:
    (finding,) = mutation(case_with(overwritten=["input 1 `w`"]), Options(properties=DEFAULT))
    assert (finding.property, finding.status) == ("mutation", Status.WRONG)
    assert finding.message == "The function overwrote input 1 `w` without declaring it."
    assert finding.hint == PLAIN.input_overwritten


def test_what_the_backward_overwrites_is_named() -> None:
    case = case_with(
        vjp_in=lambda v, given: (
            v,
            ("a saved tensor",) if given in (MemoryLayout.CONTIGUOUS, MemoryLayout.TRANSPOSED) else (),
        )
    )
    (finding,) = mutation(case, Options(properties=DEFAULT))
    assert (finding.property, finding.status) == ("mutation", Status.WRONG)
    assert "the vjp overwrote a saved tensor, which others may still read" in finding.message
    assert finding.hint == PLAIN.reverse_overwrites


def test_what_is_overwritten_every_time_is_named_once() -> None:
    case = case_with(vjp_in=lambda v, given: (v, ("the cotangent of output 0",)))
    assert len(list(mutation(case, Options(properties=DEFAULT)))) == 1


def test_a_write_is_named_though_another_layout_cannot_be_written_to() -> None:
    def vjp_in(v: Any, given: MemoryLayout) -> Any:
        if given is MemoryLayout.EXPANDED:
            raise RuntimeError("more than one element of the written-to tensor refers to a single memory location")
        return v, ("the cotangent of output 0",)

    (finding,) = mutation(case_with(vjp_in=vjp_in), Options(properties=DEFAULT))
    assert "the vjp overwrote the cotangent of output 0" in finding.message


def test_a_backward_that_always_raises_is_left_to_others() -> None:
    def vjp_in(v: Any, given: MemoryLayout) -> Any:
        raise RuntimeError("no")

    assert list(mutation(case_with(vjp_in=vjp_in), Options(properties=DEFAULT))) == []


def test_forward_mode_alone_does_not_watch_the_vjp() -> None:
    guilty = case_with(vjp_in=lambda v, given: (v, ("x",)))
    assert list(mutation(guilty, Options(properties=DEFAULT, modes=(Mode.FORWARD,)))) == []


def test_what_claims_no_derivative_may_still_overwrite_its_inputs() -> None:
    case = case_with(connected=False, overwritten=["input 0"], vjp_in=lambda v, given: (v, ("x",)))
    (finding,) = mutation(case, Options(properties=DEFAULT))
    assert "The function overwrote input 0" in finding.message
    assert case.cost.vjps == 0
