"""PyTorch: dense tensors of any dtype and strides, reverse and forward mode, batches through vmap."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gradproof.backends.torch.arguments import Call, flatten_outputs
from gradproof.backends.torch.coverage import left_out, select
from gradproof.backends.torch.modules import ModuleCall
from gradproof.backends.torch.problem import TorchProblem
from gradproof.backends.torch.state import preserved
from gradproof.backends.torch.validate import differentiable, overlaps, validate_inputs
from gradproof.core.problem import Mode, Problem

framework = "torch"


def recognises(values: Sequence[Any]) -> bool:
    """Whether there is a tensor or a module among these values, nested as it may be."""
    return any(isinstance(leaf, torch.Tensor | torch.nn.Module) for value in values for leaf in flatten_outputs(value))


class TorchSession:
    """One check of one call of a PyTorch function."""

    def __init__(self, call: Call, notes: tuple[str, ...] = ()) -> None:
        self._call, self.notes = call, notes
        self._problem: TorchProblem | None = None
        self.not_covered = left_out(call)

    def problem(self, seed: int) -> TorchProblem:
        self._problem = TorchProblem(self._call, seed=seed)
        return self._problem

    def close(self) -> None:
        """Put the inputs back, whatever user code wrote to them."""
        if self._problem is not None:
            self._problem.close()

    def modes(self, problem: Problem) -> tuple[Mode, ...]:
        forward = not (isinstance(problem, TorchProblem) and problem.moves_together) and _has_forward(problem)
        return (Mode.REVERSE, Mode.FORWARD) if forward else (Mode.REVERSE,)


def _has_forward(problem: Problem) -> bool:
    """Whether a jvp can be had. A rule that is there but fails is not missing: it will be reported."""
    try:
        _ = problem.pushforward if problem.has_graph else None
    except NotImplementedError:
        return False
    except (RuntimeError, ValueError) as error:
        return not any(hint in str(error) for hint in ("use forward AD with", "forward mode AD", "_make_dual"))
    except Exception:
        return True
    return problem.has_graph


@contextmanager
def session(
    func: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any], wrt: Sequence[str | int] | None
) -> Generator[TorchSession]:
    module = isinstance(func, torch.nn.Module)
    call = ModuleCall(func, arguments, keywords) if module else Call(func, arguments, keywords)
    notes = _separate(call)
    if wrt is not None:
        select(call, wrt)
    validate_inputs(call, who="gradproof.check", forward=False, warn_precision=False)
    with preserved([tensor for _, tensor in differentiable(call)], call):
        made = TorchSession(call, notes)
        try:
            yield made
        finally:
            made.close()


def _separate(call: Call) -> tuple[str, ...]:
    """Replace inputs whose elements share memory by copies; what was done, in words."""
    shared = [i for i in call.differentiable() if call.kind(i) == "input" and overlaps(call.flat[i])]
    for i in shared:
        call.replace(i, call.flat[i].detach().clone(memory_format=torch.contiguous_format).requires_grad_())
    return tuple(f"{call.label(i)} has elements that share memory: a copy of it was checked" for i in shared)
