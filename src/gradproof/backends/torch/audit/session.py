"""One audit of one call, while the user's tensors, buffers and random states are kept safe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from gradproof.backends.torch.audit.account import Account, account, coarsest
from gradproof.backends.torch.audit.declared import Declared
from gradproof.backends.torch.audit.places import ModulePaths
from gradproof.backends.torch.audit.run import Leaf, Recording, Sides, record
from gradproof.backends.torch.calls import call_of, is_floating
from gradproof.backends.torch.closures import referred
from gradproof.backends.torch.modules import ModuleCall
from gradproof.backends.torch.state.preserve import kept


class Reaching(torch.nn.Module):
    """A function as a module: the modules that it refers to are its own, and so are single tensors around it.

    So a check differentiates with respect to what only a closure reaches.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        modules: Sequence[tuple[str, torch.nn.Module]],
        tensors: Sequence[Leaf] = (),
    ) -> None:
        super().__init__()
        self._function, self._tensors = function, list(tensors)
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__wrapped__ = function
        for name, module in modules:
            self.add_module(name.replace(".", "_"), module)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        yield from super().named_parameters(*args, **kwargs)
        yield from ((leaf.name, leaf.tensor) for leaf in self._tensors)

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return self._function(*arguments, **keywords)


class AuditSession:
    """The call under audit. Nothing of the user's is changed when its methods return."""

    def __init__(self, model: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        self._model, self._arguments, self._keywords = model, tuple(arguments), dict(keywords)
        self._modules = [*_modules_of(model)]
        self._paths = ModulePaths(self._modules)
        holder = self._holder()
        self._call = (
            ModuleCall(holder, self._arguments, self._keywords)
            if isinstance(holder, torch.nn.Module)
            else call_of(holder, self._arguments, self._keywords)
        )
        names = self._call.names()
        self._known = [
            Leaf(names[i] or f"input {self._call.origins[i]}", self._call.flat[i])
            for i in self._call.differentiable()
            if is_floating(self._call.flat[i])
        ]
        self._recording: Recording | None = None

    def _holder(self, tensors: Sequence[Leaf] = ()) -> Callable[..., Any]:
        """The model, in a module that has what it refers to."""
        if isinstance(self._model, torch.nn.Module) or not (self._modules or tensors):
            return self._model
        return Reaching(self._model, self._modules, tensors)

    def whole(self) -> Callable[..., Any]:
        """What a check of the whole is to be given: everything that a gradient reaches is its input or parameter."""
        recording = self._recording
        known = {id(leaf.tensor) for leaf in self._known}
        others = [leaf for leaf in recording.leaves if id(leaf.tensor) not in known] if recording else []
        return self._holder(others) if others else self._holder()

    def kept(self) -> AbstractContextManager[Any]:
        """While inside, operations may be called again: random states, buffers and flags are put back."""
        return kept([leaf.tensor for leaf in self._known], self._call)

    def parameters(self) -> list[Leaf]:
        """The parameters that want a gradient."""
        return [
            Leaf(".".join(part for part in (prefix, name) if part), tensor)
            for prefix, module in self._modules
            for name, tensor in module.named_parameters()
            if tensor.requires_grad
        ]

    def record(self, seed: int) -> Recording:
        """One run with its backward."""
        before = [leaf.tensor.detach().clone() for leaf in self._known]
        with kept([leaf.tensor for leaf in self._known], self._call) as call:
            try:
                self._recording = record(call, self._model, self._paths, self._known, seed)
            finally:
                for leaf, value in zip(self._known, before, strict=True):  # a model may write to its parameters
                    if not torch.equal(leaf.tensor.detach(), value):
                        leaf.tensor.data.copy_(value)
        return self._recording

    def declared(self) -> Declared:
        """What lets the operations that declare a gradient move as they declare."""
        return Declared(self._recording.operations if self._recording else ())

    def account(self, seed: int) -> Account | None:
        """What each operation explains of the deviation of the whole, by two more runs."""
        recording = self._recording
        if recording is None or recording.backward is None or recording.raised is not None:
            return None
        with kept([leaf.tensor for leaf in recording.leaves], self._call) as call:
            eps = coarsest(recording)
            sides = Sides(call, self._paths, recording.leaves, seed, self.declared, eps)
            return account(recording, sides, eps)


def _modules_of(model: Callable[..., Any]) -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules that a function is or refers to, with the names by which it does."""
    if isinstance(model, torch.nn.Module):
        yield "", model
        return
    owner = getattr(model, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        yield "", owner
        return
    seen: set[int] = set()
    for name, value in referred(model):
        if isinstance(value, torch.nn.Module) and id(value) not in seen:
            seen.add(id(value))
            yield name, value
