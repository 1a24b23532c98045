"""Whether numbers were rounded to fewer bits than they are stored in: no evaluation is needed to see that."""

from __future__ import annotations

import numpy as np

from gradproof.core.formats import NARROWER, bits_of
from gradproof.core.types import Vector

# Significant bits of the formats that derivatives are rounded to, the coarsest first; and what these are called.
FORMATS = {bits_of(name): name for name in NARROWER}
# Numbers that it takes to tell, and the last bits of a format that some of them must use: small integers use none.
_NUMBERS, _LAST_BITS = 4, 3


def rounded_to(values: Vector) -> int | None:
    """The bits of the coarsest format that all of these numbers are of, though they are no simpler ones; None: of none.

    >>> third = np.arange(1.0, 9.0) / 3.0
    >>> rounded_to(third), rounded_to(third.astype(np.float32).astype(np.float64)), rounded_to(np.arange(9.0))
    (None, 24, None)
    """
    told = np.unique(np.abs(values[np.isfinite(values) & (values != 0)]))
    if len(told) < _NUMBERS:
        return None
    mantissa, _ = np.frexp(told)
    for bits in FORMATS:
        if _fits(mantissa, bits).all():
            simple = _fits(mantissa, bits - _LAST_BITS)
            return bits if 2 * int(simple.sum()) < len(told) else None
    return None


def _fits(mantissa: Vector, bits: int) -> np.ndarray:
    scaled = mantissa * 2.0**bits
    return scaled == np.rint(scaled)
