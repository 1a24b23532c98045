"""A function of sparse tensors as a function of strided ones, for checkers that know no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import optree
import torch

from gradproof.backends.calls import parameter_names
from gradproof.backends.torch.calls import TENSORS
from gradproof.backends.torch.tensors.frames import values_in_place, without_holes
from gradproof.backends.torch.tensors.sparse import Pattern, is_sparse


class StridedOutputs:
    """A function whose sparse outputs come out strided.

    `arguments` are those to call it with. Without a mask, those sparse tensors among them that require a gradient store
    every element.
    """

    def __init__(self, function: Callable[..., Any], inputs: Sequence[Any], masked: bool) -> None:
        self._function, self._masked = function, masked
        self.parameter_names = parameter_names(function, TENSORS)
        self.arguments = tuple(map(self._complete, inputs))

    def _complete(self, value: Any) -> Any:
        if self._masked or not _is_differentiable(value):
            return value
        return without_holes(value).requires_grad_()

    def __call__(self, *arguments: Any) -> Any:
        return self.strided(self._function(*arguments))

    def strided(self, output: Any) -> Any:
        """The same, with strided tensors in place of sparse ones, nested as they may be."""
        return optree.tree_map(self._densify, output, none_is_leaf=True)

    def _densify(self, value: Any) -> Any:
        if not is_sparse(value):
            return value
        tensor: torch.Tensor = value
        return tensor.to_dense(masked_grad=self._masked) if tensor.requires_grad else tensor.to_dense()


class StridedFunction(StridedOutputs):
    """The same as a function of the stored values: no argument that requires a gradient is sparse."""

    def __init__(self, function: Callable[..., Any], inputs: Sequence[Any], masked: bool) -> None:
        super().__init__(function, inputs, masked)
        self._patterns: dict[int, Pattern] = {}
        arguments = list(self.arguments)
        for position, value in enumerate(arguments):
            if _is_differentiable(value):
                self._patterns[position], values = values_in_place(value)
                arguments[position] = values.requires_grad_()
        self.arguments = tuple(arguments)

    def __call__(self, *arguments: Any) -> Any:
        patterns = self._patterns
        return super().__call__(*(patterns[i].fill(v) if i in patterns else v for i, v in enumerate(arguments)))


def _is_differentiable(value: Any) -> bool:
    return is_sparse(value) and value.requires_grad
