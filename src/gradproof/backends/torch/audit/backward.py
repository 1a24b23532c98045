"""One backward of the recorded graph: what arrives at each operation, and what each hands on.

Hooks on the nodes that an operation made see both as they are in the model: with what was saved and may have been
overwritten since, with whatever state a Function keeps. The same operation called again alone need not give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradproof.backends.torch.audit.operation import Edge, Given, Operation

Gradients = tuple[torch.Tensor | None, ...]


class Backward:
    """The gradients at every node, in the order in which the nodes ran."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._arrived: dict[Any, Gradients] = {}
        self._handed_on: dict[Any, Gradients] = {}
        self.order: list[int] = []
        """The operations whose nodes ran, by number, the first first; one may be there several times."""
        self.leaves: list[torch.Tensor | None] = []
        self._hooks: list[Any] = []
        self._operations = operations
        self._beside: set[int] = set()
        for operation in operations:
            for node in operation.nodes:
                self._hooks.append(node.register_hook(self._hook(node, operation.number)))

    def _hook(self, node: Any, number: int) -> Any:
        def note(handed_on: Gradients, arrived: Gradients) -> None:
            self._handed_on[node], self._arrived[node] = tuple(handed_on), tuple(arrived)
            self.order.append(number)

        return note

    def run(
        self, outputs: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor]
    ) -> None:
        """Pull the cotangents back; `leaves` get nothing written to them."""
        self._beside = entered_beside(outputs, self._operations)
        try:
            self.leaves = list(torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True))
        finally:
            for hook in self._hooks:
                hook.remove()

    def arriving(self, operation: Operation) -> list[torch.Tensor | None]:
        """The gradient that arrives at each output; None: none does."""
        return [self._at(output) for output in operation.outputs]

    def _at(self, output: Given) -> torch.Tensor | None:
        if output.edge is None:
            return None
        node, number = output.edge
        gradients = self._arrived.get(node, ())
        return gradients[number] if number < len(gradients) else None

    def ran(self, operation: Operation) -> bool:
        return any(node in self._arrived for node in operation.nodes)

    def handed_on(self, operation: Operation) -> dict[Edge, torch.Tensor] | None:
        """What the operation hands on for what arrives at its outputs, by place in the graph.

        None where it hands on elsewhere than to its inputs, or for something else too.
        """
        if operation.number in self._beside:
            return None
        places = {given.edge for _, given in operation.inputs if given.edge is not None}
        sums: dict[Edge, torch.Tensor] = {}
        for node in operation.nodes:
            handed_on = self._handed_on.get(node)
            if handed_on is None:
                continue
            for (following, number), gradient in zip(node.next_functions, handed_on, strict=False):
                if following is None or following in operation.nodes or gradient is None:
                    continue
                edge = following, number
                if edge not in places:
                    return None
                sums[edge] = gradient if edge not in sums else sums[edge] + gradient
        return sums


def entered_beside(outputs: Sequence[torch.Tensor], operations: Sequence[Operation]) -> set[int]:
    """The operations at whose nodes gradients arrive elsewhere than at their outputs.

    A gradient that was taken inside the model (`autograd.grad` with `create_graph`) leads to such: its graph goes back
    to what was saved inside of an operation.
    """
    owners = {node: operation for operation in operations for node in operation.nodes}
    doors = {given.edge for operation in operations for given in operation.outputs}
    waiting: list[Any] = [output.grad_fn for output in outputs]
    seen: set[Any] = set()
    beside: set[int] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for following, number in node.next_functions:
            owner = owners.get(following)
            if owner is not None and owner is not owners.get(node) and (following, number) not in doors:
                beside.add(owner.number)
            waiting.append(following)
    return beside
