"""What a right kernel costs: at most ten evaluations and ten vjps, and a wrong one is found all the same."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, numbers

from gradproof import Report, Status, Verdict, check
from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.problem import first_order

Spoil = Callable[[np.ndarray], np.ndarray]


def opaque(function: Callable[..., torch.Tensor], *spoils: Spoil | None) -> Any:
    """A float32 kernel that nobody looks into: it computes in a thread of its own, whatever dtype it is given.

    `spoils` change the gradients of its inputs.
    """
    thread = ThreadPoolExecutor(1)

    def forward(arrays: list[np.ndarray]) -> np.ndarray:
        return function(*map(torch.from_numpy, arrays)).numpy()

    def backward(arrays: list[np.ndarray], cotangent: np.ndarray) -> list[np.ndarray]:
        inputs = [torch.from_numpy(array).requires_grad_() for array in arrays]
        gradients = torch.autograd.grad(function(*inputs), inputs, torch.from_numpy(cotangent))
        return [
            spoil(gradient.numpy()) if spoil is not None else gradient.numpy()
            for gradient, spoil in zip(gradients, spoils or (None,) * len(inputs), strict=True)
        ]

    def as_single(tensor: torch.Tensor) -> np.ndarray:
        return np.ascontiguousarray(tensor.detach().numpy().astype(np.float32))

    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
            ctx.arrays = [as_single(x) for x in inputs]
            return torch.from_numpy(thread.submit(forward, ctx.arrays).result()).to(inputs[0].dtype)

        @staticmethod
        def backward(ctx: Any, cotangent: torch.Tensor) -> Any:
            gradients = thread.submit(backward, ctx.arrays, as_single(cotangent)).result()
            return tuple(torch.from_numpy(np.array(gradient)).to(cotangent.dtype) for gradient in gradients)

    return Kernel.apply


def rounding(factor: float = 1.0) -> Any:
    """silu(a) * b, of which only the first factor is computed in single precision, where no operator is seen."""

    def gate(a: torch.Tensor) -> torch.Tensor:
        single = a.detach().numpy().astype(np.float32)
        return torch.from_numpy((single / (1 + np.exp(-single))).astype(a.detach().numpy().dtype))

    def slope(a: torch.Tensor) -> torch.Tensor:
        sigmoid = torch.sigmoid(a)
        return sigmoid * (1 + a * (1 - sigmoid))

    return custom(lambda a, b: gate(a) * b, lambda s, g: (factor * g * s[1] * slope(s[0]), g * gate(s[0])))


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)


def single(*shape: int, seed: int = 0) -> torch.Tensor:
    return numbers(*shape, dtype=torch.float32, seed=seed)


NORM = single(3, 7), single(7, seed=1), single(7, seed=2)
RIGHT: dict[str, tuple[Any, tuple[torch.Tensor, ...]]] = {
    "float64": (custom(torch.sin, lambda s, g: g * s[0].cos()), (numbers(3, 7),)),
    "float64, two outputs": (
        custom(lambda x: (x.sin(), x.exp()), lambda s, g, h: g * s[0].cos() + h * s[0].exp()),
        (numbers(3, 7),),
    ),
    "float32": (custom(torch.sin, lambda s, g: g * s[0].cos()), (single(3, 7),)),
    "float32, four axes": (custom(torch.sin, lambda s, g: g * s[0].cos()), (single(1, 2, 3, 4),)),
    "float32, opaque": (opaque(lambda x: torch.softmax(x, -1)), (single(3, 7),)),
    "float32, opaque, two inputs": (opaque(lambda a, b: torch.tanh(a) * b), (single(3, 7), single(3, 7, seed=1))),
    "float32, opaque, one number": (opaque(lambda x: x.sin().sum()[None]), (single(5),)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_costs_ten_evaluations_and_ten_vjps(name: str) -> None:
    function, inputs = RIGHT[name]
    report = check(function, inputs)
    assert report.verdict is Verdict.PASS, str(report)
    assert report.cost.evaluations <= 10
    assert report.cost.vjps <= 10


def lost_row(gradient: np.ndarray) -> np.ndarray:
    return np.where(np.arange(len(gradient)).reshape(-1, *[1] * (gradient.ndim - 1)) == 1, 0.0, gradient).astype("f4")


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("spoil", [lambda g: g * np.float32(1.2), lost_row, lambda g: 0 * g], ids=["x1.2", "row", "0"])
def test_what_an_opaque_kernel_gets_wrong_is_found(which: int, spoil: Spoil) -> None:
    spoils: list[Spoil | None] = [None, None, None]
    spoils[which] = spoil
    report = check(opaque(layer_norm, *spoils), NORM)
    assert report.verdict is Verdict.FAIL, str(report)
    assert report.findings[0].input == which


def test_every_call_is_counted() -> None:
    calls: list[torch.dtype] = []

    def counted(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.dtype)
        return custom(torch.sin, lambda s, g: g * s[0].cos())(x)

    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        calls.clear()
        cost = check(counted, numbers(3, 7, dtype=dtype)).cost
        assert len(calls) == cost.evaluations + cost.jvps, dtype


def test_a_jvp_elsewhere_is_one_call() -> None:
    calls: list[torch.dtype] = []

    def counted(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.dtype)
        return torch.fft.rfft(x).abs().pow(2).sum(-1)

    cost = check(counted, single(3, 7)).cost
    assert cost.jvps > 1
    assert len(calls) == cost.evaluations + cost.jvps


class _Losses:
    """A loss of float32 rows, which are added in the dtype of the input; `drift` is what each call adds to it."""

    def __init__(self, drift: float = 0.0) -> None:
        self.drift, self.calls = drift, 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return custom(self._forward, lambda s, g: g * torch.sin(2 * s[0].float()).to(s[0].dtype) / len(s[0]))(x)

    def _forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        rows = np.sin(x.detach().numpy().astype(np.float32)) ** 2
        return torch.from_numpy(rows.sum(1)).to(x.dtype).sum()[None] / len(rows) + self.drift * self.calls


def test_a_call_that_looks_for_a_twin_is_a_repetition() -> None:
    losses = _Losses()
    report = check(losses, single(3, 5))
    assert report.verdict is Verdict.PASS, str(report)
    assert report.cost.evaluations <= 10
    assert losses.calls == report.cost.evaluations + report.cost.jvps


@pytest.mark.parametrize("drift", [1e-2, 1.0])
def test_and_one_that_gives_something_else_is_told(drift: float) -> None:
    found = [finding.property for finding in check(_Losses(drift), single(3, 5)).findings]
    assert "repeatability" in found


def _of_rounding(factor: float = 1.0) -> Report:
    return check(rounding(factor), (single(3, 4), single(3, 4, seed=1)))


def test_a_function_that_rounds_a_part_of_it_inside_has_no_twin() -> None:
    """A tiny step shows the other part only."""
    assert first_order(call_of(rounding(), (single(3, 4), single(3, 4, seed=1)))).problem.evaluates_in is None
    report = _of_rounding()
    assert report.verdict is Verdict.PASS, str(report)
    assert report.cost.evaluations <= 12
    assert _of_rounding(1.2).verdict is Verdict.FAIL


def test_a_flat_function_has_a_twin() -> None:
    """Softmax of one column: it does not move because it is constant, not because it rounds."""
    report = check(opaque(lambda x: torch.softmax(x, -1)), single(3, 1))
    assert report.verdict is Verdict.PASS, str(report)


# memory with the channels last, which is asked about where cotangents are left out


class _Halves(torch.autograd.Function):
    """Two images, of which the backward reads the first as if its channels were not last in memory."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return 2.0 * x, 3.0 * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        if g.is_contiguous(memory_format=torch.channels_last) and not g.is_contiguous():
            g = g.permute(0, 2, 3, 1).reshape(g.shape)
        return 2.0 * g + 3.0 * h


def _image() -> torch.Tensor:
    return torch.rand(1, 2, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()


def test_channels_last_of_several_outputs_is_misread() -> None:
    (finding,) = check(_Halves.apply, _image()).findings
    assert (finding.property, finding.kind, finding.status) == ("layout", "channels_last", Status.WRONG)


def test_and_so_it_is_where_nothing_is_left_out() -> None:
    properties = ("layout", "linearity", "mutation")
    (finding,) = check(_Halves.apply, _image(), properties=properties).findings
    assert (finding.property, finding.kind) == ("layout", "channels_last")


def test_two_images_cost_no_vjp_for_channels_last_alone() -> None:
    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.sin(x), torch.cos(x)

    report = check(both, _image())
    assert report.ok
    assert report.cost.vjps <= 10
