"""Reverse and forward mode apply one matrix: <v, J u> = <J^T v, u>, without any finite difference."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.core.investigation import Investigation
from gradproof.core.norm import norm
from gradproof.core.options import Options
from gradproof.core.precision import DERIVATIVE_ROUND_OFF, reordered
from gradproof.core.status import Status
from gradproof.properties.allowance import weight
from gradproof.results.finding import Finding


def adjoint(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """The answers to the shared cotangent and tangent fit together. Costs nothing: both are known by now."""
    with np.errstate(invalid="ignore"):
        left = investigation.cotangent * investigation.pushforward
        right = investigation.pullback * investigation.tangent
        size = norm(left) + norm(right)
        gap = abs(float(left.sum() - right.sum()))
    eps = investigation.problem.coarsest_eps
    relative = max(reordered(eps), options.rtol or 0.0)
    allowed = relative * float(size) + DERIVATIVE_ROUND_OFF * eps * weight(investigation)
    if np.isfinite(size) and gap > allowed:
        yield Finding(
            property="adjoint",
            status=Status.WRONG,
            headline=(
                "Reverse and forward mode contradict each other: for a random cotangent v and tangent u, "
                f"<v, jvp(u)> is {left.sum():.9g} and <vjp(v), u> is {right.sum():.9g} (allowed difference "
                f"{allowed:.3g}). They are not derivatives of the same function."
            ),
        )
