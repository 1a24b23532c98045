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

_OF_ENTRIES = (
    "an error of {size:.2g} could hide in an entry of {input}, of which no more than {most:.2g} is claimed: "
    "of no single entry a digit was verified"
)
_OF_SUMS = (
    "an error of {size:.2g} could hide in an entry of {input}, whose gradient for a cotangent of at most 1 came to "
    "no more than {most:.2g}"
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
        yield from _told(investigation, block, size)


def _told(investigation: Investigation, block: Block, size: float) -> Iterator[Note]:
    """The note on one input, if what is claimed of it is less; what rows claim is known, of sums they may cancel."""
    if investigation.rows is not None:
        most = largest_of(investigation.rows[:, block.slice])
        if 0.0 < most < size < np.inf:
            yield Note(_OF_ENTRIES.format(input=block.label, size=size, most=most))
        return
    gradient, cotangent = largest_of(investigation.pullback[block.slice]), investigation.cotangent
    least, largest = smallest_of(cotangent), largest_of(cotangent)
    if 0.0 < gradient < least * size < np.inf:
        yield Note(_OF_SUMS.format(input=block.label, size=size, most=gradient / largest))
