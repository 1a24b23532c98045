"""Networks in low precision: right ones pass, what a layer loses is found and named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import gradproof
from gradproof import Verdict


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, b: Any, spoil: str, dtype: torch.dtype | None) -> Any:
        if dtype not in (None, x.dtype):
            raise TypeError(f"a kernel for {dtype} only")
        ctx.save_for_backward(x, w)
        ctx.spoil = spoil
        return x @ w.t() + b

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (g,) = grads
        x, w = ctx.saved_tensors
        gw, gb = g.t() @ x, g.sum(0)
        if ctx.spoil == "neuron":
            gw[7] = 0
        elif ctx.spoil == "bias":
            gb = gb.clone()
            gb[7] = 0
        elif ctx.spoil == "factor":
            gw = 1.03 * gw
        return g @ w, gw, gb, None, None


class _Layer(nn.Linear):
    def __init__(self, spoil: str, dtype: torch.dtype | None) -> None:
        super().__init__(10, 60)
        self.spoil, self.only = spoil, dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        applied: Any = _Linear.apply(x, self.weight, self.bias, self.spoil, self.only)
        return applied


def network(spoil: str = "", only: torch.dtype | None = None, seed: int = 0) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(seed)
    layers = (
        _Layer(spoil, only),
        nn.LeakyReLU(),
        nn.Linear(60, 60),
        nn.BatchNorm1d(60),
        nn.LeakyReLU(),
        nn.Linear(60, 2),
    )
    return nn.Sequential(*layers), torch.randn(32, 10)


SPOILS = [("neuron", "0.weight"), ("bias", "0.bias"), ("factor", "0.weight")]


@pytest.mark.parametrize("seed", range(3))
def test_a_right_network_passes_through_its_twin_and_is_as_before(seed: int) -> None:
    module, x = network(seed=seed)
    state, drawn = {k: v.clone() for k, v in module.state_dict().items()}, torch.get_rng_state()
    report = gradproof.check(module, x)
    assert report.verdict is Verdict.PASS, str(report)
    assert any("float64" in note for note in report.notes)
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
    assert all(value.dtype is state[name].dtype for name, value in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), drawn)


@pytest.mark.parametrize(("spoil", "parameter"), SPOILS)
def test_what_a_layer_loses_is_found_and_named(spoil: str, parameter: str) -> None:
    report = gradproof.check(*network(spoil))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].input == parameter


def test_a_right_network_with_a_kernel_of_one_dtype_passes() -> None:
    report = gradproof.check(*network(only=torch.float32))
    assert report.verdict is Verdict.PASS, str(report)
    assert report.notes == ()


@pytest.mark.parametrize(("spoil", "parameter"), SPOILS)
def test_a_kernel_that_loses_something_never_passes_silently(spoil: str, parameter: str) -> None:
    report = gradproof.check(*network(spoil, torch.float32))
    assert report.verdict is not Verdict.PASS
    assert report.findings[0].input in (parameter, None)


# half precision, with dropout


class _Spoiled(torch.autograd.Function):
    """What is given, with a gradient that is spoiled."""

    @staticmethod
    def forward(ctx: Any, x: Any, spoil: str) -> Any:
        ctx.spoil = spoil
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (g,) = grads
        if ctx.spoil == "doubled":
            return 2 * g, None
        g = g.clone()
        g.view(-1)[: len(g.view(-1)) // 2] = 0
        return (g if ctx.spoil == "half zero" else torch.zeros_like(g)), None


class _Spoiling(nn.Module):
    def __init__(self, spoil: str) -> None:
        super().__init__()
        self._spoil = spoil

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        spoiled: Any = _Spoiled.apply(tensor, self._spoil)
        return spoiled


def encoder(dtype: torch.dtype, seed: int, spoil: str = "") -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2).to(dtype).train()
    if spoil:
        parametrize.register_parametrization(layer.linear1, "bias", _Spoiling(spoil))
    return layer, torch.randn(3, 2, 8, dtype=dtype)


@pytest.fixture
def plain_products() -> Iterator[None]:
    """Matrix products of bfloat16 by torch's own code, which every processor runs."""
    enabled = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # pyright: ignore[reportAttributeAccessIssue]
    yield
    torch.backends.mkldnn.enabled = enabled  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.usefixtures("plain_products")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_right_layer_with_dropout_in_half_precision_passes(dtype: torch.dtype, seed: int) -> None:
    report = gradproof.check(*encoder(dtype, seed), seed=seed)
    assert report.verdict is Verdict.PASS, str(report)


@pytest.mark.usefixtures("plain_products")
@pytest.mark.parametrize("spoil", ["lost", "doubled", "half zero"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_spoiled_bias_of_a_layer_with_dropout_fails(dtype: torch.dtype, spoil: str) -> None:
    report = gradproof.check(*encoder(dtype, 0, spoil))
    assert report.verdict is Verdict.FAIL
    assert str(report.findings[0].input).startswith("linear1.parametrizations.bias")
