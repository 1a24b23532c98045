"""The model of the demonstration in JAX: operators have a custom_vjp, and the mistake is in a bwd."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradproof.api import check
from gradproof.results.report import Report

RULE = "bwd"
TILE, COLUMNS = 4, 6


@jax.custom_vjp
def rms_norm(x: Any, gain: Any) -> Any:
    """Each row divided by its root mean square, times a gain for each column."""
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True)) * gain


def _rms_norm_fwd(x: Any, gain: Any) -> Any:
    scale = jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True))
    return x * scale * gain, (x, gain, scale)


def _rms_norm_bwd(saved: Any, v: Any) -> Any:
    x, gain, scale = saved
    straight = v * gain
    products = straight * x
    whole = products.shape[-1] - products.shape[-1] % TILE
    through_mean = products[..., :whole].sum(-1, keepdims=True)  # the planted mistake: the tail is missing
    of_x = scale * (straight - x * jnp.square(scale) * through_mean / x.shape[-1])
    return of_x, (v * x * scale).sum(0)


@jax.custom_vjp
def linear(x: Any, weight: Any, bias: Any) -> Any:
    """A matrix product and a bias in one step."""
    return x @ weight.T + bias


def _linear_fwd(x: Any, weight: Any, bias: Any) -> Any:
    return x @ weight.T + bias, (x, weight)


def _linear_bwd(saved: Any, v: Any) -> Any:
    x, weight = saved
    return v @ weight, v.T @ x, v.sum(0)


@jax.custom_vjp
def gelu(x: Any) -> Any:
    """x times the normal distribution function of x."""
    return x * jax.scipy.special.ndtr(x)


def _gelu_fwd(x: Any) -> Any:
    below = jax.scipy.special.ndtr(x)
    return x * below, (x, below)


def _gelu_bwd(saved: Any, v: Any) -> Any:
    x, below = saved
    density = jnp.exp(-0.5 * jnp.square(x)) / math.sqrt(2 * math.pi)
    return (v * (below + x * density),)


rms_norm.defvjp(_rms_norm_fwd, _rms_norm_bwd)
linear.defvjp(_linear_fwd, _linear_bwd)
gelu.defvjp(_gelu_fwd, _gelu_bwd)


def model(x: Any, gain: Any, weight: Any, bias: Any) -> Any:
    return gelu(linear(rms_norm(x, gain), weight, bias))


def checked() -> dict[str, Report]:
    """The reports of the whole model and of each operator on its own."""
    draw = np.random.default_rng(0)
    shapes = ((2, COLUMNS), (COLUMNS,), (3, COLUMNS), (3,), (2, 3))
    with jax.enable_x64(True):
        x, gain, weight, bias, hidden = (jnp.asarray(draw.normal(size=shape)) for shape in shapes)
        calls: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
            ("model", model, (x, gain, weight, bias)),
            ("rms_norm", rms_norm, (x, gain)),
            ("linear", linear, (x, weight, bias)),
            ("gelu", gelu, (hidden,)),
        ]
        return {name: check(function, inputs) for name, function, inputs in calls}
