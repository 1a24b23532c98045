"""A twin that rounds like the low precision it stands for: what round-off alone may change shows in how it answers.

The round-off of a derivative is made inside: softmax stores y = 1 - 1.4e-5 in float32, and y (1 - y) has lost all but
two digits, whatever the inputs and the cotangent are rounded to. While `Rounding` is entered, a call in double
precision has the result of every operator rounded to a lower precision, up or down at random, with probabilities that
keep the mean. So what that precision can hold (a copy, a number that was picked, a mask, an integer) stays as it is,
its smallest numbers are spaced evenly, and two runs differ by what round-off can do. Operators of a backward that do
several things at once are taken apart, because they round in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gradproof.backends.torch.memory.allocated import Allocated
from gradproof.backends.torch.private import decompositions, is_zero_tensor
from gradproof.core.precision import least_spacing

_DOUBLE = (torch.float64, torch.complex128)
_FUSED = "backward"
"""In the names of operators that are taken apart."""


def prepare() -> None:
    """Have private names tried on questions with known answers where no mode is entered that changes the answers."""
    decompositions()
    is_zero_tensor()


class Rounding(TorchDispatchMode):
    """While it is entered, results of operators in double precision are rounded to a spacing `eps`."""

    def __init__(self, eps: float, seed: int) -> None:
        super().__init__()
        self._eps = eps
        self._least = least_spacing(eps)
        self._decompositions, self._is_zero = decompositions(), is_zero_tensor()
        self._generator = torch.Generator().manual_seed(seed)
        self._allocated = Allocated()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        made = self._apart(func, args, named)
        if made is not None:
            return made
        made = func(*args, **named)
        self._allocated.note((*args, *named.values()), made)
        returns = func._schema.returns
        if len(returns) == 1:
            return self._as_returned(made, returns[0])
        if isinstance(made, tuple) and len(cast("tuple[Any, ...]", made)) == len(returns):
            parts = zip(cast("tuple[Any, ...]", made), returns, strict=True)
            return tuple(self._as_returned(part, returned) for part, returned in parts)
        return made

    def _apart(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """What an operator gives step by step, each of them rounded; None: it is done in one."""
        if _FUSED not in func._schema.name or func._schema.is_mutable:
            return None
        steps = self._decompositions.get(func)
        if steps is None:
            return None
        try:
            with self:
                return steps(*args, **named)
        except Exception:  # written for other arguments
            return None

    def _as_returned(self, value: Any, returned: Any) -> Any:
        """A result, rounded: in place where it was written in place, not at all where it is a view.

        Nor where it was written to a tensor from outside, which stays as it was written.
        """
        if isinstance(value, (list, tuple)) and returned.alias_info is None:
            parts = cast("list[Any] | tuple[Any, ...]", value)
            return type(parts)(self._as_returned(part, returned) for part in parts)  # pyright: ignore[reportCallIssue]
        if not isinstance(value, torch.Tensor) or not self._has_numbers(value):
            return value
        if returned.alias_info is None:
            return self._kept(self.rounded(value))
        ours = returned.alias_info.is_write and self._allocated.holds(value)
        return value.copy_(self.rounded(value)) if ours else value

    def _kept(self, rounded: torch.Tensor) -> torch.Tensor:
        self._allocated.note((), rounded)
        return rounded

    def _has_numbers(self, tensor: torch.Tensor) -> bool:
        """Whether there are numbers of double precision in its memory; zeros that are only promised have none."""
        plain = tensor.dtype in _DOUBLE and tensor.layout is torch.strided and tensor.device.type != "meta"
        return plain and not self._is_zero(tensor)

    def rounded(self, tensor: torch.Tensor) -> torch.Tensor:
        """The numbers next to these in the lower precision, on one side or the other."""
        if tensor.is_complex():
            return torch.view_as_complex(self.rounded(torch.view_as_real(tensor.resolve_conj().contiguous())))
        exponent = torch.frexp(tensor).exponent.to(tensor.dtype) - 1.0
        spacing = torch.exp2(exponent).mul_(self._eps).clamp_(min=self._least)
        drawn = torch.rand(tensor.shape, dtype=tensor.dtype, generator=self._generator).to(tensor.device)
        near = (tensor / spacing + drawn).floor_().mul_(spacing)
        return torch.where(torch.isfinite(near), near, tensor)
