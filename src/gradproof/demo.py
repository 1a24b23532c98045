"""A model made of three hand-written operators. One backward is wrong: which, and where?

    gradproof demo

The mistake is planted in `RmsNorm.backward`. It is the kind a tiled kernel makes: a sum over the columns visits whole
tiles of four, and the last two of six columns are never added. The exit code is 0 if gradproof finds it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gradproof.api import check
from gradproof.render.html import write_html
from gradproof.render.terminal import show
from gradproof.results.finding import Entry
from gradproof.results.report import Report

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


def checked() -> dict[str, Report]:
    """The reports of the whole model and of each operator on its own."""
    generator = torch.Generator().manual_seed(0)
    x, gain, weight, bias, hidden = (
        torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()
        for shape in ((2, COLUMNS), (COLUMNS,), (3, COLUMNS), (3,), (2, 3))
    )
    calls: list[tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = [
        (model, (x, gain, weight, bias)),
        (rms_norm, (x, gain)),
        (linear, (x, weight, bias)),
        (gelu, (hidden,)),
    ]
    return {function.__name__: check(function, inputs) for function, inputs in calls}


def main(html: Path | None = None) -> int:
    """Print what was found, write it to `html` if that can be written, and return 0 if the mistake was found."""
    reports = checked()
    show(reports["model"])
    say("\nEach operator on its own:")
    operators = {name: report for name, report in reports.items() if name != "model"}
    for name, report in operators.items():
        say(f"  {name:9} {report.verdict.name}  {about(report)}")
    wrong = [name for name, report in operators.items() if not report]
    found = wrong == ["rms_norm"] and not reports["model"] and all(map(in_tail, worst_entries(reports["rms_norm"])))
    say(f"\n{'FOUND' if found else 'NOT FOUND'}: the wrong backward is in {', '.join(wrong) or 'no operator'}.")
    for name in wrong:
        say(f"  {reports[name].findings[0].hint}")
    if found:
        say(f"  Its sum visits whole tiles of {TILE} columns: columns {TAIL[0]} to {TAIL[-1]} are left over.")
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        write_html(html, list(reports.items()))
        say(f"\nHTML report: {html}")
    return 0 if found else 1


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def worst_entries(report: Report) -> tuple[Entry, ...]:
    return report.findings[0].entries if report.findings else ()


def in_tail(entry: Entry) -> bool:
    return entry.output.element[-1] in TAIL


def about(report: Report) -> str:
    entries = sum(finding.wrong for finding in report.findings)
    return f"{entries} of {report.entries} Jacobian entries differ" if entries else f"{report.entries} Jacobian entries"
