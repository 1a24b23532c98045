"""What a failure costs: evaluations of a wrong backward, next to those of torch's slow mode.

    python benchmarks/failures.py

A dense function of n inputs whose backward has every entry wrong, and an elementwise one with one wrong entry. Counted
are calls of the function. `pictures` are those that the figures of the report take (at most 20).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import gradproof
import gradproof.engine
import gradproof.torch
from gradproof.core.investigation import Investigation
from gradproof.exhibits import measure_exhibits

SIZES = (3, 30, 300, 2_000)


class Counted:
    """A function with a wrong backward, and how often it was called."""

    def __init__(self, forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.calls = 0
        counted = self

        class Function(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                counted.calls += 1
                ctx.save_for_backward(x)
                return forward(x)

            @staticmethod
            def backward(ctx: Any, g: Tensor) -> Tensor:
                return backward(ctx.saved_tensors[0], g)

        self.apply = Function.apply

    def during(self, work: Callable[[], Any]) -> int:
        self.calls = 0
        work()
        return self.calls


def dense() -> Counted:
    def backward(x: Tensor, g: Tensor) -> Tensor:
        return g * x.cos() * x.sum() + 0.9 * (g * x.sin()).sum()

    return Counted(lambda x: x.sin() * x.sum(), backward)


def lone() -> Counted:
    def backward(x: Tensor, g: Tensor) -> Tensor:
        gradient = g * x.cos()
        gradient[len(x) // 2] *= 1.1
        return gradient

    return Counted(torch.sin, backward)


drawn: list[int] = []
"""Evaluations that figures took."""


def counting(investigation: Investigation, findings: Any) -> Any:
    before = investigation.cost.evaluations
    made = measure_exhibits(investigation, findings)
    drawn.append(investigation.cost.evaluations - before)
    return made


def main() -> None:
    gradproof.engine.measure_exhibits = counting
    print(f"{'':28}{'torch slow':>11}{'check':>8}{'pictures':>10}{'gradcheck':>11}")
    for name, make in (("every entry wrong", dense), ("one entry wrong", lone)):
        for size in SIZES:
            generator = torch.Generator().manual_seed(0)
            x = torch.rand(size, dtype=torch.float64, generator=generator).add(0.5).requires_grad_()
            function = make()

            def torchs(x: Tensor = x, function: Counted = function) -> None:
                torch.autograd.gradcheck(function.apply, (x,), raise_exception=False)

            def ours(x: Tensor = x, function: Counted = function) -> None:
                gradproof.torch.gradcheck(function.apply, (x,), raise_exception=False)

            slow, mine = function.during(torchs), function.during(ours)
            drawn.clear()
            report = gradproof.check(function.apply, x)
            assert not report
            pictures, whole = sum(drawn), report.cost.evaluations
            print(f"{name}, n = {size:<9}{slow:>11}{whole - pictures:>8}{pictures:>10}{mine:>11}")


if __name__ == "__main__":
    main()
