"""What a check covers: selection by name, and what is left out, and why."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence

import torch

from gradproof.backends.torch.arguments import Call


def select(call: Call, wrt: Sequence[str | int]) -> None:
    """Differentiate only with respect to these: names or patterns of inputs and parameters, numbers of inputs."""
    names = call.names()
    candidates = call.differentiable()
    chosen: set[int] = set()
    for wanted in wrt:
        found = [i for i in candidates if _matches(wanted, call, i, names[i])]
        if not found:
            known = ", ".join(call.label(i) for i in candidates) or "none"
            raise ValueError(f"wrt={wanted!r} selects nothing; what requires a gradient: {known}")
        chosen.update(found)
    call.chosen = frozenset(chosen)


def _matches(wanted: str | int, call: Call, position: int, name: str) -> bool:
    if isinstance(wanted, int):
        return call.kind(position) == "input" and call.origins[position] == wanted
    return fnmatch.fnmatchcase(name, wanted) or name == wanted or name.startswith(f"{wanted}[")


def left_out(call: Call) -> tuple[str, ...]:
    """What is not covered, in words: tensors that require no gradient, frozen parameters, what `wrt` leaves out."""
    covered = set(call.differentiable())
    return tuple(
        f"{call.label(i)} ({reason})"
        for i, value in enumerate(call.flat)
        if i not in covered
        for reason in _reasons(call.kind(i), value)
    )


def _reasons(kind: str, value: object) -> Iterable[str]:
    if kind == "buffer" or value is None:
        return
    if not isinstance(value, torch.Tensor):
        yield f"{type(value).__name__}, not differentiable"
    elif value.requires_grad:
        yield "not selected by wrt"
    elif kind == "parameter":
        yield "frozen: requires_grad is False"
    elif value.is_floating_point() or value.is_complex():
        yield "requires_grad is False"
    else:
        yield f"{str(value.dtype).removeprefix('torch.')}, not differentiable"
