"""The user's process is as it was, whatever happens: random states, flags, and what a call changes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Generic, TypeVar

import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.state.generators import Generators
from gradproof.backends.torch.state.keeper import Keeper

C = TypeVar("C", bound=Call)

_turn = threading.RLock()
"""Whose turn it is. The random generators, the level of dual numbers, the filters of warnings and the user's tensors
belong to the whole process: checks in several threads take turns. A check within a check is of the same thread."""


class preserved:  # noqa: N801 (used as a function, in a with statement)
    """Put back random states and the tensors' `requires_grad` on any exit. Inside, gradients are enabled.

    Threads take turns: while one is inside, others wait. A class, not a generator: `contextlib` would take 2 µs.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = tensors

    def __enter__(self) -> None:
        _turn.acquire()
        try:
            self._begin()
        except BaseException:
            _turn.release()
            raise

    def _begin(self) -> None:
        self._generators = Generators()
        self._flags = [tensor.requires_grad for tensor in self._tensors]
        self._gradients = [(tensor, tensor.grad) for tensor in self._tensors if tensor.retains_grad]
        self._grad_mode = torch.is_grad_enabled()
        if not self._grad_mode:
            torch.set_grad_enabled(True)

    def __exit__(self, *_: object) -> None:
        try:
            self._end()
        finally:
            _turn.release()

    def _end(self) -> None:
        if torch.is_grad_enabled() is not self._grad_mode:
            torch.set_grad_enabled(self._grad_mode)
        self._generators.rewind()
        for tensor, gradient in self._gradients:  # every backward adds to it
            tensor.grad = gradient
        for tensor, flag in zip(self._tensors, self._flags, strict=True):
            if tensor.requires_grad is not flag:
                tensor.requires_grad_(flag)


class kept(preserved, Generic[C]):  # noqa: N801
    """The same, and what each run of a call changes besides its outputs: gives the call that is kept so."""

    def __init__(self, tensors: Sequence[torch.Tensor], call: C) -> None:
        super().__init__(tensors)
        self._call = call

    def __enter__(self) -> C:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().__enter__()
        try:
            self._keeper = Keeper(self._call.function, self._call.flat, self._generators)
        except BaseException:
            super().__exit__()
            raise
        return self._call.kept_by(self._keeper)

    def __exit__(self, *_: object) -> None:
        try:
            self._keeper.close()
        finally:
            super().__exit__()
