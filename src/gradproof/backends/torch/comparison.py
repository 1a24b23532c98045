"""A kernel and a reference at the same inputs: values and vjps of both, and of the reference in float64.

Each has inputs and cotangents of its own, whatever the others do to theirs. What they say of each other is for
`gradproof.properties.reference` to judge.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.calls import flatten_outputs, is_floating
from gradproof.backends.torch.derivative.pull import pull
from gradproof.backends.torch.derivative.twin import wide
from gradproof.backends.torch.memory.sharing import memory_of
from gradproof.backends.torch.memory.watch import Watch, attributes, hand_written, saved_tensors
from gradproof.backends.torch.tensors.coordinates import build, read
from gradproof.backends.torch.tensors.frames import Frame
from gradproof.backends.torch.tensors.leaves import space_of
from gradproof.backends.torch.words import TORCH, cotangent_of
from gradproof.core.capabilities import MemoryLayout, MemoryWatch, Reference, Side, Watched
from gradproof.core.draws import random_probe
from gradproof.core.problem import NothingToCheckError, OutputChangedError, Problem
from gradproof.core.types import Vector


def comparing(kernel: Call, reference: Call, seed: int) -> Problem:
    """The kernel as a Problem, with the reference as its capability. Calls both.

    All its floating-point outputs count, connected or not, in its own precision.
    """
    ours = Run(kernel)
    try:
        theirs = Run(reference)
    except Exception as error:
        raise RuntimeError(f"the reference, not the function, raised {type(error).__name__}: {error}") from error
    if not ours.tensors and not theirs.tensors:
        raise NothingToCheckError("there is nothing to compare: neither function returned a tensor")
    misfits = _misfits(ours.tensors, theirs.tensors)
    if misfits:
        compared = Reference(_nothing(ours), None, misfits, evaluations=1)
    else:
        compared = Reference(Side(theirs.value, theirs.vjp), _truth(reference, theirs, seed), evaluations=2, vjps=1)
    return Problem(
        inputs=ours.inputs,
        outputs=ours.outputs,
        point=ours.point,
        value=ours.value,
        evaluate=ours.evaluate,
        vjp=ours.vjp,
        connected=True,  # what is claimed is compared, zero or not
        words=TORCH,
        capabilities={Reference: compared, MemoryWatch: MemoryWatch(ours.watched, ours.overwritten, ours.consumed)},
    )


class Run:
    """A call on copies of its tensors: its outputs, and gradients for given cotangents."""

    def __init__(self, call: Call) -> None:
        self._call, positions, names = call, call.differentiable(), call.names()
        self._sources = [call.flat[i] for i in positions]
        self._positions = positions
        frames = [Frame(tensor) for tensor in self._sources]
        kinds, numbers = [call.kind(i) for i in positions], [call.origins[i] for i in positions]
        self.inputs = space_of(kinds, numbers, [names[i] for i in positions], frames)
        self.point = _joined([read(tensor) for tensor in self._sources])
        copies = _copies(call)
        watch = Watch([(call.label(i), copies[i]) for i in positions])
        self._graph = _Graph(self._tensors(copies), [copies[i] for i in positions])
        self.tensors = self._graph.outputs
        self.overwritten = tuple(watch.changed())
        """The inputs that the function wrote to, in words."""
        self._consumed: dict[str, None] = {}
        self._floating = [i for i, tensor in enumerate(self.tensors) if is_floating(tensor)]
        frames = [Frame(self.tensors[i]) for i in self._floating]
        count = len(self._floating)
        self.outputs = space_of(["output"] * count, self._floating, [""] * count, frames)
        self.value = self._read(self.tensors)

    def evaluate(self, point: Vector) -> Vector:
        """The floating-point outputs at another point."""
        copies = _copies(self._call)
        for position, source, block in zip(self._positions, self._sources, self.inputs.blocks, strict=True):
            copies[position] = build(point[block.slice], source).requires_grad_()
        tensors = self._tensors(copies)
        if [t.shape for t in tensors] != [t.shape for t in self.tensors]:
            raise OutputChangedError("the number and the shapes of the outputs depend on the values of the inputs")
        return self._read(tensors)

    def cotangents(self, cotangent: Vector) -> list[torch.Tensor]:
        """One for each floating-point output, of its dtype."""
        pairs = zip(self.outputs.blocks, self._floating, strict=True)
        return [build(cotangent[block.slice], self.tensors[i]) for block, i in pairs]

    def vjp(self, cotangent: Vector) -> Vector:
        """J^T v. Outputs without a graph contribute nothing; a gradient that is not there is zero."""
        return self.pull(self.cotangents(cotangent))

    def pull(self, cotangents: Sequence[torch.Tensor]) -> Vector:
        """J^T v for cotangents as tensors, of whatever dtype, which become its own."""
        graph = self._graph
        if graph.is_spoilt:
            copies = _copies(self._call)
            graph = self._graph = _Graph(self._tensors(copies), [copies[i] for i in self._positions])
        pairs = [
            (block, graph.outputs[i], v)
            for block, i, v in zip(self.outputs.blocks, self._floating, cotangents, strict=True)
        ]
        flowing = [(block, output, v.to(output.dtype)) for block, output, v in pairs if output.requires_grad]
        result = np.zeros(self.inputs.size)
        if flowing:
            labels = [block.label for block in self.inputs.blocks]
            inputs = Watch(list(zip(labels, graph.inputs, strict=True)))
            given = Watch([(cotangent_of(block), v) for block, _, v in flowing])
            saved, attached = Watch(graph.saved()), attributes(hand_written(graph.outputs))
            gradients = pull([output for _, output, _ in flowing], graph.inputs, [v for _, _, v in flowing])
            for block, gradient in zip(self.inputs.blocks, gradients, strict=True):
                if gradient is not None:
                    result[block.slice] = read(gradient)
            changed = [*inputs.changed(), *saved.changed()]
            graph.is_spoilt = bool(changed or self.overwritten or attached)
            self._consumed.update(dict.fromkeys((*changed, *given.changed())))
        return result

    def consumed(self) -> tuple[str, ...]:
        """What backward wrote to so far, in words."""
        return tuple(self._consumed)

    def watched(self, cotangent: Vector, layout: MemoryLayout) -> Watched:
        """J^T v, and what backward wrote to. Cotangents are contiguous here, whatever the layout."""
        return Watched(self.vjp(cotangent), self.consumed())

    def _tensors(self, copies: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
        return [o for o in flatten_outputs(self._call.with_values(copies)) if isinstance(o, torch.Tensor)]

    def _read(self, tensors: Sequence[torch.Tensor]) -> Vector:
        return _joined([read(tensors[i]) for i in self._floating])


class _Graph:
    """The outputs of one call, and the copies of the inputs under test that it was given."""

    def __init__(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> None:
        self.outputs, self.inputs = outputs, inputs
        self.is_spoilt = False
        """Whether a backward wrote to what the next one needs, or may have."""

    def saved(self) -> list[tuple[str, torch.Tensor]]:
        """What hand-written Functions saved, with names, but for the inputs."""
        inputs = [memory_of(tensor) for tensor in self.inputs]
        found = saved_tensors(hand_written(self.outputs))
        return [(name, tensor) for name, tensor in found if memory_of(tensor) not in inputs]


class WideRun(Run):
    """The same in float64."""

    def __init__(self, call: Call) -> None:
        super().__init__(call.replacing({i: _widened(tensor) for i, tensor in _copies(call).items()}))


def _copies(call: Call) -> dict[int, torch.Tensor]:
    return {i: _copied(value, value.dtype) for i, value in enumerate(call.flat) if isinstance(value, torch.Tensor)}


def _copied(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.detach().to(dtype, copy=True).requires_grad_(tensor.requires_grad)


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return _copied(tensor, wide(tensor.dtype) if is_floating(tensor) else tensor.dtype)


def _joined(parts: list[Vector]) -> Vector:
    return np.concatenate(parts) if parts else np.empty(0)


def _truth(call: Call, narrow: Run, seed: int) -> Side | None:
    """The reference in float64, None if it does not run there, backward included.

    Both precisions get the same cotangents: those that the lower one can hold.
    """

    def vjp(cotangent: Vector) -> Vector:
        with warnings.catch_warnings(action="ignore"):
            return run.pull(narrow.cotangents(cotangent))

    try:
        with warnings.catch_warnings(action="ignore"):
            run = WideRun(call)
        vjp(random_probe(narrow.outputs.size, seed))
    except Exception:  # a reference for one dtype only is none in another
        return None
    return Side(run.value, vjp) if len(run.value) == len(narrow.value) else None


def _nothing(ours: Run) -> Side:
    """What stands for a reference whose outputs cannot be compared: no numbers."""
    return Side(np.full(ours.outputs.size, np.nan), lambda _: np.full(ours.inputs.size, np.nan))


def _misfits(ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor]) -> tuple[tuple[int | None, str], ...]:
    """Why outputs cannot even be compared: another number of them, another shape or dtype, other integers."""
    if len(ours) != len(theirs):
        return ((None, f"The function returned {len(ours)} tensors, the reference {len(theirs)}."),)
    pairs = [*enumerate(zip(ours, theirs, strict=True))]
    alike = [(i, a, b) for i, (a, b) in pairs if a.shape == b.shape and a.dtype == b.dtype]
    different = [
        (i, f"output {i} differs: {a.dtype}.") for i, a, b in alike if not is_floating(a) and not torch.equal(a, b)
    ]
    unlike = [
        (
            i,
            f"output {i} has shape {tuple(a.shape)} and dtype {a.dtype}, "
            f"that of the reference shape {tuple(b.shape)} and dtype {b.dtype}.",
        )
        for i, (a, b) in pairs
        if a.shape != b.shape or a.dtype != b.dtype
    ]
    return (*different, *unlike)
