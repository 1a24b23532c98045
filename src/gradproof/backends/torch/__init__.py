"""PyTorch: dense tensors of any dtype and strides, reverse and forward mode, batches through vmap."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gradproof.backends.torch.arguments import Call, flatten_outputs
from gradproof.backends.torch.problem import TorchProblem
from gradproof.backends.torch.state import preserved
from gradproof.backends.torch.validate import differentiable, validate_inputs
from gradproof.core.problem import Mode, Problem

framework = "torch"


def recognises(values: Sequence[Any]) -> bool:
    """Whether there is a tensor among these values, nested as it may be."""
    return any(isinstance(leaf, torch.Tensor) for value in values for leaf in flatten_outputs(value))


class TorchSession:
    """One check of one call of a PyTorch function."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def problem(self, seed: int) -> TorchProblem:
        return TorchProblem(self._call, seed=seed)

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
def session(func: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Generator[TorchSession]:
    call = Call(func, arguments, keywords)
    validate_inputs(call, who="gradproof.check", forward=False, warn_precision=False)
    with preserved([tensor for _, tensor in differentiable(call)]):
        yield TorchSession(call)
