"""float32 networks with hand-written layers: right ones pass, what a layer loses is found and named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

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
