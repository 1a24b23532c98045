"""What an investigation goes by for a while is put back, whatever happens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from array_problem import investigation

from gradproof.core.investigation import Investigation
from gradproof.core.meanwhile import measured_in, taken_as


def case() -> Investigation:
    return investigation(lambda x: x**2, np.array([0.5, 2.0]), vjp=lambda v: v)


def test_the_scale_of_steps_is_put_back() -> None:
    asked = case()
    before = asked.scale
    with measured_in(asked, 2.0 * before):
        assert (asked.scale == 2.0 * before).all()
    assert asked.scale is before


def test_the_problem_is_put_back_and_what_was_asked_once_is_asked_again() -> None:
    asked = case()
    before, calls = asked.problem, list[int]()

    def work(each: Investigation) -> int:
        calls.append(each.problem.inputs.size)
        return len(calls)

    assert asked.once(work) == 1
    with taken_as(asked, replace(before, noise=np.full(2, 1e-3))):
        assert asked.problem.noise is not None
        assert asked.once(work) == 2
    assert asked.problem is before
    assert asked.once(work) == 3


def test_both_are_put_back_after_an_exception() -> None:
    asked = case()
    problem, scale = asked.problem, asked.scale
    noisy = taken_as(asked, replace(problem, noise=np.ones(2)))
    with pytest.raises(ZeroDivisionError), noisy, measured_in(asked, scale + 1.0):
        raise ZeroDivisionError
    assert asked.problem is problem
    assert asked.scale is scale
