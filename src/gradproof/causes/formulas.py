"""The right formula with the wrong one of input and output put in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gradproof.causes.arrays import base_arrays, called, cotangent_over
from gradproof.causes.evidence import Evidence, close
from gradproof.causes.sampling import Samples
from gradproof.core.types import Vector

_FORMULAS: tuple[tuple[str, Callable[[Vector], Vector]], ...] = (
    ("1 - {}²", lambda a: 1.0 - a**2),
    ("{}·(1 - {})", lambda a: a * (1.0 - a)),
    ("{}", lambda a: a),
    ("1 / (2·{})", lambda a: 0.5 / a),
    ("-{}²", lambda a: -(a**2)),
    ("1 + {}²", lambda a: 1.0 + a**2),
    ("1 - exp(-{})", lambda a: 1.0 - np.exp(-a)),
    ("2·{}", lambda a: 2.0 * a),
    ("cos({})", np.cos),
    ("1 / {}", lambda a: 1.0 / a),
)


def input_for_output(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[str]:
    """The truth is a formula of the output, and the claim the same one of the input; or the other way round."""
    over, arrays = cotangent_over(evidence, cotangent), dict(base_arrays(evidence))
    wrong = found.take(found.telling)
    if over is None or "the output" not in arrays or len(wrong) < 4:
        return
    inside = wrong.columns - evidence.input.start
    x, y, v = arrays[called(evidence.input, "x")][inside], arrays["the output"][inside], over[inside]
    own = called(evidence.input, "x")
    ways = (
        (y, x, own, "y", f"{own} is used for the saved output"),
        (x, y, "y", own, "the saved output is used for the input"),
    )
    with np.errstate(all="ignore"):
        for text, formula in _FORMULAS:
            for right, other, used, meant, words in ways:
                holds = close(wrong.truth, v * formula(right), wrong.bar, 1e-6).all()
                if holds and close(wrong.claim, v * formula(other), wrong.bar, 1e-6).all():
                    told = f"analytic is {text.format(used, used)} times {evidence.problem.words.cotangent}"
                    yield f"{told}, numeric the same of {meant}: {words}"
