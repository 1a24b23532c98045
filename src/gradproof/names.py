"""The words that `check` understands, as types: a misspelling is red in the editor before anything runs."""

from __future__ import annotations

from typing import Literal

StrategyName = Literal["auto", "probes", "entries"]
ModeName = Literal["reverse", "forward"]
PropertyName = Literal[
    "unused",
    "jacobian",
    "repeatability",
    "mutation",
    "determinism",
    "metadata",
    "dtypes",
    "primal",
    "batched_forward",
    "batched_reverse",
    "linearity",
    "layout",
    "aliasing",
    "adjoint",
    "undefined",
    "symmetry",
    "compare",
]
"""The names of `gradproof.properties.PROPERTIES`; a test compares them."""
