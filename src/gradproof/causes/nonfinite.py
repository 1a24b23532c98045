"""Claims that are no number."""

from __future__ import annotations

import numpy as np

from gradproof.causes.arrays import base_arrays
from gradproof.causes.evidence import Evidence
from gradproof.core.capabilities import FirstNonFinite
from gradproof.core.problem import Mode


def not_finite(evidence: Evidence) -> str:
    """Which elements have a claim that is no number, what is special about them, and which operation made it."""
    if evidence.mode is not Mode.REVERSE:
        return ""
    claim = evidence.claimed(evidence.cotangents[0])
    bad = ~np.isfinite(claim)
    if not bad.any():
        return ""
    values = np.array([*claim[bad], *(entry.analytic for entry in evidence.entries)])
    words = {"NaN": np.isnan(values), "infinite": np.isinf(values)}
    word = " or ".join(word for word, here in words.items() if here.any())
    elements = int(np.unique(np.flatnonzero(bad) // evidence.input.parts).size)
    text = f"analytic is {word} for {elements} of {evidence.input.size // evidence.input.parts} elements"
    for name, array in base_arrays(evidence):
        if not bad.all() and len(np.unique(array[bad])) == 1 and not np.isin(array[~bad], array[bad][0]).any():
            text += f", those where {name} is {array[bad][0] + 0.0:g}"
            break
    asked = evidence.problem.capability(FirstNonFinite)
    cotangent = evidence.widened(evidence.cotangents[0], evidence.output, evidence.problem.outputs.size)
    first = asked.name(cotangent) if asked is not None else ""
    cause = f"it first appears in {first}" if first else "0/0, 0·inf or a root or logarithm at 0 in the derivative"
    return f"{text}: {cause}"
