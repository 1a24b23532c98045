"""The finding that one question has two answers, whichever property comes upon it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradproof.core.agreement import worst_difference
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.space import Space
from gradproof.core.status import Status
from gradproof.core.types import Vector
from gradproof.core.words import Words
from gradproof.results.finding import Finding

# A part that sums in another order do not differ by, and what makes answers differ by more.
_FAR = 1e-3
_RACE = (
    "This is far more than sums in another order differ by: an index that occurs more than once is assigned, where the "
    "last one wins, and not added up; memory is not initialised; or numbers are random"
)


class Change(NamedTuple):
    """Two answers to one question."""

    before: Vector
    after: Vector


def changing(space: Space, change: Change, options: Options, words: Words) -> Finding:
    """The finding that two answers to one question differ."""
    before, after = change
    worst = worst_difference(before, after)
    place = space.place(worst)
    reverse = place.block.kind != "output"
    with np.errstate(invalid="ignore"):
        noise = np.abs(before[worst] - after[worst])
    far = noise > _FAR * max(abs(before[worst]), abs(after[worst]))
    return Finding(
        property="determinism",
        status=Status.WRONG,
        mode=Mode.REVERSE if reverse else Mode.FORWARD,
        input=place.block.key if reverse else None,
        input_element=place.element if reverse else None,
        output=None if reverse else place.block.index,
        output_element=None if reverse else place.element,
        headline=(
            f"{words.rule(reverse)} is not deterministic: asked twice with the same inputs and the same "
            f"{words.probe(reverse).removeprefix('the ')}, the {'gradient' if reverse else 'tangent'} of {place} "
            f"was {before[worst]:.9g}, then {after[worst]:.9g} "
            f"(difference {noise:.3g}, nondet_tol {options.nondet_tol:g})."
        ),
        hint=f"{words.nondeterministic}. {_RACE}" if far else words.nondeterministic,
    )
