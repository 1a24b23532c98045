"""PyTorch: tensors of any dtype, strides and layout, reverse and forward mode, batches through vmap."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gradproof.backends.torch.arguments import Call, flatten_outputs
from gradproof.backends.torch.availability import why_no_tangents
from gradproof.backends.torch.coverage import left_out, select
from gradproof.backends.torch.leaves import find_leaves
from gradproof.backends.torch.modules import ModuleCall
from gradproof.backends.torch.problem import TorchProblem
from gradproof.backends.torch.second import DerivativeCall, NamedSecondProblem, connected, draw_cotangents
from gradproof.backends.torch.state import preserved
from gradproof.backends.torch.validate import overlaps, validate_inputs
from gradproof.core.problem import Mode, Problem

framework = "torch"


def recognises(values: Sequence[Any]) -> bool:
    """Whether there is a tensor or a module among these values, nested as it may be."""
    return any(isinstance(leaf, torch.Tensor | torch.nn.Module) for value in values for leaf in flatten_outputs(value))


class TorchSession:
    """One check of one call of a PyTorch function."""

    def __init__(self, call: Call, masked: bool, notes: tuple[str, ...] = ()) -> None:
        self._call, self._masked, self.notes = call, masked, notes
        self._made: list[TorchProblem] = []
        self.not_covered = left_out(call)

    def problem(self, seed: int) -> TorchProblem:
        problem = self._keep(TorchProblem(self._call, seed=seed, masked=self._masked))
        self.not_covered += tuple(f"output {i} (it has no graph)" for i in problem.left_out)
        return problem

    def second(self, seed: int) -> TorchProblem:
        cotangents = draw_cotangents(first_outputs(self._call), noncontiguous=False, masked=self._masked)
        return self._keep(NamedSecondProblem(DerivativeCall(self._call, cotangents), seed=seed, masked=self._masked))

    def _keep(self, problem: TorchProblem) -> TorchProblem:
        self._made.append(problem)
        return problem

    def close(self) -> None:
        """Put the inputs back, whatever user code wrote to them."""
        for problem in self._made:
            problem.close()

    def modes(self, problem: Problem) -> tuple[Mode, ...]:
        reason = why_no_tangents(problem) if isinstance(problem, TorchProblem) and problem.has_graph else ""
        if reason:
            self.not_covered += (f"forward mode ({reason})",)
        return (Mode.REVERSE,) if reason or not problem.has_graph else (Mode.REVERSE, Mode.FORWARD)


def first_outputs(call: Call) -> list[torch.Tensor]:
    """The outputs of a call that have a graph; what the call does to its inputs is undone."""
    leaves = find_leaves(call, masked=True)
    try:
        return connected(call())
    finally:
        for leaf in leaves:
            leaf.restore()


@contextmanager
def session(
    func: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    *,
    wrt: Sequence[str | int] | None,
    masked: bool,
) -> Generator[TorchSession]:
    module = isinstance(func, torch.nn.Module)
    call = ModuleCall(func, arguments, keywords) if module else Call(func, arguments, keywords)
    notes = _separate(call)
    if wrt is not None:
        select(call, wrt)
    with preserved(validate_inputs(call, who="gradproof.check", forward=False, warn_precision=False), call):
        made = TorchSession(call, masked, notes)
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
