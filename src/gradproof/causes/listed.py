"""Pairs beyond those that are looked into: what their listed entries say, at no cost."""

from __future__ import annotations

import math

from gradproof.causes.factors import FAMILIAR
from gradproof.core.problem import Mode
from gradproof.results.finding import Finding

# So many entries must have one ratio for it to be told.
_LEAST = 3


def listed(finding: Finding) -> str:
    """What the worst entries of a finding have in common, if it is a factor; it is said of these, and of no others."""
    entries = finding.entries
    if len(entries) < _LEAST or not all(entry.numeric and math.isfinite(entry.ratio) for entry in entries):
        return ""
    of_these = f"on the {len(entries)} worst entries"
    if not any(entry.analytic for entry in entries):
        what = "a tangent" if finding.mode is Mode.FORWARD else "a gradient"
        return f"analytic is 0 {of_these}: not written, or {what} is lost"
    ratios = sorted(entry.ratio for entry in entries)
    blur = 2.0 * max(entry.allowed / abs(entry.numeric) for entry in entries)
    factor = ratios[len(ratios) // 2]
    if not ratios[-1] - ratios[0] <= blur < abs(factor - 1.0):
        return ""
    word = next((words for value, words in FAMILIAR.items() if math.isclose(factor, value, rel_tol=1e-5)), "one factor")
    return f"analytic ≈ {factor:.4g} × numeric {of_these}: {word}"
