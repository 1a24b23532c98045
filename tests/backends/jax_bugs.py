"""Rules of custom_vjp and custom_jvp, each right and with one mistake: data.

`make(wrong)` gives the function and its inputs. A mistake is in one leaf: its name, and the elements whose
derivative is wrong (None: all of them), are said with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero

X = np.array([0.4, -0.7, 1.3, 0.9, -1.1], np.float32)
Y = np.array([1.2, 0.8, -0.5, 0.6, 1.4], np.float32)
W = np.array([[0.5, -0.3, 0.8], [0.2, 0.7, -0.6], [-0.9, 0.4, 0.1]], np.float32)


class Bug(NamedTuple):
    name: str
    make: Callable[[bool], tuple[Callable[..., Any], tuple[Any, ...]]]
    leaf: str = "x"
    elements: tuple[tuple[int, ...], ...] | None = None
    property: str = "jacobian"
    options: dict[str, Any] = {}  # noqa: RUF012


def elementwise(right: Callable[[Any, Any], Any], wrong: Callable[[Any, Any], Any]) -> Any:
    """tanh, whose bwd is one of two functions of the input and the cotangent."""

    def make(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        @jax.custom_vjp
        def f(x: Any) -> Any:
            return jnp.tanh(x)

        f.defvjp(lambda x: (f(x), x), lambda x, g: ((wrong if mistaken else right)(x, g),))
        return f, (jnp.asarray(X),)

    return make


def slope(x: Any) -> Any:
    return 1 - jnp.tanh(x) ** 2


def with_rule(function: Callable[..., Any], bwd: Callable[[bool], Callable[..., Any]], *inputs: Any) -> Any:
    """A function of several inputs, which are its residuals too; bwd is made right or wrong."""

    def make(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        f = jax.custom_vjp(function)
        f.defvjp(lambda *given: (function(*given), given), bwd(mistaken))
        return f, tuple(jax.tree.map(jnp.asarray, each) for each in inputs)

    return make


def with_jvp(function: Callable[..., Any], rule: Callable[[bool], Callable[..., Any]], *inputs: Any) -> Any:
    """The same with the rule of a custom_jvp."""

    def make(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        f = jax.custom_jvp(function)
        f.defjvp(rule(mistaken))
        return f, tuple(map(jnp.asarray, inputs))

    return make


def product(x: Any, y: Any) -> Any:
    return x * jnp.sin(y)


def dense(params: Any, x: Any) -> Any:
    return params["kernel"] @ x + params["bias"]


def dense_bwd(mistaken: bool) -> Callable[..., Any]:
    def bwd(residuals: Any, g: Any) -> Any:
        params, x = residuals
        kernel = jnp.outer(x, g) if mistaken else jnp.outer(g, x)
        return {"kernel": kernel, "bias": g}, params["kernel"].T @ g

    return bwd


def swapped_leaves(mistaken: bool) -> Callable[..., Any]:
    def bwd(residuals: Any, g: Any) -> Any:
        params, x = residuals
        scale, shift = g * x, g
        return {"scale": scale, "shift": scale if mistaken else shift}, g * params["scale"]

    return bwd


def nondiff(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    @functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
    def f(x: Any, n: int) -> Any:
        return x**n

    f.defvjp(lambda x, n: (x**n, x), lambda n, x, g: (g * n * x ** (n if mistaken else n - 1),))
    return f, (jnp.asarray(np.abs(X)), 3)


def stale(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.exp(2.0 * x)

    def fwd(x: Any) -> Any:
        before, after = jnp.exp(x), jnp.exp(2.0 * x)
        return after, before if mistaken else after

    f.defvjp(fwd, lambda kept, g: (2.0 * kept * g,))
    return f, (jnp.asarray(X),)


def second_order(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    @jax.custom_jvp
    def f(x: Any) -> Any:
        return x**3

    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), 3 * (lax.stop_gradient(x) if mistaken else x) ** 2 * t

    f.defjvp(rule)
    return f, (jnp.asarray(X),)


def second_order_of_vjp(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The residual of fwd is the slope by a rule of its own, whose derivative is off by a factor."""

    @jax.custom_jvp
    def cosine(x: Any) -> Any:
        return jnp.cos(x)

    cosine.defjvps(lambda t, out, x: -(1.1 if mistaken else 1.0) * jnp.sin(x) * t)

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (cosine(x) * g,))
    return f, (jnp.asarray(X),)


