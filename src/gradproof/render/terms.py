"""The terms that a report prints, each in a sentence: what a page shows on hover, and `docs/failed.md` lists."""

from __future__ import annotations

TERMS: dict[str, str] = {
    "numeric": "The numerical derivative, from values of the function alone, with its error bar.",
    "analytic": "What the derivative under test says.",
    "ratio": "analytic divided by numeric.",
    "difference": "The distance between analytic and numeric.",
    "allowed": "What this entry may be off by: its tolerance plus the error bar of the numerical value.",
    "× allowed": "The difference in units of what is allowed; above 1 the entry is wrong. Tables are sorted by it.",
    "would notice": "A lone entry of this input that is off by more than this would have been noticed.",
    "certificate": "What the comparison was able to see: the smallest error of a lone entry, and the chance of a miss.",
    "ladder": "Difference quotients with smaller and smaller steps; on a plateau they agree within their error bars.",
    "PASS": "Every derivative that was checked is right.",
    "FAIL": "A derivative is wrong, or user code raised an exception.",
    "EXPECTED": "A derivative is wrong and its test knows: it passed all the same, or is marked as one that fails.",
    "INCONCLUSIVE": "Nothing is known to be wrong, but something could not be judged.",
    "RIGHT": "No entry differs by more than is allowed.",
    "WRONG": "Some entries differ by more than is allowed.",
    "KINK": "There is no derivative at this point; the value lies between those of the two sides.",
    "RAISED": "Code of the user's raised an exception.",
    "NOT SETTLED": "Nothing was found here, but the comparison ended early or had no entries: not known to be right.",
}
"""Every term and its meaning, in the order in which a reader meets them."""
