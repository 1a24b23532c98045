"""Whether forward mode is there at all, for a check that was not told to ask for it."""

from __future__ import annotations

import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from gradproof.backends.torch.calls import flatten_outputs, is_floating
from gradproof.backends.torch.derivative.forward import Forward
from gradproof.backends.torch.derivative.gradients import Tangents
from gradproof.backends.torch.operators import is_custom
from gradproof.core.investigation import Investigation

_OURS = Path(__file__).parents[2]


def why_no_tangents(investigation: Investigation, forward: Forward) -> str:
    """Why forward mode cannot be asked, in words; nothing if it can.

    A rule that is there but raises, in code that is not torch's, is not missing: it will be reported.
    """
    if not forward.exists:
        return "inputs that share memory, or are not strided, have no tangents"
    operators = _Operators()
    with operators if forward.has_hand_written else nullcontext():
        error = _failure(investigation)
    if error is not None and not isinstance(error, NotImplementedError) and not forward.primals_need_grad:
        forward.primals_need_grad = True  # the function may take gradients itself
        error = _failure(investigation)
        forward.primals_need_grad = error is None
    if error is not None:
        return _first_line(error) if isinstance(error, NotImplementedError) or _is_torchs(error) else ""
    if operators.dropped:
        return f"the operator {operators.dropped[0]} has no forward rule, and torch drops its tangent without a word"
    tangents = investigation.tangents
    if isinstance(tangents, Tangents) and not tangents.carries and investigation.pullback.any():
        return "no tangent reaches the outputs: inputs are read by closure, or an operator has no forward rule"
    return ""


class _Operators(TorchFunctionMode):
    """Notes the operators from outside of torch that are given a tangent and return none."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: list[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        if is_custom(func):
            given, returned = (
                [each for each in flatten_outputs(part) if isinstance(each, torch.Tensor) and is_floating(each)]
                for part in ((args, kwargs), output)
            )
            if returned and any(map(_has_tangent, given)) and not any(map(_has_tangent, returned)):
                self.dropped.append(str(func).removesuffix(".default"))
        return output


def _has_tangent(tensor: torch.Tensor) -> bool:
    return forward_ad.unpack_dual(tensor).tangent is not None


def _failure(investigation: Investigation) -> Exception | None:
    try:
        _ = investigation.pushforward
    except Exception as error:
        return error
    return None


def _is_torchs(error: Exception) -> bool:
    """Whether the exception comes out of torch, or of its backend here, not of code that was written on top of it."""
    last = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    return Path(torch.__file__).parent in last.parents or _OURS in last.parents


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
