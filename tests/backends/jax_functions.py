"""The most used functions of jax.numpy, jax.nn, jax.scipy.special and jax.lax, each with an ordinary point: data.

An entry is a name, the function and the kinds of its arguments, which `draw` makes arrays of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
from jax import lax


class Case(NamedTuple):
    name: str
    function: Callable[..., Any]
    arguments: tuple[str, ...] = ("any",)


SHAPES = {"matrix": (3, 3), "tall": (4, 3), "image": (1, 2, 6, 6), "kernel": (3, 2, 3, 3), "scalar": ()}


def draw(kind: str, dtype: Any, seed: int = 0) -> Any:
    """An array of a kind at an ordinary point: away from ends, kinks and ties."""
    generator = np.random.default_rng(seed)
    shape = SHAPES.get(kind, (5,))
    values = generator.uniform(0.3, 1.7, shape) * generator.choice([-1.0, 1.0], shape)
    if kind == "positive":
        values = np.abs(values)
    elif kind == "above one":
        values = 1.2 + np.abs(values)
    elif kind == "inside":
        values = generator.uniform(-0.8, 0.8, shape)
    elif kind == "unit":
        values = generator.uniform(0.15, 0.85, shape)
    elif kind == "matrix":
        values = generator.standard_normal(shape) + 3.0 * np.eye(3)
    return jnp.asarray(values, dtype)


def symmetric(a: Any) -> Any:
    """A positive definite matrix made of one."""
    return a @ a.T + jnp.eye(3, dtype=a.dtype)


CASES = (
    Case("jnp.add", jnp.add, ("any", "any")),
    Case("jnp.subtract", jnp.subtract, ("any", "any")),
    Case("jnp.multiply", jnp.multiply, ("any", "any")),
    Case("jnp.divide", jnp.divide, ("any", "any")),
    Case("jnp.power", jnp.power, ("positive", "any")),
    Case("jnp.maximum", jnp.maximum, ("any", "unit")),
    Case("jnp.minimum", jnp.minimum, ("any", "unit")),
    Case("jnp.negative", jnp.negative),
    Case("jnp.abs", jnp.abs),
    Case("jnp.square", jnp.square),
    Case("jnp.sqrt", jnp.sqrt, ("positive",)),
    Case("jnp.cbrt", jnp.cbrt, ("positive",)),
    Case("jnp.exp", jnp.exp),
    Case("jnp.expm1", jnp.expm1),
    Case("jnp.log", jnp.log, ("positive",)),
    Case("jnp.log1p", jnp.log1p, ("positive",)),
    Case("jnp.log2", jnp.log2, ("positive",)),
    Case("jnp.sin", jnp.sin),
    Case("jnp.cos", jnp.cos),
    Case("jnp.tan", jnp.tan, ("inside",)),
    Case("jnp.arcsin", jnp.arcsin, ("inside",)),
    Case("jnp.arccos", jnp.arccos, ("inside",)),
    Case("jnp.arctan", jnp.arctan),
    Case("jnp.arctan2", jnp.arctan2, ("any", "positive")),
    Case("jnp.sinh", jnp.sinh),
    Case("jnp.cosh", jnp.cosh),
    Case("jnp.tanh", jnp.tanh),
    Case("jnp.arcsinh", jnp.arcsinh),
    Case("jnp.arccosh", jnp.arccosh, ("above one",)),
    Case("jnp.arctanh", jnp.arctanh, ("inside",)),
    Case("jnp.hypot", jnp.hypot, ("any", "any")),
    Case("jnp.logaddexp", jnp.logaddexp, ("any", "any")),
    Case("jnp.sum", lambda a: jnp.sum(a, axis=0), ("tall",)),
    Case("jnp.mean", lambda a: jnp.mean(a, axis=1), ("tall",)),
    Case("jnp.prod", lambda a: jnp.prod(a, axis=0), ("tall",)),
    Case("jnp.var", jnp.var, ("tall",)),
    Case("jnp.std", jnp.std, ("tall",)),
    Case("jnp.max", lambda a: jnp.max(a, axis=0), ("tall",)),
    Case("jnp.min", lambda a: jnp.min(a, axis=0), ("tall",)),
    Case("jnp.cumsum", jnp.cumsum),
    Case("jnp.cumprod", jnp.cumprod),
    Case("jnp.sort", jnp.sort),
    Case("jnp.clip", lambda a: jnp.clip(a, -1.0, 1.0)),
    Case("jnp.where", lambda a, b: jnp.where(a > 0, a * b, b), ("any", "any")),
    Case("jnp.dot", jnp.dot, ("any", "any")),
    Case("jnp.matmul", jnp.matmul, ("tall", "matrix")),
    Case("jnp.einsum", lambda a, b: jnp.einsum("ij,kj->ik", a, b), ("tall", "tall")),
    Case("jnp.outer", jnp.outer, ("any", "any")),
    Case("jnp.tensordot", lambda a, b: jnp.tensordot(a, b, 1), ("tall", "matrix")),
    Case("jnp.transpose", jnp.transpose, ("tall",)),
    Case("jnp.reshape", lambda a: jnp.reshape(a, (2, 6)), ("tall",)),
    Case("jnp.concatenate", lambda a, b: jnp.concatenate([a, b]), ("any", "any")),
    Case("jnp.stack", lambda a, b: jnp.stack([a, b]), ("any", "any")),
    Case("jnp.take", lambda a: jnp.take(a, jnp.array([0, 3, 3])), ("any",)),
    Case("x[i]", lambda a: a[jnp.array([1, 2]), 1:], ("tall",)),
    Case("x.at[i].set", lambda a, b: a.at[2].set(b), ("any", "scalar")),
    Case("jnp.pad", lambda a: jnp.pad(a, 2)),
    Case("jnp.roll", lambda a: jnp.roll(a, 2)),
    Case("jnp.linalg.norm", jnp.linalg.norm),
    Case("jnp.linalg.det", jnp.linalg.det, ("matrix",)),
    Case("jnp.linalg.inv", jnp.linalg.inv, ("matrix",)),
    Case("jnp.linalg.solve", jnp.linalg.solve, ("matrix", "matrix")),
    Case("jnp.linalg.cholesky", lambda a: jnp.linalg.cholesky(symmetric(a)), ("matrix",)),
    Case("jnp.linalg.eigvalsh", lambda a: jnp.linalg.eigvalsh(symmetric(a)), ("matrix",)),
    Case("jnp.linalg.slogdet", lambda a: jnp.linalg.slogdet(a)[1], ("matrix",)),
    Case("nn.relu", jax.nn.relu),
    Case("nn.gelu", jax.nn.gelu),
    Case("nn.silu", jax.nn.silu),
    Case("nn.elu", jax.nn.elu),
    Case("nn.leaky_relu", jax.nn.leaky_relu),
    Case("nn.softplus", jax.nn.softplus),
    Case("nn.sigmoid", jax.nn.sigmoid),
    Case("nn.log_sigmoid", jax.nn.log_sigmoid),
    Case("nn.softmax", jax.nn.softmax),
    Case("nn.log_softmax", jax.nn.log_softmax),
    Case("nn.logsumexp", jax.nn.logsumexp),
    Case("nn.standardize", jax.nn.standardize, ("tall",)),
    Case("nn.glu", lambda a: jax.nn.glu(a, axis=0), ("tall",)),
    Case("nn.swish", jax.nn.swish),
    Case("nn.celu", jax.nn.celu),
    Case("special.erf", special.erf),
    Case("special.erfc", special.erfc),
    Case("special.erfinv", special.erfinv, ("inside",)),
    Case("special.gammaln", special.gammaln, ("positive",)),
    Case("special.digamma", special.digamma, ("positive",)),
    Case("special.betaln", special.betaln, ("positive", "positive")),
    Case("special.i0", special.i0),
    Case("special.i1e", special.i1e),
    Case("special.expit", special.expit),
    Case("special.logit", special.logit, ("unit",)),
    Case("special.xlogy", special.xlogy, ("positive", "positive")),
    Case("special.ndtr", special.ndtr),
    Case("special.log_ndtr", special.log_ndtr),
    Case("special.ndtri", special.ndtri, ("unit",)),
    Case("special.entr", special.entr, ("positive",)),
    Case("lax.conv", lambda a, b: lax.conv(a, b, (1, 1), "SAME"), ("image", "kernel")),
    Case("lax.reduce_window", lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (2,), (1,), "VALID")),
    Case("lax.scan", lambda a: lax.scan(lambda c, x: (c * 0.9 + jnp.sin(x), c * x), a[0], a)[1]),
    Case("lax.fori_loop", lambda a: lax.fori_loop(0, 3, lambda i, c: c * a + 0.5, a), ("inside",)),
    Case("lax.cond", lambda a: lax.cond(a.sum() > 0, jnp.sin, jnp.cos, a)),
    Case("lax.dynamic_slice", lambda a: lax.dynamic_slice(a, (jnp.int32(1),), (3,))),
    Case("lax.rsqrt", lax.rsqrt, ("positive",)),
    Case("lax.map", lambda a: lax.map(jnp.sin, a)),
    Case("lax.select", lambda a, b: lax.select(a > 0, a * a, b), ("any", "any")),
    Case("lax.associative_scan", lambda a: lax.associative_scan(jnp.multiply, a)),
)
