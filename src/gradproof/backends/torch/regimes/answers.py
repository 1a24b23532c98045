"""What a run comes to: the tensors that it returned, and the gradient of each leaf by the same cotangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

Function = Callable[..., Sequence[torch.Tensor]]
Gradients = tuple[torch.Tensor | None, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Outputs and gradients of one run. `connected` says which outputs have a graph."""

    values: tuple[torch.Tensor, ...]
    connected: tuple[bool, ...]
    gradients: Gradients


def answer(function: Function, leaves: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]) -> Answer:
    """Call the function and pull the cotangents back; there is one for each output, used if it has a graph."""
    values = tuple(function(*leaves))
    return Answer(detached(values), graphs(values), pulled(values, leaves, cotangents))


def answer_by_backward(
    function: Function, leaves: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
) -> Answer:
    """The same by `backward`, which adds to `grad`: the only way through a reentrant checkpoint."""
    values = tuple(function(*leaves))
    asked = [(value, v) for value, v in zip(values, cotangents, strict=False) if value.requires_grad]
    if asked:
        torch.autograd.backward([value for value, _ in asked], [fitted(v, value) for value, v in asked])
    return Answer(detached(values), graphs(values), tuple(dense(leaf.grad) for leaf in leaves))


def pulled(
    values: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
) -> Gradients:
    """The gradients of those leaves that need one."""
    asked = [(value, v) for value, v in zip(values, cotangents, strict=False) if value.requires_grad]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if not asked or not wanted:
        return (None,) * len(leaves)
    found = iter(
        torch.autograd.grad(
            [value for value, _ in asked], wanted, [fitted(v, value) for value, v in asked], allow_unused=True
        )
    )
    return tuple(dense(next(found)) if leaf.requires_grad else None for leaf in leaves)


def dense(gradient: torch.Tensor | None) -> torch.Tensor | None:
    """A gradient that may be sparse, as that of an embedding."""
    return gradient if gradient is None or gradient.layout is torch.strided else gradient.to_dense()


def draw_cotangents(values: Sequence[torch.Tensor], generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """One for each output: random signs, magnitudes between a half and one and a half."""
    return tuple(drawn_like(value, generator) for value in values)


def drawn_like(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Numbers of random signs and of magnitudes between a half and one and a half; of complex ones both parts."""

    def numbers() -> torch.Tensor:
        magnitudes = 0.5 + torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
        return torch.where(torch.rand(tensor.shape, generator=generator) < 0.5, -magnitudes, magnitudes)

    drawn = torch.complex(numbers(), numbers()) if tensor.is_complex() else numbers()
    return drawn.to(device=tensor.device, dtype=tensor.dtype)


def fitted(cotangent: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A cotangent in the dtype of what came out; ones where that has another shape.

    Then the shape is what departs, and the gradients are of no interest any more.
    """
    if cotangent.shape != value.shape:
        return torch.ones_like(value)
    return cotangent.to(value.dtype)


def detached(values: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Copies without a graph: an output may be a view of what is written to later."""
    return tuple(value.detach().clone() for value in values)


def graphs(values: Sequence[torch.Tensor]) -> tuple[bool, ...]:
    """Which of them have a graph."""
    return tuple(value.requires_grad for value in values)
