"""No gradient shares memory with an input, nor with another gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_problem import Part, investigation

from gradproof.core.capabilities import Stateless
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.status import Status
from gradproof.core.words import PLAIN
from gradproof.properties.aliasing import aliasing


def case_with(**options: Any) -> Investigation:
    inputs = [Part((1,)), Part((2,), name="w")]
    return investigation(lambda x: x, np.ones(3), np.eye(3), inputs=inputs, **options)


def test_gradients_with_memory_of_their_own_have_no_finding() -> None:
    assert list(aliasing(case_with(), Options())) == []


def test_a_gradient_that_shares_memory_is_named_with_what_it_shares() -> None:
    (finding,) = aliasing(case_with(aliased=[(1, "input 0 itself")]), Options())
    assert (finding.property, finding.status, finding.input) == ("aliasing", Status.WRONG, 1)
    assert "The gradient of input 1 `w` shares memory with input 0 itself" in finding.message
    assert finding.hint == PLAIN.aliased


def test_each_gradient_that_shares_memory_has_its_finding() -> None:
    found = aliasing(case_with(aliased=[(0, "input 0 itself"), (1, "the gradient of input 0")]), Options())
    assert [finding.input for finding in found] == [0, 1]


def test_gradients_that_are_there_already_are_looked_at() -> None:
    case = case_with(aliased=[(0, "x")])
    case.vjp(case.cotangent)
    assert len(list(aliasing(case, Options()))) == 1
    assert case.cost.vjps == 1


def test_a_gradient_that_another_vjp_writes_to_is_named() -> None:
    once = case_with(reused=[1])
    assert list(aliasing(once, Options())) == []  # one vjp tells nothing
    case = case_with(reused=[1])
    _ = case.pullback, case.vjp(case.cotangent)
    (finding,) = aliasing(case, Options())
    assert (finding.property, finding.kind, finding.status, finding.input) == ("aliasing", "reused", Status.WRONG, 1)
    assert "The gradient of input 1 `w` lies in memory that the vjp writes to again" in finding.message
    own = case_with(reused=[1], capabilities={Stateless: Stateless()})  # of the framework's own operations
    _ = own.pullback, own.vjp(own.cotangent)
    assert list(aliasing(own, Options())) == []
