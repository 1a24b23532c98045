"""The likely cause of wrong entries: the usual ones are fitted to the evidence; where none fits, none is named.

For each usual cause a function looks at the wrong entries (numeric and analytic values, and their places) and yields
one line that names it, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradproof.core.space import Block
from gradproof.core.status import Status
from gradproof.core.types import Flags, Indices, Vector
from gradproof.core.words import PLAIN
from gradproof.results.pairs import Pair

# How closely an explanation must fit, relative to the entries, and for what part of them.
_CLOSE = 2e-3
_MOST = 0.95
_NAMED = {-1.0: "the sign is wrong", 2.0: "a factor 2 too many", 0.5: "a factor 2 is missing"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The wrong entries between one output and one input."""

    output: Block
    input: Block
    rows: Indices
    columns: Indices
    numeric: Vector
    analytic: Vector
    lost: str = PLAIN.lost
    """What it means that all of them are zero."""

    def __len__(self) -> int:
        return len(self.rows)


def diagnose(evidence: Evidence) -> str:
    """The best-fitting explanation with its evidence, or an empty string.

    >>> x = Block(kind="input", index=0, name="x", shape=(4,), parts=1, start=0, eps=2.0**-52)
    >>> y = Block(kind="output", index=0, name="", shape=(4,), parts=1, start=0, eps=2.0**-52)
    >>> diagonal = np.arange(4)
    >>> diagnose(Evidence(y, x, diagonal, diagonal, np.array([1.0, 2, 3, 4]), np.array([2.0, 4, 6, 8])))
    'analytic ≈ 2 × numeric on 4 of 4 wrong entries: a factor 2 too many'
    """
    finite = np.isfinite(evidence.numeric) & np.isfinite(evidence.analytic)
    if not finite.all():
        return ""
    found = next((line for fit in _CAUSES for line in fit(evidence)), "")
    where = next(_region(evidence), "")
    return "; ".join(filter(None, (found, where)))


def _zero(evidence: Evidence) -> Iterator[str]:
    zero = (evidence.analytic == 0) & (evidence.numeric != 0)
    if zero.all():
        yield f"analytic is 0 on all {len(evidence)} wrong entries: {evidence.lost}"


def _factor(evidence: Evidence) -> Iterator[str]:
    numeric, analytic = evidence.numeric, evidence.analytic
    usable = numeric != 0
    if not usable.any():
        return
    ratio = float(np.median(analytic[usable] / numeric[usable]))
    fits = _fits(analytic, ratio * numeric, min(_CLOSE, 0.1 * abs(ratio - 1)))
    telling = len(fits) > 1 or round(ratio, 6) in _NAMED  # one entry is always some factor off
    if ratio == 0 or not telling or not _enough(fits):
        return
    yield (
        f"analytic ≈ {_short(ratio)} × numeric on {fits.sum()} of {len(evidence)} wrong entries: "
        f"{_NAMED.get(round(ratio, 3), _as_count(ratio, evidence))}"
    )


def _as_count(ratio: float, evidence: Evidence) -> str:
    """A factor that is a size of a shape is a mean for a sum, or the other way round."""
    for size in sorted({*evidence.input.shape, *evidence.output.shape} - {0, 1}):
        if abs(ratio * size - 1) < _CLOSE:
            return f"a factor 1/{size}, a size of a dimension: a mean in place of a sum"
        if abs(ratio / size - 1) < _CLOSE:
            return f"a factor {size}, a size of a dimension: a sum in place of a mean, or an axis summed twice"
    return "a constant factor"


def _conjugate(evidence: Evidence) -> Iterator[str]:
    if evidence.input.parts != 2 or len(evidence) < 2:
        return
    part = (evidence.columns - evidence.input.start) % 2
    other = (evidence.rows - evidence.output.start) % evidence.output.parts
    flipped = _fits(evidence.analytic, -evidence.numeric)
    if (part != other).all() and _enough(flipped):
        yield f"only the sign of the imaginary part is wrong, on {flipped.sum()} entries: a missing conjugate"


