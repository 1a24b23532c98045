"""torch.autograd.grad, with the types it really has and without what a check does not need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import Variable

from gradproof.backends.torch.vmap import quiet_vmap, vmap_derivative
from gradproof.core.problem import MisshapenGradientError

_engine: Any = Variable._execution_engine  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


def pull(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
    *,
    create_graph: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """The gradient of each input, None where nothing depends on it. The graph stays.

    The cotangents have the shapes of the outputs, so that grad's inspection of them, which takes as long as a small
    backward, is left out.
    """
    try:
        return _engine.run_backward(
            tuple(outputs),
            tuple(cotangents),
            True,  # retain_graph
            create_graph,
            tuple(inputs),
            True,  # allow_unreachable: None for an input that nothing depends on
            accumulate_grad=False,
        )
    except RuntimeError as error:
        message = str(error).splitlines()[0]
        if "returned an invalid gradient" in message and "expected layout" in message:
            raise MisshapenGradientError(message) from error
        raise


def pull_batch(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
) -> list[torch.Tensor | None]:
    """The same for a batch of cotangents, through vmap."""

    def once(*cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return pull(outputs, inputs, cotangents)

    with quiet_vmap():
        return vmap_derivative(once, cotangents)


undefined: Callable[[torch.Tensor], torch.Tensor] = torch._C._functions.UndefinedGrad()  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
"""Identity whose backward passes no gradient on."""
