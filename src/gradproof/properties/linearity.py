"""The backward is a linear map of the cotangent: of zero it gives zero."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem


def linearity(problem: Problem, options: Options) -> Iterator[Finding]:
    """vjp(0) = 0, exactly."""
    if not (problem.has_graph and Mode.REVERSE in options.modes):
        return
    gradient = problem.vjp(np.zeros(problem.outputs.size))
    if gradient.any():  # NaN counts
        worst = int(np.argmax(np.nan_to_num(np.abs(gradient), nan=np.inf)))
        place = problem.inputs.place(worst)
        yield Finding(
            property="linearity",
            status=Status.WRONG,
            input=place.block.index,
            input_element=place.element,
            analytic=float(gradient[worst]),
            numeric=0.0,
            message=(
                "backward not multiplied by grad_output: with a grad_output of zeros, "
                f"the gradient of {place} is {gradient[worst]:.9g} instead of 0."
            ),
        )
