"""Second order: the first derivative as a function of the inputs and the cotangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradproof.backends.torch.arguments import flatten_outputs
from gradproof.backends.torch.pull import pull

_SEED = 0x9E3779B9


def connected(output: Any) -> list[torch.Tensor]:
    """The outputs that have a graph."""
    return [o for o in flatten_outputs(output) if isinstance(o, torch.Tensor) and o.requires_grad]


def draw_cotangents(outputs: Sequence[torch.Tensor], *, noncontiguous: bool) -> list[torch.Tensor]:
    """Random cotangents in [-1, 1] from a private generator, strided with gaps if asked."""
    generator = torch.Generator().manual_seed(_SEED)
    return [_draw(output, generator, noncontiguous).requires_grad_() for output in outputs]


def _draw(output: torch.Tensor, generator: torch.Generator, noncontiguous: bool) -> torch.Tensor:
    gap = 2 if noncontiguous and output.dim() else 1
    shape = [*output.shape[:-1], output.shape[-1] * gap] if output.dim() else []
    parts = 2 if output.is_complex() else 1
    values = torch.rand([*shape, parts], generator=generator, dtype=torch.float64) * 2 - 1
    values = values.to(device=output.device, dtype=output.dtype.to_real())
    drawn = torch.view_as_complex(values) if output.is_complex() else values.squeeze(-1)
    return drawn[..., ::gap] if output.dim() else drawn


class FirstDerivative:
    """`(*inputs, *cotangents) -> gradients` of a function, itself differentiable."""

    def __init__(
        self, function: Callable[..., Any], inputs: Sequence[Any], cotangents: Sequence[torch.Tensor | None]
    ) -> None:
        self._function = function
        self.__name__ = f"first derivative of {getattr(function, '__qualname__', type(function).__qualname__)}"
        self._count = len(inputs)
        self._sources = [i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor) and x.requires_grad]
        self._given = [i for i, v in enumerate(cotangents) if v is not None]
        self._flowing = [i for i, v in enumerate(cotangents) if v is not None and v.requires_grad]
        self._total = len(cotangents)

    def __call__(self, *arguments: Any) -> tuple[torch.Tensor, ...]:
        inputs, cotangents = list(arguments[: self._count]), list(arguments[self._count :])
        for i in self._sources:  # forward mode hands in detached inputs
            inputs[i].requires_grad_()
        for i in self._flowing:
            cotangents[i].requires_grad_()
        outputs = connected(self._function(*inputs))
        if len(outputs) != self._total:
            raise ValueError(
                f"got {self._total} grad_outputs for {len(outputs)} differentiable outputs: "
                "pass one for each, None for those that carry no gradient"
            )
        if not self._given:
            return ()
        gradients = pull(
            [outputs[i] for i in self._given],
            [inputs[i] for i in self._sources],
            [cotangents[i] for i in self._given],
            create_graph=True,
        )
        return tuple(gradient for gradient in gradients if gradient is not None)
