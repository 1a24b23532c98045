"""Whether a call and its twin draw the same random numbers: `randn_like` draws others in double precision.

Behind a zero weight they do not show in the values, but in the gradient of the weight. What operators draw is looked at
in the runs that are made anyway, and only of calls that draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gradproof.core.precision import SLIGHT

T = TypeVar("T")

# The call and its twin.
_WAYS = 2


class Drawn:
    """What the first run of a call drew, and that of its twin."""

    def __init__(self, *, draws: bool) -> None:
        self._draws = draws
        self._runs: dict[bool, list[torch.Tensor]] = {}

    def by_call(self, run: Callable[[], T]) -> T:
        """What a run of the call gives."""
        return self._watched(run, is_twin=False)

    def by_twin(self, run: Callable[[], T]) -> T:
        """What a run of its twin gives."""
        return self._watched(run, is_twin=True)

    def _watched(self, run: Callable[[], T], *, is_twin: bool) -> T:
        if not self._draws or is_twin in self._runs:
            return run()
        self._runs[is_twin] = []
        with _Drawing(self._runs[is_twin]):
            return run()

    @property
    def is_same(self) -> bool:
        """Whether both drew the same numbers, but for round-off, as far as both were run."""
        if len(self._runs) < _WAYS:
            return not self._draws
        ours, twins = self._runs[False], self._runs[True]
        return len(ours) == len(twins) and all(map(_are_same, ours, twins))


class _Drawing(TorchDispatchMode):
    """While it is entered, what operators draw is copied."""

    def __init__(self, into: list[torch.Tensor]) -> None:
        super().__init__()
        self._into = into

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()):
            parts = cast("tuple[Any, ...]", made) if isinstance(made, tuple) else (made,)
            self._into += [
                part.detach().to(torch.complex128 if part.is_complex() else torch.float64, copy=True)
                for part in parts
                if isinstance(part, torch.Tensor)
            ]
        return made


def _are_same(ours: torch.Tensor, twins: torch.Tensor) -> bool:
    """Others would differ by as much as they are."""
    if ours.shape != twins.shape:
        return False
    return bool(((ours - twins).abs() <= SLIGHT * ours.abs().max()).all()) if ours.numel() else True
