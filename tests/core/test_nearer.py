"""Laws that are asked nearer to zero: of saturated functions, whose answers are round-off of numbers of order one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradproof.core.capabilities import Elsewhere, Stateless
from gradproof.core.investigation import Investigation
from gradproof.core.nearer import modes_agree, sum_vanishes
from gradproof.core.problem import Mode, Problem
from gradproof.core.space import Block, Space
from gradproof.core.types import Vector

ONE = np.ones(1)
# Of 1 - tanh(x)**2, what is left of it there is a few units of round-off.
POINT = np.array([17.0])
ROUND_OFF = 3e-16


def _block(kind: str) -> Space:
    return Space((Block(kind, 0, "", (1,), 1, 0, eps=2.0**-52),))


def _slope(point: Vector) -> float:
    return float(1.0 / np.cosh(point[0]) ** 2)


def saturated(by: float = 0.0, *, reverse: bool = True, stateless: bool = True) -> Problem:
    """tanh(x), and its derivative in both modes; one is off by a part of it wherever it is, or breaks linearity."""

    def vjp(point: Vector, v: Vector) -> Vector:
        return _slope(point) * (v + by * np.abs(v)) if reverse else _slope(point) * v

    def jvp(point: Vector, u: Vector) -> Vector:
        return _slope(point) * u * (1.0 if reverse else 1.0 + by)

    return Problem(
        inputs=_block("input"),
        outputs=_block("output"),
        point=POINT,
        value=np.tanh(POINT),
        evaluate=np.tanh,
        vjp=lambda v: vjp(POINT, v) + ROUND_OFF,
        jvp=lambda u: jvp(POINT, u),
        capabilities={Elsewhere: Elsewhere(vjp, jvp), **({Stateless: Stateless()} if stateless else {})},
    )


def _adds_up(problem: Problem, off: float = ROUND_OFF) -> bool:
    law = [(1.0, ONE), (1.0, -ONE / 2.0), (-1.0, ONE / 2.0)]
    return sum_vanishes(Investigation(problem), Mode.REVERSE, law, np.array([off]))


def test_laws_that_hold_nearer_to_zero_are_broken_by_round_off() -> None:
    assert _adds_up(saturated())
    assert modes_agree(Investigation(saturated()), ROUND_OFF)


@pytest.mark.parametrize("by", [0.3, -2.0, 1e-6])
def test_laws_that_are_broken_there_too_are_broken(by: float) -> None:
    assert not _adds_up(saturated(by))
    assert not modes_agree(Investigation(saturated(by, reverse=False)), ROUND_OFF)


def test_what_is_larger_than_round_off_is_not_asked_elsewhere() -> None:
    assert not _adds_up(saturated(), off=1e-9)
    assert not modes_agree(Investigation(saturated()), 1e-9)


def test_a_derivative_that_may_have_a_branch_for_the_point_is_judged_there() -> None:
    assert not _adds_up(saturated(stateless=False))
    assert not modes_agree(Investigation(saturated(stateless=False)), ROUND_OFF)


def test_questions_that_do_not_add_up_to_nothing_are_no_law() -> None:
    assert not sum_vanishes(Investigation(saturated()), Mode.REVERSE, [(2.0, ONE)], np.array([ROUND_OFF]))


def test_a_function_that_is_small_by_design_is_nowhere_large_enough() -> None:
    small = saturated()
    elsewhere = Elsewhere(lambda p, v: 1e-18 * v, lambda p, u: 1e-18 * u)
    small = replace(small, capabilities={**small.capabilities, Elsewhere: elsewhere})
    assert not _adds_up(small)


def test_a_multiple_by_a_power_of_two_rounds_nothing() -> None:
    law = [(1.0, ONE), (1.0, -ONE)]
    assert not sum_vanishes(Investigation(saturated()), Mode.REVERSE, law, np.array([ROUND_OFF]))


def test_a_refusal_leaves_the_law_broken() -> None:
    def refuses(point: Vector, question: Vector) -> Vector:
        raise ValueError("outside of the domain")

    capabilities = {**saturated().capabilities, Elsewhere: Elsewhere(refuses, refuses)}
    assert not _adds_up(replace(saturated(), capabilities=capabilities))
