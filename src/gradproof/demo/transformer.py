"""A small transformer in which one fused operation has a wrong backward: which, and where?

    gradproof demo

The mistake is planted in `RmsNorm.backward`. It is the kind a tiled kernel makes: a sum over the columns visits whole
tiles of four, and the last two of six columns are never added. The model trains all the same. The exit code is 0 if the
audit names the operation, and the element it names is one of those columns.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradproof.api import check
from gradproof.render.audit import foremost, show
from gradproof.results.audit import AuditedOperation, AuditReport
from gradproof.results.report import Report
from gradproof.torch import audit

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
        return of_x, (cotangent * x * scale).flatten(0, -2).sum(0)


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


rms_norm, gelu = RmsNorm.apply, Gelu.apply


class Norm(nn.Module):
    """The fused norm with its gain."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(COLUMNS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.gain)


class Block(nn.Module):
    """Attention and a feed-forward part, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = Norm(), Norm()
        self.project, self.out = nn.Linear(COLUMNS, 3 * COLUMNS), nn.Linear(COLUMNS, COLUMNS)
        self.up, self.down = nn.Linear(COLUMNS, 8), nn.Linear(8, COLUMNS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(self.norm1(x)).chunk(3, -1)
        scores = query @ key.mT / math.sqrt(COLUMNS)
        x = x + self.out(torch.softmax(scores, -1) @ value)
        return x + self.down(gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Tokens in, the loss of the next token out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, COLUMNS)
        self.layers = nn.ModuleList(Block() for _ in range(2))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens[:, :-1])
        for layer in self.layers:
            x = layer(x)
        logits = x @ self.embedding.weight.T
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def made() -> tuple[Transformer, torch.Tensor]:
    """The model and its tokens, the same each time; the generator of the process is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Transformer().double(), torch.randint(0, 11, (2, 6))


def audited() -> AuditReport:
    """The audit of the model."""
    return audit(*made())


def checked() -> Report:
    """The report of the wrong operation alone."""
    generator = torch.Generator().manual_seed(0)
    shapes = (2, COLUMNS), (COLUMNS,)
    x, gain = (torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_() for shape in shapes)
    return check(rms_norm, (x, gain))


def main(html: Path | None = None) -> int:
    """Print the audit, write it to `html` if that can be written, and return 0 if the mistake was found."""
    report = audited()
    show(report)
    guilty = report.guilty
    found = guilty is not None and guilty.name == RmsNorm.__name__ and is_in_tail(report, guilty)
    say(f"\n{'FOUND' if found else 'NOT FOUND'}: {'no operation' if guilty is None else guilty.path} is to blame.")
    if found:
        say(f"  Its sum visits whole tiles of {TILE} columns: columns {TAIL[0]} to {TAIL[-1]} are left over.")
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        report.to_html(html)
        say(f"\nHTML report: {html}")
    return 0 if found else 1


def is_in_tail(report: AuditReport, guilty: AuditedOperation) -> bool:
    """Whether every entry that the guilty operation is blamed for is of a column that its sum leaves out."""
    finding = foremost(report, guilty)
    entries = finding.entries if finding is not None else ()
    return bool(entries) and all(entry.output.element[-1] in TAIL for entry in entries)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
