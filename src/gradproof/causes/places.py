"""The claim has the right numbers, at other places than those they belong to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.causes.cause import Cause
from gradproof.causes.evidence import Evidence, close
from gradproof.causes.sampling import Samples
from gradproof.core.problem import Mode
from gradproof.core.types import Indices, Vector

# The probability that numbers are found at one place by chance, at most, for all cotangents together.
_CHANCE = 1e-4
# Places that are measured themselves: what is there must not belong there.
_PLACES = 2
_ADVICE = (
    "an index map is wrong or not inverted (a view in place of a permutation, another element than the selected one)"
)
# Numbers agree to within this part, besides their error bars.
_SAME = 1e-6


def elsewhere(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """Every wrong number is claimed of another element, the same one for all cotangents, of which it is wrong."""
    wrong = found.take(found.wrong & (np.abs(found.truth) > found.bar))
    if evidence.mode is not Mode.REVERSE or len(evidence.cotangents) < 2 or not len(wrong):
        return
    places = _places(evidence, wrong.columns)
    if places is None or len(np.unique(places)) < len(places) or (places == wrong.columns).any():
        return
    if _are_right(evidence, places[:_PLACES], cotangent):
        return
    own, other = (evidence.problem.inputs.place(int(each[0])).element for each in (wrong.columns, places))
    text = f"what belongs to element {list(own)} of {evidence.input.label} is at {list(other)}"
    yield Cause(f"analytic has the right numbers at other places: {text}: {_ADVICE}")


def _places(evidence: Evidence, columns: Indices) -> Indices | None:
    """The one place where each of these numbers is claimed, whatever the cotangent; None: there is not one for each."""
    fits = np.ones((len(columns), evidence.input.size), dtype=np.bool_)
    chance = np.full(len(columns), float(evidence.input.size))
    for cotangent in evidence.cotangents:
        claims, truth = evidence.claimed(cotangent), evidence.truth_at(cotangent, columns)
        within = evidence.bar_at(cotangent, columns) + _SAME * np.abs(truth)
        chance *= np.minimum(1.0, 2.0 * within / (float(np.abs(claims).max(initial=0.0)) or 1.0))
        fits &= np.abs(claims[None, :] - truth[:, None]) <= within[:, None]
    if (fits.sum(axis=1) != 1).any() or (chance > _CHANCE).any():
        return None
    return evidence.input.start + np.argmax(fits, axis=1)


def _are_right(evidence: Evidence, places: Indices, cotangent: Vector) -> bool:
    """Whether what is claimed there is right, so that the numbers are just alike; so too where that is not known."""
    evidence.measure(places)
    known = np.isin(places, evidence.measured)
    if not known.all():
        return True
    return bool(close(evidence.claimed_at(cotangent, places), evidence.truth_at(cotangent, places), 0.0, _SAME).any())


def counted(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """Every wrong number is a multiple of the truth, by whole numbers that differ: counts."""
    wrong = found.take(found.wrong)
    with np.errstate(all="ignore"):
        ratios = wrong.claim / wrong.truth
        slack = _SAME * np.abs(ratios) + np.abs(wrong.bar / wrong.truth)
    if not len(wrong) or not np.isfinite(ratios).all() or (slack > 1e-2).any():
        return
    whole = np.rint(ratios)
    counts = np.unique(whole).astype(int).tolist()
    if len(counts) < 2 or (whole < 2).any() or (np.abs(ratios - whole) > slack).any():
        return
    told = f"{', '.join(map(str, counts[:-1]))} or {counts[-1]}" if len(counts) < 6 else f"{counts[0]} to {counts[-1]}"
    yield Cause(
        f"analytic ≈ numeric × {told}, by the element: a count that is not divided by (a sum in place of a mean?)"
    )
