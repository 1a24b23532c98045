"""JAX: rules are those of a custom_vjp. JAX's cotangents are the conjugates of gradproof's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

import gradproof
from gradproof.backends import find_backend
from gradproof.core.problem import Problem
from gradproof.testing import Adapter, Scenario


def call(scenario: Scenario) -> tuple[Any, tuple[Any, ...]]:
    """The function with its rule, and its inputs. To be called in double precision."""

    @jax.custom_vjp
    def function(*inputs: Any) -> Any:
        return scenario.function(jnp, *inputs)

    def forward(*inputs: Any) -> Any:
        return scenario.function(jnp, *inputs), inputs

    def pulled(inputs: Any, v: Any) -> Any:
        return tuple(jnp.conj(gradient) for gradient in scenario.vjp(jnp, jnp.conj(v), *inputs))

    function.defvjp(forward, pulled)
    return function, tuple(jnp.asarray(array) for array in scenario.inputs)


def check(scenario: Scenario, run: Any = gradproof.check) -> gradproof.Report:
    """The report; `run` may be the fixture of the pytest plugin."""
    with jax.enable_x64(True):
        function, inputs = call(scenario)
        return run(function, inputs)


@contextmanager
def problem(scenario: Scenario) -> Iterator[Problem]:
    with jax.enable_x64(True):
        function, inputs = call(scenario)
        backend = find_backend(function, inputs, {})
        with backend.session(function, inputs, {}, wrt=None, masked=False) as session:
            yield dataclasses.replace(session.problem(), jvp=None)  # a custom_vjp has no forward mode


ADAPTER = Adapter("jax", problem, frozenset({"reverse", "complex"}), check)
