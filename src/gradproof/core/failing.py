"""How much a failure may cost: at most twice what one step for each input takes, and little beyond the probe."""

from __future__ import annotations

from gradproof.core.investigation import Investigation
from gradproof.core.options import Options

# Evaluations of the probe, and those that a failure may take beyond it.
_PROBE, _BEYOND = 6, 150


def evaluations_left(investigation: Investigation, options: Options) -> int:
    """How many of its evaluations a failure has left; what is needed for the verdict may have taken more."""
    columns = investigation.problem.inputs.size
    most = 2 * (2 * columns + 1)
    if columns > options.few_columns:
        most = min(most, _PROBE + _BEYOND)
    return max(0, most - investigation.cost.evaluations)
