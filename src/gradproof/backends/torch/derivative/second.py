"""Second order: the first derivative as a call of the inputs and the cotangents."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch import private
from gradproof.backends.torch.calls import connected, needs_gradient
from gradproof.backends.torch.derivative.gradients import SecondGradients
from gradproof.backends.torch.derivative.outputs import Outputs
from gradproof.backends.torch.derivative.pull import pull
from gradproof.backends.torch.derivative.reverse import Reverse
from gradproof.backends.torch.tensors.frames import Frame, output_frame
from gradproof.backends.torch.tensors.leaves import Leaf, find_leaves
from gradproof.backends.torch.tensors.point import Point
from gradproof.backends.torch.tensors.sparse import is_sparse, layout_name
from gradproof.core.capabilities import Pairing
from gradproof.core.space import Elements
from gradproof.core.types import Vector

_SEED = 0x9E3779B9
_ENGINE = {Path(private.__file__), Path(pull.__code__.co_filename)}
"""The files from which torch's engine is called."""


def first_outputs(call: Call) -> list[torch.Tensor]:
    """The outputs of a call that have a graph; what the call does to its inputs is undone."""
    leaves, _ = find_leaves(call, masked=True)
    try:
        return connected(call())
    finally:
        for leaf in leaves:
            leaf.restore()


def draw_cotangents(
    outputs: Sequence[torch.Tensor], *, noncontiguous: bool, masked: bool = False
) -> list[torch.Tensor]:
    """Random cotangents in [-1, 1] from a private generator, strided with gaps if asked.

    Those of sparse outputs are sparse: without a mask they store every element.
    """
    generator = torch.Generator().manual_seed(_SEED)
    frames = [output_frame(output, masked) for output in outputs]
    return [
        (_draw(frame.model, generator, noncontiguous) if frame.batches else _draw_in(frame, generator)).requires_grad_()
        for frame in frames
    ]


def _draw_in(frame: Frame, generator: torch.Generator) -> torch.Tensor:
    size = frame.block("output", 0, "", 0).size
    drawn = torch.rand(size, generator=generator, dtype=torch.float64, device=generator.device)
    return frame.build((drawn * 2 - 1).numpy())


def _draw(output: torch.Tensor, generator: torch.Generator, noncontiguous: bool) -> torch.Tensor:
    gap = 2 if noncontiguous and output.dim() else 1
    shape = [*output.shape[:-1], output.shape[-1] * gap] if output.dim() else []
    parts = 2 if output.is_complex() else 1
    values = torch.rand([*shape, parts], generator=generator, dtype=torch.float64, device=generator.device) * 2 - 1
    values = values.to(device=output.device, dtype=output.dtype.to_real())
    drawn = torch.view_as_complex(values) if output.is_complex() else values.squeeze(-1)
    return drawn[..., ::gap] if output.dim() else drawn


