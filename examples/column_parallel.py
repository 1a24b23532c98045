"""A column-parallel linear layer on two ranks, whose backward forgets to add up the gradient of its input.

python examples/column_parallel.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

import gradproof.distributed
from gradproof import Report


class Copy(torch.autograd.Function):
    """Every rank uses the whole input, so its gradient is the sum over the ranks."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
        return cotangent  # dist.all_reduce is missing


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return Copy.apply(x) @ weight.t()


def check_linear() -> Report:
    """Called on every rank, as by torchrun."""
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)  # the same on every rank
    torch.manual_seed(1 + dist.get_rank())
    weight = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)  # this rank's rows
    return gradproof.distributed.check(
        linear, (x, weight), inputs_are={"x": "replicated", "weight": "varying"}, outputs_are="varying"
    )


if __name__ == "__main__":
    print(gradproof.distributed.launch(check_linear, 2)[0])
