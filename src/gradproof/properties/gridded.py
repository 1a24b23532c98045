"""Entries that are called wrong between two lines of a grid inside: the slope behind the grid may be the claimed one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradproof.core.cost import BudgetExhausted
from gradproof.core.gridded import grid_width
from gradproof.core.investigation import Investigation
from gradproof.core.precision import DOUBLE
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.results.finding import Entry, Finding


def is_gridded(investigation: Investigation, findings: Sequence[Finding]) -> bool:
    """Whether an output that is called wrong crosses a grid wider than its noise; that is its noise from now on."""
    if investigation.problem.coarsest_eps > DOUBLE:
        return False
    stencil = Stencil(investigation)
    noise = stencil.noise.copy()
    try:
        for entry in (each.entries[0] for each in findings if each.entries):
            if _can_be_asked(entry):
                row, run = entry.output.coordinate, entry.output.block.slice
                width = grid_width(
                    stencil, row, entry.input.coordinate, measured=entry.numeric, claimed=entry.analytic
                )
                if width is not None and width > 4.0 * stencil.noise[row]:
                    noise[run] = np.fmax(noise[run], width / 2.0)
    except BudgetExhausted:
        return False  # what was found stands
    if (noise == stencil.noise).all():
        return False
    investigation.take_as(replace(investigation.problem, noise=noise))
    return True


def _can_be_asked(entry: Entry) -> bool:
    """Whether an entry is wrong that moves, and of which a slope is claimed."""
    finite = math.isfinite(entry.numeric) and math.isfinite(entry.analytic)
    return entry.status is Status.WRONG and finite and entry.analytic != 0 != entry.numeric