class DerivativeCall(Call):
    """The first derivative of a call, itself a call: of the same inputs and the cotangents; it returns gradients."""

    def __init__(self, call: Call, cotangents: Sequence[torch.Tensor | None]) -> None:
        self._inner, self._behind, self._total = call, len(call.flat), len(cotangents)
        self.function, self.arrays, self._keeper = call.function, call.arrays, None
        self.arguments, self.keywords = (*call.arguments, *cotangents), call.keywords
        self.flat = [*call.flat, *cotangents]
        before = max(len(call.arguments) + len(call.keywords), max(call.origins, default=-1) + 1)
        self.origins = [*call.origins, *range(before, before + self._total)]
        self.chosen = None if call.chosen is None else call.chosen.union(range(self._behind, len(self.flat)))
        self._sources = call.differentiable()
        self._flowing = [self._behind + i for i, value in enumerate(cotangents) if needs_gradient(value)]
        self.of: list[torch.Tensor] = []
        """The tensors whose gradients the last call returned."""
        self.scalar = False
        """Whether they were gradients of one real number."""

    def kind(self, position: int) -> str:
        return self._inner.kind(position) if position < self._behind else "input"

    def names(self) -> list[str]:
        return [*self._inner.names(), *(f"grad_outputs[{i}]" for i in range(self._total))]

    def __call__(self) -> tuple[torch.Tensor, ...]:
        return self._run(lambda: self._gradients(self._inner(), self.flat), (), {})

    def with_values(self, replaced: Mapping[int, Any]) -> tuple[torch.Tensor, ...]:
        flat = [replaced.get(i, value) for i, value in enumerate(self.flat)]
        for i in (*self._sources, *self._flowing):  # forward mode hands in detached inputs
            flat[i].requires_grad_()
        inner = {i: value for i, value in replaced.items() if i < self._behind}
        return self._run(lambda: self._gradients(self._inner.with_values(inner), flat), (), {})

    def _gradients(self, output: Any, flat: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        outputs, cotangents = connected(output), flat[self._behind :]
        if len(outputs) != self._total:
            raise ValueError(
                f"got {self._total} grad_outputs for {len(outputs)} differentiable outputs: "
                "pass one for each, None for those that carry no gradient"
            )
        self.scalar = len(outputs) == 1 and outputs[0].numel() == 1 and not outputs[0].is_complex()
        given = [(o, v) for o, v in zip(outputs, cotangents, strict=True) if v is not None]
        if not given:
            return ()
        sources = [flat[i] for i in self._sources]
        try:
            gradients = pull([o for o, _ in given], sources, [v for _, v in given], create_graph=True)
        except RuntimeError as error:
            raise_what_torch_lacks(error, outputs, sources)
            raise
        pairs = zip(self._sources, gradients, strict=True)
        self.of = [self.flat[i] for i, gradient in pairs if gradient is not None]
        return tuple(gradient for gradient in gradients if gradient is not None)


class SecondReverse(Reverse):
    """The backward of a `DerivativeCall`: what claims to be the second derivative."""

    def _shown(self, cotangent: Vector, outputs: Sequence[torch.Tensor]) -> SecondGradients:
        cotangents = self._outputs.build(cotangent)
        return SecondGradients(self._point, self._outputs, cotangent, cotangents, self._pull(outputs, cotangents))

    def _pull(
        self, outputs: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor | None, ...]:
        try:
            return super()._pull(outputs, cotangents)
        except RuntimeError as error:
            raise_what_torch_lacks(error, outputs, self._point.tensors)
            raise


class Differentiated:
    """For each output of a `DerivativeCall`, the input that it is the gradient of."""

    def __init__(self, call: DerivativeCall, point: Point) -> None:
        self._call, self._point = call, point

    def leaves(self, chosen: Sequence[int]) -> list[Leaf]:
        """Those of the outputs with these numbers."""
        tensors = [self._call.of[i] for i in chosen]
        return [next(leaf for leaf in self._point.leaves if leaf.tensor is tensor) for tensor in tensors]

    def names(self, chosen: Sequence[int]) -> list[str]:
        """Names for these outputs."""
        return [f"gradient of {leaf.block.name or leaf.block.label}" for leaf in self.leaves(chosen)]

    def pairing(self, outputs: Outputs) -> Pairing | None:
        """Where the outputs are the gradient of one real number: the input coordinate of each."""
        if not outputs.connected or not self._call.scalar or self._point.moves_together:
            return None
        sources = self.leaves(outputs.chosen)
        pairs = zip(sources, outputs.space.blocks, strict=True)
        if not all(_alike(leaf.block.elements, block.elements) for leaf, block in pairs):
            return None
        return Pairing(np.concatenate([np.arange(leaf.block.start, leaf.block.stop) for leaf in sources]))


def _alike(left: Elements | None, right: Elements | None) -> bool:
    """Whether two blocks own the same elements in the same order."""
    if left is None or right is None:
        return left is right
    return np.array_equal(left.flat, right.flat)


def raise_what_torch_lacks(
    error: RuntimeError, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> None:
    """Not every sparse operator of torch has a second derivative: where the error says so, raise one that names it."""
    layouts = sorted({layout_name(tensor) for tensor in inputs if is_sparse(tensor)})
    if layouts and _raised_by_torch(error):
        raise NotImplementedError(
            f"torch has no second derivative of this function for inputs of layout {', '.join(layouts)}. What is "
            f"missing in torch: {_first_sentence(error)} (in the backward of {', '.join(_nodes(outputs))})"
        ) from error


def _nodes(outputs: Sequence[torch.Tensor]) -> list[str]:
    """The names of the operators behind the outputs, the last first."""
    found: dict[Any, None] = {}
    ahead = [output.grad_fn for output in outputs]
    while ahead:
        node = ahead.pop(0)
        if node is not None and node not in found:
            found[node] = None
            ahead += [behind for behind, _ in node.next_functions]
    return list(dict.fromkeys(node.name() for node in found if "Accumulate" not in node.name()))


def _raised_by_torch(error: Exception) -> bool:
    """Whether the exception comes from torch's engine and operators, not from a backward written in Python."""
    last = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    return last in _ENGINE or Path(torch.__file__).parent in last.parents


def _first_sentence(error: Exception) -> str:
    return str(error).split(". ")[0].splitlines()[0]
