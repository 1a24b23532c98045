"""One operation as it was called: what it is, where, and with which values. It can be called again."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import optree
import torch

from gradproof.backends.torch.calls import flatten_outputs, is_floating

Edge = tuple[Any, int]
"""A place in the graph: the node that a gradient arrives at, and which of its arguments it is there."""


class Kind(enum.Enum):
    """Who wrote the derivative of an operation."""

    FUNCTION = "autograd.Function"
    OPERATOR = "custom operator"
    TORCH = "torch"

    @property
    def by_hand(self) -> bool:
        return self is not Kind.TORCH


class Given(NamedTuple):
    """A tensor that went in or came out: a copy of its value then, and its place in the graph."""

    value: torch.Tensor
    requires_grad: bool
    edge: Edge | None
    memory: int
    """The address of its storage."""
    producer: int | None
    """The number of the operation that it came from; None: from outside."""
    name: str = ""
    """That of a leaf."""
    source: torch.Tensor | None = None
    """The tensor itself, of a leaf: a Function may read it past its arguments too."""


class Random(NamedTuple):
    """The state of torch's generator before an operation that draws."""

    state: torch.Tensor


class Autocast(NamedTuple):
    """What a device computes in, where the user lets torch choose."""

    device: str
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Operation:
    """One call. `leaves` are its arguments, flat, with a `Given` in place of each tensor; `spec` puts them together."""

    number: int
    call: int
    """Which of all calls it is, also of those that are not recorded."""
    name: str
    kind: Kind
    function: Callable[..., Any]
    module: str
    line: str
    definition: str
    leaves: tuple[Any, ...]
    spec: Any
    outputs: tuple[Given, ...]
    written: tuple[int, ...]
    """The leaves that it wrote to."""
    autocast: tuple[Autocast, ...]
    random: Random | None
    grad_enabled: bool
    parameter_names: tuple[str, ...] = ()
    nodes: dict[Any, None] = field(default_factory=dict[Any, None])
    """The nodes of the graph that it made, in the order in which they were found."""

    @property
    def path(self) -> str:
        """As users would say it: `layers.3.attn.softmax`."""
        return ".".join(part for part in (self.module, self.name) if part)

    @property
    def inputs(self) -> list[tuple[int, Given]]:
        """The tensors of numbers that went in, with their positions."""
        return [(i, leaf) for i, leaf in enumerate(self.leaves) if isinstance(leaf, Given) and is_floating(leaf.value)]

    @property
    def tested(self) -> list[int]:
        """The positions of those that a gradient goes to."""
        return [i for i, given in self.inputs if given.requires_grad]

    @property
    def differentiable(self) -> bool:
        return bool(self.tested) and any(given.requires_grad for given in self.outputs)

    @property
    def key(self) -> Any:
        """Equal for calls of the same operation at the same shapes, dtypes and options."""
        return (
            self.name,
            id(getattr(self.function, "__func__", self.function)),
            id(getattr(self.function, "__self__", None)) if self.kind is Kind.FUNCTION else 0,
            str(self.spec),
            tuple(map(_described, self.leaves)),
            self.autocast,
        )

    def arranged(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and keywords with other values in the flat positions."""
        arguments, keywords = optree.tree_unflatten(self.spec, list(values))
        return tuple(arguments), dict(keywords)


def _described(leaf: Any) -> Any:
    """A tensor by its shape and dtype, an option by its value, anything else by what it is."""
    if isinstance(leaf, Given):
        value = leaf.value
        return tuple(value.shape), value.stride(), value.dtype, leaf.requires_grad, value.layout
    if isinstance(leaf, _BY_VALUE):
        return type(leaf), repr(leaf)
    return type(leaf), id(leaf)


_BY_VALUE = (
    *(int, float, complex, bool, str, type(None), slice, type(...)),
    *(torch.Size, torch.dtype, torch.device, torch.memory_format),
)


class Replay:
    """An operation as a function of tensors: those that a gradient goes to, or `positions`."""

    def __init__(self, operation: Operation, positions: Sequence[int] | None = None) -> None:
        self.operation = operation
        self.positions = operation.tested if positions is None else list(positions)
        self.__name__ = operation.name
        names = operation.parameter_names
        self.parameter_names = tuple(names[i] if i < len(names) else "" for i in self.positions)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """What went in: the leaves of the model themselves, and copies of all else, each a leaf that wants a gradient.

        A leaf that goes in twice is a copy the second time, and so is one that was written to before it went in.
        """
        seen: set[int] = set()
        inputs: list[torch.Tensor] = []
        for i in self.positions:
            source, value = self.operation.leaves[i].source, self.operation.leaves[i].value
            if source is not None and id(source) not in seen and _is_as_recorded(source, value):
                seen.add(id(source))
                inputs.append(source)
            else:
                inputs.append(value.detach().clone().requires_grad_())
        return tuple(inputs)

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        operation = self.operation
        given = dict(zip(self.positions, tensors, strict=True))
        values = [
            given.get(i, leaf.value.clone() if isinstance(leaf, Given) and i in operation.written else _plain(leaf))
            for i, leaf in enumerate(operation.leaves)
        ]
        for i in operation.written:
            if i in given:  # a leaf may not be written to
                values[i] = given[i].clone()
        arguments, keywords = operation.arranged(values)
        with surroundings(operation):
            result = operation.function(*arguments, **keywords)
        outputs = [o for o in flatten_outputs(result) if isinstance(o, torch.Tensor)]
        outputs += [values[i] for i in operation.written if not any(values[i] is o for o in outputs)]
        return tuple(outputs)


class FiniteReplay(Replay):
    """The same, with zero in place of outputs that were infinite: the -inf of a mask does not move."""

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs, recorded = super().__call__(*tensors), self.operation.outputs
        if [output.shape for output in outputs] != [given.value.shape for given in recorded]:
            return outputs
        pairs = zip(outputs, recorded, strict=True)
        return tuple([_without_infinities(output, given.value) for output, given in pairs])


def _without_infinities(output: torch.Tensor, recorded: torch.Tensor) -> torch.Tensor:
    if output.layout is not torch.strided or not is_floating(output):
        return output
    infinite = torch.isinf(recorded)
    return output.masked_fill(infinite, 0) if bool(infinite.any()) else output


def _is_as_recorded(source: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether a tensor is still the leaf that went in, with the same value."""
    return source.requires_grad and source.grad_fn is None and torch.equal(source.detach(), value)


def _plain(leaf: Any) -> Any:
    return leaf.value if isinstance(leaf, Given) else leaf


def surroundings(operation: Operation) -> AbstractContextManager[Any]:
    """What was around the call: autocast, and the state of the generator where it draws."""
    stack = ExitStack()
    for device, dtype in operation.autocast:
        stack.enter_context(torch.autocast(device, dtype=dtype, cache_enabled=False))
    if operation.random is not None:
        torch.default_generator.set_state(operation.random.state)
    return stack


def described(value: torch.Tensor) -> str:
    """A tensor as `float32[4, 16]`."""
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
