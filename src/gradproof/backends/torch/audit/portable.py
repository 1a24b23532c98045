"""Operations that can be sent to another process: without their place in the graph, and with functions by name.

Of torch's own functions many cannot be pickled (attributes of tensors, operators, methods that Python wraps), though
every process has them.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from gradproof.backends.torch.audit.operation import Given, Kind, Operation
from gradproof.backends.torch.private import home_of_operator

_Tensor: Any = torch.Tensor  # not all of its methods have types


class Attribute(NamedTuple):
    """`__get__` of an attribute of tensors."""

    name: str

    def found(self) -> Callable[..., Any]:
        return getattr(_Tensor, self.name).__get__


class Method(NamedTuple):
    """A method of tensors."""

    name: str

    def found(self) -> Callable[..., Any]:
        return getattr(_Tensor, self.name)


class Operator(NamedTuple):
    """An operator by its library and name, an overload of it, and the module that defines it, where that is known."""

    library: str
    name: str
    overload: str
    home: str

    def found(self) -> Callable[..., Any]:
        try:
            return self._registered()
        except AttributeError:
            if self.home:
                importlib.import_module(self.home)
            return self._registered()

    def _registered(self) -> Callable[..., Any]:
        packet = getattr(getattr(torch.ops, self.library), self.name)
        return getattr(packet, self.overload) if self.overload else packet


class Plain(NamedTuple):
    """Anything that pickle can send itself."""

    function: Callable[..., Any]

    def found(self) -> Callable[..., Any]:
        return self.function


Reference = Attribute | Method | Operator | Plain


class Sent(NamedTuple):
    """An operation on its way."""

    operation: Operation
    function: Reference

    def arrived(self) -> Operation:
        """The operation, in whichever process this is."""
        return dataclasses.replace(self.operation, function=self.function.found())


def sent(operation: Operation) -> Sent:
    """An operation, to be sent with its values."""
    return _sent(operation, lambda given: _apart(given, keeps_source=operation.kind.by_hand))


def bare(operation: Operation) -> Sent:
    """The same without its values: what shows whether it can be sent."""
    return _sent(operation, lambda given: None)


def parts(operation: Operation) -> Iterator[tuple[str, Any]]:
    """What of an operation may refuse to be sent, with words for it."""
    whose = f"{operation.path} ({operation.line})" if operation.line else operation.path
    function: Any = _reference(operation)
    if isinstance(function, Plain):
        function = getattr(function.function, "__self__", None) or function.function
    yield f"the operation {whose}", function
    for k, leaf in enumerate(operation.leaves):
        if not isinstance(leaf, Given):
            yield f"argument {k} of the operation {whose} ({type(leaf).__name__})", leaf


def _sent(operation: Operation, given: Callable[[Given], Any]) -> Sent:
    def moved(leaf: Any) -> Any:
        return given(leaf) if isinstance(leaf, Given) else leaf

    apart = dataclasses.replace(
        operation,
        function=_Absent(),
        leaves=tuple(map(moved, operation.leaves)),
        outputs=tuple(map(moved, operation.outputs)),
        nodes={},
    )
    return Sent(apart, _reference(operation))


class _Absent:
    """In place of a function that comes by its reference."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise RuntimeError("the function of this operation has not arrived")


def _apart(given: Given, keeps_source: bool) -> Given:
    """A value without its place in the graph. Only what is written by hand may read a leaf past its arguments."""
    return given._replace(edge=None, source=given.source if keeps_source else None)


def _reference(operation: Operation) -> Reference:
    function: Any = operation.function
    if operation.kind is Kind.FUNCTION or hasattr(function, "__func__"):  # `apply` while it was watched
        return Plain(function.__func__.apply)
    name = getattr(function, "__name__", "")
    if name == "__get__":
        return Attribute(function.__self__.__name__)
    qualified = getattr(function, "_qualified_op_name", "")
    if qualified or hasattr(function, "_schema"):
        return _operator(function, qualified)
    if getattr(_Tensor, name, None) is function:
        return Method(name)
    return Plain(function)


def _operator(function: Any, qualified: str) -> Operator:
    overload = "" if qualified else function._overloadname
    library, _, name = (qualified or function._schema.name).partition("::")
    return Operator(library, name, overload, home_of_operator(f"{library}::{name}"))