def symbolic_cotangent(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x), x**2

    def fwd(x: Any) -> Any:
        return f(x.value), x.value

    def bwd(x: Any, gs: Any) -> Any:
        given = [None if isinstance(g, SymbolicZero) else g for g in gs]
        filled = [(jnp.ones_like(x) if mistaken else jnp.zeros_like(x)) if g is None else g for g in given]
        return (filled[0] * jnp.cos(x) + filled[1] * 2 * x,)

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return f, (jnp.asarray(X),)


def symbolic_tangent(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    @jax.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def rule(primals: Any, tangents: Any) -> Any:
        (x, y), (t, s) = primals, tangents
        if isinstance(t, SymbolicZero):
            return f(x, y), (2.0 if mistaken else 1.0) * x * s
        return f(x, y), t * y + (0.0 if isinstance(s, SymbolicZero) else x * s)

    f.defjvp(rule, symbolic_zeros=True)
    return f, (jnp.asarray(X), jnp.asarray(Y))


def under_vmap(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    @custom_vmap
    def scaled(x: Any, g: Any) -> Any:
        return jnp.cos(x) * g

    @scaled.def_vmap
    def _(size: int, batched: Any, x: Any, g: Any) -> Any:
        x = x if batched[0] else x[None]
        return jnp.cos(x) * (g[:1] if mistaken and batched[1] else g) * jnp.ones((size, 1), g.dtype), True

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (scaled(x, g),))
    return f, (jnp.asarray(X),)


def transposed_solve(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Forward mode is right; only the transposed solve, which reverse mode takes, is another one."""
    matrix = jnp.asarray(W + 2 * np.eye(3, dtype=np.float32))

    def solve(_: Any, b: Any) -> Any:
        return jnp.linalg.solve(matrix.astype(b.dtype), b)

    def transpose_solve(_: Any, b: Any) -> Any:
        return jnp.linalg.solve((matrix if mistaken else matrix.T).astype(b.dtype), b)

    def f(x: Any) -> Any:
        return lax.custom_linear_solve(lambda v: matrix.astype(v.dtype) @ v, x, solve, transpose_solve)

    return f, (jnp.asarray(X[:3]),)


def integer_labels(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Labels are integers, whose cotangent is float0: the mistake is in the logits'."""

    @jax.custom_vjp
    def loss(x: Any, labels: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).sum()

    def bwd(kept: Any, g: Any) -> Any:
        x, labels = kept
        picked = jax.nn.one_hot(labels + (1 if mistaken else 0), 3, dtype=x.dtype)
        return g * (jax.nn.softmax(x) - picked), np.zeros(labels.shape, jax.dtypes.float0)

    loss.defvjp(lambda x, labels: (loss(x, labels), (x, labels)), bwd)
    return loss, (jnp.asarray(W), jnp.array([0, 1, 1]))


def in_scan(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    @jax.custom_vjp
    def step(h: Any, u: Any) -> Any:
        return jnp.tanh(h + u)

    def bwd(out: Any, g: Any) -> Any:
        d = g * (1 - out**2)
        return d, d * (0.5 if mistaken else 1.0)

    step.defvjp(lambda h, u: (step(h, u),) * 2, bwd)

    def f(h: Any, u: Any) -> Any:
        return lax.scan(lambda c, v: (step(c, v),) * 2, h, u)[1]

    return f, (jnp.float32(0.3), jnp.asarray(X))


def low_precision(mistaken: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """bwd computes in bfloat16 where its cotangent is float32, and in float64 otherwise."""

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    def bwd(x: Any, g: Any) -> Any:
        coarse = mistaken and g.dtype == jnp.float32
        return (
            (jnp.cos(x).astype(jnp.bfloat16) * g.astype(jnp.bfloat16)).astype(g.dtype) if coarse else jnp.cos(x) * g,
        )

    f.defvjp(lambda x: (f(x), x), bwd)
    return f, (jnp.asarray(X),)


Z = np.array([0.4 + 0.3j, -0.7 + 1.1j, 1.3 - 0.2j], np.complex64)

BUGS = (
    Bug("factor", elementwise(lambda x, g: slope(x) * g, lambda x, g: 2 * slope(x) * g)),
    Bug("factor of a thousandth", elementwise(lambda x, g: slope(x) * g, lambda x, g: 1.002 * slope(x) * g)),
    Bug("sign", elementwise(lambda x, g: slope(x) * g, lambda x, g: -slope(x) * g)),
    Bug("one over n", elementwise(lambda x, g: slope(x) * g, lambda x, g: slope(x) * g / 5)),
    Bug("shifted index", elementwise(lambda x, g: slope(x) * g, lambda x, g: jnp.roll(slope(x) * g, 1))),
    Bug(
        "the last element",
        elementwise(lambda x, g: slope(x) * g, lambda x, g: (slope(x) * g).at[-1].mul(1.01)),
        elements=((4,),),
    ),
    Bug("zero", elementwise(lambda x, g: slope(x) * g, lambda x, g: jnp.zeros_like(x))),
    Bug(
        "one element is zero",
        elementwise(lambda x, g: slope(x) * g, lambda x, g: (slope(x) * g).at[2].set(0.0)),
        elements=((2,),),
    ),
    Bug("no slope", elementwise(lambda x, g: slope(x) * g, lambda x, g: g)),
    Bug(
        "cotangent's absolute value",
        elementwise(lambda x, g: slope(x) * g, lambda x, g: slope(x) * jnp.abs(g)),
        property="linearity",
    ),
    Bug(
        "clipped cotangent",
        elementwise(lambda x, g: slope(x) * g, lambda x, g: slope(x) * jnp.clip(g, -0.9, 0.9)),
        property="linearity",
    ),
    Bug("not multiplied", elementwise(lambda x, g: slope(x) * g, lambda x, g: slope(x) * g + 0.01)),
    Bug("stale residual", stale),
    Bug("nondiff_argnums", nondiff),
    Bug(
        "swapped residuals",
        with_rule(
            product,
            lambda bad: lambda kept, g: (g * jnp.sin(kept[0 if bad else 1]), g * kept[0] * jnp.cos(kept[1])),
            X,
            Y,
        ),
    ),
    Bug(
        "a term is missing",
        with_rule(
            lambda x, y: jnp.sum(x * y) * x,
            lambda bad: (
                lambda kept, g: (
                    g * jnp.sum(kept[0] * kept[1]) + (0.0 if bad else 1.0) * kept[1] * jnp.sum(g * kept[0]),
                    kept[0] * jnp.sum(g * kept[0]),
                )
            ),
            X,
            Y,
        ),
    ),
    Bug(
        "the wrong leaf",
        with_rule(lambda params, x: params["scale"] * x + params["shift"], swapped_leaves, {"scale": X, "shift": Y}, Y),
        leaf="params['shift']",
    ),
    Bug(
        "transposed leaf",
        with_rule(dense, dense_bwd, {"kernel": W, "bias": X[:3]}, Y[:3]),
        leaf="params['kernel']",
    ),
    Bug(
        "first of a batch, not the sum",
        with_rule(
            lambda x, y: x * y,
            lambda bad: lambda kept, g: ((g * kept[1])[0] if bad else (g * kept[1]).sum(0), g * kept[0]),
            X[:3],
            W,
        ),
    ),
    Bug(
        "no conjugate of a modulus",
        with_rule(
            lambda x: (x * jnp.conj(x)).real,
            lambda bad: lambda kept, g: ((2 * g * (kept[0] if bad else jnp.conj(kept[0]))).astype(kept[0].dtype),),
            Z,
        ),
    ),
    Bug(
        "a conjugate too many",
        with_rule(lambda x: x**2, lambda bad: lambda kept, g: (2 * g * (jnp.conj(kept[0]) if bad else kept[0]),), Z),
    ),
    Bug(
        "factor in a custom_jvp",
        with_jvp(
            lambda x: jnp.sin(x),
            lambda bad: lambda p, t: (jnp.sin(p[0]), (1.5 if bad else 1) * jnp.cos(p[0]) * t[0]),
            X,
        ),
    ),
    Bug(
        "sign in a custom_jvp",
        with_jvp(
            lambda x, y: x / y,
            lambda bad: lambda p, t: (p[0] / p[1], t[0] / p[1] + (1 if bad else -1) * t[1] * p[0] / p[1] ** 2),
            X,
            Y,
        ),
        leaf="y",
    ),
    Bug("second order of a custom_jvp", second_order, options={"order": 2}),
    Bug("second order of a custom_vjp", second_order_of_vjp, options={"order": 2}),
    Bug("symbolic zero of a cotangent", symbolic_cotangent, leaf="", property="undefined"),
    Bug("symbolic zero of a tangent", symbolic_tangent, leaf="", property="undefined"),
    Bug(
        "wrong under vmap",
        under_vmap,
        leaf="",
        property="batched_reverse",
        options={"properties": ("jacobian", "batched_reverse")},
    ),
    Bug("transposed solve", transposed_solve),
    Bug("labels off by one", integer_labels, elements=((0, 0), (0, 1), (1, 1), (1, 2), (2, 1), (2, 2))),
    Bug("inside of a scan", in_scan, leaf="u"),
    Bug("bfloat16 inside of bwd", low_precision),
)
