"""What a call changes besides its outputs, put back after each: the next one starts from the same state.

So dropout draws the same numbers every time, and batch norm finds the same statistics: such functions are checked as
they are. Random numbers drawn by a *backward* are not put back; they are noise, and reported as such.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch

from gradproof.backends.torch.closures import referred
from gradproof.backends.torch.memory.sharing import has_memory
from gradproof.backends.torch.private import buffers_of, put_back_buffers

# How far functions are followed that call functions.
_DEPTH = 2


class Rewindable(Protocol):
    """Random generators as they were before the call."""

    def drawn_from(self) -> Iterator[Callable[[], None]]:
        """How to rewind each generator whose state is another one by now."""
        ...


class Keeper:
    """The state around a call: random generators, buffers and flags of modules, gradients, tensors only read."""

    def __init__(self, function: Callable[..., Any], values: Sequence[Any], generators: Rewindable) -> None:
        """`values` are the call's arguments; those that require no gradient are kept too."""
        roots = dict.fromkeys(modules_of(function))
        self._modules = [_KeptModule(part) for module in roots for part in module.modules()]
        read = [value for value in values if isinstance(value, torch.Tensor) and not value.requires_grad]
        read += [buffer for module in self._modules for buffer in module.buffers.values() if buffer is not None]
        self._tensors = [_Kept(tensor) for tensor in read if has_memory(tensor) and not tensor.is_inference()]
        parameters = [parameter for module in roots for parameter in module.parameters()]
        leaves = {id(leaf): leaf for leaf in (*values, *parameters, *_tensors_around(function)) if _is_leaf(leaf)}
        self._gradients = [_KeptGradient(leaf) for leaf in leaves.values()]
        self._generators = generators
        self._rewinds: list[Callable[[], None]] | None = None
        self.draws = False

    def put_back(self) -> None:
        """Undo what the last call changed. After the first, only what that one was seen to change."""
        if self._rewinds is None:
            self._rewinds = list(self._generators.drawn_from())
            self.draws = bool(self._rewinds)
            self._rewinds += [kept.put_back for kept in (*self._tensors, *self._gradients) if kept.has_changed()]
        for rewind in self._rewinds:
            rewind()
        for module in self._modules:
            module.put_back()
        torch.clear_autocast_cache()  # of an autocast around the check: it has what was cast, not what it was moved to

    def close(self) -> None:
        """Put back whatever any call changed, but for the generators."""
        for kept in (*self._tensors, *self._gradients):
            if kept.has_changed():
                kept.put_back()
        for module in self._modules:
            module.put_back()


class _KeptModule:
    """The flag and the own buffers of a module: which tensors these are."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module, self.buffers = module, dict(buffers_of(module))
        self._training: bool | None = getattr(module, "training", None)  # a frozen script module has no such flag

    def put_back(self) -> None:
        if self._training is not None:
            self._module.training = self._training
        if self.buffers and [*map(id, buffers_of(self._module).values())] != [*map(id, self.buffers.values())]:
            put_back_buffers(self._module, self.buffers)


class _Kept:
    """A tensor and a copy of it. Its version does not tell whether it was written to: batch norm goes around it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor, self._copy = tensor, tensor.detach().clone()

    def has_changed(self) -> bool:
        return not torch.equal(self._tensor.detach(), self._copy)

    def put_back(self) -> None:
        self._tensor.data.copy_(self._copy)


class _KeptGradient:
    """The gradient that a leaf has, if any: a function that calls `backward` itself adds to it."""

    def __init__(self, leaf: torch.Tensor) -> None:
        self._leaf, self._gradient = leaf, leaf.grad
        if self._gradient is not None:
            self._copy, self._version = self._gradient.detach().clone(), self._gradient._version

    def has_changed(self) -> bool:
        gradient = self._gradient
        return self._leaf.grad is not gradient or (gradient is not None and gradient._version != self._version)

    def put_back(self) -> None:
        self._leaf.grad = self._gradient
        if self._gradient is not None and self._gradient._version != self._version:
            with torch.no_grad():
                self._gradient.copy_(self._copy)
            self._version = self._gradient._version


def _is_leaf(value: Any) -> bool:
    """Whether a gradient may be added up in this."""
    return isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf


def _tensors_around(function: Any, depth: int = _DEPTH) -> Iterator[torch.Tensor]:
    """The tensors that a function refers to, or another one that it calls, and the parameters of modules there."""
    for _, value in referred(getattr(function, "__wrapped__", function)):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, torch.nn.Module):
            yield from value.parameters()
        elif depth and isinstance(value, types.FunctionType) and not value.__module__.startswith("torch"):
            yield from _tensors_around(value, depth - 1)


def modules_of(function: Any) -> Iterator[torch.nn.Module]:
    """The modules that a function is, belongs to, or refers to."""
    if isinstance(function, torch.nn.Module):
        yield function
    elif isinstance(function, functools.partial):
        for part in (function.func, *function.args, *function.keywords.values()):
            yield from modules_of(part)
    else:
        owner = getattr(function, "__self__", None)
        if isinstance(owner, torch.nn.Module):
            yield owner
        yield from (value for _, value in referred(function) if isinstance(value, torch.nn.Module))
