"""Nobody writes to what is not theirs, nor hands it out."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_problem import ArrayProblem, Part

from gradproof.core.finding import Status
from gradproof.core.options import Options
from gradproof.core.problem import Layout, Mode
from gradproof.properties import DEFAULT
from gradproof.properties.mutation import aliasing, mutation

INPUTS = [Part((1,)), Part((2,), name="w")]


def problem_with(**options: Any) -> ArrayProblem:
    return ArrayProblem(lambda x: x, np.ones(3), np.eye(3), inputs=INPUTS, layouts=list(Layout), **options)


def test_who_writes_to_nothing_has_no_finding() -> None:
    assert list(mutation(problem_with(), Options(properties=DEFAULT))) == []
    assert list(aliasing(problem_with(), Options(properties=DEFAULT))) == []


def test_an_input_that_the_function_overwrites_is_named() -> None:
    (finding,) = mutation(problem_with(overwritten=["input 1 `w`"]), Options(properties=DEFAULT))
    assert (finding.property, finding.status) == ("mutation", Status.WRONG)
    assert finding.message == "The function overwrote input 1 `w` without declaring it."
    assert "mark_dirty" in finding.hint


def test_what_the_backward_overwrites_is_named() -> None:
    problem = problem_with(
        vjp_in=lambda v, given: (v, ("a saved tensor",) if given in (Layout.CONTIGUOUS, Layout.TRANSPOSED) else ())
    )
    (finding,) = mutation(problem, Options(properties=DEFAULT))
    assert (finding.property, finding.status) == ("mutation", Status.WRONG)
    assert "backward overwrote a saved tensor, which others may still read" in finding.message


def test_what_is_overwritten_every_time_is_named_once() -> None:
    problem = problem_with(vjp_in=lambda v, given: (v, ("the grad_output of output 0",)))
    assert len(list(mutation(problem, Options(properties=DEFAULT)))) == 1


def test_a_write_is_named_though_another_layout_cannot_be_written_to() -> None:
    def vjp_in(v: Any, given: Layout) -> Any:
        if given is Layout.EXPANDED:
            raise RuntimeError("more than one element of the written-to tensor refers to a single memory location")
        return v, ("the grad_output of output 0",)

    (finding,) = mutation(problem_with(vjp_in=vjp_in), Options(properties=DEFAULT))
    assert "backward overwrote the grad_output of output 0" in finding.message


def test_a_backward_that_always_raises_is_left_to_others() -> None:
    def vjp_in(v: Any, given: Layout) -> Any:
        raise RuntimeError("no")

    assert list(mutation(problem_with(vjp_in=vjp_in), Options(properties=DEFAULT))) == []


def test_a_gradient_that_shares_memory_is_named_with_what_it_shares() -> None:
    (finding,) = aliasing(problem_with(aliased=[(1, "input 0 itself")]), Options(properties=DEFAULT))
    assert (finding.property, finding.status, finding.input) == ("aliasing", Status.WRONG, 1)
    assert "The gradient of input 1 `w` shares memory with input 0 itself" in finding.message
    assert "clone" in finding.hint


def test_the_backward_is_not_asked_in_forward_mode_or_without_a_graph() -> None:
    guilty: dict[str, Any] = {"vjp_in": lambda v, given: (v, ("x",)), "aliased": [(0, "x")]}
    for examine in (mutation, aliasing):
        assert list(examine(problem_with(**guilty), Options(properties=DEFAULT, modes=(Mode.FORWARD,)))) == []
        assert list(examine(problem_with(**guilty, has_graph=False), Options(properties=DEFAULT))) == []
