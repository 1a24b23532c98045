"""Functions with hand-written derivatives, right and wrong, for the tests of the torch side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gradproof import Verdict, check

Tensors = tuple[torch.Tensor, ...]


def custom(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    jvp: Callable[..., Any] | None = None,
    *,
    materialize: bool = True,
) -> Callable[..., Any]:
    """A `torch.autograd.Function` with this forward; its rules are `backward(inputs, *cotangents)` and
    `jvp(inputs, *tangents)`. With `materialize=False` missing cotangents arrive as None."""

    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> Any:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)
            ctx.set_materialize_grads(materialize)
            return forward(*inputs)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            return backward(ctx.saved_tensors, *cotangents)

    if jvp is not None:
        Custom.jvp = staticmethod(lambda ctx, *tangents: jvp(ctx.saved_tensors, *tangents))
    return Custom.apply


def batchable(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """The same in the style that vmap can run."""

    class Batchable(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*inputs: torch.Tensor) -> Any:
            return forward(*inputs)

        @staticmethod
        def setup_context(ctx: Any, inputs: Tensors, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            return backward(ctx.saved_tensors, *cotangents)

    return Batchable.apply


def of_one(
    forward: Callable[[torch.Tensor], torch.Tensor], rule: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> Callable[..., Any]:
    """A function of one tensor, with a gradient by rule(x, g)."""
    return custom(forward, lambda s, g: rule(s[0], g))


def first_hint(function: Callable[..., Any], inputs: Any, **options: Any) -> str:
    """The cause that is named first of a function with a wrong derivative."""
    report = check(function, inputs, **options)
    assert report.verdict is Verdict.FAIL
    return report.findings[0].hint


def numbers(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    """Numbers in [0.5, 1.5], real and imaginary parts alike, that require a gradient."""
    generator = torch.Generator().manual_seed(seed)
    parts = (2,) if dtype.is_complex else ()
    values = (torch.rand((*shape, *parts), generator=generator, dtype=torch.float64) + 0.5).to(dtype.to_real())
    return (torch.view_as_complex(values) if parts else values).detach().requires_grad_()


def square_with(backward: Callable[..., Any]) -> Callable[..., Any]:
    return custom(lambda x: x * x, backward)


def product_with(backward: Callable[..., Any]) -> Callable[..., Any]:
    return custom(lambda a, b: a * b, backward)


def matmul_with(backward: Callable[..., Any]) -> Callable[..., Any]:
    return custom(lambda a, b: a @ b, backward)


@dataclass(frozen=True)
class Case:
    """A function with inputs, and whether its derivative is right; if not, where: (output, input)."""

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    wrong_at: tuple[int, int] | None = None
    dtype: torch.dtype = torch.float64

    @property
    def right(self) -> bool:
        return self.wrong_at is None

    def inputs(self) -> Tensors:
        return tuple(numbers(*shape, dtype=self.dtype, seed=i) for i, shape in enumerate(self.shapes))


def _spoil(gradient: torch.Tensor, at: int, by: float) -> torch.Tensor:
    spoiled = gradient.clone()
    spoiled.view(-1)[at] += by
    return spoiled


CASES = [
    Case("sine", torch.sin, ((5,),)),
    Case("hand-written square", square_with(lambda s, g: 2 * s[0] * g), ((3, 4),)),
    Case("scalar", torch.exp, ((),)),
    Case("empty", torch.sin, ((0, 3),)),
    Case("product that broadcasts", torch.mul, ((3, 1), (4,))),
    Case("matrix product", torch.matmul, ((3, 4), (4, 2))),
    Case("hand-written matrix product", matmul_with(lambda s, g: (g @ s[1].mT, s[0].mT @ g)), ((3, 4), (4, 2))),
    Case("reduction to a scalar", lambda x: (x**3).sum(), ((40,),)),
    Case("two outputs", lambda x: (x.sin(), (x * x).sum()), ((6,),)),
    Case("many elements", lambda x: x.cumsum(0).sigmoid(), ((60,),)),
    Case("softmax", lambda x: x.softmax(-1), ((3, 5),)),
    Case("complex product", lambda a, b: a * b.conj(), ((3,), (3,)), dtype=torch.complex128),
    Case("complex to real", lambda z: z.abs(), ((4,),), dtype=torch.complex128),
    Case("factor of two", square_with(lambda s, g: s[0] * g), ((5,),), (0, 0)),
    Case("factor of 1.01", square_with(lambda s, g: 2.02 * s[0] * g), ((5,),), (0, 0)),
    Case("sign", square_with(lambda s, g: -2 * s[0] * g), ((5,),), (0, 0)),
    Case("zero", square_with(lambda s, g: torch.zeros_like(g)), ((5,),), (0, 0)),
    Case("no gradient at all", lambda a, b: a * b.detach(), ((4,), (4,)), (0, 1)),
    Case("detached factor", lambda x: x * x.detach(), ((30,),), (0, 0)),
    Case("one element of many", square_with(lambda s, g: _spoil(2 * s[0] * g, 37, 0.01) * (g != 0)), ((60,),), (0, 0)),
    Case("last element left out", square_with(lambda s, g: 2 * s[0] * g * (torch.arange(9) < 8)), ((9,),), (0, 0)),
    Case("shifted index", square_with(lambda s, g: (2 * s[0] * g).roll(1)), ((7,),), (0, 0)),
    Case("factors exchanged", product_with(lambda s, g: (s[0] * g, s[1] * g)), ((4,), (4,)), (0, 0)),
    Case("second input's", product_with(lambda s, g: (s[1] * g, 1.5 * s[0] * g)), ((4,), (4,)), (0, 1)),
    Case(
        "second output's",
        custom(lambda x: (x * x, x**3), lambda s, g, h: 2 * s[0] * g + s[0] ** 2 * h),
        ((4,),),
        (1, 0),
    ),
    Case("transposed", matmul_with(lambda s, g: (g @ s[1].mT, (s[0].mT @ g).mT)), ((3, 3), (3, 3)), (0, 1)),
    Case("missing conjugate", square_with(lambda s, g: 2 * s[0] * g), ((3,),), (0, 0), torch.complex128),
    Case("not a number", square_with(lambda s, g: g * float("nan")), ((3,),), (0, 0)),
]


def named(case: Case) -> str:
    return case.name


RIGHT_CASES = [case for case in CASES if case.right]
WRONG_CASES = [case for case in CASES if not case.right]
