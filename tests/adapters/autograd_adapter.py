"""HIPS autograd, by the backend in examples/: rules are those of a primitive, in autograd's convention."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from autograd.extend import defjvp, defvjp, primitive

from gradproof.core.problem import Problem
from gradproof.testing import Adapter, Scenario

_SPEC = importlib.util.spec_from_file_location(
    "autograd_backend", Path(__file__).parents[2] / "examples" / "autograd_backend.py"
)
backend = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(backend)


def function(scenario: Scenario) -> Any:
    """A primitive with the rules of a scenario."""

    @primitive
    def made(*inputs: Any) -> Any:
        return scenario.function(np, *inputs)

    def vjp_of(k: int) -> Any:
        return lambda _, *inputs: lambda v: np.conj(scenario.vjp(np, np.conj(v), *inputs)[k])

    def jvp_of(k: int) -> Any:
        def jvp(tangent: Any, _: Any, *inputs: Any) -> Any:
            tangents = [tangent if j == k else np.zeros_like(each) for j, each in enumerate(inputs)]
            return scenario.jvp(np, tuple(tangents), *inputs)

        return jvp

    numbers = range(len(scenario.inputs))
    if scenario.vjp is not None:
        defvjp(made, *map(vjp_of, numbers))
    if scenario.jvp is not None:
        defjvp(made, *map(jvp_of, numbers))
    return made


def problem(scenario: Scenario) -> Problem:
    return backend.problem(function(scenario), *scenario.inputs)


ADAPTER = Adapter("autograd", problem, frozenset({"reverse", "forward", "complex", "state"}))
