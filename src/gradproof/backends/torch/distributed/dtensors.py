"""DTensors: each rank's local part is what is moved and differentiated; their placements say what it is.

A DTensor among the inputs is taken apart: its local tensor stands for it, and the function gets a DTensor made of that.
One among the outputs is replaced by its local tensor. Gradients are then those that `DTensor.from_local` and `to_local`
give, as they are to whoever trains with them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch

from gradproof.backends.calls import Call, parameter_names
from gradproof.backends.torch.calls import TENSORS, flatten_outputs
from gradproof.backends.torch.distributed.conventions import Held, Holding, Key, key_of
from gradproof.core.space import Block


def is_dtensor(value: Any) -> bool:
    """Whether this is a DTensor; loads nothing where there can be none."""
    return isinstance(value, torch.Tensor) and type(value).__name__ == "DTensor" and hasattr(value, "placements")


class Unwrapped:
    """A function of local tensors, in place of one of DTensors; remembers how its outputs were placed."""

    def __init__(self, function: Callable[..., Any], wrapped: Mapping[int, Any]) -> None:
        """`wrapped` are the DTensors by their flat positions among the arguments."""
        self._function, self._wrapped = function, dict(wrapped)
        self.placed: list[Any] = []
        """For each flat output of the last call its DTensor, or None."""
        self.parameter_names = parameter_names(function, TENSORS)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if self._wrapped:
            arguments, keywords = self._put_together(arguments, keywords)
        self.placed = []
        return self._taken_apart(self._function(*arguments, **keywords))

    def _put_together(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        import optree

        trees: Any = optree
        flat, spec = trees.tree_flatten((*arguments, *keywords.values()), none_is_leaf=True)
        whole = [_from_local(value, self._wrapped[i]) if i in self._wrapped else value for i, value in enumerate(flat)]
        values: Any = trees.tree_unflatten(spec, whole)
        return tuple(values[: len(arguments)]), dict(zip(keywords, values[len(arguments) :], strict=True))

    def _taken_apart(self, output: Any) -> Any:
        flat = flatten_outputs(output)
        self.placed = [value if is_dtensor(value) else None for value in flat]
        if not any(value is not None for value in self.placed):
            return output
        return tuple(value.to_local() if is_dtensor(value) else value for value in flat)


def _from_local(local: torch.Tensor, model: Any) -> Any:
    return type(model).from_local(
        local, model.device_mesh, model.placements, run_check=False, shape=model.shape, stride=model.stride()
    )


def unwrap(call: Call) -> tuple[Call, dict[Key, Holding]]:
    """The call with local tensors in place of DTensors, and what these are."""
    wrapped = {i: value for i, value in enumerate(call.flat) if is_dtensor(value)}
    function = Unwrapped(call.function, wrapped)
    local = {i: value.to_local().detach().clone().requires_grad_(value.requires_grad) for i, value in wrapped.items()}
    names = call.names()
    held = {
        Key(call.kind(i), call.origins[i], names[i]): _holding(value, Held.VARYING, call.label(i))
        for i, value in wrapped.items()
    }
    replaced = call.replacing(local) if local else call
    if isinstance(call.function, torch.nn.Module):
        if local:
            raise ValueError("DTensors are checked of functions, not of modules: pass a function that calls the module")
        return call, {}
    return replaced.calling(function), held


def output_holdings(function: Any, blocks: Sequence[Block]) -> dict[Key, Holding]:
    """What the outputs of the last call are, where they were DTensors."""
    placed = getattr(function, "placed", [])
    return {
        key_of(block): _holding(placed[block.index], Held.PARTIAL, block.label)
        for block in blocks
        if block.index < len(placed) and placed[block.index] is not None
    }


def _holding(tensor: Any, of_sums: Held, label: str) -> Holding:
    """What this rank holds of a DTensor; ranks that differ in sharded dimensions of the mesh only hold other parts."""
    kinds = {type(placement).__name__ for placement in tensor.placements}
    coordinate = tensor.device_mesh.get_coordinate() or ()
    sharded: Hashable = tuple(
        at for at, placement in zip(coordinate, tensor.placements, strict=True) if placement.is_shard()
    )
    whole = kinds - {"Shard", "_StridedShard"}
    if not whole:
        return Holding(Held.VARYING)
    if all(placement.is_replicate() or placement.is_shard() for placement in tensor.placements):
        return Holding(Held.REPLICATED, sharded)
    if all(placement.is_partial() or placement.is_shard() for placement in tensor.placements):
        return Holding(of_sums, sharded)
    raise ValueError(
        f"{label} is placed as {tensor.placements}: copies and partial sums of one tensor are not told apart"
    )
