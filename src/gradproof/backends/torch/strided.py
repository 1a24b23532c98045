"""A function of sparse tensors as a function of strided ones, for checkers that know no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import optree
import torch

from gradproof.backends.torch.arguments import parameter_names
from gradproof.backends.torch.frames import stored_values
from gradproof.backends.torch.sparse import Pattern, is_sparse


class StridedFunction:
    """The function of the stored values of its sparse inputs; sparse outputs come out strided.

    `arguments` are those to call it with: in place of each sparse tensor that requires a gradient, its values. Without
    a mask these are the values of every element.
    """

    def __init__(self, function: Callable[..., Any], inputs: Sequence[Any], masked: bool) -> None:
        self._function, self._masked = function, masked
        self._patterns: dict[int, Pattern] = {}
        arguments = list(inputs)
        for position, value in enumerate(inputs):
            if is_sparse(value) and value.requires_grad:
                self._patterns[position], values = stored_values(value, masked)
                arguments[position] = values.requires_grad_()
        self.arguments = tuple(arguments)
        self.parameter_names = parameter_names(function)

    def __call__(self, *arguments: Any) -> Any:
        patterns = self._patterns
        whole = [patterns[i].fill(value) if i in patterns else value for i, value in enumerate(arguments)]
        return self.strided(self._function(*whole))

    def strided(self, output: Any) -> Any:
        """The same, with strided tensors in place of sparse ones, nested as they may be."""
        return optree.tree_map(self._densify, output, none_is_leaf=True)

    def _densify(self, value: Any) -> Any:
        if not is_sparse(value):
            return value
        tensor: torch.Tensor = value
        return tensor.to_dense(masked_grad=self._masked) if tensor.requires_grad else tensor.to_dense()
