"""Reverse and forward mode apply one matrix: <v, J u> = <J^T v, u>, without any finite difference."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradproof.core.investigation import Investigation
from gradproof.core.nearer import modes_agree
from gradproof.core.options import Options
from gradproof.core.paired import Paired
from gradproof.core.precision import DERIVATIVE_ROUND_OFF, reordered
from gradproof.core.status import Status
from gradproof.properties.allowance import explained_gap, weight
from gradproof.results.finding import Finding


def adjoint(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """The answers to the shared cotangent and tangent fit together. Costs nothing where they do: both are known."""
    paired = investigation.once(Paired)
    left, left_norm = paired.of(investigation.cotangent, investigation.pushforward)
    right, right_norm = paired.of(investigation.tangent, investigation.pullback)
    size, gap = left_norm + right_norm, abs(left - right)
    eps = investigation.problem.coarsest_eps
    relative = max(reordered(eps), options.rtol or 0.0)
    if gap <= relative * size:
        return  # nearly always
    allowed = relative * size + DERIVATIVE_ROUND_OFF * eps * weight(investigation)
    if math.isfinite(size) and gap > allowed:
        allowed += explained_gap(investigation)
    if math.isfinite(size) and gap > allowed and not modes_agree(investigation, gap):
        yield Finding(
            property="adjoint",
            status=Status.WRONG,
            headline=(
                "Reverse and forward mode contradict each other: for a random cotangent v and tangent u, "
                f"<v, jvp(u)> is {left:.9g} and <vjp(v), u> is {right:.9g} (allowed difference "
                f"{allowed:.3g}). They are not derivatives of the same function."
            ),
        )
