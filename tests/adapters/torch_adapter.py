"""PyTorch: rules are those of an autograd.Function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

import gradproof
from gradproof.backends import find_backend
from gradproof.core.problem import Problem
from gradproof.testing import Adapter, Scenario


def call(scenario: Scenario) -> tuple[Any, tuple[Any, ...]]:
    """The function with its rules, and its inputs."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)
            return scenario.function(torch, *inputs)

        @staticmethod
        def backward(ctx: Any, v: Any) -> Any:
            return tuple(scenario.vjp(torch, v, *ctx.saved_tensors))

        if scenario.jvp is not None:

            @staticmethod
            def jvp(ctx: Any, *tangents: Any) -> Any:
                return scenario.jvp(torch, tangents, *ctx.saved_tensors)

    if scenario.vjp is None:
        raise NotImplementedError("an autograd.Function has a backward")
    return Function.apply, tuple(torch.from_numpy(array.copy()).requires_grad_() for array in scenario.inputs)


def check(scenario: Scenario, run: Any = gradproof.check) -> gradproof.Report:
    """The report; `run` may be the fixture of the pytest plugin."""
    function, inputs = call(scenario)
    return run(function, inputs)


@contextmanager
def problem(scenario: Scenario) -> Iterator[Problem]:
    function, inputs = call(scenario)
    backend = find_backend(function, inputs, {})
    with backend.session(function, inputs, {}, wrt=None, masked=False) as session:
        yield session.problem()


ADAPTER = Adapter("torch", problem, frozenset({"reverse", "complex", "state"}), check)
