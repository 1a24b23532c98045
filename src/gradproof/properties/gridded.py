"""Entries that are called wrong between two lines of a grid inside: the slope behind it may be what is claimed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradproof.core.gridded import grid_width
from gradproof.core.investigation import Investigation
from gradproof.core.meanwhile import taken_as
from gradproof.core.options import Options, Strategy
from gradproof.core.precision import DOUBLE
from gradproof.core.seen import Seen
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.types import Vector
from gradproof.properties.longer_steps import with_longer_steps
from gradproof.properties.property import Compare
from gradproof.results.finding import Entry, Finding

# Entries that are looked at, each of another pair.
_TRIED = 4
# A grid counts whose lines are this many times as far apart as the noise that is known.
_WIDER = 4.0


def behind_grid(
    investigation: Investigation, options: Options, compared: Compare, findings: Sequence[Finding]
) -> list[Finding | Seen] | None:
    """What steps through many lines find, with half of one for the noise; None: nothing that is wrong is on a grid.

    Of every entry, because a probe sees less in that noise than in its own.
    """
    noise = _noise(investigation, findings)
    if noise is None:
        return None
    with taken_as(investigation, replace(investigation.problem, noise=noise)):
        return with_longer_steps(investigation, replace(options, strategy=Strategy.ENTRIES), compared)


def _noise(investigation: Investigation, findings: Sequence[Finding]) -> Vector | None:
    """The noise of outputs of which some are seen to be on a grid; None: none is."""
    wrong = [each.entries[0] for each in findings if each.entries and _can_be_asked(each.entries[0])]
    if not wrong or investigation.problem.coarsest_eps > DOUBLE:
        return None
    stencil = Stencil(investigation)
    noise = stencil.noise.copy()
    for entry in wrong[:_TRIED]:
        row, column, run = entry.output.coordinate, entry.input.coordinate, entry.output.block.slice
        width = grid_width(stencil, row, column, measured=entry.numeric, claimed=entry.analytic)
        if width is not None and width > _WIDER * stencil.noise[row]:
            noise[run] = np.fmax(noise[run], width / 2.0)
    return noise if (noise > stencil.noise).any() else None


def _can_be_asked(entry: Entry) -> bool:
    """Whether an entry is wrong that moves, and of which a slope is claimed."""
    finite = math.isfinite(entry.numeric) and math.isfinite(entry.analytic)
    return entry.status is Status.WRONG and finite and entry.analytic != 0 != entry.numeric
