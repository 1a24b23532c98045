"""`gradproof.jax` keeps the signatures, tolerances and exceptions of `jax.test_util`."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import jax.test_util
import numpy as np
import pytest
from jax import lax

import gradproof.jax as door
from gradproof import engine
from gradproof.core.problem import NothingToCheckError

X = np.array([0.4, -0.7, 1.3], np.float32)


@pytest.fixture
def x() -> jax.Array:
    return jnp.asarray(X)


def cube(x: Any) -> Any:
    return x**3


@pytest.mark.parametrize("name", ["check_grads", "check_jvp", "check_vjp"])
def test_the_signature_is_that_of_jax(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(module, name)).parameters for module in (door, jax.test_util))
    assert [(p.name, p.default, p.kind) for p in ours.values()] == [
        (p.name, p.default, p.kind) for p in theirs.values()
    ]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (jnp.sin, (X,)),
        (lambda a, b: {"out": a @ b, "other": jnp.tanh(b)}, (np.eye(3, dtype=np.float32) + 0.1, X)),
        (lambda p: (p["w"] * p["b"]).sum(), ({"w": X, "b": X + 2},)),
        (lambda z: z**2 * jnp.conj(z), (np.array([0.4 + 0.3j], np.complex64),)),
        (lambda s: jnp.exp(s) * 2, (0.3,)),
        (lambda x, n: x * n, (X, np.arange(3))),
    ],
)
def test_what_is_right_passes_to_second_order(function: Any, args: Any) -> None:
    assert door.check_grads(function, args, order=2) is None


def test_the_third_order_and_linearize(x: Any) -> None:
    door.check_grads(cube, (x,), order=3, modes=["rev"])
    door.check_grads(cube, (x,), order=2, modes=("lin",))


@pytest.mark.parametrize("mode", ["fwd", "rev", "lin"])
def test_what_is_wrong_raises(x: Any, mode: str) -> None:
    said = {"fwd": "JVP tangent", "rev": "VJP cotangent projection", "lin": "LIN tangent"}[mode]
    with pytest.raises(AssertionError, match=f"^{said}: Jacobian mismatch .*input 0 `x`"):
        door.check_grads(lambda x: x * lax.stop_gradient(x), (x,), order=1, modes=[mode])


def test_a_wrong_second_order_says_so(x: Any) -> None:
    f = jax.custom_jvp(cube)
    f.defjvp(lambda p, t: (cube(*p), 3 * lax.stop_gradient(p[0]) ** 2 * t[0]))
    door.check_grads(f, (x,), order=1)
    with pytest.raises(AssertionError, match="VJP of VJP cotangent projection"):
        door.check_grads(f, (x,), order=2, modes=["rev"])
    with pytest.raises(AssertionError, match="JVP of JVP tangent"):
        door.check_grads(f, (x,), order=2, modes=["fwd"])


def test_forward_mode_of_a_custom_vjp_raises_what_jax_raises(x: Any) -> None:
    f = jax.custom_vjp(cube)
    f.defvjp(lambda x: (cube(x), x), lambda x, g: (3 * x**2 * g,))
    door.check_grads(f, (x,), order=1, modes=["rev"])
    for check in (door.check_grads, jax.test_util.check_grads):
        with pytest.raises(TypeError, match="custom_vjp"):
            check(f, (x,), order=1)


def test_tolerances_are_for_one_entry(x: Any) -> None:
    def f_vjp(x: Any) -> Any:
        return cube(x), lambda v: (3 * x**2 * v * 1.001,)

    door.check_vjp(cube, f_vjp, (x,))  # float32: 2e-3 as in JAX
    door.check_vjp(cube, f_vjp, (x,), rtol={np.float32: 1e-2})
    with pytest.raises(AssertionError):
        door.check_vjp(cube, f_vjp, (x,), atol=1e-5, rtol=1e-5)
    with pytest.raises(AssertionError), jax.enable_x64(True):
        door.check_vjp(cube, f_vjp, (jnp.asarray(X, jnp.float64),))


def test_derivatives_that_are_handed_over(x: Any) -> None:
    door.check_jvp(cube, functools.partial(jax.jvp, cube), (x,))
    door.check_vjp(cube, functools.partial(jax.vjp, cube), (x,))
    with pytest.raises(AssertionError, match="of mine tangent"):
        door.check_jvp(cube, lambda p, t: (cube(*p), 2.9 * p[0] ** 2 * t[0]), (x,), err_msg="of mine")
    with pytest.raises(AssertionError, match="cotangent projection"):
        door.check_vjp(cube, lambda x: (cube(x), lambda v: (2.9 * x**2 * v,)), (x,))


def test_the_values_beside_a_derivative_are_compared(x: Any) -> None:
    with pytest.raises(AssertionError, match="primal"):
        door.check_vjp(cube, lambda x: (2 * cube(x), lambda v: (3 * x**2 * v,)), (x,))
    with pytest.raises(AssertionError, match="primal"):
        door.check_jvp(cube, lambda p, t: (2 * cube(*p), 3 * p[0] ** 2 * t[0]), (x,))
    with pytest.raises(AssertionError, match="dtype"):
        door.check_jvp(cube, lambda p, t: (cube(*p), (3 * p[0] ** 2 * t[0]).astype(jnp.bfloat16)), (x,))


def test_an_error_that_jax_misses_is_caught() -> None:
    x = jnp.linspace(-1.0, 1.0, 10_000)
    f = jax.custom_vjp(jnp.sin)
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: ((g * jnp.cos(x)).at[4321].mul(1.01),))
    jax.test_util.check_grads(f, (x,), order=1, modes=["rev"])
    with pytest.raises(AssertionError, match=r"4321"):
        door.check_grads(f, (x,), order=1, modes=["rev"])


def test_kinks_warn() -> None:
    with pytest.warns(door.NonDifferentiableWarning):
        door.check_grads(jnp.abs, (jnp.array([0.0, 1.0]),), order=1, modes=["rev"])


def test_what_makes_no_sense_is_refused(x: Any) -> None:
    with pytest.raises(ValueError, match="modes"):
        door.check_grads(jnp.sin, (x,), order=1, modes=["backward"])
    with pytest.raises(ValueError, match="eps"):
        door.check_grads(jnp.sin, (x,), order=1, eps=-1.0)
    with pytest.raises(NothingToCheckError):
        door.check_grads(jnp.sum, (jnp.arange(3),), order=1)
    with pytest.raises(NothingToCheckError):
        door.check_grads(jnp.argmax, (x,), order=1)


def test_exceptions_of_the_function_come_through(x: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        door.check_grads(lambda x: 1 / 0, (x,), order=1)


def test_observers_get_reports(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(engine, "observers", [seen.append])
    monkeypatch.setattr(door, "observers", engine.observers)
    door.check_grads(jnp.sin, (x,), order=1)
    assert [report.ok for report in seen] == [True, True]


def test_the_exported_names() -> None:
    assert set(door.__all__) == {"NonDifferentiableWarning", "UnseenWarning", "check_grads", "check_jvp", "check_vjp"}
