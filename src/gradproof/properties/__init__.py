"""What must hold of a derivative: one file and one function `(Problem, Options) -> findings` each.

They run in the order of `PROPERTIES`: the Jacobian before most, because its probe is the work that the others share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gradproof.core.finding import Finding
from gradproof.core.options import Options
from gradproof.core.problem import Problem
from gradproof.properties.adjoint import adjoint
from gradproof.properties.batching import batched_forward, batched_reverse
from gradproof.properties.determinism import determinism, repeatability
from gradproof.properties.jacobian import jacobian
from gradproof.properties.layout import layout
from gradproof.properties.linearity import linearity
from gradproof.properties.metadata import dtypes, metadata
from gradproof.properties.mutation import aliasing, mutation
from gradproof.properties.symmetry import symmetry
from gradproof.properties.undefined import undefined
from gradproof.properties.unused import unused

Property = Callable[[Problem, Options], Iterable[Finding]]

PROPERTIES: dict[str, Property] = {
    "unused": unused,
    "jacobian": jacobian,
    "repeatability": repeatability,
    "mutation": mutation,
    "determinism": determinism,
    "metadata": metadata,
    "dtypes": dtypes,
    "batched_forward": batched_forward,
    "batched_reverse": batched_reverse,
    "linearity": linearity,
    "layout": layout,
    "aliasing": aliasing,
    "adjoint": adjoint,
    "undefined": undefined,
    "symmetry": symmetry,
}

EXPLANATIONS = ("repeatability", "mutation", "determinism")
"""Properties whose failure explains that of others: what is not repeatable is reported as such before it is wrong."""

DEFAULT = frozenset(PROPERTIES) - {"batched_forward", "batched_reverse"}
"""What is checked unless asked otherwise: not everybody needs derivatives that can be vmapped."""
