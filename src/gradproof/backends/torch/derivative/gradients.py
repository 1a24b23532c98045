"""What one vjp or jvp returned, as tensors whose form and memory can be looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from gradproof.backends.torch.derivative.outputs import Outputs
from gradproof.backends.torch.memory.sharing import memory_of, share_memory
from gradproof.backends.torch.tensors.frames import Frame
from gradproof.backends.torch.tensors.point import Point
from gradproof.backends.torch.words import cotangent_of
from gradproof.core.capabilities import Misshapen
from gradproof.core.flags import every
from gradproof.core.space import Block, Space
from gradproof.core.types import Vector


class Gradients:
    """The gradients of one vjp."""

    def __init__(
        self,
        point: Point,
        outputs: Outputs,
        cotangent: Vector,
        cotangents: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor | None],
    ) -> None:
        self._point, self._outputs = point, outputs
        self._cotangent, self._cotangents, self._gradients = cotangent, cotangents, gradients
        self.coordinates = point.gather(gradients)
        self._misshapen: list[Misshapen] | None = None

    def misshapen(self) -> list[Misshapen]:
        """Those that have another form than their inputs. Two properties ask."""
        if self._misshapen is None:
            frames = [leaf.frame for leaf in self._point.leaves]
            self._misshapen = misshapen(self._point.space, frames, self._gradients)
        return self._misshapen

    def aliased(self) -> list[tuple[Block, str]]:
        """Those that share memory with an input or with another gradient: with which, in words."""
        found: list[tuple[Block, str]] = []
        inputs = [(memory_of(leaf.tensor), leaf) for leaf in self._point.leaves]
        others: list[tuple[int, torch.Tensor, Block]] = []
        several = len(self._gradients) > 1
        lent = [memory_of(cotangent) for cotangent in self._cotangents] if several else []
        for target, gradient in zip(self._point.blocks, self._gradients, strict=True):
            if gradient is None:
                continue
            memory = memory_of(gradient)
            for at, leaf in inputs:
                if gradient is leaf.tensor or (at == memory and share_memory(gradient, leaf.tensor)):
                    found.append((target, f"{leaf.block.label} itself"))
            for at, other, block in others:
                if at == memory and share_memory(gradient, other):
                    found.append((target, f"the gradient of {block.label}"))
            if several and memory not in lent:  # autograd hands out one tensor, or that of a cotangent, several times
                others.append((memory, gradient, target))
        return found

    def share_memory(self, later: Gradients) -> bool:
        """Whether one lies where a gradient of a later vjp does."""
        pairs = zip(self._gradients, later._gradients, strict=True)
        return any(a is not None and b is not None and (a is b or share_memory(a, b)) for a, b in pairs)

    def overwritten(self) -> list[Block]:
        """Those that hold something else by now than what was returned."""
        held = self._point.gather(self._gradients)
        pairs = [(block, held[block.slice], self.coordinates[block.slice]) for block in self._point.blocks]
        return [block for block, now, then in pairs if not np.array_equal(now, then, equal_nan=True)]

    def overwritten_cotangents(self) -> list[str]:
        """The cotangents that hold something else by now, in words."""
        triples = zip(self._outputs.space.blocks, self._outputs.frames, self._cotangents, strict=True)
        return [cotangent_of(block) for block, frame, tensor in triples if self._holds_another(block, frame, tensor)]

    def _holds_another(self, block: Block, frame: Frame, tensor: torch.Tensor) -> bool:
        meant, held = self._cotangent[block.slice], frame.read(tensor)
        return not every(held == meant) and not np.array_equal(held, frame.read(frame.build(meant)))


class SecondGradients(Gradients):
    """The gradients of a vjp of a vjp."""

    def aliased(self) -> list[tuple[Block, str]]:
        """None: what a backward of a backward hands out is for autograd to answer for."""
        return []


class Tangents:
    """The output tangents of one jvp; None where an output has none."""

    def __init__(
        self, outputs: Outputs, tangents: Sequence[torch.Tensor | None], primals: Sequence[torch.Tensor] = ()
    ) -> None:
        self._outputs, self._tangents, self._primals = outputs, tangents, primals
        changed = [t if t is None else in_kind(t, f.model) for t, f in zip(tangents, outputs.frames, strict=True)]
        if len(changed) == 1 and changed[0] is tangents[0]:  # nearly always
            changed = tangents  # which are held once
        self.coordinates = outputs.read(changed)

    def primal(self) -> Vector:
        """What the function returned beside them. It may share memory with that."""
        return self._outputs.look([primal.detach() for primal in self._primals])

    @property
    def carries(self) -> bool:
        """Whether any output has a tangent."""
        return any(tangent is not None for tangent in self._tangents)

    def misshapen(self) -> list[Misshapen]:
        """Those that have another form than their outputs."""
        return misshapen(self._outputs.space, self._outputs.frames, self._tangents)


def in_kind(tangent: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """A tangent as real or as complex as its output: that it was not is for another property to report."""
    if tangent.is_complex() == output.is_complex():
        return tangent
    return tangent.real if tangent.is_complex() else tangent.to(output.dtype)


def misshapen(space: Space, frames: Sequence[Frame], actual: Sequence[torch.Tensor | None]) -> list[Misshapen]:
    """The tensors that are there but are not of the form that their frames ask for."""
    found: list[Misshapen] = []
    for block, frame, tensor in zip(space.blocks, frames, actual, strict=True):
        mismatch = None if tensor is None else frame.mismatch(tensor)
        if mismatch is not None:
            found.append(Misshapen(block, *mismatch))
    return found
