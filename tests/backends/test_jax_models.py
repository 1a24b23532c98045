"""Blocks of models of equinox pass in float32, parameters included, and a wrong one names the parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import gradproof

KEYS = jax.random.split(jax.random.key(0), 8)


class Residual(eqx.Module):
    """A block of a transformer's feed-forward part."""

    norm: eqx.nn.LayerNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        self.norm, keys = eqx.nn.LayerNorm(4), jax.random.split(key)
        self.up, self.down = eqx.nn.Linear(4, 6, key=keys[0]), eqx.nn.Linear(6, 4, key=keys[1])

    def __call__(self, x: Any) -> Any:
        return x + self.down(jax.nn.gelu(self.up(self.norm(x))))


class Attention(eqx.Module):
    inner: eqx.nn.MultiheadAttention

    def __call__(self, x: Any) -> Any:
        return self.inner(x, x, x)


def drawn(*shape: int) -> Any:
    return jax.random.normal(KEYS[7], shape)


BLOCKS: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "Linear": lambda: (eqx.nn.Linear(3, 2, key=KEYS[0]), (drawn(3),)),
    "MLP": lambda: (eqx.nn.MLP(3, 2, 5, 2, activation=jax.nn.tanh, key=KEYS[0]), (drawn(3),)),
    "LayerNorm": lambda: (eqx.nn.LayerNorm(4), (drawn(4),)),
    "RMSNorm": lambda: (eqx.nn.RMSNorm(4), (drawn(4),)),
    "GroupNorm": lambda: (eqx.nn.GroupNorm(2, 4), (drawn(4, 3),)),
    "Conv2d": lambda: (eqx.nn.Conv2d(2, 3, 3, key=KEYS[1]), (drawn(2, 5, 5),)),
    "ConvTranspose1d": lambda: (eqx.nn.ConvTranspose1d(2, 3, 2, key=KEYS[1]), (drawn(2, 4),)),
    "AvgPool2d": lambda: (eqx.nn.AvgPool2d(2), (drawn(2, 4, 4),)),
    "GRUCell": lambda: (eqx.nn.GRUCell(3, 4, key=KEYS[2]), (drawn(3), drawn(4))),
    "LSTMCell": lambda: (eqx.nn.LSTMCell(3, 4, key=KEYS[3]), (drawn(3), (drawn(4), drawn(4)))),
    "MultiheadAttention": lambda: (Attention(eqx.nn.MultiheadAttention(2, 4, key=KEYS[4])), (drawn(3, 4),)),
    "Residual": lambda: (Residual(KEYS[5]), (drawn(4),)),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_passes(name: str) -> None:
    block, inputs = BLOCKS[name]()
    report = gradproof.check(block, inputs)
    assert report.ok, str(report)
    arrays = [leaf for leaf in jax.tree.leaves((block, inputs)) if eqx.is_inexact_array(leaf)]
    assert len(report.covered) == len(arrays)
    assert all(str(array.dtype) == "float32" for array in arrays)


def test_parameters_have_the_names_of_their_paths() -> None:
    report = gradproof.check(*BLOCKS["Residual"](), modes="reverse")
    assert "parameter `up.weight`" in report.covered
    assert report.covered[0] == "input 0 `x`"


def test_a_wrong_parameter_is_named() -> None:
    @jax.custom_vjp
    def scaled(weight: Any, x: Any) -> Any:
        return weight * x

    scaled.defvjp(lambda w, x: (w * x, (w, x)), lambda kept, g: ((g * kept[1]).at[1].mul(1.1), g * kept[0]))

    class Scale(eqx.Module):
        weight: Any

        def __call__(self, x: Any) -> Any:
            return jnp.tanh(scaled(self.weight, x))

    report = gradproof.check(Scale(drawn(3)), drawn(3))
    finding = report.findings[0]
    assert (finding.input, finding.input_element) == ("weight", (1,))
    assert "parameter `weight`" in finding.headline


def test_parameters_can_be_selected() -> None:
    block, inputs = BLOCKS["MLP"]()
    report = gradproof.check(block, inputs, wrt="layers*weight", modes="reverse")
    assert report.ok
    assert report.covered == tuple(f"parameter `layers[{i}].weight`" for i in range(3))
    assert "parameter `layers[0].bias` (not selected by wrt)" in report.not_covered
