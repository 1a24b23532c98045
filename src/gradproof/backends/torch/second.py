"""Second order: the first derivative as a function of the inputs and the cotangents."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradproof.backends.torch.arguments import Call, flatten_outputs, parameter_names
from gradproof.backends.torch.frames import Frame, output_frame
from gradproof.backends.torch.leaves import Leaf
from gradproof.backends.torch.problem import TorchProblem
from gradproof.backends.torch.pull import pull
from gradproof.backends.torch.sparse import is_sparse, layout_name
from gradproof.core.space import Elements
from gradproof.core.types import Indices, Vector

_SEED = 0x9E3779B9


def connected(output: Any) -> list[torch.Tensor]:
    """The outputs that have a graph."""
    return [o for o in flatten_outputs(output) if isinstance(o, torch.Tensor) and o.requires_grad]


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
    return frame.build((torch.rand(size, generator=generator, dtype=torch.float64) * 2 - 1).numpy())


def _draw(output: torch.Tensor, generator: torch.Generator, noncontiguous: bool) -> torch.Tensor:
    gap = 2 if noncontiguous and output.dim() else 1
    shape = [*output.shape[:-1], output.shape[-1] * gap] if output.dim() else []
    parts = 2 if output.is_complex() else 1
    values = torch.rand([*shape, parts], generator=generator, dtype=torch.float64) * 2 - 1
    values = values.to(device=output.device, dtype=output.dtype.to_real())
    drawn = torch.view_as_complex(values) if output.is_complex() else values.squeeze(-1)
    return drawn[..., ::gap] if output.dim() else drawn


class FirstDerivative:
    """`(*inputs, *cotangents, **keywords) -> gradients` of a function, itself differentiable."""

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        cotangents: Sequence[torch.Tensor | None],
        keywords: Mapping[str, Any] | None = None,
    ) -> None:
        self._function = function
        self._count = len(inputs)
        whole = Call(function, inputs, keywords or {})
        self._sources = [i for i, x in enumerate(whole.flat) if isinstance(x, torch.Tensor) and x.requires_grad]
        self._originals = [whole.flat[i] for i in self._sources]
        self._given = [i for i, v in enumerate(cotangents) if v is not None]
        self._flowing = [i for i, v in enumerate(cotangents) if v is not None and v.requires_grad]
        self._total = len(cotangents)
        names = [*parameter_names(function)[: self._count]]
        names += [""] * (self._count - len(names))
        self.parameter_names = (*names, *(f"grad_outputs[{i}]" for i in range(self._total)))
        self.of: list[torch.Tensor] = []
        """The tensors whose gradients the last call returned."""
        self.scalar = False
        """Whether they were gradients of one real number."""

    def __call__(self, *arguments: Any, **keywords: Any) -> tuple[torch.Tensor, ...]:
        inputs, cotangents = arguments[: self._count], arguments[self._count :]
        flat = Call(self._function, inputs, keywords).flat
        sources = [flat[i] for i in self._sources]
        for source in sources:  # forward mode hands in detached inputs
            source.requires_grad_()
        for i in self._flowing:
            cotangents[i].requires_grad_()
        outputs = connected(self._function(*inputs, **keywords))
        if len(outputs) != self._total:
            raise ValueError(
                f"got {self._total} grad_outputs for {len(outputs)} differentiable outputs: "
                "pass one for each, None for those that carry no gradient"
            )
        self.scalar = len(outputs) == 1 and outputs[0].numel() == 1 and not outputs[0].is_complex()
        if not self._given:
            return ()
        with _naming_what_torch_lacks(outputs, sources):
            gradients = pull(
                [outputs[i] for i in self._given], sources, [cotangents[i] for i in self._given], create_graph=True
            )
        self.of = [x for x, gradient in zip(self._originals, gradients, strict=True) if gradient is not None]
        return tuple(gradient for gradient in gradients if gradient is not None)


class SecondProblem(TorchProblem):
    """A `FirstDerivative` as a Problem: what claims to be the second derivative is its derivative."""

    @property
    def paired(self) -> Indices | None:
        if not self.has_graph or not _derivative(self.call).scalar or self.moves_together:
            return None
        sources = self._differentiated()
        pairs = zip(sources, self.outputs.blocks, strict=True)
        if not all(_alike(leaf.block.elements, block.elements) for leaf, block in pairs):
            return None
        return np.concatenate([np.arange(leaf.block.start, leaf.block.stop) for leaf in sources])

    def _differentiated(self) -> list[Leaf]:
        """For each output, the input that it is the gradient of."""
        tensors = _derivative(self.call).of
        return [next(leaf for leaf in self._leaves if leaf.tensor is tensors[i]) for i in self._chosen]

    def vjp(self, cotangent: Vector) -> Vector:
        with _naming_what_torch_lacks(self._outputs, self._sources):
            return super().vjp(cotangent)


class NamedSecondProblem(SecondProblem):
    """The same, whose outputs have names: of which input each is the gradient."""

    def _output_names(self) -> list[str]:
        return [f"gradient of {leaf.block.name or leaf.block.label}" for leaf in self._differentiated()]


def _derivative(call: Call) -> FirstDerivative:
    assert isinstance(call.function, FirstDerivative)
    return call.function


def _alike(left: Elements | None, right: Elements | None) -> bool:
    """Whether two blocks own the same elements in the same order."""
    if left is None or right is None:
        return left is right
    return np.array_equal(left.flat, right.flat)


@contextmanager
def _naming_what_torch_lacks(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Generator[None]:
    """Not every sparse operator of torch has a second derivative. Where one is missing, say so, and which."""
    try:
        yield
    except RuntimeError as error:
        layouts = sorted({layout_name(tensor) for tensor in inputs if is_sparse(tensor)})
        if not layouts or not _raised_by_torch(error):
            raise
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
    return last == Path(pull.__code__.co_filename) or Path(torch.__file__).parent in last.parents


def _first_sentence(error: Exception) -> str:
    return str(error).split(". ")[0].splitlines()[0]
