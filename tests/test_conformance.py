"""The suite for authors of backends finds what is wrong with a backend: every law has one that breaks it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_problem import array_problem

from gradproof.core.capabilities import Batching, Omission
from gradproof.core.problem import Problem
from gradproof.core.space import Block, Space, vector_space
from gradproof.testing import SCENARIOS, Adapter, Scenario, conformance, violations

X = np.array([0.5, 2.0, -1.0])


def problem(**changed: Any) -> Problem:
    parts: dict[str, Any] = {
        "inputs": vector_space("input", 3),
        "outputs": vector_space("output", 3),
        "point": X,
        "value": X**2,
        "evaluate": lambda x: x**2,
        "vjp": lambda v: 2 * X * v,
        "jvp": lambda u: 2 * X * u,
    }
    return Problem(**{**parts, **changed})


def test_a_problem_that_keeps_the_contract() -> None:
    assert violations(problem()) == []
    assert violations(problem(jvp=None)) == []
    assert violations(array_problem(np.sin, X, np.diag(np.cos(X)))) == []


def overwriting(v: Any) -> Any:
    v *= 2
    return X * v


BUFFER = np.zeros(3)


def into_a_buffer(v: Any) -> Any:
    BUFFER[:] = 2 * X * v
    return BUFFER


LAST = [X]


def remembering(x: Any) -> Any:
    LAST[0] = x.copy()
    return x**2


def drawing(v: Any) -> Any:
    np.random.rand()
    return 2 * X * v


def drawing_from_python(v: Any) -> Any:
    random.random()
    return 2 * X * v


def overlapping() -> Space:
    return Space((Block("input", 0, "", (2,), 1, 0, 2.0**-52), Block("input", 1, "", (2,), 1, 1, 2.0**-52)))


BROKEN: dict[str, tuple[Callable[[], Problem], str]] = {
    "point of float32": (lambda: problem(point=X.astype(np.float32)), "`point` is no flat float64"),
    "value of another size": (lambda: problem(value=np.ones(2)), "`value` is no flat float64"),
    "blocks that overlap": (lambda: problem(inputs=overlapping()), "do not follow one another"),
    "another value": (lambda: problem(evaluate=lambda x: x**2 + 1), "evaluate(point) is not `value`"),
    "a misshapen vjp": (lambda: problem(vjp=lambda v: (2 * X * v)[None]), "vjp does not return"),
    "a jvp of integers": (lambda: problem(jvp=lambda u: np.ones(3, dtype=int)), "jvp does not return"),
    "writes": (lambda: problem(vjp=overwriting), "vjp writes to what it is given"),
    "a buffer": (lambda: problem(vjp=into_a_buffer), "vjp returns memory that its next call writes to"),
    "memory": (
        lambda: problem(evaluate=remembering, vjp=lambda v: 2 * LAST[0] * v),
        "vjp depends on where the function was evaluated last",
    ),
    "nonlinear": (lambda: problem(vjp=lambda v: 2 * X * np.abs(v)), "vjp is not linear"),
    "not adjoint": (lambda: problem(jvp=lambda u: 2 * np.roll(X * u, 1)), "is not <vjp(v), u>"),
    "random states": (lambda: problem(vjp=drawing), "random state"),
    "Python's random state": (lambda: problem(vjp=drawing_from_python), "random state"),
    "capability": (lambda: problem(capabilities={Omission: "no"}), "the capability Omission is a str"),
    "batch": (
        lambda: problem(capabilities={Batching: Batching(None, lambda rows: rows, None, 9, 2)}),
        "a batch of vjps is not what plain calls give",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_law_is_named(name: str) -> None:
    make, sentence = BROKEN[name]
    told = violations(make())
    assert any(sentence in each for each in told), told


def hand_made(vjp_of: Callable[[Scenario], Callable[..., Any]]) -> Adapter:
    """A backend of real functions with one input."""

    def make(scenario: Scenario) -> Problem:
        (x,) = scenario.inputs
        value = np.asarray(scenario.function(np, x))
        return Problem(
            inputs=Space((Block("input", 0, "", x.shape, 1, 0, 2.0**-52),)),
            outputs=Space((Block("output", 0, "", value.shape, 1, 0, 2.0**-52),)),
            point=x.reshape(-1).copy(),
            value=value.reshape(-1),
            evaluate=lambda p: np.asarray(scenario.function(np, p.reshape(x.shape))).reshape(-1),
            vjp=lambda v: np.asarray(vjp_of(scenario)(np, v.reshape(value.shape), x)[0]).reshape(-1),
        )

    return Adapter("by hand", make, frozenset({"reverse"}))


SINGLE = [scenario for scenario in SCENARIOS if len(scenario.inputs) == 1]


def failures(adapter: Adapter) -> list[str]:
    found: list[str] = []
    for case in conformance(adapter, SINGLE):
        try:
            case()
        except AssertionError as error:
            found.append(f"{case.name}: {error}")
    return found


def test_a_right_backend_conforms() -> None:
    assert failures(hand_made(lambda scenario: scenario.vjp)) == []


def test_a_backend_that_halves_every_gradient_does_not() -> None:
    halving = hand_made(lambda scenario: lambda xp, v, x: (0.5 * np.asarray(scenario.vjp(xp, v, x)[0]),))
    told = failures(halving)
    right = [scenario for scenario in SINGLE if scenario.expected.verdict and halving.fits(scenario)]
    assert [line for line in told if "FAIL instead of PASS" in line and line.startswith(f"by hand: {right[0].name}")]
    assert len([line for line in told if "FAIL instead of PASS" in line]) == len(right)


def test_a_backend_that_hides_mistakes_does_not() -> None:
    """One that repairs every rule lets planted mistakes pass."""
    right = {scenario.function: scenario.vjp for scenario in SINGLE if scenario.expected.verdict}
    told = failures(hand_made(lambda scenario: right[scenario.function]))
    assert [line for line in told if "PASS instead of FAIL" in line]


def test_a_backend_that_names_the_wrong_place_does_not() -> None:
    adapter = hand_made(lambda scenario: scenario.vjp)
    scenario = next(each for each in SINGLE if each.expected.input_element == (2, 1))

    def check(given: Scenario) -> Any:
        import dataclasses

        report = adapter.report(given)
        moved = tuple(dataclasses.replace(finding, input_element=(0, 0)) for finding in report.findings)
        return dataclasses.replace(report, findings=moved)

    shifting = Adapter(adapter.name, adapter.problem, adapter.features, check)
    (last,) = [case for case in conformance(shifting, [scenario]) if "contract" not in case.name]
    with pytest.raises(AssertionError, match=r"input_element is \(0, 0\)"):
        last()


def test_a_backend_that_changes_the_users_arrays_does_not() -> None:
    adapter = hand_made(lambda scenario: scenario.vjp)

    def make(scenario: Scenario) -> Problem:
        scenario.inputs[0][0] += 0.0
        made = adapter.problem(scenario)
        scenario.inputs[0].reshape(-1)[0] += 1e-3
        return made

    import dataclasses

    mine = dataclasses.replace(SINGLE[0], inputs=(SINGLE[0].inputs[0].copy(),))
    contract = conformance(Adapter("careless", make, adapter.features), [mine])[0]
    with pytest.raises(AssertionError, match=r"the user's inputs \[0\] were changed"):
        contract()


def test_an_adapter_that_fits_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no scenario fits nobody"):
        conformance(Adapter("nobody", lambda scenario: None, frozenset()))
