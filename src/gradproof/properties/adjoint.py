"""Reverse and forward mode apply one matrix: <v, J u> = <J^T v, u>, without any finite difference."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.core.compare import weight
from gradproof.core.finding import Finding, Status
from gradproof.core.norm import norm
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem

# Round-off of derivatives that are zero, in eps of the outputs.
_ROUND_OFF = 1e3


def adjoint(problem: Problem, options: Options) -> Iterator[Finding]:
    """The answers to the shared cotangent and tangent fit together. Costs nothing: both are known by now."""
    if not problem.has_graph or Mode.REVERSE not in options.modes or Mode.FORWARD not in options.modes:
        return
    with np.errstate(invalid="ignore"):
        left, right = problem.cotangent * problem.pushforward, problem.pullback * problem.tangent
        size = norm(left) + norm(right)
        gap = abs(float(left.sum() - right.sum()))
    eps = max(problem.inputs.coarsest_eps, problem.outputs.coarsest_eps)
    allowed = max(eps**0.6, options.rtol or 0.0) * float(size) + _ROUND_OFF * eps * weight(problem)
    if np.isfinite(size) and gap > allowed:
        yield Finding(
            property="adjoint",
            status=Status.WRONG,
            message=(
                "Reverse and forward mode contradict each other: for a random cotangent v and tangent u, "
                f"<v, jvp(u)> is {left.sum():.9g} and <vjp(v), u> is {right.sum():.9g} (allowed difference "
                f"{allowed:.3g}). They are not derivatives of the same function."
            ),
        )
