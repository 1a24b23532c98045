"""The call under test as a function of its leaves: the tensors that need a gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.calls import call_of, flatten_outputs
from gradproof.backends.torch.modules import ModuleCall

# Another point lies this far from the given one, relative to it and towards zero, where domains seldom end.
_NEAREST, _FURTHEST = 1 / 16, 1 / 8


class Subject:
    """A function of its leaves; all else of the call stays as it is.

    Every run has leaves of its own: none of the user's is written to.
    """

    def __init__(self, call: Call, labels: Sequence[str], others: Mapping[int, torch.Tensor] | None = None) -> None:
        """`others` stand in for tensors of the call that are no leaves."""
        self._call, self.labels, self._others = call, list(labels), dict(others or {})
        self._positions = call.differentiable()

    @property
    def function(self) -> Callable[..., Any]:
        return self._call.function

    def point(self) -> list[torch.Tensor]:
        """The leaves as they were given, in memory of their own and without a gradient."""
        return [self._call.flat[position].detach().clone() for position in self._positions]

    def __call__(self, *leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors that the function returns."""
        output = self._call.with_values({**self._others, **dict(zip(self._positions, leaves, strict=True))})
        return tuple(value for value in flatten_outputs(output) if isinstance(value, torch.Tensor))

    def calling(self, function: Callable[..., Any]) -> Subject:
        """The same arguments, given to another function."""
        return Subject(self._call.calling(function), self.labels, self._others)

    def in_single_precision(self) -> Subject:
        """The same call with float32 in place of float64 among what is no leaf."""
        leaves = set(self._positions)
        others = {
            position: value.detach().to(torch.float32)
            for position, value in enumerate(self._call.flat)
            if isinstance(value, torch.Tensor) and value.dtype == torch.float64 and position not in leaves
        }
        return Subject(self._call, self.labels, others)


def subject_of(call: Call) -> Subject:
    """The subject of a call. Of a module the parameters are handed over as an argument, as `functional_call` does."""
    labels = [call.label(position) for position in call.differentiable()]
    if not isinstance(call, ModuleCall):
        return Subject(call, labels)
    module: torch.nn.Module = call.function  # pyright: ignore[reportAssignmentType]
    names = {id(call.flat[p]): label for p, label in zip(call.differentiable(), labels, strict=True)}

    def functional(
        parameters: dict[str, torch.Tensor], buffers: dict[str, torch.Tensor], *arguments: Any, **keywords: Any
    ) -> Any:
        copies = {name: buffer.clone() for name, buffer in buffers.items()}  # transforms do not let outer ones change
        return torch.func.functional_call(module, {**parameters, **copies}, arguments, keywords)

    attached = dict(module.named_parameters()), dict(module.named_buffers())
    plain = call_of(functional, (*attached, *call.arguments), call.keywords)
    return Subject(plain, [names[id(plain.flat[position])] for position in plain.differentiable()])


def moved(leaves: Sequence[torch.Tensor], generator: torch.Generator, *, evenly: bool) -> list[torch.Tensor]:
    """Another point, a little closer to zero; `evenly`: each leaf by one factor, which keeps symmetries."""

    def nearer(leaf: torch.Tensor) -> torch.Tensor:
        drawn = torch.rand(() if evenly else leaf.shape, generator=generator, dtype=torch.float64)
        factor = 1 - (_NEAREST + (_FURTHEST - _NEAREST) * drawn)
        return leaf * factor.to(device=leaf.device, dtype=leaf.dtype)

    return [nearer(leaf) for leaf in leaves]


def leaves_at(point: Sequence[torch.Tensor], needed: Sequence[bool] | None = None) -> list[torch.Tensor]:
    """Leaves of a graph at a point; `needed` says which need a gradient (None: all)."""
    flags = [True] * len(point) if needed is None else needed
    return [tensor.detach().clone().requires_grad_(flag) for tensor, flag in zip(point, flags, strict=True)]
