"""The numerical Jacobian of a small Problem, kept for whoever wants to know more of it."""

from __future__ import annotations

from dataclasses import dataclass

from gradproof.core.types import Matrix, Vector


@dataclass(frozen=True, slots=True)
class Screened:
    """The numerical Jacobian by one step for each input."""

    values: Matrix
    step: Vector
    truncation: Vector | None = None
    """What steps to one side add to each output, in units of the scale of the input; None: steps were to both."""
