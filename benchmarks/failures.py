"""What a failure costs: evaluations of a wrong backward, next to those of torch's slow mode.

    python benchmarks/failures.py

First a dense function of n inputs whose backward has every entry wrong, and an elementwise one with one wrong entry:
calls of the function, next to torch's slow mode, which takes 2n + 1. `pictures` are those that figures of the report
take (at most 20). `gradcheck` compares every entry where it is asked for slow mode, as torch does.

Then, for each size, the worst of all wrong functions of `wrong_functions.py`, `more_wrong_functions.py` and
`costly_functions.py` next to the limit: twice what torch takes, and beyond 75 inputs 150 more than the probe, which
takes 6. Last the functions that are noisy inside, for which the limits do not hold where there are few inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from costly_functions import HARD, NOISY
from more_wrong_functions import MORE_BUGS
from torch import Tensor
from wrong_functions import BUGS, Maker

import gradproof
import gradproof.engine
import gradproof.torch
from gradproof.core.investigation import Investigation
from gradproof.exhibits import measure_exhibits

SIZES = (3, 30, 300, 2_000)
ALL_SIZES = (3, 10, 30, 100, 300, 2_000)
SMALL, PROBE, BEYOND = 75, 6, 150


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


def two_functions() -> None:
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


class Failure(NamedTuple):
    """What one check of a wrong function took."""

    name: str
    size: int
    evaluations: int
    pictures: int

    @property
    def torchs(self) -> int:
        return 2 * self.size + 1

    @property
    def limit(self) -> int:
        return 2 * self.torchs if self.size <= SMALL else min(2 * self.torchs, PROBE + BEYOND)

    @property
    def share(self) -> float:
        return self.evaluations / self.limit


def failure(name: str, make: Maker, size: int, seed: int = 0) -> Failure | None:
    """None where there are so few inputs that the probe alone takes more than the limit."""
    case = make(size, torch.Generator().manual_seed(seed))
    coordinates = sum(x.numel() * (2 if x.is_complex() else 1) for x in case.inputs)
    if coordinates < 3:
        return None
    drawn.clear()
    report = gradproof.check(case.function, case.inputs, seed=seed)
    assert not report
    return Failure(name, coordinates, report.cost.evaluations - sum(drawn), sum(drawn))


def worst(makers: dict[str, Maker]) -> None:
    for size in ALL_SIZES:
        found = [one for name, make in makers.items() if (one := failure(name, make, size)) is not None]
        most = max(found, key=lambda one: one.share)
        over = sum(one.share > 1 for one in found)
        pictures = max(one.pictures for one in found)
        print(
            f"{size:>6}{len(found):>11}{most.size:>9}{most.torchs:>12}{most.limit:>7}{most.evaluations:>8}"
            f"{over:>6}{pictures:>10}  {most.name}"
        )


def main() -> None:
    gradproof.engine.measure_exhibits = counting
    torch.backends.mkldnn.enabled = False
    two_functions()
    for title, makers in (("all", {**BUGS, **MORE_BUGS, **HARD}), ("noisy inside, or off by 1 %", NOISY)):
        print(f"\n{title}: the worst of each size")
        columns = {"size": 6, "functions": 11, "inputs": 9, "torch slow": 12, "limit": 7, "check": 8, "over": 6}
        print("".join(f"{word:>{width}}" for word, width in {**columns, "pictures": 10}.items()))
        worst(makers)


if __name__ == "__main__":
    main()
