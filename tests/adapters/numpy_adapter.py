"""NumPy: rules are functions of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import gradproof
from gradproof.backends import by_hand
from gradproof.core.problem import Problem
from gradproof.testing import Adapter, Scenario


def call(scenario: Scenario) -> tuple[Any, dict[str, Any]]:
    """The function, and its derivatives by the words of `gradproof.check`."""

    def function(*inputs: Any) -> Any:
        return scenario.function(np, *inputs)

    def vjp(x: Any, v: Any, *others: Any) -> Any:
        gradients = scenario.vjp(np, v, x, *others)
        return gradients[0] if len(gradients) == 1 else tuple(gradients)

    def jvp(x: Any, tangents: Any, *others: Any) -> Any:
        return scenario.jvp(np, tangents if isinstance(tangents, tuple) else (tangents,), x, *others)

    rules = {"vjp": (vjp, scenario.vjp), "jvp": (jvp, scenario.jvp)}
    return function, {name: rule for name, (rule, given) in rules.items() if given is not None}


def check(scenario: Scenario, run: Any = gradproof.check) -> gradproof.Report:
    """The report; `run` may be the fixture of the pytest plugin."""
    function, rules = call(scenario)
    return run(function, scenario.inputs, wrt=range(len(scenario.inputs)), **rules)


@contextmanager
def problem(scenario: Scenario) -> Iterator[Problem]:
    function, rules = call(scenario)
    wrt = tuple(range(len(scenario.inputs)))
    with by_hand(function, scenario.inputs, {}, rules, wrt=wrt, bounds=None) as session:
        yield session.problem()


ADAPTER = Adapter("numpy", problem, frozenset({"reverse", "forward", "complex", "state"}), check)
