"""The call of a module: its parameters are inputs like any other, with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.calls import TENSORS
from gradproof.backends.torch.private import pass_for_parameter


class ModuleCall(Call):
    """A module with its arguments; behind them come its parameters and buffers.

    In place, parameters are moved where the module reads them. Where other tensors must stand in for them (duals of
    forward mode, batches, double precision), the module is called functionally, and its buffers are copies.
    """

    def __init__(self, module: torch.nn.Module, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        super().__init__(module, arguments, keywords, TENSORS)
        self._module = module
        parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
        self._attached = [*parameters, *buffers]
        self._kinds = ["parameter"] * len(parameters) + ["buffer"] * len(buffers)
        self.origins += range(self._count, self._count + len(self._attached))
        self.flat += [*parameters.values(), *buffers.values()]

    def kind(self, position: int) -> str:
        return "input" if position < self._count else self._kinds[position - self._count]

    def names(self) -> list[str]:
        return [*super().names(), *self._attached]

    def with_values(self, replaced: Mapping[int, Any]) -> Any:
        arguments, keywords = self._rebuilt(replaced)
        standing_in = {
            name: replaced.get(position, self.flat[position].clone())
            for position, name in enumerate(self._attached, self._count)
            if position in replaced or self.kind(position) == "buffer"
        }
        for position, name in enumerate(self._attached, self._count):
            if name in standing_in and self.kind(position) == "parameter":
                pass_for_parameter(standing_in[name])

        def function(*arguments: Any, **keywords: Any) -> Any:
            return torch.func.functional_call(self._module, standing_in, arguments, keywords)

        return self._run(function, arguments, keywords)
