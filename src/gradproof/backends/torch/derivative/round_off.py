"""A twin that rounds like the low precision it stands for: what round-off alone may change shows in how it answers.

The round-off of a derivative is made inside: softmax stores y = 1 - 1.4e-5 in float32, and y (1 - y) has lost all but
two digits, whatever the inputs and the cotangent are rounded to. While `RandomRounding` is entered, a call in double
precision has the result of every operator rounded to a lower precision, up or down at random, with probabilities that
keep the mean. So what that precision can hold (a copy, a number that was picked, a mask, an integer) stays as it is,
its smallest numbers are spaced evenly, and two runs differ by what round-off can do. Only the operators that every
processor must round to one of the two numbers next to the exact result are rounded so: where that lies close to one of
them, as a sigmoid does to 1, the other is hardly ever drawn. A kernel for an exponential gives one further off just as
well, so results of all others are moved by one unit of single precision first. Operators of a backward that do several
things at once are taken apart in two of three runs, because they may round in between. A kernel that does not,
and sums in a higher precision, sees that the stored y do not sum to one.

What an operator loses inside cannot be rounded from outside. What it is given can be moved by as much, for a stable
algorithm gives the exact answer to data that differ by what it loses: an algorithm of linear algebra by round-off of
the norm of a row, zeros excepted; one that sums n products, the backward of a norm, by sqrt(n) times round-off,
where it is done in one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gradproof.backends.torch.memory.allocated import Allocated
from gradproof.backends.torch.private import decompositions, is_zero_tensor
from gradproof.core.capabilities import TURNS
from gradproof.core.precision import SINGLE, least_spacing

_DOUBLE = (torch.float64, torch.complex128)
_FUSED = "backward"
"""In the names of operators that are taken apart."""
_CANCELLING = ("softmax", "logsumexp", "gelu")
"""And in those of others that are: inside, all but what is left of 1 - 1 is lost where they saturate."""
_SUM = "aten::sum"
_PICKING = frozenset(
    f"aten::{name}"
    for name in ("max", "min", "amax", "amin", "median", "nanmedian", "mode", "kthvalue", "sort", "topk")
)
"""Operators that give numbers which they were given: a derivative looks where these are the same to the last bit."""
_ROUNDED_ONCE = frozenset(
    f"aten::{name}{in_place}"
    for name in (
        *("add", "sub", "rsub", "mul", "div", "true_divide", "reciprocal", "square", "sqrt", "neg", "abs"),
        *("clone", "copy", "_to_copy", "fill", "full", "full_like", "new_full", "scalar_tensor", "lift_fresh"),
        *("where", "masked_fill", "clamp", "clamp_min", "clamp_max", "clip", "maximum", "minimum", "threshold"),
    )
    for in_place in ("", "_")
)
"""Operators whose results are the numbers next to the exact ones, on every processor."""
_OF_MATRICES = ("linalg_", "cholesky", "triangular_solve", "geqrf", "ormqr", "householder_product")
"""In the names of operators of linear algebra."""
# What these are taken to lose, in eps of the norm of a typical row. Of the spread that one eps of the entries' rms
# gives, errors of up to 8.4 times as much were seen.
_OF_A_ROW = 2.0


def prepare() -> None:
    """Have private names tried on questions with known answers where no mode is entered that changes the answers."""
    decompositions()
    is_zero_tensor()


class RandomRounding(TorchDispatchMode):
    """While it is entered, results of operators in double precision are rounded to a spacing `eps`."""

    def __init__(self, eps: float, seed: int) -> None:
        super().__init__()
        self._eps = eps
        self._least = least_spacing(eps)
        self._decompositions, self._is_zero = decompositions(), is_zero_tensor()
        self._generator = torch.Generator().manual_seed(seed)
        self._takes_apart = seed % TURNS != 1
        self._unit = min(1.0, SINGLE / eps)
        """What operators that round inside are off by besides, in spacings: half precision computes in single."""
        self._sums_singly = False
        """Whether terms of a sum are added one by one, each time to a number of order one."""
        self._allocated = Allocated()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        made = self._apart(func, args, named)
        if made is not None:
            return made
        made = func(*self._moved(func, args), **named)
        name = func._schema.name
        if self._sums_singly and name == _SUM:
            made = self._beside(made, 1.0)
        self._allocated.note((*args, *named.values()), made)
        if name in _PICKING:
            return made
        returns, unit = func._schema.returns, 0.0 if name in _ROUNDED_ONCE else self._unit
        if len(returns) == 1:
            return self._as_returned(made, returns[0], unit)
        if isinstance(made, tuple) and len(cast("tuple[Any, ...]", made)) == len(returns):
            parts = zip(cast("tuple[Any, ...]", made), returns, strict=True)
            return tuple(self._as_returned(part, returned, unit) for part, returned in parts)
        return made

    def _apart(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """What an operator gives step by step, each of them rounded; None: it is done in one."""
        name = func._schema.name
        cancels = any(part in name for part in _CANCELLING)
        if not self._takes_apart or func._schema.is_mutable or not (cancels or _FUSED in name):
            return None
        steps = self._decompositions.get(func)
        if steps is None:
            return None
        before, self._sums_singly = self._sums_singly, cancels
        try:
            with self:
                return steps(*args, **named)
        except Exception:  # written for other arguments
            return None
        finally:
            self._sums_singly = before

    def _moved(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """What an operator is given, moved by what it may lose inside."""
        name = func._schema.name
        if func._schema.is_mutable:
            return args
        if any(part in name for part in _OF_MATRICES):
            return tuple(self._beside(value, 0.0) if self._is_moved(value) else value for value in args)
        if _FUSED not in name:
            return args
        sizes = [value.numel() for value in args if self._is_moved(value)]
        terms = max(sizes, default=1) / min(sizes, default=1)
        if terms <= 1.0:
            return args
        return tuple(self._beside(value, math.sqrt(terms)) if self._is_moved(value) else value for value in args)

    def _is_moved(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.numel() > 0 and self._has_numbers(value)

    def _beside(self, tensor: torch.Tensor, roundings: float) -> torch.Tensor:
        """A tensor whose elements differ by so many roundings of a sum each; 0: by those of a row, unless zero."""
        signs = torch.rand(tensor.shape, dtype=torch.float64, generator=self._generator).to(tensor.device) - 0.5
        if roundings:  # which half precision does in single precision
            return tensor * (1.0 + roundings * min(self._eps, SINGLE) * signs.sign())
        size = tensor.abs().square().mean().sqrt() * math.sqrt(tensor.shape[-1] if tensor.dim() else 1)
        return torch.where(tensor == 0, tensor, tensor + _OF_A_ROW * self._eps * size * signs.sign())

    def _as_returned(self, value: Any, returned: Any, unit: float) -> Any:
        """A result, moved and rounded: in place where it was written in place, not at all where it is a view.

        Nor where it was written to a tensor from outside, which stays as it was written.
        """
        if isinstance(value, (list, tuple)) and returned.alias_info is None:
            parts = cast("list[Any] | tuple[Any, ...]", value)
            return type(parts)(self._as_returned(part, returned, unit) for part in parts)  # pyright: ignore[reportCallIssue]
        if not isinstance(value, torch.Tensor) or not self._has_numbers(value):
            return value
        if returned.alias_info is None:
            return self._kept(self.rounded(value, unit))
        ours = returned.alias_info.is_write and self._allocated.holds(value)
        return value.copy_(self.rounded(value, unit)) if ours else value

    def _kept(self, rounded: torch.Tensor) -> torch.Tensor:
        self._allocated.note((), rounded)
        return rounded

    def _has_numbers(self, tensor: torch.Tensor) -> bool:
        """Whether there are numbers of double precision in its memory; zeros that are only promised have none."""
        plain = tensor.dtype in _DOUBLE and tensor.layout is torch.strided and tensor.device.type != "meta"
        return plain and not self._is_zero(tensor)

    def rounded(self, tensor: torch.Tensor, unit: float = 0.0) -> torch.Tensor:
        """The numbers next to these in the lower precision, on one side or the other; moved by `unit` before."""
        if tensor.is_complex():
            return torch.view_as_complex(self.rounded(torch.view_as_real(tensor.resolve_conj().contiguous()), unit))
        power = torch.exp2(torch.frexp(tensor).exponent.to(tensor.dtype) - 1.0)
        spacing = (power * self._eps).clamp_(min=self._least)
        exact = tensor / spacing
        if unit:
            exact += self._moved_by_a_unit(exact, power / spacing, unit)
        up = self._drawn(tensor).sub_(0.5).mul_(1.0 - unit).add_(0.5)  # to the nearest, if moved by a whole spacing
        near = exact.add_(up).floor_().mul_(spacing)
        return torch.where(torch.isfinite(near), near, tensor)

    def _moved_by_a_unit(self, exact: torch.Tensor, power: torch.Tensor, unit: float) -> torch.Tensor:
        """By what numbers are moved that the precision does not hold, all in units of its spacing.

        Not across a power of two: 1 is where a sigmoid, a cosine and an exponential end.
        """
        turned = torch.where(self._drawn(exact) < 0.5, -unit, unit)
        size, along = exact.abs(), turned * exact.sign()
        leaves = (size + along > 2.0 * power) | (size + along < power)
        is_held = (exact == exact.round()) | (power < 1.0 / self._eps)
        return torch.where(is_held, 0.0, torch.where(leaves, -turned, turned))

    def _drawn(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.rand(tensor.shape, dtype=tensor.dtype, generator=self._generator).to(tensor.device)
