"""The random numbers of a call, and of its twin: `randn_like` draws others in double precision.

Behind a zero weight they do not show in the values, but in the gradient of the weight. So what operators draw is
recorded in a run of the call. Where it depends on nothing but a generator (`randn`, `normal_`, a mask of `dropout`), or
is a sample of integers (`bernoulli`, `multinomial`), the twin is given the same numbers: they are exact in double
precision. What is drawn in one with a computation (`rrelu`) cannot be given; that the twin draws the same there is seen
by comparing both. All this only of calls that draw: of those that leave the global generators as they were, the first
run of the twin shows whether an operator draws from one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gradproof.backends.torch.tensors.coordinates import resolution
from gradproof.core.precision import SLIGHT

T = TypeVar("T")

# What a low precision makes of numbers that are drawn in one with a computation, in eps.
_BY_ROUND_OFF = 4.0
# At the end of the names of operators that ask a tensor for its shape only.
_OF_A_SHAPE = "_like"


@dataclass(frozen=True, slots=True)
class Draw:
    """What one operator drew, copied in double precision."""

    name: str
    parts: tuple[torch.Tensor, ...]
    eps: float
    """The spacing of the numbers that it was drawn in."""

    def fits(self, func: Any, made: Sequence[torch.Tensor]) -> bool:
        """Whether it was drawn by such an operator, and has the shapes of what that gives."""
        return self.name == func._schema.name and [part.shape for part in self.parts] == [part.shape for part in made]

    def is_near(self, made: Sequence[torch.Tensor]) -> bool:
        """Whether these are the same numbers but for round-off. Others would differ by as much as they are."""
        slight = max(SLIGHT, _BY_ROUND_OFF * self.eps)
        both = [(ours, _copied(part)) for ours, part in zip(self.parts, made, strict=True) if ours.numel()]
        return all(bool(((ours - twins).abs() <= slight * ours.abs().max()).all()) for ours, twins in both)


class Drawn:
    """What a run of a call drew, for its twin."""

    def __init__(self, *, draws: bool) -> None:
        self.draws = draws
        self._ours: list[Draw] | None = None
        self._first: Giving | None = None
        """The first run of the twin that was given them."""

    def by_call(self, run: Callable[[], T]) -> T:
        """What a run of the call gives. The first is recorded."""
        if not self.draws or self._ours is not None:
            return run()
        self._ours = []
        with _Recording(self._ours):
            return run()

    def given(self) -> AbstractContextManager[Any]:
        """While it is entered, one run of the twin draws what the call drew."""
        if self._ours is None:
            return nullcontext()
        giving = Giving(self._ours)
        self._first = self._first or giving
        return giving

    def noticing(self) -> AbstractContextManager[Any]:
        """While it is entered, it is noticed if operators draw."""
        return nullcontext() if self.draws else _Noticing(self)

    @property
    def is_same(self) -> bool:
        """Whether the twin drew the same numbers, but for round-off, when it was run first."""
        return self._first.is_same if self._first is not None else not self.draws


class _Noticing(TorchDispatchMode):
    """While it is entered, it is noticed if operators draw numbers that depend on nothing but a generator."""

    def __init__(self, drawn: Drawn) -> None:
        super().__init__()
        self._into = drawn

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self._into.draws |= _draws(func) and _is_pure(func)
        return func(*args, **(kwargs or {}))


class _Recording(TorchDispatchMode):
    """While it is entered, what operators draw is copied."""

    def __init__(self, into: list[Draw]) -> None:
        super().__init__()
        self._into = into

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if _draws(func):
            parts = _tensors(made)
            eps = max((resolution(part.dtype) for part in parts if _has_fractions(part)), default=0.0)
            self._into.append(Draw(func._schema.name, tuple(map(_copied, parts)), eps))
        return made


class Giving(TorchDispatchMode):
    """While it is entered, operators draw what was drawn before, in the same order. Made for one run."""

    def __init__(self, drawn: Sequence[Draw]) -> None:
        super().__init__()
        self._drawn, self._met, self._differs = drawn, 0, False

    @property
    def is_same(self) -> bool:
        """Whether all that was drawn before was drawn again, and nothing else."""
        return not self._differs and self._met == len(self._drawn)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))  # in any case: what is drawn later depends on it
        if not _draws(func):
            return made
        drawn = self._drawn[self._met] if self._met < len(self._drawn) else None
        self._met += 1
        parts = _tensors(made)
        if drawn is None or not drawn.fits(func, parts):
            self._differs = True
        elif _is_pure(func) or (_are_discrete(parts) and _are_discrete(drawn.parts)):
            for part, given in zip(parts, drawn.parts, strict=True):
                part.copy_(given)
        else:
            self._differs |= not drawn.is_near(parts)
        return made


def _draws(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())


def _is_pure(func: Any) -> bool:
    """Whether what is drawn depends on no tensor: none is read, but for its shape."""
    tensors = [each for each in func._schema.arguments if "Tensor" in str(each.type)]
    if len(tensors) > 1:
        return False
    is_of_a_shape = func._schema.name.endswith(_OF_A_SHAPE)
    return is_of_a_shape or all(each.alias_info is not None and each.alias_info.is_write for each in tensors)


def _are_discrete(parts: Sequence[torch.Tensor]) -> bool:
    """Whether all are integers: such samples stay the same as their probabilities move a little."""
    return all(not part.is_complex() and bool((part == part.round()).all()) for part in parts if _has_fractions(part))


def _tensors(made: Any) -> list[torch.Tensor]:
    parts = cast("tuple[Any, ...]", made) if isinstance(made, tuple) else (made,)
    return [part for part in parts if isinstance(part, torch.Tensor)]


def _has_fractions(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64, copy=True)
