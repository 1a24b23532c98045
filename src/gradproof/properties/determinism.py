"""The same question twice gets the same answer, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.core.compare import same
from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem
from gradproof.properties.trials import trials


def repeatability(problem: Problem, options: Options) -> Iterator[Finding]:
    """Evaluate again: differences beyond round-off mean that no numerical derivative can be trusted."""
    again = problem.evaluate(problem.point)
    if not same(problem.value, again, problem.outputs.coarsest_eps):
        with np.errstate(invalid="ignore"):
            noise = np.abs(again - problem.value)
        worst = int(np.argmax(np.nan_to_num(noise, nan=np.inf)))
        yield Finding(
            property="repeatability",
            status=Status.WRONG,
            output=problem.outputs.block_at(worst).index,
            output_element=problem.outputs.place(worst).element,
            message=(
                "The function is not deterministic: called twice with the same inputs, "
                f"{problem.outputs.place(worst)} was {problem.value[worst]:.9g}, then {again[worst]:.9g}. "
                "No numerical derivative can be trusted."
            ),
            hint="fix the seed inside the function, or switch randomness (dropout, sampling) off",
        )


def determinism(problem: Problem, options: Options) -> Iterator[Finding]:
    """Unless a trial has shown it already, apply the vjp twice: differences beyond `nondet_tol` are a finding."""
    if not (problem.has_graph and Mode.REVERSE in options.modes) or trials(problem, options).exact:
        return
    first, second = problem.vjp(problem.cotangent), problem.vjp(problem.cotangent)
    if (first == second).all():
        return
    with np.errstate(invalid="ignore"):
        noise = np.abs(first - second)
        unlike = ~((noise <= options.nondet_tol) | (first == second) | (np.isnan(first) & np.isnan(second)))
    if unlike.any():
        worst = int(np.argmax(np.where(unlike, np.nan_to_num(noise, nan=np.inf), -1.0)))
        yield Finding(
            property="determinism",
            status=Status.WRONG,
            input=problem.inputs.block_at(worst).key,
            input_element=problem.inputs.place(worst).element,
            message=(
                "Backward is not reentrant, i.e., running it again with the same inputs and the same grad_output "
                f"gives different values: the gradient of {problem.inputs.place(worst)} was {first[worst]:.9g}, "
                f"then {second[worst]:.9g} (difference {noise[worst]:.3g}, nondet_tol {options.nondet_tol:g})."
            ),
            hint="if this noise is expected (atomic adds on a GPU, say), allow it with nondet_tol",
        )
