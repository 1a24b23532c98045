"""The contract between a backend and everything else: a small value."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from array_problem import BRAIN, SINGLE, Part, array_problem

from gradproof.core.capabilities import Pairing, Reference
from gradproof.core.problem import Mode, Problem
from gradproof.core.space import vector_space

X = np.array([0.5, 2.0])


def square(**more: Any) -> Problem:
    spaces = {"inputs": vector_space("input", 2), "outputs": vector_space("output", 2)}
    return Problem(**spaces, point=X, value=X**2, evaluate=lambda x: x**2, **more)


def apply(v: Any) -> Any:
    return 2 * X * v


def test_without_any_derivative_there_is_nothing_to_test() -> None:
    with pytest.raises(ValueError, match="vjp or jvp"):
        square()


@pytest.mark.parametrize(
    ("derivatives", "modes"),
    [
        ({"vjp": apply}, (Mode.REVERSE,)),
        ({"jvp": apply}, (Mode.FORWARD,)),
        ({"vjp": apply, "jvp": apply}, (Mode.REVERSE, Mode.FORWARD)),
    ],
)
def test_one_derivative_is_enough_and_says_the_mode(derivatives: Any, modes: tuple[Mode, ...]) -> None:
    assert square(**derivatives).modes == modes


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Problem)])
def test_nobody_writes_on_it(name: str) -> None:
    problem = square(vjp=apply)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(problem, name, None)


def test_nobody_writes_anything_else_on_it() -> None:
    with pytest.raises((AttributeError, TypeError)):
        square(vjp=apply).certificate = 1  # type: ignore[attr-defined]


def test_capabilities_are_found_by_their_type() -> None:
    pairing = Pairing(np.array([0, 1]))
    problem = square(vjp=apply, capabilities={Pairing: pairing})
    assert problem.capability(Pairing) is pairing
    assert problem.capability(Reference) is None
    assert square(vjp=apply).capability(Pairing) is None


@pytest.mark.parametrize(("input_", "output"), [(SINGLE, BRAIN), (BRAIN, SINGLE), (BRAIN, BRAIN)])
def test_the_precision_is_the_lowest_of_inputs_and_outputs(input_: float, output: float) -> None:
    problem = array_problem(lambda x: x, X, inputs=[Part((2,), eps=input_)], outputs=[Part((2,), eps=output)])
    assert problem.coarsest_eps == BRAIN


def test_the_scale_of_a_point_is_never_zero() -> None:
    problem = array_problem(np.sin, np.array([3.0, -4.0, 0.0, 0.0]), inputs=[Part((2,)), Part((2,))])
    np.testing.assert_array_equal(problem.scale(), [3.0, 4.0, 1.0, 1.0])


def test_modes_read_well() -> None:
    assert [str(mode) for mode in Mode] == ["reverse mode", "forward mode"]


@pytest.mark.parametrize("size", [1, 2, 5, 2**15 + 3])
@pytest.mark.parametrize("number", [0.0, 1e-320, 1e-305, 1e-3, np.inf, np.nan])
def test_every_step_has_a_length(size: int, number: float) -> None:
    point = np.full(size, number)
    point[1:2] = 0.0
    inputs = vector_space("input", size, 2)
    problem = dataclasses.replace(square(vjp=apply), inputs=inputs, point=np.concatenate([point, [0.0, 3.0]]))
    scale = problem.scale()
    want = inputs.typical(problem.point)
    want = np.maximum(np.where(want == 0, 1.0, want), 2.0**-1000)
    np.testing.assert_array_equal(scale, want)
