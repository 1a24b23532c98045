"""The user's state is kept safe while a function is run in every way."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.modules import ModuleCall
from gradproof.backends.torch.regimes.regime import Regime
from gradproof.backends.torch.regimes.subject import subject_of
from gradproof.backends.torch.state.generators import Generators
from gradproof.backends.torch.state.keeper import Keeper
from gradproof.backends.torch.state.preserve import preserved
from gradproof.backends.torch.validate import validate_inputs


@contextmanager
def regime_of(
    func: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any], seed: int
) -> Generator[Callable[[], Regime]]:
    """What makes the regime of a call. On exit random states, buffers and flags are as they were."""
    is_module = isinstance(func, torch.nn.Module)
    call = ModuleCall(func, arguments, keywords) if is_module else call_of(func, arguments, keywords)
    tensors = validate_inputs(call, who="regimes", forward=False, warn_precision=False)
    for index, tensor in enumerate(tensors):
        if tensor.layout is not torch.strided:
            raise ValueError(
                f"differentiable input {index} has layout {tensor.layout}: regimes takes strided tensors. Check the "
                "function of a strided tensor, from which it makes this one."
            )
    with preserved(tensors):
        keeper = Keeper(func, call.flat, Generators())
        try:
            yield lambda: Regime(subject_of(call), keeper, seed)
        finally:
            keeper.close()
