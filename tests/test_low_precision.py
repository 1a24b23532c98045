"""float32, float16 and bfloat16: right operations pass without tuning, wrong ones fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom, numbers

import gradproof
from gradproof.torch import gradcheck

LOW = [torch.float32, torch.bfloat16, torch.float16]


def check_low(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], **options: Any) -> bool:
    with pytest.warns(UserWarning, match=r"Input #\d requires gradient"):
        return gradcheck(function, inputs, raise_exception=False, **options)


def drawn(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype).requires_grad_()


OPERATIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "linear": (torch.nn.functional.linear, ((3, 4), (2, 4), (2,))),
    "tanh": (torch.tanh, ((6,),)),
    "softmax": (lambda x: x.softmax(-1), ((2, 5),)),
    "sum of squares": (lambda x: (x * x).sum(), ((6,),)),
    "exp": (torch.exp, ((6,),)),
    "sigmoid": (torch.sigmoid, ((6,),)),
    "mean": (lambda x: x.mean(0), ((4, 3),)),
    "product": (torch.mul, ((5,), (5,))),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_right_operations_pass_without_tuning(dtype: torch.dtype, name: str, seed: int) -> None:
    function, shapes = OPERATIONS[name]
    inputs = tuple(drawn(*shape, dtype=dtype, seed=10 * seed + i) for i, shape in enumerate(shapes))
    assert check_low(function, inputs)
    assert check_low(function, inputs, fast_mode=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_right_operations_are_not_called_wrong_by_the_full_interface(dtype: torch.dtype, name: str, seed: int) -> None:
    function, shapes = OPERATIONS[name]
    inputs = tuple(drawn(*shape, dtype=dtype, seed=10 * seed + i) for i, shape in enumerate(shapes))
    report = gradproof.check(function, inputs)
    assert report.verdict is not gradproof.Verdict.FAIL, str(report)


def scaled(factor: float) -> dict[str, Callable[..., Any]]:
    """Operations whose gradient is too large by this factor."""
    return {
        "tanh": custom(torch.tanh, lambda s, g: factor * g * (1 - s[0].tanh() ** 2)),
        "square": custom(lambda x: x * x, lambda s, g: factor * 2 * s[0] * g),
        "exp": custom(torch.exp, lambda s, g: factor * g * s[0].exp()),
        "sum of squares": custom(lambda x: (x * x).sum(), lambda s, g: factor * 2 * s[0] * g),
    }


FACTORS = [
    (torch.float32, 1.1),
    (torch.float32, 0.9),
    (torch.float32, -1.0),
    (torch.float32, 0.0),
    (torch.bfloat16, 2.0),
    (torch.bfloat16, 0.5),
    (torch.bfloat16, -1.0),
    (torch.float16, 2.0),
    (torch.float16, 0.5),
]


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("name", scaled(1.0))
@pytest.mark.parametrize(("dtype", "factor"), FACTORS, ids=str)
def test_wrong_gradients_fail(dtype: torch.dtype, factor: float, name: str, fast_mode: bool) -> None:
    assert not check_low(scaled(factor)[name], (numbers(6, dtype=dtype),), fast_mode=fast_mode)


@pytest.mark.parametrize("name", scaled(1.0))
@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_the_same_functions_pass_with_a_factor_of_one(dtype: torch.dtype, name: str) -> None:
    assert check_low(scaled(1.0)[name], (numbers(6, dtype=dtype),))


def test_one_wrong_element_in_single_precision_is_placed() -> None:
    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        return 2 * saved[0] * g * torch.where(torch.arange(20) == 11, 1.1, 1.0)

    report = gradproof.check(custom(lambda x: x * x, backward), numbers(20, dtype=torch.float32))
    assert (report.findings[0].input_element, report.findings[0].output_element) == ((11,), (11,))
    assert report.findings[0].wrong == 1


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_single_precision_is_judged_at_every_scale(scale: float) -> None:
    x = (numbers(5).detach() * scale).float().requires_grad_()
    assert check_low(lambda x: x * x / scale, (x,))
    assert not check_low(lambda x: x * x.detach() / scale, (x,))


def test_mixed_precisions_are_each_judged_by_their_own() -> None:
    x, y = numbers(3), numbers(3, dtype=torch.bfloat16)
    with pytest.warns(UserWarning, match="Input #1"):
        assert gradcheck(lambda x, y: (x.sin(), y.tanh()), (x, y))
    with pytest.warns(UserWarning, match="Input #1"):
        assert not gradcheck(lambda x, y: (x * 1.01 - 0.01 * x.detach(), y), (x, y), raise_exception=False)


@pytest.mark.parametrize("dtype", [torch.complex64], ids=str)
def test_single_precision_complex(dtype: torch.dtype) -> None:
    z = numbers(4, dtype=dtype)
    assert check_low(lambda z: z * z, (z,))
    assert not check_low(lambda z: z * z.detach(), (z,))


def encoding(frequency: float, factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """sin(w x), as in the encoding of positions, by a kernel that knows single precision only."""

    class Encoding(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            if x.dtype is not torch.float32:
                raise TypeError(f"expected float32, got {x.dtype}")
            ctx.save_for_backward(x)
            return torch.sin(frequency * x)

        @staticmethod
        def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return factor * frequency * cotangent * torch.cos(frequency * x)

    return Encoding.apply


@pytest.mark.parametrize("octave", range(8))
@pytest.mark.parametrize("seed", range(3))
def test_the_encoding_of_positions_is_judged_at_high_frequencies_too(octave: int, seed: int) -> None:
    x = (torch.rand(5, generator=torch.Generator().manual_seed(seed)) + 0.1).requires_grad_()
    frequency = 2.0**octave * math.pi
    assert gradproof.check(encoding(frequency, 1.0), x, modes="reverse").ok
    assert gradproof.check(encoding(frequency, 2.0), x, modes="reverse").verdict is gradproof.Verdict.FAIL


def test_what_cancels_to_zero_in_single_precision_disproves_nothing() -> None:
    x = torch.tensor([-6.0], dtype=torch.float32, requires_grad=True)
    for modes in ("reverse", "forward"):
        assert gradproof.check(torch.special.ndtr, x, modes=modes).verdict is not gradproof.Verdict.FAIL
