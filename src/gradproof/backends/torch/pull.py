"""torch.autograd.grad with the types it really has."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def pull(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
    *,
    batched: bool = False,
    create_graph: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """The gradient of each input, None where nothing depends on it. The graph stays."""
    return torch.autograd.grad(
        outputs,
        inputs,
        cotangents,
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
        is_grads_batched=batched,
    )
