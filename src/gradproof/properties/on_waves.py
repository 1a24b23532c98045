"""Waves that are shorter than all steps of a comparison: what these call wrong may be right.

Error bars rest on how quotients of several steps differ. Those of sin(1e11 x) / 1e11 are all longer than its waves, and
agree on the mean of what it does. So before an entry is called wrong, one step as short as round-off leaves asks
whether the function goes as is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.resolution import can_look, goes_with
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.properties.property import Compare, Found
from gradproof.results.finding import Entry, Finding

# Entries that are looked at, where the function goes neither way.
_TRIED = 4


def may_be_on_waves(investigation: Investigation, options: Options) -> bool:
    """Whether waves are looked for: steps are chosen here, and none were seen so far."""
    return options.step is None and not investigation.has_waves


def among_waves(
    investigation: Investigation, options: Options, compared: Compare, findings: Sequence[Finding]
) -> Iterable[Found] | None:
    """What is found once waves are known; None: there are none."""
    if not _is_on_waves(investigation, findings):
        return None
    investigation.expect_waves()
    return compared(investigation, options)


def _is_on_waves(investigation: Investigation, findings: Sequence[Finding]) -> bool:
    """Whether the function goes as is claimed where an entry is called wrong; one evaluation, mostly."""
    wrong = [entry for each in findings for entry in each.entries if _can_be_asked(entry)][:_TRIED]
    if not wrong:  # nearly always
        return False
    stencil = Stencil(investigation)
    if not can_look(stencil):
        return False
    for entry in wrong:
        row, column = entry.output.coordinate, entry.input.coordinate
        nearest = goes_with(stencil, row, column, measured=entry.numeric, claimed=entry.analytic)
        if nearest is not None:
            return nearest == entry.analytic
    return False


def _can_be_asked(entry: Entry) -> bool:
    """Whether an entry is wrong; not one that claims zero, as stairs have between their steps."""
    finite = math.isfinite(entry.numeric) and math.isfinite(entry.analytic)
    return entry.status is Status.WRONG and entry.sides is None and finite and entry.analytic != 0
