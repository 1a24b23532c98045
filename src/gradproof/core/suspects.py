"""Entries that did not agree at first sight, and what may be said of them: values, nothing is measured here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from gradproof.core.ladder import Estimate
from gradproof.core.precision import APART
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.types import Flags, Indices, Vector

Statuses = Indices
"""An array of `Status.rank`."""


@dataclass(slots=True)
class Suspects:
    """Entries that did not agree at first sight: output, input, analytic and numeric value, allowed difference."""

    rows: Indices
    columns: Indices
    analytic: Vector
    numeric: Vector
    tolerance: Vector
    excess: Vector
    """The difference in units of what is allowed."""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, which: Indices) -> Suspects:
        return Suspects(*(getattr(self, name)[which] for name in self.__slots__))

    def unique(self) -> Suspects:
        """Each entry once."""
        _, first = np.unique(self.rows * (self.columns.max() + 1) + self.columns, return_index=True)
        return self if len(first) == len(self) else self.take(np.sort(first))

    @staticmethod
    def join(parts: list[Suspects]) -> Suspects:
        return Suspects(*(np.concatenate([getattr(part, name) for part in parts]) for name in Suspects.__slots__))

    @staticmethod
    def accused(entries: list[tuple[int, int, float]]) -> Suspects:
        """Entries that a search led to, as (output, input, analytic value): nothing was measured of them alone."""
        rows, columns, analytic = (np.array([entry[k] for entry in entries]) for k in range(3))
        unknown = np.full(len(entries), np.nan)
        excess = np.full(len(entries), np.inf)
        return Suspects(rows.astype(np.intp), columns.astype(np.intp), analytic, unknown, unknown.copy(), excess)


@dataclass(frozen=True, slots=True)
class Judged:
    """The suspects of one mode with their statuses; all other entries agree."""

    mode: Mode
    suspects: Suspects
    error: Vector
    status: Statuses
    sides: dict[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    """For suspects at a kink or a jump, by their number: the derivatives of the two sides."""
    located: bool = False
    """Whether these are only the entries that a search came upon: there may be more."""
    lone: bool = False
    """Whether there is one entry, which explains all that the probe saw."""

    @property
    def is_wrong(self) -> bool:
        """Whether some of them are wrong."""
        return bool((self.status == Status.WRONG.rank).any())

    def take(self, which: Indices) -> Judged:
        """Some of them."""
        sides = {new: self.sides[int(old)] for new, old in enumerate(which) if int(old) in self.sides}
        return replace(
            self, suspects=self.suspects.take(which), error=self.error[which], status=self.status[which], sides=sides
        )


def rank(difference: Vector, error: Vector, tolerance: Vector, widest_bar: Vector | float = 0.0) -> Statuses:
    """WRONG beyond tolerance and error bar; INCONCLUSIVE where the bar is wider than the tolerance; else RIGHT.

    A bar up to `widest_bar` is no reason to call an entry inconclusive.

    >>> ranks = rank(np.ones(3), error=np.array([0.1, 3.0, 0.1]), tolerance=np.array([0.5, 2.0, 2.0]))
    >>> [list(Status)[rank].name for rank in ranks]
    ['WRONG', 'INCONCLUSIVE', 'RIGHT']
    """
    with np.errstate(invalid="ignore"):
        within = difference <= tolerance + error
        sharp = error <= np.maximum(tolerance, widest_bar)
    return np.where(within, np.where(sharp, Status.RIGHT.rank, Status.INCONCLUSIVE.rank), Status.WRONG.rank)


def subgradients(
    analytic: Vector, left: Estimate, right: Estimate, central: Vector, tolerance: Vector
) -> tuple[Flags, Flags]:
    """Where the point is a kink or a jump; and where, there, the analytic value lies between the two sides.

    The point is no ordinary one if the sides differ from each other, or agree with each other but not with the
    difference across it, as at a jump.
    """
    with np.errstate(invalid="ignore"):
        bar = left.error + right.error
        kink = np.abs(right.value - left.value) > APART * bar + tolerance
        jump = np.abs(central - (left.value + right.value) / 2) > APART * bar + tolerance
        low, high = np.minimum(left.value, right.value), np.maximum(left.value, right.value)
        between = (analytic >= low - bar - tolerance) & (analytic <= high + bar + tolerance)
        special = (kink | jump) & np.isfinite(bar)
        return special, special & between