def _transposed(evidence: Evidence) -> Iterator[str]:
    shape = evidence.input.shape
    if len(shape) < 2 or shape[-1] != shape[-2] or evidence.input.parts != 1:
        return
    places = list(zip(*(axis.tolist() for axis in evidence.input.positions(evidence.columns)), strict=True))
    rows = evidence.rows.tolist()
    entries = {(row, place): k for k, (row, place) in enumerate(zip(rows, places, strict=True))}
    swapped = [entries.get((row, (*place[:-2], place[-1], place[-2]))) for row, place in zip(rows, places, strict=True)]
    pairs = [(k, other) for k, other in enumerate(swapped) if other is not None and other != k]
    if len(pairs) < 2:
        return
    here, there = (np.array(part) for part in zip(*pairs, strict=True))
    fits = _fits(evidence.analytic[here], evidence.numeric[there])
    if _enough(fits) and len(pairs) >= 0.5 * len(evidence):
        yield f"analytic is the transpose of numeric on {fits.sum()} of {len(evidence)} wrong entries"


def _offset(evidence: Evidence) -> Iterator[str]:
    difference = evidence.analytic - evidence.numeric
    typical = float(np.median(difference))
    fits = np.abs(difference - typical) <= _CLOSE * abs(typical)
    if len(evidence) > 2 and typical and _enough(fits):
        yield f"analytic ≈ numeric {typical:+.4g} on {fits.sum()} of {len(evidence)} wrong entries: a constant is added"


_CAUSES: tuple[Callable[[Evidence], Iterator[str]], ...] = (_zero, _conjugate, _factor, _transposed, _offset)


def _region(evidence: Evidence) -> Iterator[str]:
    """Wrong entries that all lie at one end of an axis, of the input or else of the output, while it has others."""
    for block, coordinates in ((evidence.input, evidence.columns), (evidence.output, evidence.rows)):
        if block.shape and len(evidence):
            for axis, index in enumerate(block.positions(coordinates)):
                yield from _end_of(axis, block, np.unique(index).tolist())


def _end_of(axis: int, block: Block, wrong: list[int]) -> Iterator[str]:
    """What to say of the wrong indices along one axis, if they are an end of it, or both."""
    size, count = block.shape[axis], len(wrong)
    if count == 1 and size > 2 and wrong[0] in (0, size - 1):
        place = "the last" if wrong[0] else "the first"
        yield f"wrong only at index {wrong[0]} along axis {axis} of {block.label}: {place}"
    elif size > 3 and wrong == [0, size - 1]:
        yield f"wrong only at both ends of axis {axis} of {block.label}: the boundary"
    elif 1 < count <= size // 2 and wrong == list(range(size - count, size)):
        yield f"wrong only at the last {count} of {size} indices along axis {axis} of {block.label}: a tail left over?"


def eliminate(pairs: Sequence[Pair], worst: Pair) -> str:
    """What the inputs that are right say about the one that is wrong; nothing if none is."""
    right = [
        _called(pair.input)
        for pair in pairs
        if pair.output == worst.output and pair.status is Status.RIGHT and pair.input != worst.input
    ]
    if not right:
        return ""
    names = ", ".join(right[:3]) + (f" and {len(right) - 3} more" if len(right) > 3 else "")
    are = "is" if len(right) == 1 else "are"
    return f"no simple pattern, but {names} {are} right: look where only {_called(worst.input)} passes"


def _called(block: Block) -> str:
    return f"`{block.name}`" if block.name else block.label


def _fits(left: Vector, right: Vector, close: float = _CLOSE) -> Flags:
    return np.abs(left - right) <= close * np.maximum(np.abs(left), np.abs(right))


def _enough(fits: Flags) -> bool:
    return len(fits) > 0 and float(fits.mean()) >= _MOST


def _short(ratio: float) -> str:
    return f"{ratio:.4g}"
