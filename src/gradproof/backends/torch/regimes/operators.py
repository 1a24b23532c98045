"""`torch.library.opcheck` of the custom operators that a function calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode

from gradproof.backends.torch.operators import OVERLOAD, PACKET, is_custom
from gradproof.backends.torch.regimes.comparing import Compared
from gradproof.backends.torch.regimes.regime import NotApplicableError, Regime
from gradproof.backends.torch.regimes.subject import leaves_at

_PASSED = "SUCCESS"


class _Recorder(TorchFunctionMode):
    """Notes the custom operators that are called, with copies of what they are given, once for each."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[Any, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        operator = _overload(func)
        if operator is not None and is_custom(operator) and operator not in self.calls:
            named = {name: _copied(value) for name, value in (kwargs or {}).items()}
            self.calls[operator] = tuple(map(_copied, args)), named
        return func(*args, **(kwargs or {}))


def _overload(func: Any) -> Any:
    """The operator behind what was called; None where it is none."""
    if isinstance(func, PACKET):
        names = func.overloads()
        return getattr(func, "default" if "default" in names else names[0])
    return func if isinstance(func, OVERLOAD) else None


def _copied(value: Any) -> Any:
    """An argument of an operator, which may be a list of tensors."""
    if isinstance(value, list | tuple):
        return [_copied(part) for part in cast(Sequence[Any], value)]
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def opcheck(regime: Regime) -> Iterator[Compared]:
    """Each custom operator that the function calls, with the arguments that it was given."""
    recorder = _Recorder()

    def act() -> Sequence[torch.Tensor]:
        with recorder:
            return regime.subject(*leaves_at(regime.point))

    regime.run(act)
    if not recorder.calls:
        raise NotApplicableError("the function calls no custom operator")
    for operator, (arguments, keywords) in recorder.calls.items():
        outcomes = torch.library.opcheck(operator, arguments, keywords, raise_exception=False)
        faults = [f"{name}: {_told(outcome)}" for name, outcome in outcomes.items() if outcome != _PASSED]
        yield Compared(str(operator), "operator", fault="; ".join(faults))


def _told(outcome: Any) -> str:
    lines = [line.strip() for line in str(outcome).splitlines() if line.strip()]
    return " ".join(lines)[:300]
