"""A function in double precision throughout: what it casts, makes or reads in a lower one is widened on the way.

A low-precision function rarely runs in float64 as it is. It multiplies by float32 weights that only a closure knows, it
casts to float32 inside, it makes a mask with `torch.zeros(n)`. Those casts round and do nothing else, so the function
without them is the same one, computed exactly. `Widening` runs it that way: every operator sees tensors of double
precision, whatever it is given, and dtypes of a lower precision are taken for double ones. Nothing of the user's is
written to: a low-precision tensor is copied when it is first met, and the copy stands in for it until the run ends.

A kernel that refuses float64 still refuses, and one that rounds where no operator is seen gives other values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, ParamSpec, TypeVar, cast

import torch
from torch.overrides import TorchFunctionMode

from gradproof.backends.torch.tensors.coordinates import resolution

P = ParamSpec("P")
T = TypeVar("T")

_DOUBLE = (torch.float64, torch.complex128)
_WIDE = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}
_Tensor: Any = torch.Tensor  # not all of its methods have types
_CASTS = {
    _Tensor.float: torch.float32,
    _Tensor.half: torch.float16,
    _Tensor.bfloat16: torch.bfloat16,
    _Tensor.cfloat: torch.complex64,
    _Tensor.chalf: torch.complex32,
}


def wide(dtype: torch.dtype) -> torch.dtype:
    """The double-precision dtype of the same kind."""
    return _WIDE.get(dtype, dtype if dtype.is_complex else torch.float64)


def _is_low(dtype: torch.dtype) -> bool:
    """Whether these are numbers of less than double precision."""
    return (dtype.is_floating_point or dtype.is_complex) and dtype not in _DOUBLE


class Widening(TorchFunctionMode):
    """While it is entered, every operator computes in double precision. Made for one run."""

    def __init__(self, standing_in: Iterable[tuple[torch.Tensor, torch.Tensor]] = ()) -> None:
        """`standing_in`: tensors with what is to be taken for them, in place of a copy."""
        super().__init__()
        self.coarsest = 0.0
        """The widest spacing of the numbers that would have been computed with; zero: there was nothing to widen."""
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {id(pair[0]): pair for pair in standing_in}
        """By its id, each low-precision tensor that was met (it is kept alive), and the copy that stands in for it."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = [self.widened(value) for value in args]
        if func in _CASTS and given:
            self._meet(_CASTS[func])
            return given[0].to(wide(_CASTS[func]))  # itself, unless it holds integers
        named = {name: self.widened(value) for name, value in kwargs.items()} if kwargs else {}
        with self._without_autocast():
            return self.widened(func(*given, **named))

    def _without_autocast(self) -> AbstractContextManager[Any]:
        """Operators as they are written, where the user lets them run in a lower precision."""
        enabled = [device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)]
        if not enabled:
            return nullcontext()
        stack = ExitStack()
        for device in enabled:
            self._meet(torch.get_autocast_dtype(device))
            stack.enter_context(torch.autocast(device, enabled=False))
        return stack

    def widened(self, value: Any) -> Any:
        """A tensor or a dtype in double precision, wherever it is nested; all else as it is."""
        if isinstance(value, torch.Tensor):
            return self._copy_of(value) if _is_low(value.dtype) or id(value) in self._copies else value
        if isinstance(value, torch.dtype):
            return self._wide(value) if _is_low(value) else value
        if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
            parts = cast("list[Any] | tuple[Any, ...]", value)
            widened = [self.widened(part) for part in parts]
            same = all(new is old for new, old in zip(widened, parts, strict=True))
            return value if same else _remade(value, widened)
        if type(value) is dict:
            return {name: self.widened(part) for name, part in cast("dict[Any, Any]", value).items()}
        return value

    def _wide(self, dtype: torch.dtype) -> torch.dtype:
        self._meet(dtype)
        return wide(dtype)

    def _meet(self, dtype: torch.dtype) -> None:
        """Note that numbers of a low precision were met."""
        self.coarsest = max(self.coarsest, resolution(dtype))

    def _copy_of(self, tensor: torch.Tensor) -> torch.Tensor:
        if _is_low(tensor.dtype):
            self._meet(tensor.dtype)
        if id(tensor) not in self._copies:
            self._copies[id(tensor)] = tensor, tensor.to(wide(tensor.dtype))
        return self._copies[id(tensor)][1]


def _remade(sequence: Any, parts: list[Any]) -> Any:
    """A list, tuple, named tuple or return type of torch with other parts."""
    kind = type(sequence)
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def widening(apply: Callable[P, T]) -> Callable[P, T]:
    """The same function, run in double precision throughout."""

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with Widening():
            return apply(*args, **kwargs)

    return run
