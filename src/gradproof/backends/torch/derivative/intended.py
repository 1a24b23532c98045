"""The derivative of one function, judged by the values of another whose derivative it is meant to be.

Straight-through estimators, gradient reversal and clipped gradients are no derivatives of what they compute. Whoever
writes one says of which function: that one is evaluated in its place, and all else is still asked of the kernel itself.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.calls import flatten_outputs
from gradproof.backends.torch.derivative.evaluation import Evaluation, WideEvaluation
from gradproof.backends.torch.derivative.outputs import Outputs
from gradproof.backends.torch.derivative.trial import find_twin
from gradproof.backends.torch.derivative.twin import NOT_TRIED
from gradproof.backends.torch.tensors.point import Point
from gradproof.core.capabilities import Batching, Elsewhere, Original, Twin
from gradproof.core.precision import DOUBLE
from gradproof.core.problem import NothingToCheckError, Problem


def intending(problem: Problem, point: Point, outputs: Outputs, intended: Call) -> Problem:
    """The Problem of a kernel with the values of the intended function. Calls that function.

    Neither a twin of the kernel nor its derivative elsewhere is offered: they are compared with its own values.
    """
    here = _first_call(point, outputs, intended)
    batches = point.batches and outputs.batches
    twin, tries, _ = find_twin(intended, point, outputs.chosen, here) if batches else NOT_TRIED
    wide = None if twin is None else WideEvaluation(intended, point, outputs, twin)
    evaluation = wide or Evaluation(intended, point, outputs)
    capabilities: dict[type, Any] = {
        kind: value for kind, value in problem.capabilities.items() if kind not in (Twin, Elsewhere)
    }
    capabilities[Original] = Original(problem.value, problem.evaluate)
    batching: Batching = capabilities[Batching]
    if batching.evaluate is not None:
        capabilities[Batching] = batching._replace(evaluate=evaluation.batched)
    return dataclasses.replace(
        problem,
        value=evaluation.at(point.coordinates) if wide is None else wide.value,
        evaluate=evaluation.at,
        evaluates_in=None if wide is None else DOUBLE,
        evaluations=problem.evaluations + 1 + tries + (wide is None),
        capabilities=capabilities,
    )


def _first_call(point: Point, outputs: Outputs, intended: Call) -> list[torch.Tensor]:
    """What the intended function gives for each output that counts; raises for another number or form."""
    try:
        everything = [_kept(value) for value in flatten_outputs(intended())]
    except Exception as error:
        raise RuntimeError(
            f"the intended function, not the function, raised {type(error).__name__}: {error}"
        ) from error
    finally:
        point.restore()
    if len(everything) != outputs.count:
        raise NothingToCheckError(
            f"the function returned {outputs.count} outputs, the intended function {len(everything)}: "
            "they must have the same outputs"
        )
    picked = [everything[i] for i in outputs.chosen]
    for index, want, got in zip(outputs.chosen, outputs.tensors, picked, strict=True):
        if _form(got) != _form(want):
            raise NothingToCheckError(
                f"output {index} has {_form(want)}, that of the intended function {_form(got)}: they must be the same"
            )
    return picked


def _kept(value: Any) -> Any:
    """A copy: it may be an input itself."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _form(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"type {type(value).__name__}"
    return f"shape {tuple(value.shape)} and dtype {str(value.dtype).removeprefix('torch.')}"
