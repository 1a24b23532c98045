"""What must hold of a derivative: one file and one function `(Investigation, Options) -> findings` each.

`PROPERTIES` lists them in the order in which they run: the Jacobian before most, because its probe is the work that the
others share. Each entry says what its property needs; the engine looks once, and what cannot be asked is reported as
not covered.
"""

from __future__ import annotations

from collections.abc import Iterable

from gradproof.core.capabilities import (
    Batching,
    Inspection,
    MemoryLayouts,
    MemoryWatch,
    Omission,
    Pairing,
    Reference,
)
from gradproof.core.problem import Mode
from gradproof.properties.adjoint import adjoint
from gradproof.properties.aliasing import aliasing
from gradproof.properties.batching import batched_forward, batched_reverse
from gradproof.properties.determinism import determinism
from gradproof.properties.jacobian import jacobian
from gradproof.properties.layout import layout
from gradproof.properties.linearity import linearity
from gradproof.properties.metadata import dtypes, metadata
from gradproof.properties.mutation import mutation
from gradproof.properties.primal import primal
from gradproof.properties.property import Property
from gradproof.properties.reference import reference
from gradproof.properties.repeatability import repeatability
from gradproof.properties.symmetry import symmetry
from gradproof.properties.undefined import undefined
from gradproof.properties.unused import unused

_REVERSE, _FORWARD = (Mode.REVERSE,), (Mode.FORWARD,)

PROPERTIES: dict[str, Property] = {
    "unused": Property(unused, connected=False),
    "jacobian": Property(jacobian),
    "repeatability": Property(repeatability, connected=None, depends_on_noise=False),
    "mutation": Property(mutation, needs=MemoryWatch, connected=None, depends_on_noise=False),
    "determinism": Property(determinism),
    "metadata": Property(metadata, modes=_REVERSE, needs=Inspection, depends_on_noise=False, of_elements=False),
    "dtypes": Property(dtypes, needs=Inspection, depends_on_noise=False, of_elements=False),
    "primal": Property(primal, needs=Inspection),
    "batched_forward": Property(batched_forward, modes=_FORWARD, needs=Batching, of_elements=False),
    "batched_reverse": Property(batched_reverse, modes=_REVERSE, needs=Batching, of_elements=False),
    "linearity": Property(linearity),
    "layout": Property(layout, modes=_REVERSE, needs=MemoryLayouts),
    "aliasing": Property(aliasing, modes=_REVERSE, needs=Inspection, depends_on_noise=False),
    "adjoint": Property(adjoint, all_modes=True),
    "undefined": Property(undefined, needs=Omission, of_elements=False),
    "symmetry": Property(symmetry, modes=_REVERSE, needs=Pairing, order=2),
    "compare": Property(reference, modes=_REVERSE, needs=Reference, connected=None, depends_on_noise=False),
}

EXPLANATIONS = ("mutation", "repeatability", "determinism")
"""Properties whose failure explains that of others, the first of them those of the next: what is not repeatable is
reported as such before it is wrong."""

DEFAULT = frozenset(PROPERTIES) - {"batched_forward", "batched_reverse", "compare"}
"""What is checked unless asked otherwise: not everybody needs derivatives that can be batched, or has a reference."""


def known_properties(names: str | Iterable[str], said: str) -> frozenset[str]:
    """Names of properties, one or several; `ValueError` for one that there is none of, by the word that they came with.

    >>> known_properties("mutation", "allow")
    frozenset({'mutation'})
    """
    given = frozenset([names] if isinstance(names, str) else names)
    unknown = sorted(given - set(PROPERTIES))
    if unknown:
        raise ValueError(f"unknown properties {unknown} in {said}: choose from {list(PROPERTIES)}")
    return given
