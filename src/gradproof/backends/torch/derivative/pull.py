"""The backward of a graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gradproof.backends.torch.private import engine
from gradproof.core.problem import MisshapenGradientError


def pull(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
    *,
    create_graph: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """The gradient of each input, None where nothing depends on it. The graph stays.

    The cotangents have the shapes of the outputs. Raises `MisshapenGradientError` where torch refuses a gradient
    because of its layout.
    """
    try:
        return engine()(outputs, inputs, cotangents, create_graph)
    except RuntimeError as error:
        message = (str(error).splitlines() or [""])[0]
        if "returned an invalid gradient" in message and "expected layout" in message:
            raise MisshapenGradientError(message) from error
        raise
