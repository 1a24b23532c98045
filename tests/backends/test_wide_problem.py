"""The twin of a low-precision call as a whole Problem, and derivatives at other points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, numbers

from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.modules import ModuleCall
from gradproof.backends.torch.problem import first_order
from gradproof.backends.torch.session import gradgradcheck_session
from gradproof.core.capabilities import Elsewhere, Twin
from gradproof.core.problem import Problem

DOUBLE, SINGLE, BRAIN = 2.0**-52, 2.0**-23, 2.0**-7
READ = numbers(3, dtype=torch.float32)


def problem_of(function: Any, *inputs: Any) -> Problem:
    return first_order(call_of(function, inputs)).problem


def twin_of(problem: Problem) -> Problem:
    twin = problem.capability(Twin)
    assert twin is not None
    made = twin.make()
    assert made is not None
    return made.problem


def inside(problem: Problem) -> float:
    """The precision inside that the twin knows; zero: there is none."""
    twin = problem.capability(Twin)
    made = None if twin is None else twin.make()
    return 0.0 if made is None else made.inside


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.complex64], ids=str)
def test_the_twin_is_the_same_map_at_the_same_point_with_its_derivative(dtype: torch.dtype) -> None:
    problem = problem_of(lambda x: x * x, numbers(4, dtype=dtype))
    wide = twin_of(problem)
    assert [(b.label, b.shape) for b in wide.inputs.blocks] == [(b.label, b.shape) for b in problem.inputs.blocks]
    assert (wide.coarsest_eps, wide.evaluates_in) == (DOUBLE, None)
    assert wide.point.tolist() == problem.point.tolist()
    v = np.ones(wide.outputs.size)
    assert problem.vjp is not None
    assert wide.vjp is not None
    assert wide.jvp is not None
    assert np.abs(wide.vjp(v) - problem.vjp(v)).max() <= 4 * problem.coarsest_eps * np.abs(wide.vjp(v)).max()
    assert wide.jvp(v).shape == v.shape


def test_it_is_made_once_and_only_when_asked() -> None:
    calls: list[torch.dtype] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.dtype)
        return x.sin()

    problem = problem_of(function, numbers(4, dtype=torch.bfloat16))
    before = len(calls)
    assert twin_of(problem) is twin_of(problem)
    assert calls[before:] == [torch.float64]


def test_a_module_has_one_and_keeps_its_own_parameters_and_buffers() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    state = {name: value.clone() for name, value in module.state_dict().items()}
    wide = twin_of(first_order(ModuleCall(module, (numbers(5, 3, dtype=torch.float32),), {})).problem)
    assert wide.vjp is not None
    first = wide.vjp(np.ones(20))
    assert np.array_equal(wide.vjp(np.ones(20)), first)
    assert all(p.dtype is torch.float32 for p in module.parameters())
    tested = {name: value for name, value in module.state_dict().items() if "running" not in name and "num" not in name}
    assert all(torch.equal(value, state[name]) for name, value in tested.items())


def test_the_second_order_has_one_too() -> None:
    with gradgradcheck_session_of(lambda x: x.sin()) as session:
        problem = session.problem()
        wide = twin_of(problem)
        assert [b.label for b in wide.outputs.blocks] == [b.label for b in problem.outputs.blocks]
        assert problem.vjp is not None
        assert wide.vjp is not None
        v = np.ones(problem.outputs.size)
        assert wide.vjp(v) == pytest.approx(problem.vjp(v), rel=1e-5)


def gradgradcheck_session_of(function: Any) -> Any:
    with pytest.warns(UserWarning, match="requires gradient"):
        return gradgradcheck_session(function, (numbers(4, dtype=torch.float32),))


def only_single(x: torch.Tensor) -> torch.Tensor:
    if x.dtype is not torch.float32:
        raise TypeError("float32 only")
    return x * x


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (torch.sin, (numbers(3),)),
        (only_single, (numbers(3, dtype=torch.float32),)),
        (lambda x: READ * READ, (READ,)),
        (lambda x, y: x * y, (READ, READ)),
    ],
    ids=["float64", "kernel", "closure", "the same tensor twice"],
)
def test_there_is_none(function: Any, inputs: tuple[torch.Tensor, ...]) -> None:
    assert inside(problem_of(function, *inputs)) == 0.0


def autocast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ x).float().relu().sum(-1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("function", "eps"),
    [
        (lambda x: (x.float() ** 2).to(x.dtype), SINGLE),
        (lambda x: x.to(torch.bfloat16).sin().to(x.dtype), BRAIN),
        (autocast, BRAIN),
    ],
    ids=["float32", "bfloat16", "autocast"],
)
def test_the_twin_knows_the_precision_inside(function: Any, eps: float, dtype: torch.dtype) -> None:
    problem = problem_of(function, numbers(3, 3, dtype=dtype))
    assert inside(problem) == max(eps, problem.inputs.coarsest_eps)


class Reads(torch.nn.Module):
    """A module that looks its parameter up by name."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(numbers(3, dtype=torch.bfloat16).detach())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.get_parameter("weight")


def test_what_stands_in_for_a_parameter_is_one() -> None:
    problem = first_order(ModuleCall(Reads(), (numbers(3, dtype=torch.bfloat16),), {})).problem
    assert twin_of(problem).inputs.size == 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_derivatives_at_another_point(dtype: torch.dtype) -> None:
    x = numbers(4, dtype=dtype)
    before, version = x.detach().clone(), x._version
    problem = problem_of(custom(lambda x: x * x, lambda s, g: 2 * s[0] * g), x)
    elsewhere = problem.capability(Elsewhere)
    assert elsewhere is not None
    there = problem.point + 0.5
    problem.inputs.round_in_place(there)
    assert elsewhere.vjp(there, np.ones(4)) == pytest.approx(2 * there, rel=4 * problem.coarsest_eps)
    assert torch.equal(x.detach(), before)
    assert x._version == version
    square = problem_of(lambda x: x * x, x).capability(Elsewhere)
    assert square is not None
    assert square.jvp(there, np.ones(4)) == pytest.approx(2 * there, rel=4 * problem.coarsest_eps)
    assert torch.equal(x.detach(), before)


def test_a_function_that_raises_elsewhere_leaves_the_tensors_alone() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        if x[0] > 1:
            raise ValueError("too far")
        return x * x

    x = torch.full((3,), 0.5, dtype=torch.float32, requires_grad=True)
    elsewhere = problem_of(function, x).capability(Elsewhere)
    assert elsewhere is not None
    with pytest.raises(ValueError, match="too far"):
        elsewhere.vjp(np.full(3, 2.0), np.ones(3))
    assert x.tolist() == [0.5] * 3
