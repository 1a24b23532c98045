"""Where a value stops being a number: the first operation whose finite inputs give one that is none.

Infinities may be meant: masks are made of them. So nothing is looked for unless the result or a gradient of the whole
is not finite, and then only among the operations that it came through. An operation that makes an infinity of finite
numbers is an origin unless it was given the infinity as a constant; one that makes a NaN of infinities is an origin if
those were constants, for instance a softmax of a row that is masked throughout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from gradproof.backends.torch.audit.backward import Backward
from gradproof.backends.torch.audit.operation import Given, Operation
from gradproof.backends.torch.audit.reasons import reason_backward, reason_forward
from gradproof.backends.torch.audit.run import Recording
from gradproof.backends.torch.calls import is_floating


class NonFinite(NamedTuple):
    """An origin: `phase` is forward, backward or given."""

    phase: str
    number: int | None
    value: float
    element: tuple[int, ...]
    target: str
    values: tuple[tuple[str, float], ...]
    reason: str
    elements: int
    """How many there are."""


def nonfinite(recording: Recording) -> list[NonFinite]:
    """The origins of a recorded run, forward first; none where the result and all gradients are finite."""
    found: list[NonFinite] = []
    if any(not _finite(given.value) for given in recording.returned):
        found += _given(recording) or _forward(recording)
    backward = recording.backward
    if backward is not None and any(g is not None and not _finite(g) for g in backward.leaves):
        found += _backward(recording, backward)
    return found


def _finite(value: torch.Tensor) -> bool:
    value = value if value.layout is torch.strided else value.to_dense()
    return not is_floating(value) or bool(torch.isfinite(value).all())


def _given(recording: Recording) -> list[NonFinite]:
    """A leaf that was not finite from the start."""
    for leaf in recording.leaves:
        if not _finite(leaf.tensor.detach()):
            value, element, count = _first(leaf.tensor.detach())
            return [NonFinite("given", None, value, element, leaf.name, (), "", count)]
    return []


def _first(value: torch.Tensor, *, nan: bool = False) -> tuple[float, tuple[int, ...], int]:
    """The first number that is none, where it is, and how many there are; with `nan`, NaN only."""
    bad = torch.isnan(value) if nan else ~torch.isfinite(value)
    at = int(bad.flatten().to(torch.uint8).argmax())
    element = tuple(int(k) for k in torch.unravel_index(torch.tensor(at), value.shape)) if value.dim() else ()
    number = value.flatten()[at]
    if number.is_complex():
        number = number.real if not math.isfinite(float(number.real)) else number.imag
    return float(number), element, int(bad.sum())


# forward


def _forward(recording: Recording) -> list[NonFinite]:
    operations = recording.operations
    on_the_way, known = _on_the_way(recording), dict[int, bool]()
    for operation in operations:
        if operation.number in on_the_way and (made := _made(operation, operations, known)) is not None:
            return [made]
    return []


def _on_the_way(recording: Recording) -> set[int]:
    """The operations that the numbers that are none came through."""
    waiting = [given.producer for given in recording.returned if not _finite(given.value)]
    seen: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number is None or number in seen:
            continue
        seen.add(number)
        operation = recording.operations[number]
        waiting += [given.producer for _, given in operation.inputs if not _finite(given.value)]
    return seen


def _made(operation: Operation, operations: Sequence[Operation], known: dict[int, bool]) -> NonFinite | None:
    """What an operation made that is no number, if it is an origin."""
    inputs = [given for _, given in operation.inputs]
    has_nan = any(bool(torch.isnan(given.value).any()) for given in inputs)
    infinite = [given for given in inputs if not _finite(given.value)]
    for k, given in enumerate(operation.outputs):
        if _finite(given.value) or has_nan:
            continue
        makes_nan = bool(torch.isnan(given.value).any())
        constant = all(_is_constant(each, operations, known) for each in infinite)
        is_origin = (makes_nan and constant) or (not infinite and not _infinite_option(operation))
        if is_origin:
            value, element, count = _first(given.value, nan=makes_nan)
            values = _values_at(operation, element, tuple(given.value.shape))
            reason = reason_forward(operation, value, values)
            target = f"output {k}" if len(operation.outputs) > 1 else "output"
            return NonFinite("forward", operation.number, value, element, target, values, reason, count)
    return None


def _infinite_option(operation: Operation) -> bool:
    """Whether an infinity was asked for."""
    return any(isinstance(leaf, float) and math.isinf(leaf) for leaf in operation.leaves)


def _is_constant(given: Given, operations: Sequence[Operation], known: dict[int, bool]) -> bool:
    """Whether the infinities of a tensor were put there: by an option, or from outside of what a gradient reaches.

    `known` has what was found out of each producer.
    """
    number = given.producer
    if number is None:
        return not given.requires_grad
    if number not in known:
        operation = operations[number]
        sources = [each for _, each in operation.inputs if not _finite(each.value)]
        if _infinite_option(operation):
            known[number] = True
        elif not sources:
            known[number] = operation.name in _CONSTANTS
        else:
            known[number] = all(_is_constant(each, operations, known) for each in sources)
    return known[number]


_CONSTANTS = ("full", "tensor", "full_like", "new_full", "zeros", "ones", "empty", "arange", "as_tensor", "new_tensor")


def _values_at(operation: Operation, element: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[str, float], ...]:
    """The numbers that went in there, of each input that lines up with the shape; of others, their range."""
    return tuple(
        value for position, given in operation.inputs for value in _at(operation, position, given, element, shape)
    )


def _at(
    operation: Operation, position: int, given: Given, element: tuple[int, ...], shape: tuple[int, ...]
) -> list[tuple[str, float]]:
    value, name = given.value, label(operation, position)
    here = tuple(value.shape)
    if len(here) <= len(shape) and all(n in (1, m) for n, m in zip(here[::-1], shape[::-1], strict=False)):
        index = tuple(k if n > 1 else 0 for k, n in zip(element[len(shape) - len(here) :], here, strict=True))
        return [(name, _real(value[index]))]
    if not value.numel():
        return []
    size = value.abs() if value.is_complex() else value
    return [(f"least of {name}", _real(size.min())), (f"largest of {name}", _real(size.max()))]


def _real(number: Any) -> float:
    return float(number.real) if number.is_complex() else float(number)


def label(operation: Operation, position: int) -> str:
    """What a report calls an input of an operation."""
    given, names = operation.leaves[position], operation.parameter_names
    name = given.name or (names[position] if position < len(names) else "")
    return f"input {number_of(operation, position)}" + (f" `{name}`" if name else "")


def number_of(operation: Operation, position: int) -> int:
    """The number of an input among those of an operation that are tensors."""
    return sum(1 for i, _ in operation.inputs if i < position)


# backward


def _backward(recording: Recording, backward: Backward) -> list[NonFinite]:
    for number in dict.fromkeys(backward.order):
        operation = recording.operations[number]
        arriving = backward.arriving(operation)
        if any(g is not None and not _finite(g) for g in arriving):
            continue
        if any(not _finite(given.value) for _, given in operation.inputs if given.requires_grad):
            continue
        handed_on = backward.handed_on(operation)
        for position, given in operation.inputs:
            gradient = (handed_on or {}).get(given.edge) if given.edge is not None else None
            if gradient is None or gradient.layout is not torch.strided or _finite(gradient):
                continue
            value, element, count = _first(gradient)
            values = _values_backward(operation, element, tuple(gradient.shape), arriving)
            reason = reason_backward(operation, values)
            target = label(operation, position)
            return [NonFinite("backward", number, value, element, target, values, reason, count)]
    return []


def _values_backward(
    operation: Operation,
    element: tuple[int, ...],
    shape: tuple[int, ...],
    arriving: Sequence[torch.Tensor | None],
) -> tuple[tuple[str, float], ...]:
    values = list(_values_at(operation, element, shape))
    for k, (given, gradient) in enumerate(zip(operation.outputs, arriving, strict=True)):
        name = f"output {k}" if len(operation.outputs) > 1 else "output"
        if tuple(given.value.shape) == shape and is_floating(given.value):
            values.append((name, _real(given.value[element])))
        if gradient is not None and tuple(gradient.shape) == shape:
            values.append((f"gradient of {name}", _real(gradient[element])))
    return tuple(values)
