"""Neither forward nor backward writes to what is not its own: inputs, cotangents, saved tensors; nor hands it out."""

from __future__ import annotations

from collections.abc import Iterator

from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem
from gradproof.properties.trials import trials


def mutation(problem: Problem, options: Options) -> Iterator[Finding]:
    """What was written to by the function, and by its backward."""
    for what in problem.overwritten_inputs():
        yield _finding(f"The function overwrote {what} without declaring it.", "work on a copy, or call ctx.mark_dirty")
    if problem.has_graph and Mode.REVERSE in options.modes:
        for what in trials(problem, options).overwritten:
            yield _finding(
                f"backward overwrote {what}, which others may still read.",
                "do not work in place on grad_output, inputs or saved tensors: use a new tensor for the result",
            )


def aliasing(problem: Problem, options: Options) -> Iterator[Finding]:
    """No gradient shares memory with an input, nor with another gradient."""
    if problem.has_graph and Mode.REVERSE in options.modes:
        for block, what in problem.aliased_gradients():
            yield Finding(
                property="aliasing",
                status=Status.WRONG,
                input=block.key,
                message=(
                    f"The gradient of {block.label} shares memory with {what}: "
                    "whoever writes to one of them (an optimizer, zero_grad) changes the other."
                ),
                hint="return a copy (clone) from backward",
            )


def _finding(message: str, hint: str) -> Finding:
    return Finding(property="mutation", status=Status.WRONG, message=message, hint=hint)
