"""The model of the demonstration in NumPy: each operator has a vjp beside it, and the mistake is in one of these."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradproof.api import check
from gradproof.results.report import Report

RULE = "vjp"
TILE, COLUMNS = 4, 6

Array = NDArray[np.float64]
erf = np.vectorize(math.erf, otypes=[np.float64])


def rms_norm(x: Array, gain: Array) -> Array:
    """Each row divided by its root mean square, times a gain for each column."""
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True)) * gain


def rms_norm_vjp(x: Array, v: Array, gain: Array) -> tuple[Array, Array]:
    scale = 1.0 / np.sqrt(np.square(x).mean(-1, keepdims=True))
    straight = v * gain
    products = straight * x
    whole = products.shape[-1] - products.shape[-1] % TILE
    through_mean = products[..., :whole].sum(-1, keepdims=True)  # the planted mistake: the tail is missing
    of_x = scale * (straight - x * np.square(scale) * through_mean / x.shape[-1])
    return of_x, (v * x * scale).sum(0)


def linear(x: Array, weight: Array, bias: Array) -> Array:
    """A matrix product and a bias in one step."""
    return x @ weight.T + bias


def linear_vjp(x: Array, v: Array, weight: Array, bias: Array) -> tuple[Array, Array, Array]:
    return v @ weight, v.T @ x, v.sum(0)


def gelu(x: Array) -> Array:
    """x times the normal distribution function of x."""
    return x * _below(x)


def gelu_vjp(x: Array, v: Array) -> Array:
    density = np.exp(-0.5 * np.square(x)) / math.sqrt(2 * math.pi)
    return v * (_below(x) + x * density)


def _below(x: Array) -> Any:
    return 0.5 * (1.0 + erf(x / math.sqrt(2.0)))


def model(x: Array, gain: Array, weight: Array, bias: Array) -> Array:
    return gelu(linear(rms_norm(x, gain), weight, bias))


def model_vjp(x: Array, v: Array, gain: Array, weight: Array, bias: Array) -> tuple[Array, ...]:
    normal = rms_norm(x, gain)
    of_hidden = gelu_vjp(linear(normal, weight, bias), v)
    of_normal, of_weight, of_bias = linear_vjp(normal, of_hidden, weight, bias)
    return *rms_norm_vjp(x, of_normal, gain), of_weight, of_bias


def checked() -> dict[str, Report]:
    """The reports of the whole model and of each operator on its own."""
    draw = np.random.default_rng(0)
    shapes = ((2, COLUMNS), (COLUMNS,), (3, COLUMNS), (3,), (2, 3))
    x, gain, weight, bias, hidden = (draw.normal(size=shape) for shape in shapes)
    return {
        "model": check(model, (x, gain, weight, bias), vjp=model_vjp, wrt=range(4)),
        "rms_norm": check(rms_norm, (x, gain), vjp=rms_norm_vjp, wrt=range(2)),
        "linear": check(linear, (x, weight, bias), vjp=linear_vjp, wrt=range(3)),
        "gelu": check(gelu, hidden, vjp=gelu_vjp),
    }
