"""Batches: many questions at once through vmap.

No warnings come out: that a fallback of vmap is slow is no news here, and those of the function come from plain calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import cast

import torch

from gradproof.backends.torch import private
from gradproof.backends.torch.muted import muted


def map_rows(
    function: Callable[..., Sequence[torch.Tensor]], arguments: Sequence[torch.Tensor], single: Collection[int] = ()
) -> list[torch.Tensor]:
    """The function of each row of the arguments, as rows; those whose numbers are in `single` are no rows.

    >>> x, y = torch.arange(3.0), torch.tensor(10.0)
    >>> map_rows(lambda x, y: [x * y], [x, y], single={1})
    [tensor([ 0., 10., 20.])]
    """
    with muted(), torch.no_grad():
        return private.vmap()(function, arguments, single)


def pull_rows(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
) -> Sequence[torch.Tensor | None]:
    """The gradients of the inputs for cotangents in rows, None where nothing depends on one."""
    vmap, pull = private.vmap_derivative(), private.engine()
    with muted():
        if vmap is not None:
            return vmap(lambda *rows: pull(outputs, inputs, rows), cotangents)
        return torch.autograd.grad(
            outputs, inputs, cotangents, retain_graph=True, allow_unused=True, is_grads_batched=True
        )


def push_rows(
    function: Callable[..., Sequence[torch.Tensor]], tangents: Sequence[torch.Tensor]
) -> Sequence[torch.Tensor]:
    """A function that makes dual tensors and returns output tangents, of tangents in rows.

    Nothing public carries dual tensors through vmap: without the private one it is a loop.
    """
    vmap = private.vmap_derivative()
    with muted():
        if vmap is not None:
            return cast(list[torch.Tensor], vmap(function, tangents))
        answers = [function(*row) for row in zip(*tangents, strict=True)]
        return [torch.stack(column) for column in zip(*answers, strict=True)]
