"""The number formats that functions compute in."""

from __future__ import annotations

import math

SPACINGS = {"float64": 2.0**-52, "float32": 2.0**-23, "tfloat32": 2.0**-10, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The relative spacing of the numbers of each format, by its name."""

NARROWER = ("bfloat16", "float16", "float32")
"""Formats that arrays are kept in, narrower than double precision; the coarsest first."""

OF_SPACING = {SPACINGS[name]: name for name in NARROWER}
"""The names of those, by the relative spacing of their numbers."""


def bits_of(name: str) -> int:
    """How many significant bits the numbers of a format have.

    >>> bits_of("bfloat16"), bits_of("float64")
    (8, 53)
    """
    return 1 - round(math.log2(SPACINGS[name]))
