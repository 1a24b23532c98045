"""A lone entry that noise is to excuse, though the steps that noise leaves see less of what is claimed than others did.

A sawtooth looks noisy from afar: steps that reach over its teeth leave as much on every rung as rounding inside does,
and so does the tooth that a solver's next iteration makes. Short steps between two teeth see the slope to many digits.
Where these call a lone entry wrong, by little, noise would let it pass. Where there is such noise, it hides the slope
from short steps, and longer ones are nearer to what is claimed. Else the entry was noticed, and nothing explains it:
neither right nor wrong is certain, and that is what is said, because a certificate knows of no noise.

Where there are others to compare with, they tell whether an entry sticks out (`core/company.py`): this is for a few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.precision import CLEAR, DOUBLE
from gradproof.core.seen import Note, Seen
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.results.finding import MISMATCH, UNJUDGED, Entry, Finding

_KIND = "unexplained"
# Entries of a pair up to which there are too few others to tell whether one of them sticks out.
_FEW = 4
# Steps see more of what is claimed if they are off from it by less than this part of what others are.
_NEARER = 0.5
_UNEXPLAINED = (
    "\n  Noise of the function would excuse it, as longer steps see it; but short ones see the difference clearly: "
    "neither\n  right nor wrong is certain."
)


def left_in_doubt(
    investigation: Investigation, options: Options, found: Sequence[Finding | Seen | Note]
) -> list[Finding]:
    """Of what was found before noise was known, which explains all of it now, the lone entry that it does not explain.

    For a certificate: without one, nothing was promised.
    """
    findings = [each for each in found if isinstance(each, Finding)]
    if not options.certify or investigation.made.coarsest_eps > DOUBLE or not all(map(_is_lone, findings)):
        return []
    entries = {(entry.output.coordinate, entry.input.coordinate): entry for each in findings for entry in each.entries}
    if len(entries) != 1 or not all(
        _is_sharp(entry) and not _explains(investigation, entry) for entry in entries.values()
    ):
        return []
    return [
        each
        if each.kind == _KIND
        else replace(
            each,
            status=Status.INCONCLUSIVE,
            kind=_KIND,
            headline=each.headline.replace(MISMATCH, UNJUDGED, 1) + _UNEXPLAINED,
        )
        for each in findings
    ]


def _is_lone(finding: Finding) -> bool:
    is_wrong = finding.status is Status.WRONG or finding.kind == _KIND
    return is_wrong and len(finding.entries) == finding.doubtful == 1 and finding.total <= _FEW


def _is_sharp(entry: Entry) -> bool:
    """Whether an entry was seen to move, and to differ, clearly."""
    finite = math.isfinite(entry.analytic) and math.isfinite(entry.numeric)
    return finite and entry.sides is None and entry.numeric != 0 and entry.error <= CLEAR * entry.difference


def _explains(investigation: Investigation, entry: Entry) -> bool:
    """Whether a step as long as noise asks for is nearer to what is claimed of an entry. Two evaluations."""
    stencil, column = Stencil(investigation), entry.input.coordinate
    slope = stencil.slope(column, entry.output.coordinate, float(stencil.step[column] / stencil.scale[column]))
    return not abs(slope - entry.analytic) > _NEARER * entry.difference
