"""One wrong entry that explains all that the probes saw: nothing is left to be sampled.

What can be said of it is read off the entry itself: where it stands, and how what is claimed differs from the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradproof.core.space import Place
from gradproof.results.finding import Entry

# How closely a ratio must be known to be called a number, and be that number.
_SURE = 1e-3
_RATIOS = {-1.0: "a sign", 2.0: "counted twice", 0.5: "half of it"}


def lone_entry(entry: Entry) -> str:
    """The cause of a lone wrong entry, in words."""
    told = [*_ends(entry.input), *_ends(entry.output), *_ratio(entry)]
    return "; ".join(["wrong at this entry alone, as far as the probes see", *dict.fromkeys(told)])


def _ends(place: Place) -> Iterator[str]:
    for axis, (index, size) in enumerate(zip(place.element, place.block.shape, strict=False)):
        if size > 2 and index in (0, size - 1):
            which = "first" if index == 0 else "last"
            yield f"the {which} of {size} indices along axis {axis} of {place.block.label}"


def _ratio(entry: Entry) -> Iterator[str]:
    if entry.analytic == 0.0:
        yield "analytic is 0: not written, or overwritten?"
        return
    with_bar = abs(entry.error / entry.numeric) if entry.numeric else math.inf
    for ratio, words in _RATIOS.items():
        if with_bar < _SURE and abs(entry.analytic / entry.numeric - ratio) <= abs(ratio) * (with_bar + 1e-9):
            yield f"analytic ≈ {ratio:g} × numeric: {words}"
