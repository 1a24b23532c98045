"""A model made of three hand-written operators. One backward is wrong: which, and where?

    make demo

The mistake is planted in `RmsNorm.backward`. It is the kind a tiled kernel makes: a sum over the columns visits whole
tiles of four, and the last two of six columns are never added. The exit code is 0 if gradproof finds it.
"""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import torch

import gradproof

TILE = 4
COLUMNS = 6
TAIL = range(COLUMNS - COLUMNS % TILE, COLUMNS)


class RmsNorm(torch.autograd.Function):
    """Each row divided by its root mean square, times a gain for each column."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        scale = x.square().mean(-1, keepdim=True).rsqrt()
        ctx.save_for_backward(x, gain, scale)
        return x * scale * gain

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, gain, scale = ctx.saved_tensors
        straight = cotangent * gain
        products = straight * x
        whole = products.shape[-1] - products.shape[-1] % TILE
        through_mean = products[..., :whole].sum(-1, keepdim=True)  # the planted mistake: the tail is missing
        of_x = scale * (straight - x * scale.square() * through_mean / x.shape[-1])
        return of_x, (cotangent * x * scale).sum(0)


class Linear(torch.autograd.Function):
    """A matrix product and a bias in one step."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, weight = ctx.saved_tensors
        return cotangent @ weight, cotangent.t() @ x, cotangent.sum(0)


class Gelu(torch.autograd.Function):
    """x times the normal distribution function of x."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        below = torch.special.ndtr(x)
        ctx.save_for_backward(x, below)
        return x * below

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
        x, below = ctx.saved_tensors
        density = torch.exp(-0.5 * x.square()) / math.sqrt(2 * math.pi)
        return cotangent * (below + x * density)


# Plain functions: their parameters' names appear in the reports.


def rms_norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return RmsNorm.apply(x, gain)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return Linear.apply(x, weight, bias)


def gelu(x: torch.Tensor) -> torch.Tensor:
    return Gelu.apply(x)


def model(x: torch.Tensor, gain: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return gelu(linear(rms_norm(x, gain), weight, bias))


def main() -> int:
    torch.manual_seed(0)
    x, gain, weight, bias, hidden = (
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in ((2, COLUMNS), (COLUMNS,), (3, COLUMNS), (3,), (2, 3))
    )
    whole = gradproof.check(model, (x, gain, weight, bias))
    operators: list[tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = [
        (rms_norm, (x, gain)),
        (linear, (x, weight, bias)),
        (gelu, (hidden,)),
    ]
    reports = {function.__name__: gradproof.check(function, inputs) for function, inputs in operators}
    wrong = [name for name, report in reports.items() if not report]
    found = wrong == ["rms_norm"] and not whole and all(map(in_tail, reports["rms_norm"].findings[0].entries))

    print(f"{'FOUND' if found else 'NOT FOUND'}: the wrong backward is in {', '.join(wrong) or 'no operator'}.")
    for name in wrong:
        show(reports[name].findings[0])
    print("\nEach operator on its own:")
    for name, report in reports.items():
        print(f"  {name:9} {report.verdict.name}  {about(report)}")
    print("\nThe whole model, gelu(linear(rms_norm(x, gain), weight, bias)):")
    print(textwrap.indent(str(whole), "  "))
    return 0 if found else 1


def show(finding: gradproof.Finding) -> None:
    """The entry that the finding names, the worst one, and what the worst ones have in common."""
    if not finding.entries:
        print(textwrap.indent(str(finding), "  "))
        return
    print(f"  {finding.entries[0].output}  with respect to  {finding.entries[0].input}")
    print(f"  the backward says  {finding.analytic:12.9f}")
    print(f"  it should say      {finding.numeric:12.9f} ± {finding.error:.0e}")
    if all(map(in_tail, finding.entries)):
        print(f"  All {len(finding.entries)} worst entries lie in output columns {TAIL[0]} to {TAIL[-1]}, ", end="")
        print(f"which tiles of {TILE} leave over.")


def in_tail(entry: gradproof.Entry) -> bool:
    return entry.output.element[-1] in TAIL


def about(report: gradproof.Report) -> str:
    entries = sum(finding.wrong for finding in report.findings)
    return f"{entries} of {report.entries} Jacobian entries differ" if entries else f"{report.entries} Jacobian entries"


if __name__ == "__main__":
    sys.exit(main())
