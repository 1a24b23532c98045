"""Inputs of which all that is claimed is less than an error that could hide: b in 1e13 * a + b.

The tolerance is a part of the largest entry that an output has, and round-off hides as much, so nothing is wrong with
such an input, and nothing was seen of it either. The certificate says so by its number; a note says it in words.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.core.agreement import largest_of, smallest_of
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.seen import Note, Seen
from gradproof.core.space import Block

_NOTE = (
    "an error of {size:.2g} could hide in an entry of {input}, of which no more than {most:.2g} is claimed: "
    "of no single entry a digit was verified"
)


def hollow(investigation: Investigation, options: Options, seen: Seen | None) -> Iterator[Note]:
    """Of each input of which a derivative is claimed that is less than what would have been noticed.

    Where a tolerance is given, that is what it excuses. Where one number that is claimed is larger, no more is looked
    at.
    """
    if seen is None or not options.certify or options.atol is not None or not investigation.is_pulled:
        return
    for block, size in zip(investigation.problem.inputs.blocks, seen.smallest, strict=True):
        if not block.size or abs(float(investigation.pullback[block.start])) >= size:
            continue
        most = _most(investigation, block)
        if 0.0 < most < size < np.inf:
            yield Note(_NOTE.format(input=block.label, size=size, most=most))


def _most(investigation: Investigation, block: Block) -> float:
    """What no entry that is claimed of an input exceeds, if entries do not cancel; zero: nothing is claimed."""
    if investigation.rows is not None:
        return largest_of(investigation.rows[:, block.slice])
    least = smallest_of(investigation.cotangent)
    return largest_of(investigation.pullback[block.slice]) / least if least else np.inf
