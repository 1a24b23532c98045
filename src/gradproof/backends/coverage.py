"""What a check covers: selection by name, and what is left out, and why."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any, TypeVar

from gradproof.backends.calls import Call

C = TypeVar("C", bound=Call)


def select(call: C, wrt: Sequence[str | int]) -> C:
    """The call differentiated only with respect to these: names or patterns of inputs and parameters, numbers of
    inputs.
    """
    names = call.names()
    candidates = call.differentiable()
    chosen: set[int] = set()
    for wanted in wrt:
        found = [i for i in candidates if _matches(wanted, call, i, names[i])]
        if not found:
            known = ", ".join(call.label(i) for i in candidates) or "none"
            raise ValueError(f"wrt={wanted!r} selects nothing; what requires a gradient: {known}")
        chosen.update(found)
    return call.choosing(chosen)


def _matches(wanted: str | int, call: Call, position: int, name: str) -> bool:
    if isinstance(wanted, int):
        return call.kind(position) == "input" and call.origins[position] == wanted
    return fnmatch.fnmatchcase(name, wanted) or name == wanted or name.startswith(f"{wanted}[")


def left_out(call: Call) -> tuple[str, ...]:
    """What is not covered, in words: values that are no arrays, arrays that need no gradient, what `wrt` leaves out."""
    covered = set(call.differentiable())
    reasons = {i: _reason(call, i, value) for i, value in enumerate(call.flat) if i not in covered}
    return tuple(f"{call.label(i)} ({reason})" for i, reason in reasons.items() if reason)


def _reason(call: Call, position: int, value: Any) -> str:
    if value is None or call.kind(position) == "buffer":
        return ""  # which nobody expects to be differentiated
    if not isinstance(value, call.arrays.types):
        return f"{type(value).__name__}, not differentiable"
    if call.arrays.needs_gradient(value):
        return "not selected by wrt"
    return call.arrays.why_constant(call.kind(position), value)
