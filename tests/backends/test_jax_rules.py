"""What a trace tells: whether a function in double precision has the steps of the one in a lower."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import gradproof  # noqa: E402
from gradproof.backends.jax.arrays import in_double  # noqa: E402
from gradproof.backends.jax.rules import Ingredients  # noqa: E402

SINGLE = 2.0**-23
TABLE = np.linspace(0.5, 1.5, 5, dtype=np.float32)


def have_the_same_steps(function: Any, size: int = 5) -> bool:
    low = Ingredients(jax.jit(function), jnp.ones(size, jnp.float32))
    with in_double():
        wide = Ingredients(jax.jit(function), jnp.ones(size, jnp.float64))
    return low.are_those_of(wide, SINGLE)


@jax.custom_vjp
def cube(x: Any) -> Any:
    return x**3


cube.defvjp(lambda x: (x**3, x), lambda x, g: (3 * x**2 * g,))


def looped(x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y) * 0.1 + x, x)


@pytest.mark.parametrize(
    "function",
    [
        jnp.sin,
        cube,
        looped,
        lambda x: 0.1 * x + 1e-7,
        lambda x: x * TABLE,
        jnp.sort,
        lambda x: jnp.floor(x) + x.astype(jnp.int32),
        lambda x: jax.nn.softmax(x) @ jnp.outer(x, x),
        lambda x: jnp.fft.fft(x),
        lambda x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0),
    ],
)
def test_a_function_that_says_nothing_of_precision_has_the_same_steps(function: Any) -> None:
    assert have_the_same_steps(function)


def host(x: Any) -> Any:
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def by_dtype(x: Any) -> Any:
    return jnp.sin(x) if x.dtype == jnp.float32 else jnp.tanh(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sin(x.astype(jnp.float32)).astype(x.dtype),
        lambda x: x.astype(jnp.bfloat16).astype(x.dtype) * 2,
        lambda x: jax.lax.reduce_precision(x, 8, 7),
        lambda x: x + jnp.finfo(x.dtype).eps,
        lambda x: x * jnp.exp(jnp.asarray(TABLE)).astype(x.dtype),
        lambda x: x + jax.random.normal(jax.random.key(0), x.shape, x.dtype),
        lambda x: x + jax.lax.bitcast_convert_type(x, jnp.int32 if x.dtype == jnp.float32 else jnp.int64),
        host,
        by_dtype,
        lambda x: x[0] if x[0] > 0 else -x[0],
    ],
)
def test_one_that_casts_inside_or_asks_for_its_precision_has_not(function: Any) -> None:
    assert not have_the_same_steps(function)


def test_where_the_steps_are_the_same_the_twin_is_found_by_one_value() -> None:
    x = jnp.linspace(-1.0, 2.0, 7, dtype=jnp.float32)
    report = gradproof.check(jax.jit(cube), x, modes="reverse")
    assert report
    assert any("checked in float64" in note for note in report.notes)
    cast = gradproof.check(jax.jit(lambda x: cube(x.astype(jnp.float32)).astype(x.dtype)), x, modes="reverse")
    assert cast
    assert not any("checked in float64" in note for note in cast.notes)


@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_where_they_are_not_another_point_tells(factor: float) -> None:
    @jax.custom_vjp
    def shifted(x: Any) -> Any:
        return jnp.sin(x) + jnp.finfo(x.dtype).tiny

    shifted.defvjp(lambda x: (shifted(x), x), lambda x, g: (factor * g * jnp.cos(x),))
    report = gradproof.check(shifted, jnp.linspace(-1.0, 2.0, 7, dtype=jnp.float32))
    assert report.verdict is (gradproof.Verdict.PASS if factor == 1.0 else gradproof.Verdict.FAIL)
    assert any("checked in float64" in note for note in report.notes)
