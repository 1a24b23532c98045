"""A rule of JAX that returns another value than the function: the value under differentiation is compared too."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import gradproof  # noqa: E402
from gradproof.backends.jax.maps import LONG  # noqa: E402
from gradproof.core.problem import Mode  # noqa: E402
from gradproof.jax import check_grads  # noqa: E402
from gradproof.results.report import Verdict  # noqa: E402

X = jnp.array([0.5, 1.0, -2.0])


def by_vjp(factor: Any) -> Any:
    f = jax.custom_vjp(jnp.sin)
    f.defvjp(lambda x: (factor * jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))
    return f


def by_jvp(factor: Any) -> Any:
    f = jax.custom_jvp(jnp.sin)
    f.defjvp(lambda primals, tangents: (factor * jnp.sin(primals[0]), jnp.cos(primals[0]) * tangents[0]))
    return f


RULES = pytest.mark.parametrize(("rule", "mode"), [(by_vjp, Mode.REVERSE), (by_jvp, Mode.FORWARD)])


@RULES
def test_a_value_of_its_own_is_named(rule: Any, mode: Mode) -> None:
    report = gradproof.check(rule(jnp.array([1.0, 1.0, 2.0])), X)
    assert report.verdict is Verdict.FAIL, str(report)
    found = {f.mode: f for f in report.findings if f.property == "primal"}
    assert mode in found
    assert found[mode].output_element == (2,)
    assert "returns another value: output 0, element [2]" in found[mode].headline


@RULES
def test_a_value_of_its_own_is_named_among_many(rule: Any, mode: Mode) -> None:
    """Of long outputs, the values are asked for once."""
    n = LONG + 3
    report = gradproof.check(
        rule(jnp.ones(n).at[n - 2].set(2.0)), jnp.linspace(0.5, 1.5, n), modes=str(mode).split()[0]
    )
    found = [f for f in report.findings if f.property == "primal"]
    assert [f.output_element for f in found] == [(n - 2,)], str(report)


@RULES
def test_the_same_value_passes(rule: Any, mode: Mode) -> None:
    assert gradproof.check(rule(1.0), X).verdict is Verdict.PASS


@RULES
def test_check_grads_raises(rule: Any, mode: Mode) -> None:
    modes = ["rev"] if mode is Mode.REVERSE else ["fwd"]
    with pytest.raises(AssertionError, match="another value"):
        check_grads(rule(2.0), (X,), order=1, modes=modes)
    check_grads(rule(1.0), (X,), order=1, modes=modes)


def test_linearize_has_values_too() -> None:
    check_grads(by_jvp(1.0), (X,), order=1, modes="lin")
    with pytest.raises(AssertionError, match="another value"):
        check_grads(by_jvp(2.0), (X,), order=1, modes="lin")


def test_modes_may_be_one_word() -> None:
    check_grads(by_vjp(1.0), (X,), order=1, modes="rev")
    with pytest.raises(AssertionError, match="another value"):
        check_grads(by_vjp(2.0), (X,), order=1, modes="rev")
