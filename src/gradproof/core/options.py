"""Every knob of a check, validated once."""

from __future__ import annotations

import dataclasses
import enum
import math
from dataclasses import dataclass
from typing import Any

from gradproof.core.formats import SPACINGS
from gradproof.core.problem import Mode


class Strategy(enum.Enum):
    """How the Jacobian is compared."""

    ENTRIES = "entries"
    PROBES = "probes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to check and how strictly.

    `atol` and `rtol` are per entry of the Jacobian; None derives them from the dtype and, for `atol`, from the
    largest entry. `properties` are names of `gradproof.properties.PROPERTIES`. `step` fixes the finite-difference
    step in every coordinate, as torch's `eps` does; None lets the ladder choose. `few_columns` bounds the Jacobians
    that a probe that accuses compares entry by entry: beyond it, a search takes fewer evaluations. `affordable_columns`
    and `affordable_entries` bound those that a probe in doubt compares so; `most_work`, in
    numbers read and written, is where the every-entry strategy gives way to probes. `memory` bounds, in bytes, what
    the check holds at a time; `worst` the entries listed for each finding. `certify` asks for what only a
    report shows: the certificate, and where all wrong entries are. `precision` is the relative spacing of the numbers
    that the function is computed in; None: it is the dtype's, or is measured where that explains too little. What the
    properties in `allow` find is intended: it is noted, and fails nothing.
    """

    modes: tuple[Mode, ...] = (Mode.REVERSE,)
    properties: frozenset[str] = frozenset()
    allow: frozenset[str] = frozenset()
    atol: float | None = None
    rtol: float | None = None
    nondet_tol: float = 0.0
    step: float | None = None
    strategy: Strategy = Strategy.ENTRIES
    few_columns: int = 75
    affordable_columns: int = 2048
    affordable_entries: int = 2**22
    most_work: int = 2**27
    precision: float | None = None
    certify: bool = True
    memory: int = 512 * 2**20
    worst: int = 5
    seed: int = 0

    def for_size(self, inputs: int, outputs: int) -> Options:
        """These options, with probes in place of every entry where there are too many of them."""
        if self.strategy is Strategy.ENTRIES and self.step is None and inputs * (inputs + outputs) > self.most_work:
            return dataclasses.replace(self, strategy=Strategy.PROBES)
        return self

    def __post_init__(self) -> None:
        for name in ("atol", "rtol", "nondet_tol"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
        if self.step is not None and not (math.isfinite(self.step) and self.step > 0):
            raise ValueError(f"step must be a finite number > 0, got {self.step!r}")
        if self.precision is not None and not 0 < self.precision < 1:
            raise ValueError(f"precision must be a relative spacing between 0 and 1, got {self.precision!r}")
        if not self.modes:
            raise ValueError("modes is empty: name at least one of 'reverse' and 'forward'")


def spacing_of(precision: Any) -> float | None:
    """The relative spacing of a dtype's numbers; dtypes are told by their names, so that no framework is needed.

    >>> spacing_of("bfloat16"), spacing_of(1e-3)
    (0.0078125, 0.001)
    """
    if precision is None:
        return None
    if isinstance(precision, int | float) and not isinstance(precision, bool):
        return float(precision)
    name = str(getattr(precision, "__name__", precision)).rpartition(".")[2]
    if name not in SPACINGS:
        raise ValueError(f"unknown precision {precision!r}: choose a number or one of {list(SPACINGS)}")
    return SPACINGS[name]
