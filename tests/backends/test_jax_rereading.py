"""What a jitted function refers to and that has changed since JAX traced it is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from gradproof import Verdict, check  # noqa: E402

slope = 2.0
POINT = jnp.arange(1.0, 4.0)


@jax.custom_vjp
def square(x: Any) -> Any:
    return x * x


def fwd(x: Any) -> tuple[Any, Any]:
    return square(x), x


def bwd(x: Any, cotangent: Any) -> tuple[Any]:
    return (slope * x * cotangent,)


def other_bwd(x: Any, cotangent: Any) -> tuple[Any]:
    return (3.0 * x * cotangent,)


@pytest.fixture
def jitted(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(f"{__name__}.slope", 2.0)
    square.defvjp(fwd, bwd)
    jax.clear_caches()
    return jax.jit(lambda x: square(x).sum())


def changes(function: Any) -> list[str]:
    return [
        note.partition(",")[0] for note in check(function, POINT).notes if "jax.clear_caches() was called since" in note
    ]


def test_a_function_that_refers_to_the_same_has_no_note(jitted: Any) -> None:
    assert [changes(jitted) for _ in range(3)] == [[], [], []]


def test_a_global_that_a_rule_reads_is_named_and_read_again_after_clear_caches(
    jitted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not changes(jitted)
    monkeypatch.setattr(f"{__name__}.slope", 5.0)
    assert changes(jitted) == ["`slope`"]
    assert check(jitted, POINT).verdict is Verdict.FAIL, "it is checked as it is now"
    jax.clear_caches()
    assert check(jitted, POINT).verdict is Verdict.FAIL
    assert not changes(jitted)


def test_a_rule_that_is_defined_anew_is_named(jitted: Any) -> None:
    assert not changes(jitted)
    square.defvjp(fwd, other_bwd)
    assert "`square.bwd`" in changes(jitted)
    assert check(jitted, POINT).verdict is Verdict.FAIL


def test_a_value_that_is_written_again_is_no_change(jitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not changes(jitted)
    monkeypatch.setattr(f"{__name__}.slope", float("2.0"))
    assert not changes(jitted)


@pytest.mark.parametrize(("rule", "verdict"), [(bwd, Verdict.PASS), (other_bwd, Verdict.FAIL)])
def test_transfers_of_the_check_are_not_those_of_the_function(jitted: Any, rule: Any, verdict: Verdict) -> None:
    square.defvjp(fwd, rule)
    with jax.transfer_guard("disallow"):
        report = check(square, POINT)
        assert jax.config.jax_transfer_guard == "disallow"
    assert report.verdict is verdict
    assert "transfer" not in str(report)


class Holder:
    factor = 2.0  # until an instance has its own

    def __init__(self) -> None:
        self.calls = 0

    def bwd(self, x: Any, cotangent: Any) -> tuple[Any]:
        self.calls += 1
        return (self.factor * x * cotangent,)


holder = Holder()
table = {"factor": 2.0}
row = [2.0]
numbers = np.full(3, 2.0)


def set_holder(value: float) -> None:
    holder.factor = value


def set_table(value: float) -> None:
    table["factor"] = value


def set_row(value: float) -> None:
    row[0] = value


def set_numbers(value: float) -> None:
    numbers[:] = value


@pytest.mark.parametrize(
    ("rule", "change", "name"),
    [
        (lambda x, g: (holder.factor * x * g,), set_holder, "`holder.factor`"),
        (holder.bwd, set_holder, "`self.factor`"),
        (lambda x, g: (table["factor"] * x * g,), set_table, "`table['factor']`"),
        (lambda x, g: (row[0] * x * g,), set_row, "`row[0]`"),
        (lambda x, g: (jnp.asarray(numbers, x.dtype) * x * g,), set_numbers, "`numbers[...]`"),
    ],
)
def test_what_a_rule_reads_out_of_something_that_is_written_to_is_named(rule: Any, change: Any, name: str) -> None:
    squared = jax.custom_vjp(jnp.square)  # a function of JAX's own, with a rule of the user's
    squared.defvjp(lambda x: (jnp.square(x), x), rule)
    function = jax.jit(squared)
    change(2.0)
    assert [check(function, POINT).verdict for _ in range(2)] == [Verdict.PASS] * 2
    assert not changes(function)
    change(5.0)
    assert check(function, POINT).verdict is Verdict.FAIL
    assert changes(function) == [name]
    change(2.0)
    assert check(function, POINT).verdict is Verdict.PASS
    assert not changes(function)


def test_a_rule_of_the_jitted_function_itself_that_is_defined_anew_is_named() -> None:
    squared = jax.custom_vjp(jnp.square)
    squared.defvjp(lambda x: (jnp.square(x), x), lambda x, g: (2.0 * x * g,))
    function = jax.jit(squared)
    assert not changes(function)
    squared.defvjp(lambda x: (jnp.square(x), x), lambda x, g: (3.0 * x * g,))
    assert changes(function) == ["`fwd`", "`bwd`"]
    assert check(function, POINT).verdict is Verdict.FAIL
