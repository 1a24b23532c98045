"""What attackers of the JAX backend tried, kept: rules that look right and are wrong, and the other way round."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero

import gradproof

KEY = jax.random.key(3)


def drawn(*shape: int) -> Any:
    return jax.random.normal(KEY, shape)


def ruled(function: Callable[..., Any], bwd: Callable[..., Any], fwd: Callable[..., Any] | None = None) -> Any:
    """A function with this bwd. Unless there is a fwd, it is handed all arguments."""
    made = jax.custom_vjp(function)
    made.defvjp(fwd or (lambda *arguments: (function(*arguments), arguments)), bwd)
    return made


def sine(bwd: Callable[[Any, Any], Any]) -> Any:
    """sin, whose bwd is told x and the cotangent."""
    return ruled(lambda x: jnp.sin(x), lambda saved, g: (bwd(saved[0], g),))


def picked(how: str) -> Any:
    def bwd(saved: Any, g: Any) -> Any:
        x, index = saved
        return getattr(jnp.zeros_like(x).at[index], how)(2 * g * x[index]), None

    return ruled(lambda x, index: x[index] ** 2, bwd)


def summed(shift: int) -> Any:
    """A cumulative sum of squares, whose bwd is a scan from behind."""

    def bwd(saved: Any, g: Any) -> Any:
        (x,) = saved

        def step(carry: Any, pair: Any) -> Any:
            return carry + pair[1], 2 * pair[0] * (carry + shift * pair[1])

        return (lax.scan(step, jnp.zeros((), x.dtype), (x[::-1], g[::-1]))[1][::-1],)

    return ruled(lambda x: jnp.cumsum(x**2), bwd)


def dropped(key: Any) -> Any:
    def mask(key: Any, x: Any) -> Any:
        return jax.random.bernoulli(key, 0.5, x.shape).astype(x.dtype)

    return ruled(lambda x: x * mask(KEY, x), lambda saved, g: (g * mask(key, saved[0]),))


def recurrent(factor: float) -> Any:
    cell = ruled(
        lambda h, x: jnp.tanh(h + x),
        lambda saved, g: (lambda d: (d, factor * d))(g * (1 - jnp.tanh(saved[0] + saved[1]) ** 2)),
    )
    return lambda h, xs: lax.scan(lambda carry, x: (cell(carry, x), carry), h, xs)


def product_with_symbolic_zeros(factor: float) -> Any:
    def rule(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        if isinstance(dy, SymbolicZero):
            return x * y, factor * dx * y
        return x * y, dy * x if isinstance(dx, SymbolicZero) else dx * y + dy * x

    made = jax.custom_jvp(lambda x, y: x * y)
    made.defjvp(rule, symbolic_zeros=True)
    return made


def called_back(factor: float) -> Any:
    def outside(x: Any) -> Any:
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    return ruled(outside, lambda saved, g: (factor * g * jnp.cos(saved[0]),))


def wave(conjugated: bool) -> Any:
    """exp(i x): in JAX's convention the cotangent is multiplied by the derivative as it is."""

    def bwd(saved: Any, g: Any) -> Any:
        slope = 1j * jnp.exp(1j * saved[0])
        return (jnp.real(g * (jnp.conj(slope) if conjugated else slope)),)

    return ruled(lambda x: jnp.exp(1j * x), bwd)


def scaled(tree: Any, key: str, factor: float) -> Any:
    return {**tree, key: factor * tree[key]}


def linear(key: str, factor: float) -> Any:
    def bwd(saved: Any, g: Any) -> Any:
        (p,) = saved
        return (scaled({"w": jnp.outer(g, p["x"]), "x": p["w"].T @ g}, key, factor),)

    return ruled(lambda p: p["w"] @ p["x"], bwd)


@functools.partial(jax.jit, static_argnames=("power",), donate_argnums=(0,))
def donated(x: Any, power: int = 2) -> Any:
    return x**power


def root(a: Any) -> Any:
    def solve(f: Any, start: Any) -> Any:
        return lax.fori_loop(0, 40, lambda _, y: y - f(y) / (3 * y**2), start)

    return lax.custom_root(lambda y: y**3 - a, jnp.ones_like(a), solve, lambda g, y: y / g(jnp.ones_like(y)))


INDEX = jnp.array([0, 2, 2])
RIGHT: dict[str, tuple[Any, Any]] = {
    "scan in bwd": (summed(1), (drawn(9),)),
    "index that repeats": (picked("add"), (drawn(6), INDEX)),
    "the same mask": (dropped(KEY), (drawn(40),)),
    "cell in a scan": (recurrent(1.0), (drawn(4), drawn(6, 4))),
    "symbolic zeros of a jvp": (product_with_symbolic_zeros(1.0), (drawn(5), drawn(5))),
    "callback": (called_back(1.0), (drawn(5),)),
    "complex output": (wave(False), (drawn(4),)),
    "pytree": (linear("x", 1.0), ({"w": drawn(4, 3), "x": drawn(3)},)),
    "static and donated": (donated, (drawn(4),)),
    "implicit": (root, (jnp.abs(drawn(3)) + 0.5,)),
    "branch on a value": (lambda x: jnp.sin(x) if x.sum() < 1e3 else x, (drawn(4),)),
    "constant of six digits": (ruled(lambda x: x * 0.7978845608, lambda _, g: (g * 0.797885,)), (drawn(9),)),
    "zeros of relu, the other side": (ruled(jax.nn.relu, lambda s, g: (g * (s[0] >= 0),)), (jnp.arange(-2.0, 3.0),)),
    "None among leaves": (lambda p: p["a"] ** 2, ({"a": drawn(3), "b": None},)),
    "float32 alone is right": (sine(lambda x, g: g * jnp.cos(x) * (1 + (x.dtype == jnp.float64))), (drawn(50),)),
}
WRONG: dict[str, tuple[Any, Any, str]] = {
    "scan in bwd": (summed(0), (drawn(9),), "input 0 `x`"),
    "index that repeats": (picked("set"), (drawn(6), INDEX), "d(element [2])"),
    "another mask": (dropped(jax.random.key(4)), (drawn(40),), "input 0 `x`"),
    "cell in a scan": (recurrent(1.01), (drawn(4), drawn(6, 4)), "input 1 `xs`"),
    "symbolic zeros of a jvp": (product_with_symbolic_zeros(2.0), (drawn(5), drawn(5)), "none for input 1 `y`"),
    "callback": (called_back(1.01), (drawn(5),), "input 0 `x`"),
    "complex output": (wave(True), (drawn(4),), "input 0 `x`"),
    "pytree": (linear("x", 1.01), ({"w": drawn(4, 3), "x": drawn(3)},), "p['x']"),
    "one-hot cotangents": (
        sine(lambda x, g: g * jnp.cos(x) * jnp.where((g != 0).sum() == 1, 1.5, 1.0)),
        (drawn(30),),
        "input 0 `x`",
    ),
    "small cotangents": (sine(lambda x, g: jnp.where(jnp.abs(g) < 1e-4, 0.0, g) * jnp.cos(x)), (drawn(30),), ""),
    "large cotangents": (sine(lambda x, g: jnp.clip(g, -100, 100) * jnp.cos(x)), (drawn(30),), ""),
    "last block": (
        sine(lambda x, g: (g * jnp.cos(x)).at[-13:].set(0)),
        (drawn(100_013),),
        "d(element [1000",
    ),
    "float32 alone": (sine(lambda x, g: g * jnp.cos(x) * (1 + 0.01 * (x.dtype == jnp.float32))), (drawn(50),), ""),
    "zeros of relu": (
        ruled(jax.nn.relu, lambda s, g: (g * jnp.where(s[0] == 0, 2.0, s[0] > 0),)),
        (jnp.arange(-2.0, 3.0),),
        "element [2]",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_rule_passes(name: str) -> None:
    function, arguments = RIGHT[name]
    report = gradproof.check(function, arguments)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_fails_at_the_right_place(name: str) -> None:
    function, arguments, place = WRONG[name]
    report = gradproof.check(function, arguments)
    assert report.verdict is gradproof.Verdict.FAIL, str(report)
    assert place in report.findings[0].message
    assert "torch" not in str(report)


def test_a_rule_that_is_wrong_under_vmap_alone_fails_where_that_is_asked() -> None:
    @custom_vmap
    def times(g: Any, c: Any) -> Any:
        return g * c

    @times.def_vmap
    def _(size: int, batched: Any, g: Any, c: Any) -> Any:
        return 1.1 * g * c, True

    function = ruled(lambda x: jnp.sin(x), lambda c, g: (times(g, c),), lambda x: (jnp.sin(x), jnp.cos(x)))
    assert gradproof.check(function, drawn(6)).ok
    report = gradproof.check(function, drawn(6), properties=("jacobian", "batched_reverse"))
    assert report.verdict is gradproof.Verdict.FAIL


def test_random_numbers_behind_zero_weights_are_no_twin() -> None:
    """In float64 others are drawn, which the value does not tell."""

    def head(weights: Any, x: Any, factor: float = 1.0) -> Any:
        kept = jnp.where(jax.random.bernoulli(KEY, 0.5, x.shape), x / 0.5, 0.0)
        return ruled(jnp.dot, lambda saved, g: (factor * jnp.outer(g, saved[1]), g @ saved[0]))(weights, kept)

    weights, x = jnp.zeros((3, 8)), drawn(8)
    assert gradproof.check(head, (weights, x), modes="reverse").verdict is not gradproof.Verdict.FAIL
    wrong = gradproof.check(functools.partial(head, factor=1.5), (weights, x), modes="reverse")
    assert wrong.verdict is gradproof.Verdict.FAIL
